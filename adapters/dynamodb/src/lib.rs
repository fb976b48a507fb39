//! The store of a fleet: every durable port but the log, on DynamoDB.
//!
//! Each write is one transaction under conditions on what was read before it, with a request token, so that a try whose
//! answer was lost counts once. Reads go to base tables, strongly consistent but for the names of users; nothing ever
//! scans. Items that have expired are in no answer, whenever the service deletes them.
//!
//! What the log needs is written with each commit: messages mark their chat as dirty, other events go to the outbox.
//! The relay that publishes them, and that tells of expired messages, is not part of this crate yet; so neither is
//! [`EventLog`](ports::EventLog).
//!
//! Reading order: `schema` says what the tables are, `item` and `write` how values get in and out, `db` how the service
//! is asked, `lane` and `commit` how a message becomes durable, and the modules named after ports answer for them.
#![warn(missing_docs)]

mod chats;
mod codes;
mod commit;
mod config;
mod db;
mod dead_letters;
mod devices;
mod item;
mod lane;
mod messages;
mod notices;
mod outbox;
mod push_devices;
mod requests;
pub mod schema;
mod sessions;
mod shard;
mod store;
mod users;
mod watermarks;
mod write;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod testing;

pub use config::Config;
pub use store::{DynamoStore, connect};
