//! The client's half of a connection: [`ClientSession`], which does all that the contract asks of clients.
//!
//! In reading order: [`Output`] and [`ClientEvent`] are what comes out; a `Feed` puts one chat's messages in order, `Acks`
//! counts what the application has stored, `Sends` is the queue of messages on their way, and `Syncs` decides which chat
//! asks for what it has missed. [`ClientSession`] ties them to a connection and its reconnects.

mod acks;
mod backoff;
mod event;
mod feed;
mod look_ups;
mod sends;
mod session;
mod syncs;

pub use event::{ClientEvent, Ended, LookUpFailure, Output, RefreshFailure, StopReason};
pub use sends::{QueueFull, SendBounds};
pub use session::ClientSession;
