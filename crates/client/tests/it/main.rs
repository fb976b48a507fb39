//! Tests of the SDK against a scripted server.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

extern crate tidings_client as client;

mod connection;
mod scripted_server;
mod tokens;
