//! Presence over the memory adapters, in virtual time.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod announcing;
mod lying;
mod privacy;
mod reach;
mod settings;
mod vectors;
mod world;
