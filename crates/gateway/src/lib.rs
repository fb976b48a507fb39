//! Connection plane: drives one protocol `Connection` per WebSocket.
//!
//! A [`Gateway`] authenticates handshakes, parses frames, enforces limits and registers routes. It does not persist,
//! sequence or authorize: client commands go to the port `Ingest`, and pushes arrive through [`Hub`], which implements the
//! port `Delivery`. A gateway has no access to the store or the log.
//!
//! Modules in reading order:
//!
//! - `handshake` admits a client, and `origins` checks the origin of web pages.
//! - `hub` holds all connections, `peer` the state of one connection, and `mailbox` its queue of pushes.
//! - `socket` defines the socket interface, and `wire` implements it over WebSocket.
//! - `driver` runs one connection, `run_queue` schedules connections, and `commands` executes client commands.
//! - `subscriptions` holds the presence subscriptions.
//! - `heartbeat` sends the heartbeat and refreshes routes, and `deregistrations` removes routes of ended connections.
//! - `recovery` makes clients resync after pushes may have been lost.
//! - `drain` moves clients to other gateways, and `spans` defines the trace spans.

mod assertions;
mod commands;
mod deregistrations;
mod drain;
mod driver;
mod gateway;
mod handshake;
mod heartbeat;
mod hub;
mod mailbox;
mod origins;
mod peer;
mod recovery;
mod run_queue;
mod signal_order;
mod socket;
mod spans;
mod subscriptions;
#[cfg(test)]
mod test_world;
mod wire;

pub use gateway::{Config, Gateway, Limits, router};
pub use handshake::{Credential, Entrant, HandshakeRefusal};
pub use hub::Hub;
pub use origins::Origins;
pub use socket::{Incoming, OutboundFrame, Socket, SocketError, TextFrame};
