//! Tests the adapter against real servers: a single Redis, and a cluster of three.
#![cfg(test)]

mod access;
mod auditing;
mod contract;
mod delivery;
mod engine;
mod fixtures;
mod invariants;
mod limits;
mod member_cache;
mod meter;
mod outage;
mod peers;
mod round_trips;
mod routes;
mod transitions;
