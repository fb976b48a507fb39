use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use ports::{Peer, Peers, ProcessRole};
use rand::seq::SliceRandom;
use tokio::sync::watch;
use tokio::time::{self, Instant, MissedTickBehavior};
use tonic::{Response, Status};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::known::Known;
use crate::link::{CallError, Link, endpoint};
use crate::security::{Security, SecurityError};

/// The processes of one role, by id.
pub(crate) type Links = Arc<[Arc<Link>]>;

/// Knows the live processes of a fleet, and how to call them.
///
/// It has one connection to each process, whatever its roles. When the list of processes cannot be read, the last one
/// stays: processes that can be called do not need to be listed for it.
pub struct Directory {
    peers: Arc<dyn Peers>,
    security: Security,
    config: Config,
    roles: BTreeMap<ProcessRole, Role>,
}

/// What is known of a role.
struct Role {
    links: watch::Sender<Links>,
    /// Whether somebody was told that no process of the role can be called, so that it is logged once.
    is_missed: AtomicBool,
}

impl Directory {
    /// A directory of the processes that `peers` lists. It knows nobody before it runs.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub fn new(peers: Arc<dyn Peers>, security: Security, config: Config) -> Result<Self, SecurityError> {
        // Certificates that cannot work are found here and not by the first call.
        endpoint("localhost:1", &security, &config)?;
        let role = |role: &ProcessRole| {
            (*role, Role { links: watch::Sender::new(Links::default()), is_missed: AtomicBool::new(false) })
        };
        let roles = config.roles.iter().map(role).collect();
        Ok(Self { peers, security, config, roles })
    }

    /// Follows the list of processes for ever. Dropping the future leaves everything as it was last known.
    pub async fn run(&self) -> Infallible {
        let mut known: BTreeMap<ProcessRole, Known> = BTreeMap::new();
        // Addresses that cannot be used are remembered too, so that each is told once.
        let mut links: HashMap<Peer, Option<Arc<Link>>> = HashMap::new();
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
                    let error = error as &dyn std::error::Error;
                    warn!(error, "the list of processes cannot be read; the last one stays");
                }
                None if !is_readable => info!("the list of processes can be read again"),
                Some(_) | None => {}
            }
            is_readable = failure.is_none();

            links.retain(|peer, _| known.values().any(|known| known.peers().contains(peer)));
            for (role, known) in &known {
                let mut of_role = Vec::with_capacity(known.peers().len());
                for peer in known.peers() {
                    let link = links.entry(peer.clone()).or_insert_with(|| {
                        serial += 1;
                        self.link(serial, peer)
                    });
                    of_role.extend(link.clone());
                }
                self.publish(*role, of_role);
            }
        }
    }

    /// The processes of a role that are known now.
    pub fn known(&self, role: ProcessRole) -> Vec<Peer> {
        self.links(role).iter().map(|link| link.peer.clone()).collect()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The links to the processes of a role.
    pub(crate) fn links(&self, role: ProcessRole) -> Links {
        self.roles.get(&role).map(|role| role.links.borrow().clone()).unwrap_or_default()
    }

    /// The links to the processes of a role in an order that differs from call to call, so that each has its share of the
    /// calls that any of them can answer.
    pub(crate) fn shuffled(&self, role: ProcessRole) -> Vec<Arc<Link>> {
        let mut links = self.links(role).to_vec();
        links.shuffle(&mut rand::rng());
        links
    }

    /// Follows the links to the processes of a role.
    pub(crate) fn follow(&self, role: ProcessRole) -> watch::Receiver<Links> {
        match self.roles.get(&role) {
            Some(role) => role.links.subscribe(),
            None => watch::Sender::new(Links::default()).subscribe(),
        }
    }

    /// Calls the first of `links` that may be called, and if it fails the next, as often as `tries` allows and all before
    /// one deadline. An answer of a process is an answer, whatever it says.
    pub(crate) async fn ask<T, F>(
        &self,
        role: ProcessRole,
        method: &'static str,
        links: impl IntoIterator<Item = Arc<Link>>,
        tries: usize,
        call: impl Fn(&Link, Duration) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + self.config.deadline;
        let mut failure = CallError::NoProcess { role };
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

    /// Takes note that a process of a role has answered.
    fn note_presence(&self, role: ProcessRole) {
        if let Some(state) = self.roles.get(&role) {
            state.is_missed.store(false, Ordering::Relaxed);
        }
    }

    /// Logs that a role is missing, once until it is not.
    pub(crate) fn note_absence(&self, failure: &CallError) {
        if let CallError::NoProcess { role } = failure
            && let Some(state) = self.roles.get(role)
            && !state.is_missed.swap(true, Ordering::Relaxed)
        {
            error!(%role, "no process of a role can be called; is one running, and is it announced?");
        }
    }

    fn link(&self, serial: u64, peer: &Peer) -> Option<Arc<Link>> {
        match Link::new(serial, peer.clone(), &self.security, &self.config) {
            Ok(link) => Some(Arc::new(link)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                error!(process = &*peer.id, address = &*peer.address, error, "the address of a process is none");
                None
            }
        }
    }

    fn publish(&self, role: ProcessRole, links: Vec<Arc<Link>>) {
        let Some(state) = self.roles.get(&role) else { return };
        let serials = |links: &[Arc<Link>]| links.iter().map(|link| link.serial).collect::<Vec<_>>();
        state.links.send_if_modified(|published| {
            let is_new = serials(published) != serials(&links);
            if is_new {
                info!(%role, processes = links.len(), "the processes of a role have changed");
                state.is_missed.store(false, Ordering::Relaxed);
                *published = links.into();
            }
            is_new
        });
    }
}
