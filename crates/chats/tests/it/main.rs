//! The API as its clients see it: requests in, answers out, over the `memory` adapter and the real durability plane.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod account;
mod auth;
mod blocks;
mod chats;
mod contacts;
mod devices;
mod envelope;
mod expiry;
mod fuzz;
mod history;
mod idempotency;
mod inbox;
mod limits;
mod members;
mod openapi;
mod presence;
mod receipts;
mod reports;
mod sends;
mod sessions;
mod updates;
mod users;
mod world;
