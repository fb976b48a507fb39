use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use domain::Timestamp;
use ports::{Clock, PeerProcess, PeerRegistry, ProcessRole, StoreError};

/// Lease time of a process after each announcement.
const LIFE: Duration = Duration::from_secs(15);

/// The live processes of a fleet, for a single process or a test.
pub struct MemoryPeers {
    clock: Arc<dyn Clock>,
    /// Expiry of each lease. Every announcement removes expired leases, so the map is bounded by the announcements of
    /// one lease time.
    known: RwLock<BTreeMap<(ProcessRole, PeerProcess), Timestamp>>,
}

impl MemoryPeers {
    /// Starts without processes.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: RwLock::default() }
    }

    /// Forgets all processes, like a Redis that is flushed. Each is known again after its next announcement.
    pub fn wipe(&self) {
        self.known.write().expect("no holder of the lock panics").clear();
    }
}

#[async_trait]
impl PeerRegistry for MemoryPeers {
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut known = self.known.write().expect("no holder of the lock panics");
        known.retain(|_, expires_at| *expires_at > now);
        known.extend(roles.iter().map(|role| ((*role, peer.clone()), now + LIFE)));
        Ok(())
    }

    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let mut known = self.known.write().expect("no holder of the lock panics");
        for role in roles {
            known.remove(&(*role, peer.clone()));
        }
        Ok(())
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError> {
        let now = self.clock.now();
        let known = self.known.read().expect("no holder of the lock panics");
        let live = known.iter().filter(|((its_role, _), expires_at)| *its_role == role && **expires_at > now);
        Ok(live.map(|((_, peer), _)| peer.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn a_process_announced_after_a_wipe_is_known_again() {
        let peers = MemoryPeers::new(Arc::new(ManualClock::default()));
        let peer = PeerProcess { id: "one".into(), address: "localhost:1".into() };
        peers.announce(&peer, &[ProcessRole::Ingest]).await.unwrap();
        peers.wipe();
        assert_eq!(peers.peers(ProcessRole::Ingest).await.unwrap(), []);
        peers.announce(&peer, &[ProcessRole::Ingest]).await.unwrap();
        assert_eq!(peers.peers(ProcessRole::Ingest).await.unwrap(), [peer]);
    }
}
