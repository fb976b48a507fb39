use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, SessionId, UserId};
use metrics::{Counter, counter, gauge};
use ports::{Delivery, Displacement, GatewayId, PresenceNews, Push, Route, StoreError, Watchers};
use protocol::CloseReason;
use tokio::sync::watch;
use tokio::time::{self, Instant};
use tracing::warn;

use crate::beats::Orders;
use crate::departures::{Departures, Ending};
use crate::mailbox::Pushed;
use crate::peer::Peer;
use crate::socket::TextFrame;
use crate::spans;
use crate::turns::Turns;
use crate::watches::Watches;

const SHARDS: usize = 64;
/// How long a drain waits for the routes of the last connections to be taken back.
const TAKE_BACK_MAX: Duration = Duration::from_secs(2);

/// Every connection of this process, by user, and the way pushes come to them.
pub struct Hub {
    id: GatewayId,
    connections_max: usize,
    /// In the order of their users, so that whatever goes through all of them goes the same way each time.
    shards: Vec<Mutex<BTreeMap<UserId, Vec<Arc<Peer>>>>>,
    /// How many there are; watched for the last one to go.
    connections: watch::Sender<usize>,
    /// Whether no more connections are taken; watched for those there are to leave.
    pub(crate) draining: watch::Sender<bool>,
    started: Instant,
    /// When the others were last told of this gateway.
    announced_at: Mutex<Option<Instant>>,
    /// Counts the beats of this gateway; never 0.
    beat: AtomicU64,
    pub(crate) orders: Orders,
    pub(crate) departures: Departures,
    pub(crate) watches: Watches,
    pub(crate) turns: Arc<Turns>,
    /// Counters of what happens too often to look them up each time.
    frames: Counter,
    pushes: Counter,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The user has as many as they may.
    TooManyOfUser,
    /// The process has as many as it may, or is going away.
    NoRoom,
}

impl Hub {
    /// A hub that holds up to `connections_max` connections.
    pub fn new(id: GatewayId, connections_max: usize) -> Self {
        // None is a number too, and not the same as no gateway.
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
            beat: AtomicU64::new(1),
            orders: Orders::default(),
            departures: Departures::new(connections_max),
            watches: Watches::default(),
            turns: Arc::default(),
            frames: counter!("tidings_heartbeats_total"),
            pushes: counter!("tidings_gateway_pushes_total"),
        }
    }

    pub fn id(&self) -> &GatewayId {
        &self.id
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Takes a connection in, of a user whose other devices have so many elsewhere. One of the same device before it is told
    /// to close: the newer wins.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: Peer,
        per_user_max: Option<usize>,
        elsewhere: usize,
    ) -> Result<Admitted, Refused> {
        self.heard(&peer);
        let peer = Arc::new(peer);
        let mut shard = self.shard(peer.user_id);
        // Looked at under the lock, so that a drain sees every connection that was taken before it.
        if self.is_draining() || self.connections() >= self.connections_max {
            return Err(Refused::NoRoom);
        }
        let peers = shard.get(&peer.user_id).map(Vec::as_slice).unwrap_or_default();
        let (older, others): (Vec<_>, Vec<_>) = peers.iter().partition(|other| other.device_id == peer.device_id);
        if per_user_max.is_some_and(|max| others.len() + elsewhere >= max) {
            return Err(Refused::TooManyOfUser);
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

    /// Takes note of a frame of a client, which counts as its beat whatever it is (C11).
    pub(crate) fn handle_frame(&self, peer: &Peer) {
        self.frames.increment(1);
        self.heard(peer);
    }

    fn heard(&self, peer: &Peer) {
        peer.last_heard_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The connections heard from within `within` whose handshake is done with their route.
    pub(crate) fn fresh(&self, within: Duration) -> Vec<Arc<Peer>> {
        let oldest_ms = (self.started.elapsed().saturating_sub(within)).as_millis() as u64;
        let is_fresh = |peer: &Peer| peer.is_kept() && peer.last_heard_ms.load(Ordering::Relaxed) >= oldest_ms;
        let mut fresh = Vec::with_capacity(self.connections());
        for index in 0..SHARDS {
            fresh.extend(self.lock(index).values().flatten().filter(|peer| is_fresh(peer)).cloned());
        }
        fresh
    }

    /// Has one connection end; `false` if it is not here. Its client reconnects. It looks at every connection, as a
    /// revocation does.
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

    pub(crate) fn for_each(&self, mut look_at: impl FnMut(&Arc<Peer>)) {
        for index in 0..SHARDS {
            self.lock(index).values().flatten().for_each(&mut look_at);
        }
    }

    /// Notes that the others were told of this gateway now, and says whether they knew it, who remember it for so long.
    pub(crate) fn note_announced(&self, remembered: Duration) -> bool {
        let mut announced_at = self.announced_at.lock().unwrap_or_else(PoisonError::into_inner);
        announced_at.replace(Instant::now()).is_some_and(|at| at.elapsed() <= remembered)
    }

    /// How many pushes, and how many bytes of them, wait for the connection that has most of either waiting.
    pub fn fullest(&self) -> (usize, usize) {
        let (mut messages, mut bytes) = (0, 0);
        self.for_each(|peer| {
            let waiting = peer.mailbox.waiting();
            messages = messages.max(waiting.0);
            bytes = bytes.max(waiting.1);
        });
        (messages, bytes)
    }

    /// The beat that was last begun.
    pub(crate) fn beat(&self) -> u64 {
        self.beat.load(Ordering::SeqCst)
    }

    /// Begins the next beat.
    pub(crate) fn begin_beat(&self) -> u64 {
        self.beat.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The sessions of all connections, each once.
    pub(crate) fn sessions(&self) -> BTreeSet<SessionId> {
        let mut sessions = BTreeSet::new();
        self.for_each(|peer| sessions.extend(peer.session_id));
        sessions
    }

    pub(crate) fn route(&self, peer: &Peer) -> Route {
        Route {
            connection_id: peer.connection_id,
            user_id: peer.user_id,
            device_id: peer.device_id,
            gateway: self.id.clone(),
            connected_at: peer.connected_at,
        }
    }

    /// Takes no more connections, closes those there are, and waits until the last one is gone and its route taken back.
    pub async fn drain(&self) {
        self.begin_drain();
        self.for_each(|peer| peer.mailbox.close(CloseReason::ServerShutdown));
        let mut connections = self.connections.subscribe();
        // The sender lives as long as the hub does, so the wait ends with the last connection.
        drop(connections.wait_for(|connections| *connections == 0).await);
        if time::timeout(TAKE_BACK_MAX, self.departures.none()).await.is_err() {
            warn!("routes were not taken back; they expire with this gateway");
        }
    }

    /// Forgets a connection that is not open any more: nothing is pushed to it, it watches nobody, and its route is taken
    /// back.
    fn forget(&self, peer: &Peer) {
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
        self.watches.end(peer);
        if peer.may_be_routed() {
            let ending = if self.is_draining() { Ending::Drained } else { Ending::Left };
            self.departures.push(self.route(peer), ending);
        }
    }

    /// Hands the connections of a user those pushes that are meant for them, and returns how many.
    fn hand_over(&self, user_id: UserId, places: &[usize], pushes: &[Push], frames: &[Pushed]) -> u64 {
        let shard = self.shard(user_id);
        let peers = shard.get(&user_id).into_iter().flatten();
        peers
            .map(|peer| {
                let meant = places.iter().filter(|place| pushes[**place].except != Some(peer.connection_id));
                peer.mailbox.push_all(meant.map(|place| frames[*place].clone()))
            })
            .sum()
    }

    fn shard(&self, user_id: UserId) -> MutexGuard<'_, BTreeMap<UserId, Vec<Arc<Peer>>>> {
        // The last byte of an id is as good as random.
        let [.., last] = user_id.to_bytes();
        self.lock(usize::from(last) % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, BTreeMap<UserId, Vec<Arc<Peer>>>> {
        // Nothing that runs under the lock can leave the map half changed.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places of the pushes of each recipient, so that a connection is woken once for all it gets, and writes it at once.
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

/// A place in the hub; given up when dropped.
pub(crate) struct Admitted {
    pub(crate) peer: Arc<Peer>,
    hub: Arc<Hub>,
}

impl Admitted {
    /// Takes note that the connection is not open any more, though it still has something to say: it keeps its place.
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

/// The receiving end of every way of delivery: whichever gateway was meant, this one is asked.
#[async_trait]
impl Delivery for Hub {
    async fn deliver(&self, _gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let frames: Vec<Pushed> = pushes
            .iter()
            .map(|Push { recipients, frame, trace, .. }| {
                let span = trace.and_then(|trace| spans::push(trace, recipients.len()));
                Pushed { frame: TextFrame::new(frame.clone()), span }
            })
            .collect();
        let pushed = match pushes {
            [push] => push.recipients.iter().map(|user_id| self.hand_over(*user_id, &[0], pushes, &frames)).sum(),
            pushes => by_recipient(pushes)
                .into_iter()
                .map(|(user_id, places)| self.hand_over(user_id, &places, pushes, &frames))
                .sum(),
        };
        self.pushes.increment(pushed);
        Ok(())
    }

    /// Looks at every connection: revocations are rare, and an index of sessions would cost every connection memory.
    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        self.for_each(|peer| {
            if peer.session_id == Some(session_id) {
                peer.mailbox.close(CloseReason::SessionRevoked);
            }
        });
        Ok(())
    }
}

#[async_trait]
impl Displacement for Hub {
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

/// The receiving end of news, likewise. It waits for nobody: whoever watches is pushed theirs by another task.
#[async_trait]
impl Watchers for Hub {
    async fn tell(&self, _gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError> {
        for PresenceNews { user_id, view, recipients } in news {
            let peers = |user_id| self.shard(user_id).get(&user_id).cloned().unwrap_or_default();
            let peers: Vec<Arc<Peer>> = recipients.into_iter().flat_map(peers).collect();
            self.watches.tell(user_id, view, &peers);
        }
        Ok(())
    }
}
