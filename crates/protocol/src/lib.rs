//! The contract with clients: frames, REST bodies, error and close codes, and both halves of a connection.
//!
//! No I/O, no clock. Both halves are state machines: inputs are `handle_*`, outputs are `poll_*`, and time is an
//! argument. So tests can cover the contract line by line, and the same code runs in a gateway, an SDK and a simulator.
//!
//! In reading order: [`ErrorCode`] and [`CloseReason`] are the two code tables; [`frame`] is the vocabulary of the
//! socket, [`rest`] that of the API and [`event`] that of topics and webhooks; [`Connection`] and [`Outbox`] are the
//! server's half, [`client`] is the client's. [`asyncapi`] generates the document of the socket from the frames,
//! [`event::events_asyncapi`] that of topics and webhooks from the events.
//! [`schema`] and [`story`] serve that document and the OpenAPI document: schemas of ids and closed sets of words, and
//! the data of the examples.
#![warn(missing_docs)]

mod advances;
mod asyncapi;
pub mod client;
mod close;
mod command;
mod connection;
mod error;
pub mod event;
pub mod frame;
mod frame_limits;
mod integer;
mod notification;
mod outbox;
pub mod rest;
pub mod schema;
pub mod story;
mod typing;
mod window;

pub use advances::Move;
pub use asyncapi::asyncapi;
pub use close::CloseReason;
pub use command::Command;
pub use connection::{Connection, Output, Timing};
pub use error::{BLOCKED_BY_YOU, ErrorBody, ErrorCode, NOT_REACHABLE, Retry, whole_seconds};
pub use frame_limits::{Excess, FrameKind, FrameLimit, UserLimit};
pub use notification::NotificationBody;
pub use outbox::{Missed, Outbox, OutboxBounds, Pressure, Queueable};

/// The version of the contract that `connection_established` announces.
pub const PROTOCOL_VERSION: u32 = 1;
