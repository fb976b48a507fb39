//! The durability plane over the memory store, with a writer that can block and fail.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod fault_injection;
mod reading;
mod relaying;
mod sending;
mod updating;
mod world;
