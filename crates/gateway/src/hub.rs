use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use domain::{ConnectionId, DeviceId, SessionId, UserId};
use metrics::gauge;
use ports::{Delivery, Displacement, GatewayId, Push, Route, StoreError};
use protocol::CloseReason;
use tokio::sync::watch;

use crate::mailbox::Mailbox;

/// Every connection of this process, by user, and the way pushes come to them.
pub struct Hub {
    id: GatewayId,
    shards: Vec<Mutex<HashMap<UserId, Vec<Arc<Peer>>>>>,
    hasher: RandomState,
    /// How many there are; watched for the last one to go.
    connections: watch::Sender<usize>,
    /// Whether no more connections are taken.
    draining: AtomicBool,
    started: Instant,
}

/// One connection, as others see it.
pub(crate) struct Peer {
    pub(crate) connection_id: ConnectionId,
    pub(crate) user_id: UserId,
    pub(crate) device_id: DeviceId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) mailbox: Mailbox,
    /// Milliseconds from the hub's start to the last frame of the client.
    last_heard_ms: AtomicU64,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The user has as many as they may.
    TooManyOfUser,
    /// The process has as many as it may, or is going away.
    NoRoom,
}

const SHARDS: usize = 64;

impl Hub {
    pub fn new(id: GatewayId) -> Self {
        Self {
            id,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            connections: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            started: Instant::now(),
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
        connections_max: usize,
        elsewhere: usize,
    ) -> Result<Admitted, Refused> {
        let peer = Arc::new(peer);
        let mut shard = self.shard(peer.user_id);
        // Looked at under the lock, so that a drain sees every connection that was taken before it.
        if self.draining.load(Ordering::SeqCst) || self.connections() >= connections_max {
            return Err(Refused::NoRoom);
        }
        let peers = shard.entry(peer.user_id).or_default();
        let others = peers.iter().filter(|other| other.device_id != peer.device_id).count();
        if per_user_max.is_some_and(|max| others + elsewhere >= max) {
            return Err(Refused::TooManyOfUser);
        }
        for other in peers.iter().filter(|other| other.device_id == peer.device_id) {
            other.mailbox.close(CloseReason::DuplicateConnection);
        }
        peers.push(peer.clone());
        self.connections.send_modify(|connections| *connections += 1);
        drop(shard);
        gauge!("tidings_gateway_connections").increment(1);
        Ok(Admitted { peer, hub: self.clone() })
    }

    /// A peer that was heard just now.
    pub(crate) fn peer(
        &self,
        connection_id: ConnectionId,
        user_id: UserId,
        device_id: DeviceId,
        session_id: Option<SessionId>,
    ) -> Peer {
        let last_heard_ms = AtomicU64::new(self.started.elapsed().as_millis() as u64);
        Peer { connection_id, user_id, device_id, session_id, mailbox: Mailbox::default(), last_heard_ms }
    }

    pub(crate) fn heard(&self, peer: &Peer) {
        peer.last_heard_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The routes of all connections heard from within `within`.
    pub(crate) fn fresh_routes(&self, within: Duration) -> Vec<Route> {
        let oldest_ms = (self.started.elapsed().saturating_sub(within)).as_millis() as u64;
        let mut routes = Vec::with_capacity(self.connections());
        for index in 0..SHARDS {
            let shard = self.lock(index);
            let fresh = shard.values().flatten().filter(|peer| peer.last_heard_ms.load(Ordering::Relaxed) >= oldest_ms);
            routes.extend(fresh.map(|peer| self.route(peer)));
        }
        routes
    }

    /// The sessions of all connections, each once.
    pub(crate) fn sessions(&self) -> BTreeSet<SessionId> {
        let sessions =
            |index| self.lock(index).values().flatten().filter_map(|peer| peer.session_id).collect::<Vec<_>>();
        (0..SHARDS).flat_map(sessions).collect()
    }

    /// Puts one frame into the mailbox of every connection that is meant.
    pub(crate) fn push_to(&self, frame: &Bytes, is_meant: impl Fn(ConnectionId) -> bool) {
        for index in 0..SHARDS {
            let shard = self.lock(index);
            let meant = shard.values().flatten().filter(|peer| is_meant(peer.connection_id));
            meant.for_each(|peer| peer.mailbox.push(frame.clone()));
        }
    }

    pub(crate) fn route(&self, peer: &Peer) -> Route {
        Route {
            connection_id: peer.connection_id,
            user_id: peer.user_id,
            device_id: peer.device_id,
            gateway: self.id.clone(),
        }
    }

    /// Takes no more connections, closes those there are, and waits until the last one is gone.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        for index in 0..SHARDS {
            for peer in self.lock(index).values().flatten() {
                peer.mailbox.close(CloseReason::ServerShutdown);
            }
        }
        let mut connections = self.connections.subscribe();
        // The sender lives as long as the hub does, so the wait ends with the last connection.
        drop(connections.wait_for(|connections| *connections == 0).await);
    }

    fn remove(&self, peer: &Peer) {
        let mut shard = self.shard(peer.user_id);
        if let Some(peers) = shard.get_mut(&peer.user_id) {
            peers.retain(|other| other.connection_id != peer.connection_id);
            if peers.is_empty() {
                shard.remove(&peer.user_id);
            }
        }
        drop(shard);
        self.connections.send_modify(|connections| *connections -= 1);
        gauge!("tidings_gateway_connections").decrement(1);
    }

    fn shard(&self, user_id: UserId) -> MutexGuard<'_, HashMap<UserId, Vec<Arc<Peer>>>> {
        self.lock(self.hasher.hash_one(user_id) as usize % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, HashMap<UserId, Vec<Arc<Peer>>>> {
        // Nothing that runs under the lock can leave the map half changed.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the hub; given up when dropped.
pub(crate) struct Admitted {
    pub(crate) peer: Arc<Peer>,
    hub: Arc<Hub>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.hub.remove(&self.peer);
    }
}

/// The receiving end of every way of delivery: whichever gateway was meant, this one is asked.
#[async_trait]
impl Delivery for Hub {
    async fn deliver(&self, _gateway: &GatewayId, pushes: Vec<Push>) -> Result<(), StoreError> {
        for Push { recipients, except, frame } in pushes {
            for user_id in recipients {
                let shard = self.shard(user_id);
                for peer in shard.get(&user_id).into_iter().flatten() {
                    if Some(peer.connection_id) != except {
                        peer.mailbox.push(frame.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks at every connection: revocations are rare, and an index of sessions would cost every connection memory.
    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        for index in 0..SHARDS {
            for peer in self.lock(index).values().flatten() {
                if peer.session_id == Some(session_id) {
                    peer.mailbox.close(CloseReason::SessionRevoked);
                }
            }
        }
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
