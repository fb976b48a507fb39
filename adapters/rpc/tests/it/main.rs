//! Calls over real sockets: each process of the fleet has a runtime of its own, so that it can die like one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod breaking;
mod crossing;
mod hostile;
mod listing;
mod owning;
mod securing;
mod sending;
mod world;
