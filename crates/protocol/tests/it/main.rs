//! Tests of the client's half through its public API, and of both halves against damaged input.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

extern crate tidings_protocol as protocol;

mod client_exactly_once;
mod client_session;
mod fuzz;
