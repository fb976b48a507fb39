//! The REST API: users, contacts, presence, chats, members, the inbox, history and receipts.
//!
//! [`router`] builds the API and [`openapi`] its document, both from the same routes. In reading order:
//!
//! - [`Api`] holds the dependencies of the routes.
//! - [`Accounts`] exports and deletes whole accounts, and [`Retention`] limits the age of messages.
//! - `http` has the shared parts: response envelope, errors, extractors, limits, idempotency keys and cursors.
//! - `routes` has one file for each family of routes.
//! - `views` turns stored rows into response bodies.
//!
//! This crate authenticates callers, reads requests and writes responses. It makes no rules: `domain` decides the
//! permissions of members, the stores apply them in their transactions, and the durability plane sends.

mod accounts;
mod api;
mod http;
mod openapi;
mod retention;
mod router;
mod routes;
mod views;

pub use accounts::Accounts;
pub use api::{Api, Limits};
pub use openapi::openapi;
pub use retention::Retention;
pub use router::router;
