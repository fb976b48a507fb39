//! The client's half of a connection: [`ClientSession`] fulfils the duties that the contract assigns to clients.
//!
//! In reading order: [`Output`] and [`ClientEvent`] are the outputs; a `Feed` puts one chat's messages in order, `Acks`
//! tracks how many the application has stored, `OutgoingQueue` is the queue of outgoing messages, and `Syncs` schedules the
//! requests for missed messages. [`ClientSession`] combines them with a connection and its reconnects. [`newer`],
//! [`with_updated`] and [`with_queued`] are for applications that keep copies of messages.

mod ack_schedule;
mod acks;
mod backoff;
mod copies;
mod event;
mod feed;
mod look_ups;
mod sends;
mod session;
mod syncs;

pub use copies::{newer, with_queued, with_updated};
pub use event::{ClientEvent, Ended, LookUpFailure, Output, RefreshFailure, StopReason};
pub use sends::{QueueFull, SendBounds};
pub use session::ClientSession;
