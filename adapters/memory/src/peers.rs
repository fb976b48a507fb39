use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use domain::Timestamp;
use ports::{Clock, Peer, Peers, ProcessRole, StoreError};

/// How long a process is known unless it is announced again.
const LIFE: Duration = Duration::from_secs(15);

/// The processes of a fleet that is one process, or a test.
pub struct MemoryPeers {
    clock: Arc<dyn Clock>,
    /// Until when each process is known. Every announcement drops those that are past, so it holds no more than are
    /// announced within one life.
    known: RwLock<BTreeMap<(ProcessRole, Peer), Timestamp>>,
}

impl MemoryPeers {
    /// Nobody is known yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: RwLock::default() }
    }

    /// Forgets everybody, as a Redis that is flushed does. They are known again with their next announcement.
    pub fn wipe(&self) {
        self.known.write().expect("no holder of the lock panics").clear();
    }
}

#[async_trait]
impl Peers for MemoryPeers {
    async fn announce(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut known = self.known.write().expect("no holder of the lock panics");
        known.retain(|_, expires_at| *expires_at > now);
        known.extend(roles.iter().map(|role| ((*role, peer.clone()), now + LIFE)));
        Ok(())
    }

    async fn leave(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let mut known = self.known.write().expect("no holder of the lock panics");
        for role in roles {
            known.remove(&(*role, peer.clone()));
        }
        Ok(())
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<Peer>, StoreError> {
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
    async fn who_is_announced_after_a_wipe_is_known_again() {
        let peers = MemoryPeers::new(Arc::new(ManualClock::default()));
        let peer = Peer { id: "one".into(), address: "localhost:1".into() };
        peers.announce(&peer, &[ProcessRole::Ingest]).await.unwrap();
        peers.wipe();
        assert_eq!(peers.peers(ProcessRole::Ingest).await.unwrap(), []);
        peers.announce(&peer, &[ProcessRole::Ingest]).await.unwrap();
        assert_eq!(peers.peers(ProcessRole::Ingest).await.unwrap(), [peer]);
    }
}
