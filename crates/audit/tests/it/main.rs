//! The audit over the reference store: what is whole has nothing wrong with it, and what was broken is found by name.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod store;
mod world;
