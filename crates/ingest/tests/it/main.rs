//! The durability plane over the memory store, with a writer that can be held up and broken.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod lying;
mod reading;
mod relaying;
mod sending;
mod world;
