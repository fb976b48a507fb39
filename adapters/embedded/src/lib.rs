//! The embedded store and log: every durable port on one directory of one machine.
//!
//! One committer thread owns all writes. It gathers the jobs that wait, judges each against the committed state and the
//! earlier jobs of the same batch, writes one atomic batch with one fsync, and answers them all: every job is a
//! serializable transaction, and what a reader can see is durable. Reads never wait for it. When the disk fails, the
//! committer refuses writes, lets reads go on, and reopens the engine until it works again.
//!
//! Reading order: `tables`, `keys` and `records` say what is on the disk, `tx` and `committer` how it gets there, `store`
//! holds the parts together, the modules named after ports answer for them, and `trim` forgets. `audit` shows every row,
//! `backup` brings all of them into a file, `restore` back, `migrate` from one format into the next on the way, and
//! `transfer` takes what there is to another store.
#![warn(missing_docs)]

mod accounts;
mod audit;
pub mod backup;
mod blocks;
mod chats;
mod committer;
mod config;
mod contacts;
mod dead_letters;
mod directory;
mod error;
mod expiry;
mod filling;
mod keys;
mod last_seen;
mod limit;
mod log;
mod messages;
mod meter;
mod migrate;
mod notices;
mod push_devices;
mod records;
mod reports;
mod requests;
mod restore;
mod sessions;
mod store;
mod tables;
mod transfer;
mod trim;
mod tx;
mod users;
mod watermarks;

#[cfg(test)]
mod contract;

pub use config::Config;
pub use directory::OpenError;
pub use filling::{Filled, Filling};
pub use limit::{LimitError, StoreLimit, store_limit};
pub use migrate::OlderStore;
pub use ports::Health;
pub use restore::{RestoreError, restore};
pub use store::EmbeddedStore;
