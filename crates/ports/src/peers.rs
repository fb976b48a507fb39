use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::StoreError;

/// A part of the service that a process can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessRole {
    /// Holds the sockets of clients.
    Gateway,
    /// Commits messages.
    Ingest,
    /// Turns events into pushes.
    Fanout,
    /// Answers REST.
    Api,
}

impl ProcessRole {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gateway, Self::Ingest, Self::Fanout, Self::Api];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Ingest => "ingest",
            Self::Fanout => "fanout",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for ProcessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A process of the fleet, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Its name, which no other process has had before it.
    pub id: Arc<str>,
    /// Where it is called: `HOST:PORT`.
    pub address: Arc<str>,
}

/// Knows which processes of the fleet are alive.
///
/// A process is known for 15 s after it was announced, unless it leaves. All of it may be lost at any moment, and is
/// rebuilt by announcing again.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Makes a process known in its roles, or keeps it known.
    async fn announce(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError>;

    /// Forgets a process that goes.
    async fn leave(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError>;

    /// The processes of a role, by id.
    async fn peers(&self, role: ProcessRole) -> Result<Vec<Peer>, StoreError>;
}
