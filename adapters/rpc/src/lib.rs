//! Calls between the processes of a fleet: our ports over gRPC.
//!
//! [`serve`] offers what a process has to the others. On the other side a [`Directory`] knows which processes live and
//! how to call them, and [`RemoteIngest`], [`RemoteIdentity`], [`RemoteSignals`], [`RemotePresences`] and
//! [`RemoteDelivery`] are the ports themselves, so that no plane knows whether the next one is in its own process.
//!
//! Sends keep their order on the way: all sends from one process to another go over one stream, a chat's sends go to one
//! process, and when its owner changes they follow only after those under way are answered. Ownership is soft. Two
//! processes that commit for one chat are slower than one, and never wrong.
//!
//! Reading order: `proto/fleet.proto` is the wire, `wire` what may come over it, `server` answers, `security` says to whom.
//! Of the calling side, `breaker`, `rendezvous` and `known` decide and do no I/O; `link` is one process, `directory` all of
//! them; `sends` is the order and `lane` the stream of one process.
#![warn(missing_docs)]

mod breaker;
mod config;
mod directory;
mod known;
mod lane;
mod link;
mod proto;
mod remote_delivery;
mod remote_identity;
mod remote_ingest;
mod remote_presences;
mod remote_signals;
mod rendezvous;
mod security;
mod sends;
mod server;
mod wire;

pub use config::Config;
pub use directory::Directory;
pub use remote_delivery::RemoteDelivery;
pub use remote_identity::RemoteIdentity;
pub use remote_ingest::RemoteIngest;
pub use remote_presences::RemotePresences;
pub use remote_signals::RemoteSignals;
pub use security::{Secret, Security, SecurityError, ShortSecret};
pub use server::{ServeError, Services, serve};
