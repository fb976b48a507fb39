//! The delivery plane over the memory store, with a delivery that a test reads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod expiring;
mod fallback;
mod fault_injection;
mod lookups;
mod missed_pushes;
mod pushing;
mod receipts;
mod updates;
mod world;
