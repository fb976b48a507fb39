//! The store of a fleet: every durable port but the log, on DynamoDB.
//!
//! Each write is one transaction under conditions on what was read before it, with a request token, so that a try whose
//! answer was lost counts once; only what moves forward alone, the place of the relay and last seen, is moved without
//! one. Reads go to base tables, strongly consistent. No request scans; an audit does. Items that have expired are in no
//! answer, whenever the service deletes them.
//!
//! What the log needs is written with each commit: messages mark their chat as dirty, other events go to the outbox.
//! The log itself is another engine's, so there is no [`EventLog`](ports::EventLog) here; [`Outbox`](ports::Outbox) is
//! what a relay publishes from.
//!
//! Reading order: `schema` says what the tables are, `item` and `write` how values get in and out, `db` and `meter` how
//! the service is asked and what it costs, `lane` and `commit` how a message becomes durable, `outbox` how it gets to
//! the log, `expiry` how it goes, `recovery` what an operator does for a lost counter, `audit` how everything is shown to
//! whoever checks it, `transfer` how it gets to another store, and the modules named after ports answer for them.
#![warn(missing_docs)]

mod accounts;
mod audit;
mod blocks;
mod chats;
mod codes;
mod commit;
mod config;
mod contacts;
mod db;
mod dead_letters;
mod devices;
mod expirer;
mod expiry;
mod item;
mod lane;
mod last_seen;
mod messages;
mod meter;
mod notices;
mod outbox;
mod push_devices;
mod recovery;
mod reports;
mod requests;
pub mod schema;
mod sessions;
mod shard;
mod store;
mod transfer;
mod users;
mod watermarks;
mod write;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod testing;

pub use config::Config;
pub use recovery::{Recovery, RecoveryAudit};
pub use store::{DynamoStore, connect};
