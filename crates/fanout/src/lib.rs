//! Delivery plane: turns a persisted event into pushes to online devices.
//!
//! [`Fanout`] consumes the log and only reads the store; it never replies to a sender.
//!
//! - A failed push loses no data, because sync is the guarantee (G6). Clients with missed pushes are asked to resync as
//!   soon as their gateway is reachable.
//! - Fanout commits an offset after the pushes, so a restart repeats events and skips none.
//! - Typing indicators and receipts are not in the log; they arrive through [`SignalSender`](ports::SignalSender).
//! - In a fleet, routes, member cache and push delivery are shared state in Redis. [`Fallback`] wraps them and keeps pushes
//!   going while Redis is unavailable.

mod backlog;
mod fallback;
mod fanout;
mod lookups;
mod missed_pushes;
mod push_plan;
mod pushes;
mod receipts;
mod signals;
mod unpushed;

pub use fallback::{Fallback, Shared};
pub use fanout::Fanout;
pub use receipts::Receipts;
