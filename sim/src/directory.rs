use std::sync::{Arc, Mutex, MutexGuard, Weak};

use axum::Router;
use domain::ChatId;
use fanout::Fanout;
use gateway::Gateway;
use ports::{GatewayId, Identity, Ingest, PresenceReader, ProcessRole, lock};
use tokio::sync::oneshot;

use crate::process::SimProcess;
use crate::socket::SocketLink;

/// A running process and its services.
pub(crate) struct RunningProcess {
    pub(crate) process: Arc<SimProcess>,
    pub(crate) services: ProcessServices,
    /// The sockets of connected clients.
    sockets: Mutex<Vec<Weak<SocketLink>>>,
    /// Stops its relay after it has published all commits.
    pub(crate) stop_relay: Mutex<Option<oneshot::Sender<()>>>,
}

/// The services of a process, by role.
#[derive(Clone, Default)]
pub(crate) struct ProcessServices {
    pub(crate) gateway: Option<Arc<Gateway>>,
    pub(crate) ingest: Option<Arc<dyn Ingest>>,
    pub(crate) fanout: Option<Arc<Fanout>>,
    pub(crate) identity: Option<Arc<dyn Identity>>,
    pub(crate) presences: Option<Arc<dyn PresenceReader>>,
    pub(crate) app: Option<Router>,
}

impl RunningProcess {
    pub(crate) fn new(
        process: Arc<SimProcess>,
        services: ProcessServices,
        stop_relay: Option<oneshot::Sender<()>>,
    ) -> Self {
        Self { process, services, sockets: Mutex::default(), stop_relay: Mutex::new(stop_relay) }
    }

    pub(crate) fn hold(&self, link: &Arc<SocketLink>) {
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(link));
    }

    /// Cuts all its sockets.
    pub(crate) fn cut_sockets(&self) {
        self.sockets().drain(..).filter_map(|socket| socket.upgrade()).for_each(|link| link.cut());
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<SocketLink>>> {
        lock(&self.sockets)
    }

    fn does(&self, role: ProcessRole) -> bool {
        match role {
            ProcessRole::Gateway => self.services.gateway.is_some(),
            ProcessRole::Ingest => self.services.ingest.is_some(),
            ProcessRole::Fanout => self.services.fanout.is_some(),
            ProcessRole::Api => self.services.app.is_some(),
        }
    }
}

/// The running processes, by slot in the plan.
#[derive(Default)]
pub(crate) struct ProcessDirectory(Mutex<Vec<Option<Arc<RunningProcess>>>>);

impl ProcessDirectory {
    pub(crate) fn put(&self, slot: usize, running: Option<Arc<RunningProcess>>) -> Option<Arc<RunningProcess>> {
        let mut slots = self.slots();
        if slots.len() <= slot {
            slots.resize_with(slot + 1, || None);
        }
        std::mem::replace(&mut slots[slot], running)
    }

    pub(crate) fn at(&self, slot: usize) -> Option<Arc<RunningProcess>> {
        self.slots().get(slot).cloned().flatten()
    }

    pub(crate) fn all(&self) -> Vec<Arc<RunningProcess>> {
        self.slots().iter().flatten().cloned().collect()
    }

    /// The processes with a role.
    pub(crate) fn of(&self, role: ProcessRole) -> Vec<Arc<RunningProcess>> {
        self.all().into_iter().filter(|running| running.does(role)).collect()
    }

    /// The process with a role that is responsible for a chat, while the set of processes does not change.
    pub(crate) fn for_chat(&self, role: ProcessRole, chat_id: ChatId) -> Option<Arc<RunningProcess>> {
        let candidates = self.of(role);
        let [.., last] = chat_id.to_bytes();
        let index = usize::from(last) % candidates.len().max(1);
        candidates.into_iter().nth(index)
    }

    pub(crate) fn gateway(&self, id: &GatewayId) -> Option<Arc<RunningProcess>> {
        self.of(ProcessRole::Gateway).into_iter().find(|running| *running.process.name == *id.0)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<Arc<RunningProcess>>>> {
        lock(&self.0)
    }
}
