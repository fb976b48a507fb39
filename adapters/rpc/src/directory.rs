use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use ports::{PeerProcess, PeerRegistry, ProcessRole, error_chain};
use rand::seq::SliceRandom;
use tokio::sync::watch;
use tokio::time::{self, Instant, MissedTickBehavior};
use tonic::{Response, Status};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::known_peers::KnownPeers;
use crate::link::{PeerCallError, PeerLink, endpoint};
use crate::security::{Security, SecurityError};

/// The processes of one role, ordered by id.
pub(crate) type Links = Arc<[Arc<PeerLink>]>;

/// Tracks the live processes of a fleet and holds a connection to each.
///
/// There is one connection for each process and role, because the certificate of the process is checked for the role in
/// which it is called. While the list of processes cannot be read, the last one
/// stays in use, since its processes may still be callable.
pub struct Directory {
    peers: Arc<dyn PeerRegistry>,
    security: Security,
    config: Config,
    roles: BTreeMap<ProcessRole, RoleLinks>,
}

/// The processes of a role.
struct RoleLinks {
    links: watch::Sender<Links>,
    /// Whether the absence of callable processes was already logged, so that it is logged once.
    is_missed: AtomicBool,
}

impl Directory {
    /// Creates a directory of the processes that `peers` lists. It is empty until [`run`](Self::run) runs.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub fn new(peers: Arc<dyn PeerRegistry>, security: Security, config: Config) -> Result<Self, SecurityError> {
        // Reports unusable certificates here instead of in the first call.
        endpoint(ProcessRole::Gateway, "localhost:1", &security, &config)?;
        let role = |role: &ProcessRole| {
            (*role, RoleLinks { links: watch::Sender::new(Links::default()), is_missed: AtomicBool::new(false) })
        };
        let roles = config.roles.iter().map(role).collect();
        Ok(Self { peers, security, config, roles })
    }

    /// Follows the list of processes; never returns. Dropping the future leaves the directory in its last state.
    pub async fn run(&self) -> Infallible {
        let mut known: BTreeMap<ProcessRole, KnownPeers> = BTreeMap::new();
        // Unusable addresses are kept too, so that each is logged once.
        let mut links: HashMap<(ProcessRole, PeerProcess), Option<Arc<PeerLink>>> = HashMap::new();
        let (mut serial, mut is_readable) = (0, true);
        let mut ticks = time::interval(self.config.refresh);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let lists = join_all(self.roles.keys().map(async |role| (*role, self.peers.peers(*role).await))).await;
            let mut failure = None;
            for (role, list) in lists {
                match list {
                    Ok(list) => known.entry(role).or_default().handle_list(Instant::now(), list),
                    Err(error) => failure = Some(error),
                }
            }
            match &failure {
                Some(error) if is_readable => {
                    let error = error_chain(error);
                    warn!(%error, "could not read the list of processes; keeping the last one");
                }
                None if !is_readable => info!("reading the list of processes works again"),
                Some(_) | None => {}
            }
            is_readable = failure.is_none();

            links.retain(|(role, peer), _| known.get(role).is_some_and(|known| known.peers().contains(peer)));
            for (role, known) in &known {
                let mut of_role = Vec::with_capacity(known.peers().len());
                for peer in known.peers() {
                    let link = links.entry((*role, peer.clone())).or_insert_with(|| {
                        serial += 1;
                        self.link(serial, *role, peer)
                    });
                    of_role.extend(link.clone());
                }
                self.publish(*role, of_role);
            }
        }
    }

    /// The currently known processes of a role.
    pub fn known(&self, role: ProcessRole) -> Vec<PeerProcess> {
        self.links(role).iter().map(|link| link.peer.clone()).collect()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The links to the processes of a role.
    pub(crate) fn links(&self, role: ProcessRole) -> Links {
        self.roles.get(&role).map(|role| role.links.borrow().clone()).unwrap_or_default()
    }

    /// The links to the processes of a role in random order, to spread calls that any of them can answer.
    pub(crate) fn shuffled(&self, role: ProcessRole) -> Vec<Arc<PeerLink>> {
        let mut links = self.links(role).to_vec();
        links.shuffle(&mut rand::rng());
        links
    }

    /// Subscribes to the links of a role.
    pub(crate) fn follow(&self, role: ProcessRole) -> watch::Receiver<Links> {
        match self.roles.get(&role) {
            Some(role) => role.links.subscribe(),
            None => watch::Sender::new(Links::default()).subscribe(),
        }
    }

    /// Calls the first of `links` that its breaker admits, and after a failure the next. It makes up to `tries` calls
    /// under one deadline. Any reply of a process ends the search, including a refusal.
    pub(crate) async fn call<T, F>(
        &self,
        role: ProcessRole,
        method: &'static str,
        links: impl IntoIterator<Item = Arc<PeerLink>>,
        tries: usize,
        call: impl Fn(&PeerLink, Duration) -> F,
    ) -> Result<T, PeerCallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + self.config.deadline;
        let mut failure = PeerCallError::NoProcess { role };
        for link in links.into_iter().filter(|link| link.admit()).take(tries) {
            let timeout = deadline.saturating_duration_since(Instant::now());
            if timeout.is_zero() {
                break;
            }
            match link.call(method, deadline, call(&link, timeout)).await {
                Err(error) if error.is_of_process() => failure = error,
                outcome => {
                    self.note_presence(role);
                    return outcome;
                }
            }
        }
        self.note_absence(&failure);
        Err(failure)
    }

    /// Records that a process of the role has answered.
    fn note_presence(&self, role: ProcessRole) {
        if let Some(state) = self.roles.get(&role) {
            state.is_missed.store(false, Ordering::Relaxed);
        }
    }

    /// Logs that no process of the role can be called, once until a process answers or the list changes.
    pub(crate) fn note_absence(&self, failure: &PeerCallError) {
        if let PeerCallError::NoProcess { role } = failure
            && let Some(state) = self.roles.get(role)
            && !state.is_missed.swap(true, Ordering::Relaxed)
        {
            error!(%role, "no process of the role can be called; check that one is running and registered");
        }
    }

    fn link(&self, serial: u64, role: ProcessRole, peer: &PeerProcess) -> Option<Arc<PeerLink>> {
        match PeerLink::new(serial, role, peer.clone(), &self.security, &self.config) {
            Ok(link) => Some(Arc::new(link)),
            Err(error) => {
                error!(
                    process = &*peer.id,
                    address = &*peer.address,
                    error = %error_chain(&error),
                    "ignoring a process with an invalid address"
                );
                None
            }
        }
    }

    fn publish(&self, role: ProcessRole, links: Vec<Arc<PeerLink>>) {
        let Some(state) = self.roles.get(&role) else { return };
        let serials = |links: &[Arc<PeerLink>]| links.iter().map(|link| link.serial).collect::<Vec<_>>();
        state.links.send_if_modified(|published| {
            let is_new = serials(published) != serials(&links);
            if is_new {
                info!(%role, processes = links.len(), "the list of processes of a role has changed");
                state.is_missed.store(false, Ordering::Relaxed);
                *published = links.into();
            }
            is_new
        });
    }
}
