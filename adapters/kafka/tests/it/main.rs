//! Tests the adapter against a real broker, and against a mock cluster with injected errors.
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
