//! Delivery plane: turns a persisted event into pushes to online devices.
//!
//! [`Fanout`] consumes the log and may only read: it is handed no port that writes the store, and it never answers a
//! sender. What it fails to push is not lost, because sync is the guarantee (G6); what it has not processed it does not
//! commit, so a restart repeats events and skips none.

mod fanout;
mod plan;

pub use fanout::Fanout;
