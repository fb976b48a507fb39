//! The in-memory implementation of every stateful port, and the reference for the other adapters.
//!
//! [`MemoryStore`] implements all durable ports over one state behind one lock, so every call is a transaction. It
//! purges only on request and loses everything when the process ends: it is for tests and the simulator. With a
//! separate [`MemoryLog`], and a [`MemoryOutbox`] for each process, it is the store of a fleet.
//!
//! The routes, limits, tickets, peers and member cache of a single process need only memory. These implementations are
//! bounded and serve in production if one process is the whole service. Each can be wiped, to simulate a Redis that
//! loses its data.
//!
//! Every observable order is the order of keys or of calls: the first waiter is woken first. So a run with
//! [`ManualClock`] and [`SequentialIds`] is deterministic.

mod clock;
mod due;
mod expiring;
mod limits;
mod log;
mod member_cache;
mod peers;
mod recipients;
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
pub use recipients::MemoryRecipients;
pub use routes::MemoryRoutes;
pub use store::{Damage, MemoryOutbox, MemoryStore, Snapshot};
pub use tickets::MemoryTickets;
