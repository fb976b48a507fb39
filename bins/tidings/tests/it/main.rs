//! The contract with clients, tried on the real binary over real sockets.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

#[path = "../history/mod.rs"]
mod history;
mod receiver;
mod server;

mod console;
mod delivery;
mod drain;
mod examples;
mod expiry;
mod floods;
mod frames;
mod handshake;
mod histories;
mod idle;
mod kills;
mod limits;
mod openapi;
mod presence;
mod rest;
mod restart;
mod revocation;
mod routes;
mod sdk;
mod sends;
mod slow_consumer;
mod syncs;
mod use_cases;
mod verify;
mod web_push;
mod webhook;
mod webhook_order;
mod witness;
