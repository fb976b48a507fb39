//! Planes and stores together, with a clock that the test controls.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod inbox_model;
mod world;
