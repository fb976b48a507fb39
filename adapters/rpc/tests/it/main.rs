//! Calls over real sockets. Each process of the fleet has its own runtime, so that it can be killed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod asserting;
mod breaking;
mod crossing;
mod hostile;
mod listing;
mod owning;
mod revoking;
mod securing;
mod sending;
mod world;
