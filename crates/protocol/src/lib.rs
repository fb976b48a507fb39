//! The contract with clients: frames, REST bodies, error and close codes, and both halves of a connection.
//!
//! No I/O, no clock. The halves are values: inputs are `handle_*`, outputs are `poll_*`, and time is an argument, so the
//! contract is tested line by line and the same code runs under a gateway, an SDK and a simulator.
//!
//! In reading order: [`ErrorCode`] and [`CloseReason`] are the two tables; [`frame`] is the vocabulary of the socket,
//! [`rest`] that of the API and [`event`] that of topics and webhooks; [`Connection`] and [`Outbox`] are the server's half,
//! [`client`] is the client's.
#![warn(missing_docs)]

pub mod client;
mod close;
mod connection;
mod error;
pub mod event;
pub mod frame;
mod outbox;
pub mod rest;
mod window;

pub use close::CloseReason;
pub use connection::{Command, Connection, Output, Timing};
pub use error::{ErrorBody, ErrorCode, Retry};
pub use outbox::{Outbox, Pressure};

/// The version of the contract that `connection_established` announces.
pub const PROTOCOL_VERSION: u32 = 1;
