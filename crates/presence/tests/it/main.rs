//! Presence over the memory adapters, in virtual time.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod announcing;
mod fault_injection;
mod privacy;
mod recipients;
mod settings;
mod vectors;
mod world;
