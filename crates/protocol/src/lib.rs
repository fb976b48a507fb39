//! The contract with clients: frames, REST bodies, error and close codes, and both halves of a connection.
//!
//! No I/O, no clock. The halves are values: inputs are `handle_*`, outputs are `poll_*`, and time is an argument, so the
//! contract is tested line by line and the same code runs under a gateway, an SDK and a simulator.
//!
//! In reading order: [`ErrorCode`] and [`CloseReason`] are the two tables; [`frame`] is the vocabulary of the socket,
//! [`rest`] that of the API and [`event`] that of topics and webhooks; [`Connection`] and [`Outbox`] are the server's half,
//! [`client`] is the client's. [`asyncapi`] is the document of the socket, made from the frames; [`schema`] and [`story`] are
//! what it shares with the document of the API: the schemas of ids and words, and the people of the examples.
#![warn(missing_docs)]

mod advances;
mod asyncapi;
pub mod client;
mod close;
mod connection;
mod error;
pub mod event;
pub mod frame;
mod outbox;
pub mod rest;
pub mod schema;
pub mod story;
mod window;

pub use advances::Move;
pub use asyncapi::asyncapi;
pub use close::CloseReason;
pub use connection::{Command, Connection, Output, Timing};
pub use error::{ErrorBody, ErrorCode, Retry};
pub use outbox::{Outbox, Pressure, Weight};

/// The version of the contract that `connection_established` announces.
pub const PROTOCOL_VERSION: u32 = 1;
