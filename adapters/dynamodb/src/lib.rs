//! The store of a fleet: implements every durable port except the log on DynamoDB.
//!
//! Each write is one transaction with a request token, under conditions on what was read before. So a request with a
//! lost answer takes effect once. Only values that never decrease, the relay's position and the last-seen time, are
//! updated without a token. Reads use base tables with strong consistency. No request scans; audits and transfers do.
//! Expired items are in no answer, whenever the service deletes them.
//!
//! Each commit also records the work for the relay: messages mark their chat as dirty, and other events go to the
//! outbox. The log itself is another engine, so there is no [`EventLog`](ports::EventLog) here; a relay publishes from
//! the [`Outbox`](ports::Outbox).
//!
//! Reading order: `schema` defines the tables, `item` and `write` convert values, `db` and `meter` send requests and
//! measure their cost. `append` and `commit` make messages durable, `outbox` feeds the relay, and `expiry` purges.
//! `recovery` restores a lost counter, `restoration` repairs restored tables, `audit` exposes all items to audits, and
//! `transfer` moves data to another store.
//! Modules named after ports implement them.
#![warn(missing_docs)]

mod accounts;
mod append;
mod audit;
mod blocks;
mod bookmark;
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
mod invitations;
mod item;
mod last_seen;
mod locations;
mod messages;
mod meter;
mod notices;
mod outbox;
mod passkeys;
mod push_devices;
mod recovery;
mod reports;
mod requests;
mod restoration;
mod restrictions;
mod rows;
pub mod schema;
mod sessions;
mod shard;
mod store;
mod transfer;
mod updates;
mod users;
mod watermarks;
mod write;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod testing;

pub use commit::TRANSACTION_SENDS_MAX;
pub use config::Config;
pub use recovery::{Recovery, RecoveryAudit};
pub use restoration::Restoration;
pub use store::{DynamoStore, connect};
