//! Connection plane: drives one protocol `Connection` per WebSocket.
//!
//! A [`Gateway`] authenticates handshakes, frames, limits and registers routes. It persists, sequences and authorizes
//! nothing: what a client asks for goes to the port `Ingest`, and what others did comes in through [`Hub`], its half of
//! the port `Delivery`. It is handed no store and no log.
//!
//! In reading order: `handshake` admits a socket, `origins` says from whose pages, `hub` knows all of them, `peer` is
//! one as others see it, `mailbox` where pushes for it wait. `socket` is what it speaks through, `wire` that in earnest.
//! `driver` runs one, `turns` says when, `commands` does what its client asks for, `watches` knows whose presence it is
//! shown. `beats` keeps the routes, `departures` takes them back, `gap` makes up for what was lost on its way to all, `drain` has clients
//! go elsewhere, `spans` is what a trace shows of all this.

mod beats;
mod commands;
mod departures;
mod drain;
mod driver;
mod gap;
mod gateway;
mod handshake;
mod hub;
mod mailbox;
mod origins;
mod peer;
mod socket;
mod spans;
mod turns;
mod watches;
mod wire;
#[cfg(test)]
mod world;

pub use gateway::{Config, Gateway, Limits, router};
pub use handshake::{Credential, Entrant, Refusal};
pub use hub::Hub;
pub use origins::Origins;
pub use socket::{Incoming, Outgoing, Socket, SocketError, TextFrame};
