//! Durability plane: authorizes, deduplicates, sequences and persists, then acknowledges.
//!
//! [`Ingester`] is the port `Ingest` over the stores. Sends wait in lanes, one batch of a lane under way at a time, so
//! that the commit of one batch is the time in which the next one gathers: the busier the service, the more sends share
//! one commit. It knows no sockets, and never answers a send before the store has (G1).
//!
//! [`Relay`] brings what was committed into the log, where the log is not part of the store. `checks` is what
//! both assert of a store's answers.

mod checks;
mod hot_chats;
mod ingester;
mod lane;
mod relay;

pub use ingester::{Config, Ingester, Ports};
pub use relay::Relay;
