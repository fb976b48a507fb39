//! The one in-memory implementation of every port that keeps something, and the reference for the others.
//!
//! [`MemoryStore`] is all durable ports over one state behind one lock: every call is a transaction because nobody else
//! is there. It forgets nothing but what it is told to, and everything when the process ends: it is for tests and for
//! the simulator. With a [`MemoryLog`] beside it, and a [`MemoryOutbox`] for each process, it is the store of a fleet. The
//! routes, limits, tickets, peers and member cache of one process are no more than memory anyway; these implementations
//! serve in production wherever one process is the whole service, and are bounded. Each can be wiped, as what a fleet
//! keeps in their place may be at any moment.
//!
//! Order that can be observed is the order of keys, or of calls: who waits first is woken first. So a run over [`ManualClock`] and [`SequentialIds`] repeats exactly.

mod clock;
mod due;
mod expiring;
mod limits;
mod log;
mod member_cache;
mod peers;
mod routes;
mod store;
mod tickets;
#[cfg(test)]
mod waking;

pub use clock::{ManualClock, SequentialIds};
pub use limits::MemoryLimits;
pub use log::MemoryLog;
pub use member_cache::MemoryMemberCache;
pub use peers::MemoryPeers;
pub use routes::MemoryRoutes;
pub use store::{Damage, MemoryOutbox, MemoryStore, Snapshot};
pub use tickets::MemoryTickets;
