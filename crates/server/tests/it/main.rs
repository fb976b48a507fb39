//! Planes and stores together, with time in the hands of the test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod inbox_model;
mod world;
