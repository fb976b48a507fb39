//! The contract with clients, tried on the real binary over real sockets.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod collector;
#[path = "../history/mod.rs"]
mod history;
mod receiver;
mod runbook;
mod server;

mod account;
mod administration;
mod authorization;
mod blocks;
mod console;
mod delivery;
mod drain;
mod drills;
mod examples;
mod expiry;
mod floods;
mod frames;
mod handshake;
mod histories;
mod idle;
mod kills;
mod limits;
mod log_level;
mod metrics;
mod openapi;
mod operating;
mod presence;
mod reports;
mod rest;
mod restart;
mod revocation;
mod routes;
mod sdk;
mod secrecy;
mod sends;
mod slow_consumer;
mod syncs;
mod tls;
mod traced;
mod traces;
mod use_cases;
mod verify;
mod web_push;
mod webhook;
mod webhook_order;
mod witness;
