//! Delivery plane: turns a persisted event into pushes to online devices.
//!
//! [`Fanout`] consumes the log and may only read: it is handed no port that writes the store, and it never answers a
//! sender. What it fails to push is not lost, because sync is the guarantee (G6): whom a push did not reach is told to sync
//! as soon as can be. What it has not processed it does not commit, so a restart repeats events and skips none. What is no
//! event of the log, typing and receipts, comes to it as [`Signals`](ports::Signals). Where processes share routes, the
//! member cache and the way of pushes, [`Fallback`] stands between fanout and them, for the time in which they are away.

mod backlog;
mod fallback;
mod fanout;
mod owed;
mod plan;
mod receipts;
mod signals;

pub use fallback::{Fallback, Shared};
pub use fanout::Fanout;
pub use receipts::Receipts;
