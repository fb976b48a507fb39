//! Durability plane: authorizes, deduplicates, sequences and persists, then acknowledges.
//!
//! [`Ingester`] implements the port `Ingest` over the stores. `queue` holds the sends in order for
//! each chat, and `commits` hands them to the store in batches (group commit): while one batch commits, the next one
//! fills, so batches grow with the load. The plane has no sockets, and acknowledges a send only after the store has
//! committed it (G1).
//!
//! [`Relay`] publishes committed events to the log, if the log is not part of the store. `checks` validates the store's
//! results for both.

mod checks;
mod commits;
mod hot_chats;
mod ingester;
mod outcome;
mod queue;
mod relay;

pub use ingester::{Config, Grouping, Ingester, Ports};
pub use relay::Relay;
