//! Tests of `auth` through its public API, on the in-memory adapter.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod access_token;
mod external;
mod fuzz;
mod keys;
mod local_http;
mod one_time_code;
mod refresh;
mod restrictions;
mod session;
mod ticket;
mod webhook;
mod world;
