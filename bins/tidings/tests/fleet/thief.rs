use std::sync::Arc;

use memory::MemoryPeers;
use ports::{PeerProcess, PeerRegistry, ProcessRole, SystemClock};
use rpc::{Directory, RemoteDelivery, RemoteIdentity, RemoteIngest, RemotePresences, RemoteSignals};
use tokio::task::JoinSet;

use crate::fleet::TestFleet;

/// A process outside the fleet with the credentials of a role. It knows the first process of each role.
pub(crate) struct Thief {
    pub(crate) ingest: Arc<RemoteIngest>,
    pub(crate) identity: RemoteIdentity,
    pub(crate) presences: RemotePresences,
    pub(crate) signals: RemoteSignals,
    pub(crate) delivery: RemoteDelivery,
    _tasks: JoinSet<()>,
}

impl Thief {
    pub(crate) async fn of(fleet: &TestFleet, role: ProcessRole) -> Self {
        Self::knowing(fleet, role, 0).await
    }

    /// A thief that knows one process of each role, this ingest process among them, so that all chats are routed to it.
    pub(crate) async fn knowing(fleet: &TestFleet, role: ProcessRole, ingest: usize) -> Self {
        let peers = Arc::new(MemoryPeers::new(Arc::new(SystemClock)));
        for of in ProcessRole::ALL {
            let number = if of == ProcessRole::Ingest { ingest } else { 0 };
            let address = fleet.rpc_address(of, number).into();
            peers.announce(&PeerProcess { id: of.name().into(), address }, &[of]).await.unwrap();
        }
        let security = fleet.base.credentials.of(role);
        let directory = Directory::new(peers, security, rpc::Config::new(ProcessRole::ALL.to_vec())).unwrap();
        let directory = Arc::new(directory);
        let ingest = Arc::new(RemoteIngest::new(directory.clone(), None));
        let mut tasks = JoinSet::new();
        let (following, carrying) = (directory.clone(), ingest.clone());
        tasks.spawn(async move { match following.run().await {} });
        tasks.spawn(async move { match carrying.run().await {} });
        while ProcessRole::ALL.into_iter().any(|role| directory.known(role).is_empty()) {
            tokio::task::yield_now().await;
        }
        Self {
            ingest,
            identity: RemoteIdentity::new(directory.clone()),
            presences: RemotePresences::new(directory.clone()),
            signals: RemoteSignals::new(directory.clone()),
            delivery: RemoteDelivery::new(directory),
            _tasks: tasks,
        }
    }
}
