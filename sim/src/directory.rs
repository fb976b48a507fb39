use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::Router;
use domain::ChatId;
use fanout::Fanout;
use gateway::Gateway;
use ports::{GatewayId, Identity, Ingest, Presences, ProcessRole};
use tokio::sync::oneshot;

use crate::process::Process;
use crate::socket::Link;

/// A process at work, and what others can ask of it.
pub(crate) struct Running {
    pub(crate) process: Arc<Process>,
    pub(crate) services: Services,
    /// The sockets that clients have here.
    sockets: Mutex<Vec<Weak<Link>>>,
    /// Has its relay publish what is committed, and end.
    pub(crate) stop_relay: Mutex<Option<oneshot::Sender<()>>>,
}

/// What a process does for others, by role.
#[derive(Clone, Default)]
pub(crate) struct Services {
    pub(crate) gateway: Option<Arc<Gateway>>,
    pub(crate) ingest: Option<Arc<dyn Ingest>>,
    pub(crate) fanout: Option<Arc<Fanout>>,
    pub(crate) identity: Option<Arc<dyn Identity>>,
    pub(crate) presences: Option<Arc<dyn Presences>>,
    pub(crate) app: Option<Router>,
}

impl Running {
    pub(crate) fn new(process: Arc<Process>, services: Services, stop_relay: Option<oneshot::Sender<()>>) -> Self {
        Self { process, services, sockets: Mutex::default(), stop_relay: Mutex::new(stop_relay) }
    }

    pub(crate) fn hold(&self, link: &Arc<Link>) {
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(link));
    }

    /// Cuts every socket that it holds.
    pub(crate) fn cut_sockets(&self) {
        self.sockets().drain(..).filter_map(|socket| socket.upgrade()).for_each(|link| link.cut());
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<Link>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The processes that are at work, by their place in the plan.
#[derive(Default)]
pub(crate) struct Directory(Mutex<Vec<Option<Arc<Running>>>>);

impl Directory {
    pub(crate) fn put(&self, slot: usize, running: Option<Arc<Running>>) -> Option<Arc<Running>> {
        let mut slots = self.slots();
        if slots.len() <= slot {
            slots.resize_with(slot + 1, || None);
        }
        std::mem::replace(&mut slots[slot], running)
    }

    pub(crate) fn at(&self, slot: usize) -> Option<Arc<Running>> {
        self.slots().get(slot).cloned().flatten()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Running>> {
        self.slots().iter().flatten().cloned().collect()
    }

    /// Those that do a job.
    pub(crate) fn of(&self, role: ProcessRole) -> Vec<Arc<Running>> {
        self.all().into_iter().filter(|running| running.does(role)).collect()
    }

    /// The one that does a job for a chat, as long as the same ones are there.
    pub(crate) fn for_chat(&self, role: ProcessRole, chat_id: ChatId) -> Option<Arc<Running>> {
        let candidates = self.of(role);
        let [.., last] = chat_id.to_bytes();
        let index = usize::from(last) % candidates.len().max(1);
        candidates.into_iter().nth(index)
    }

    pub(crate) fn gateway(&self, id: &GatewayId) -> Option<Arc<Running>> {
        self.of(ProcessRole::Gateway).into_iter().find(|running| *running.process.name == *id.0)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<Arc<Running>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
