//! The audit over the reference store: an intact store has no violations, and each damage violates the expected invariants.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod order;
mod store;
mod updates;
mod world;
