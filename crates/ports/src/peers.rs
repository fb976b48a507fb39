use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::StoreError;

/// A plane that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessRole {
    /// Holds the client sockets.
    Gateway,
    /// Commits messages.
    Ingest,
    /// Pushes events to connections.
    Fanout,
    /// Serves the REST API.
    Api,
}

impl ProcessRole {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Gateway, Self::Ingest, Self::Fanout, Self::Api];

    /// The name of the role in the configuration.
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

/// A process of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerProcess {
    /// The id of the process; never reused by another process.
    pub id: Arc<str>,
    /// The address of its RPC server: `HOST:PORT`.
    pub address: Arc<str>,
}

/// Service discovery: the live processes of the fleet.
///
/// A process stays registered for 15 s after its last announcement, unless it deregisters. The whole registry may be
/// lost at any moment; the next announcements rebuild it.
#[async_trait]
pub trait PeerRegistry: Send + Sync {
    /// Registers a process in its roles, or renews its registration.
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError>;

    /// Deregisters a process that shuts down.
    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError>;

    /// The live processes of a role, by id.
    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError>;
}
