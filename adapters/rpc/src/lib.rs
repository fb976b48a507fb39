//! Calls between the processes of a fleet: implements our ports over gRPC.
//!
//! [`serve`] offers the services of a process to the others. On the calling side a [`Directory`] tracks the live
//! processes. [`RemoteIngest`], [`RemoteIdentity`], [`RemoteSignals`], [`RemotePresences`], [`RemoteDelivery`] and
//! [`RemoteWebhooks`] implement the ports, so a plane need not know whether the next one runs in its own process.
//!
//! Sends keep their order: all sends from one process to another use one stream, and a chat's sends go to one process.
//! When the owner of a chat changes, new sends go to the new owner only after the pending ones are answered. Ownership
//! is soft: two processes that commit for one chat are slower than one, but still correct.
//!
//! Two checks are made of every call. `security` authenticates the calling process, and `roles` lists the services that
//! its role may call. Calls to ingest also carry an assertion of their user: a gateway cannot act for users who have
//! not presented a token.
//!
//! Reading order: `proto/fleet.proto` defines the wire format, `wire` validates it, and `server` answers. On the calling side, `breaker`, `rendezvous` and `known_peers` are pure logic without I/O. `link`
//! is one process, `directory` all of them; `sends` keeps the order and `lane` runs the stream to one process.
#![warn(missing_docs)]

mod asserted_users;
mod asserting;
mod assertion;
mod breaker;
mod callers;
mod config;
mod directory;
mod known_peers;
mod lane;
mod link;
mod proto;
mod remote_delivery;
mod remote_identity;
mod remote_ingest;
mod remote_presences;
mod remote_signals;
mod remote_webhooks;
mod rendezvous;
mod roles;
mod security;
mod sends;
mod server;
mod wire;

pub use asserting::{AssertingIdentity, AssertingIngest};
pub use assertion::{Asserter, AssertionKey, AssertionPolicy};
pub use callers::{AcceptedCallers, AcceptedCallersError};
pub use config::Config;
pub use directory::Directory;
pub use remote_delivery::RemoteDelivery;
pub use remote_identity::RemoteIdentity;
pub use remote_ingest::RemoteIngest;
pub use remote_presences::RemotePresences;
pub use remote_signals::RemoteSignals;
pub use remote_webhooks::RemoteWebhooks;
pub use roles::certificate_name;
pub use security::{CertificateNames, FleetSecret, RoleError, Security, SecurityError, ShortSecret};
pub use server::{RpcServices, ServeError, serve};
