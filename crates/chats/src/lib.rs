//! The REST API: users, contacts, presence, chats, members, the inbox, history and receipts.
//!
//! [`router`] is the whole of it and [`openapi`] its document, made from the same routes. In reading order: [`Api`] is
//! what the routes stand on, [`Accounts`] what of it exports and deletes an account as a whole; `http` is what they share (the envelope of an answer, errors, the extractors, the limits,
//! idempotency keys, cursors); `routes` has one file for each family of them; `views` turns stored rows into bodies.
//!
//! Rules are not made here: `domain` decides what a member may do, the stores apply it in their transactions, and the
//! durability plane sends. This crate checks who asks, reads requests and writes answers.

mod accounts;
mod api;
mod http;
mod openapi;
mod router;
mod routes;
mod views;

pub use accounts::Accounts;
pub use api::{Api, Limits};
pub use openapi::openapi;
pub use router::router;
