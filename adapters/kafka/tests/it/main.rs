//! The behaviour of the adapter against a real broker, and against one that fails on demand.
#![cfg(test)]

mod access;
mod auditing;
mod consuming;
mod fixtures;
mod moving;
mod outage;
mod publishing;
mod topics;
mod unreadable;
