//! What `auth` does, seen through its public API and the in-memory adapter.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod access_token;
mod external;
mod fuzz;
mod keys;
mod local_http;
mod one_time_code;
mod refresh;
mod session;
mod ticket;
mod webhook;
mod world;
