//! The embedded store and log: every durable port on one directory of one machine.
//!
//! One committer thread owns all writes. It batches the queued jobs and runs each against the committed state and the
//! earlier jobs of the same batch. Then it writes one atomic batch with one fsync and answers every job. So each job is
//! a serializable transaction, and readers see only durable rows. Reads never wait for the committer. When the disk
//! fails, the committer refuses writes, keeps serving reads, and reopens the engine until it works again.
//!
//! Reading order:
//!
//! - `tables`, `keys` and `records` define the layout on disk; `tx` and `committer` write it; `encryption` encrypts rows
//!   where the operator wants that.
//! - `journal` and `directory` recover from a power cut; `scrub` verifies checksums; `private` restricts files to their
//!   owner.
//! - `store` holds the parts together; the modules named after ports implement them, and `engine` offers all of them
//!   to tools; `trim` purges expired rows, and `erase` removes the bytes of deleted rows from the disk.
//! - `audit` reads every row; `backup` writes all rows to a file and `restore` reads them back.
//! - `repair` saves the readable rows of a damaged store, `migrate` converts a store to the next format, and `transfer`
//!   copies its contents to another store.
#![warn(missing_docs)]

mod accounts;
mod audit;
pub mod backup;
mod blocks;
mod bookmark;
mod chats;
mod committer;
mod config;
mod contacts;
mod dead_letters;
mod directory;
mod durable;
mod encryption;
mod engine;
mod erase;
mod error;
mod expiry;
mod inbox;
mod invitations;
mod journal;
mod keys;
mod last_seen;
mod log;
mod messages;
mod meter;
mod migrate;
mod notices;
mod passkeys;
mod private;
mod push_devices;
mod records;
mod repair;
mod reports;
mod requests;
mod restore;
mod restrictions;
mod rows;
mod scrub;
mod sessions;
mod space;
mod store;
mod store_file;
mod tables;
mod transfer;
mod trim;
mod tx;
mod updates;
mod users;
mod watermarks;

#[cfg(test)]
mod contract;

pub use config::Config;
pub use directory::StoreOpenError;
pub use encryption::{KeyId, ShortKey, StoreKey};
pub use migrate::OlderStore;
pub use ports::EngineHealth;
pub use private::{PrivateError, mode_open_to_others, private_directory};
pub use repair::{Missing, RepairError, Repaired, Unreadable, repair};
pub use restore::{RestoreError, RestoreKeys, restore, write_file};
pub use scrub::{FileDamage, Scrub, Scrubbed};
pub use store::EmbeddedStore;
