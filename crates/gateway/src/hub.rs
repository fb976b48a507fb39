use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, UserId};
use metrics::{Counter, counter, gauge};
use ports::{
    ConnectionDisplacer, Delivery, GatewayId, PresenceNotifier, PresenceUpdate, Push, Revocation, Route, StoreError,
    lock,
};
use protocol::CloseReason;
use protocol::frame::ServerFrame;
use tokio::sync::watch;
use tokio::time::{self, Instant};
use tracing::warn;

use crate::deregistrations::{ConnectionEnding, Deregistrations};
use crate::heartbeat::RouteRewrites;
use crate::mailbox::QueuedPush;
use crate::peer::ConnectionPeer;
use crate::run_queue::RunQueue;
use crate::socket::TextFrame;
use crate::spans;
use crate::subscriptions::PresenceSubscriptions;

const SHARDS: usize = 64;
/// How long a drain waits until the routes of the last connections are deregistered.
const DEREGISTER_MAX: Duration = Duration::from_secs(2);

/// All connections of this process, by user, and the entry point for pushes to them.
pub struct Hub {
    id: GatewayId,
    connections_max: usize,
    /// Sorted by user, so that iterations are deterministic.
    shards: Vec<Mutex<BTreeMap<UserId, Vec<Arc<ConnectionPeer>>>>>,
    /// Number of open connections; a drain waits for zero.
    connections: watch::Sender<usize>,
    /// Whether new connections are rejected; `keep_drained` waits for it.
    pub(crate) draining: watch::Sender<bool>,
    started: Instant,
    /// When this gateway was last announced to its peers.
    announced_at: Mutex<Option<Instant>>,
    /// Number of heartbeats of this gateway, starting at 1.
    heartbeat: AtomicU64,
    pub(crate) route_rewrites: RouteRewrites,
    /// Whether a check of all connections has failed and has to be repeated.
    pub(crate) unchecked: watch::Sender<bool>,
    pub(crate) deregistrations: Deregistrations,
    pub(crate) subscriptions: PresenceSubscriptions,
    pub(crate) run_queue: Arc<RunQueue>,
    /// Handles of frequent counters, to avoid a registry lookup for each increment.
    frames: Counter,
    pushes: Counter,
}

/// Reason to reject a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    /// The user has reached the limit of connections.
    TooManyOfUser,
    /// The process has reached its limit of connections, or is draining.
    NoRoom,
}

impl Hub {
    /// A hub that holds up to `connections_max` connections.
    pub fn new(id: GatewayId, connections_max: usize) -> Self {
        // Publish 0 explicitly: an absent gauge would read as "no gateway running".
        gauge!("tidings_gateway_connections").set(0);
        gauge!("tidings_gateway_connections_max").set(connections_max as f64);
        Self {
            id,
            connections_max,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            connections: watch::Sender::new(0),
            draining: watch::Sender::new(false),
            started: Instant::now(),
            announced_at: Mutex::default(),
            heartbeat: AtomicU64::new(1),
            route_rewrites: RouteRewrites::default(),
            unchecked: watch::Sender::new(false),
            deregistrations: Deregistrations::new(connections_max),
            subscriptions: PresenceSubscriptions::default(),
            run_queue: Arc::default(),
            frames: counter!("tidings_heartbeats_total"),
            pushes: counter!("tidings_gateway_pushes_total"),
        }
    }

    pub fn id(&self) -> &GatewayId {
        &self.id
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Registers a connection. `elsewhere` is the number of connections that other devices of the user have on other
    /// gateways. An older connection of the same device is closed: the newer one wins.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: ConnectionPeer,
        per_user_max: Option<usize>,
        elsewhere: usize,
    ) -> Result<Admitted, AdmissionError> {
        self.record_activity(&peer);
        let peer = Arc::new(peer);
        let mut shard = self.shard(peer.user_id);
        // Checked under the lock, so that a drain sees every connection that was registered before it.
        if self.is_draining() || self.connections() >= self.connections_max {
            return Err(AdmissionError::NoRoom);
        }
        let peers = shard.get(&peer.user_id).map(Vec::as_slice).unwrap_or_default();
        let (older, others): (Vec<_>, Vec<_>) = peers.iter().partition(|other| other.device_id == peer.device_id);
        if per_user_max.is_some_and(|max| others.len() + elsewhere >= max) {
            return Err(AdmissionError::TooManyOfUser);
        }
        for other in older {
            other.mailbox.close(CloseReason::DuplicateConnection);
        }
        shard.entry(peer.user_id).or_default().push(peer.clone());
        self.connections.send_modify(|connections| *connections += 1);
        drop(shard);
        gauge!("tidings_gateway_connections").increment(1);
        Ok(Admitted { peer, hub: self.clone() })
    }

    /// Records a frame of a client. Every frame counts as a heartbeat (C11).
    pub(crate) fn handle_frame(&self, peer: &ConnectionPeer) {
        self.frames.increment(1);
        self.record_activity(peer);
    }

    fn record_activity(&self, peer: &ConnectionPeer) {
        peer.last_heard_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The connections with a frame within `within` and a completed route registration.
    pub(crate) fn fresh(&self, within: Duration) -> Vec<Arc<ConnectionPeer>> {
        let oldest_ms = (self.started.elapsed().saturating_sub(within)).as_millis() as u64;
        let is_fresh =
            |peer: &ConnectionPeer| peer.is_kept() && peer.last_heard_ms.load(Ordering::Relaxed) >= oldest_ms;
        let mut fresh = Vec::with_capacity(self.connections());
        for index in 0..SHARDS {
            fresh.extend(self.lock(index).values().flatten().filter(|peer| is_fresh(peer)).cloned());
        }
        fresh
    }

    /// Closes one connection; its client reconnects. Returns `false` if this gateway does not have it. Scans all connections,
    /// as `revoke` does.
    pub fn close(&self, connection_id: ConnectionId) -> bool {
        let mut is_here = false;
        self.for_each(|peer| {
            if peer.connection_id == connection_id {
                peer.mailbox.close(CloseReason::ServerShutdown);
                is_here = true;
            }
        });
        is_here
    }

    pub(crate) fn for_each(&self, mut look_at: impl FnMut(&Arc<ConnectionPeer>)) {
        for index in 0..SHARDS {
            self.lock(index).values().flatten().for_each(&mut look_at);
        }
    }

    /// Records an announcement to the peers. Returns whether the previous one was at most `remembered` ago.
    pub(crate) fn note_announced(&self, remembered: Duration) -> bool {
        let mut announced_at = lock(&self.announced_at);
        announced_at.replace(Instant::now()).is_some_and(|at| at.elapsed() <= remembered)
    }

    /// The largest number of queued pushes of any connection, and the largest number of queued bytes.
    pub fn fullest(&self) -> (usize, usize) {
        let (mut messages, mut bytes) = (0, 0);
        self.for_each(|peer| {
            let waiting = peer.mailbox.waiting();
            messages = messages.max(waiting.0);
            bytes = bytes.max(waiting.1);
        });
        (messages, bytes)
    }

    /// How often a connection has moved to the run queue of busy connections.
    pub fn became_busy(&self) -> u64 {
        self.run_queue.entered()
    }

    /// The number of the latest heartbeat.
    pub(crate) fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Ordering::SeqCst)
    }

    /// Starts the next heartbeat and returns its number.
    pub(crate) fn begin_heartbeat(&self) -> u64 {
        self.heartbeat.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn route(&self, peer: &ConnectionPeer) -> Route {
        Route {
            connection_id: peer.connection_id,
            user_id: peer.user_id,
            device_id: peer.device_id,
            gateway: self.id.clone(),
            connected_at: peer.connected_at,
        }
    }

    /// Rejects new connections, closes all open ones, and waits until they have ended and their routes are deregistered.
    pub async fn drain(&self) {
        self.begin_drain();
        self.for_each(|peer| peer.mailbox.close(CloseReason::ServerShutdown));
        let mut connections = self.connections.subscribe();
        // `wait_for` fails only when the sender is dropped, and `self` owns the sender.
        drop(connections.wait_for(|connections| *connections == 0).await);
        if time::timeout(DEREGISTER_MAX, self.deregistrations.none()).await.is_err() {
            warn!("routes were not deregistered in time; they expire with this gateway's lease");
        }
    }

    /// Removes an ended connection: stops pushes to it, ends its presence subscriptions and deregisters its route.
    fn forget(&self, peer: &ConnectionPeer) {
        let mut shard = self.shard(peer.user_id);
        let Some(peers) = shard.get_mut(&peer.user_id) else { return };
        let before = peers.len();
        peers.retain(|other| other.connection_id != peer.connection_id);
        let was_known = peers.len() < before;
        if peers.is_empty() {
            shard.remove(&peer.user_id);
        }
        drop(shard);
        if !was_known {
            return;
        }
        self.subscriptions.end(peer);
        if peer.may_be_routed() {
            let ending = if self.is_draining() { ConnectionEnding::Drained } else { ConnectionEnding::Left };
            self.deregistrations.push(self.route(peer), ending);
        }
    }

    /// Queues the pushes at `indexes` for the user's connections, except for excluded ones. Returns the number queued.
    fn hand_over(&self, user_id: UserId, indexes: &[usize], pushes: &[Push], frames: &[QueuedPush]) -> u64 {
        let shard = self.shard(user_id);
        let peers = shard.get(&user_id).into_iter().flatten();
        peers
            .map(|peer| {
                let meant = indexes.iter().filter(|index| pushes[**index].except != Some(peer.connection_id));
                peer.mailbox.push_all(meant.map(|place| frames[*place].clone()))
            })
            .sum()
    }

    fn close_all_of(&self, user_id: UserId, reason: CloseReason) {
        for peer in self.shard(user_id).get(&user_id).into_iter().flatten() {
            peer.mailbox.close(reason);
        }
    }

    fn shard(&self, user_id: UserId) -> MutexGuard<'_, BTreeMap<UserId, Vec<Arc<ConnectionPeer>>>> {
        // The last byte of an id is effectively random.
        let [.., last] = user_id.to_bytes();
        self.lock(usize::from(last) % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, BTreeMap<UserId, Vec<Arc<ConnectionPeer>>>> {
        lock(&self.shards[index])
    }
}

/// Groups the indexes of pushes by recipient, so that each connection is woken once and writes all its pushes together.
fn by_recipient(pushes: &[Push]) -> Vec<(UserId, Vec<usize>)> {
    let mut recipients: Vec<(UserId, Vec<usize>)> = vec![];
    let mut known = HashMap::new();
    for (place, push) in pushes.iter().enumerate() {
        for user_id in &push.recipients {
            let index = *known.entry(*user_id).or_insert_with(|| {
                recipients.push((*user_id, vec![]));
                recipients.len() - 1
            });
            recipients[index].1.push(place);
        }
    }
    recipients
}

/// Registration of a connection in the hub, removed on drop.
pub(crate) struct Admitted {
    pub(crate) peer: Arc<ConnectionPeer>,
    hub: Arc<Hub>,
}

impl Admitted {
    /// Removes the connection from the hub before the drop. It still counts as open until its last commands are done.
    pub(crate) fn handle_end(&self) {
        self.hub.forget(&self.peer);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.hub.forget(&self.peer);
        self.hub.connections.send_modify(|connections| *connections -= 1);
        gauge!("tidings_gateway_connections").decrement(1);
    }
}

/// Receives pushes from every delivery adapter. The gateway id is ignored, because the adapter has already routed the call.
#[async_trait]
impl Delivery for Hub {
    async fn deliver(&self, _gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let frames: Vec<QueuedPush> = pushes
            .iter()
            .map(|Push { recipients, frame, trace, .. }| {
                let span = trace.and_then(|trace| spans::push(trace, recipients.len()));
                QueuedPush { frame: TextFrame::new(frame.clone()), class: ServerFrame::class_of(frame), span }
            })
            .collect();
        let pushed = match pushes {
            [push] => push.recipients.iter().map(|user_id| self.hand_over(*user_id, &[0], pushes, &frames)).sum(),
            pushes => by_recipient(pushes)
                .into_iter()
                .map(|(user_id, indexes)| self.hand_over(user_id, &indexes, pushes, &frames))
                .sum(),
        };
        self.pushes.increment(pushed);
        Ok(())
    }

    /// Scans all connections for a session: revocations are rare, and an index by session would cost memory for every connection.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        match revocation {
            Revocation::Session(session_id) => self.for_each(|peer| {
                if peer.session_id == Some(session_id) {
                    peer.mailbox.close(CloseReason::SessionRevoked);
                }
            }),
            Revocation::User(user_id) => self.close_all_of(user_id, CloseReason::SessionRevoked),
            // The client refreshes its token and reconnects, unless its own token is the denied one.
            Revocation::Token(user_id) => self.close_all_of(user_id, CloseReason::TokenExpired),
        }
        Ok(())
    }
}

#[async_trait]
impl ConnectionDisplacer for Hub {
    async fn displace(
        &self,
        _gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError> {
        let shard = self.shard(user_id);
        let peers = shard.get(&user_id).into_iter().flatten();
        for peer in peers.filter(|peer| peer.connection_id == connection_id) {
            peer.mailbox.close(CloseReason::DuplicateConnection);
        }
        Ok(())
    }
}

/// Receives presence changes. It returns without a lookup: `watch_presence` re-checks the subscribers in its own task.
#[async_trait]
impl PresenceNotifier for Hub {
    async fn notify(&self, _gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        for PresenceUpdate { user_id, view, recipients } in updates {
            let peers = |user_id| self.shard(user_id).get(&user_id).cloned().unwrap_or_default();
            let peers: Vec<Arc<ConnectionPeer>> = recipients.into_iter().flat_map(peers).collect();
            self.subscriptions.push_change(user_id, view, &peers);
        }
        Ok(())
    }
}
