//! The embedded store and log: every durable port on one directory of one machine.
//!
//! One committer thread owns all writes. It gathers the jobs that wait, judges each against the committed state and the
//! earlier jobs of the same batch, writes one atomic batch with one fsync, and answers them all: every job is a
//! serializable transaction, and what a reader can see is durable. Reads never wait for it. When the disk fails, the
//! committer refuses writes, lets reads go on, and reopens the engine until it works again.
//!
//! Reading order: `tables`, `keys` and `records` say what is on the disk, `tx` and `committer` how it gets there, `store`
//! holds the parts together, the modules named after ports answer for them, and `trim` forgets. `audit` shows every row.
#![warn(missing_docs)]

mod audit;
mod chats;
mod committer;
mod config;
mod contacts;
mod dead_letters;
mod directory;
mod error;
mod keys;
mod last_seen;
mod limit;
mod log;
mod messages;
mod notices;
mod push_devices;
mod records;
mod requests;
mod sessions;
mod store;
mod tables;
mod trim;
mod tx;
mod users;
mod watermarks;

#[cfg(test)]
mod contract;

pub use config::Config;
pub use directory::OpenError;
pub use limit::{LimitError, StoreLimit, store_limit};
pub use ports::Health;
pub use store::EmbeddedStore;
