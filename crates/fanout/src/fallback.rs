use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, UserId};
use metrics::counter;
use ports::{
    Delivery, GatewayId, MemberCache, PeerProcess, PeerRegistry, ProcessRole, Push, RecipientConnection,
    RecipientLookup, Recipients, Revocation, Route, Routes, StoreError, error_chain, lock,
};
use protocol::frame::Resync;
use tokio::time::{self, Instant};
use tracing::{info, warn};

/// How long shared state is not trusted after its last failure. Gateways register lost routes again within this time;
/// until then, a missing route does not mean that a user is offline.
const REBUILD: Duration = Duration::from_secs(15);
/// How often the gateways are looked up, and the end of an outage is checked. An outage that begins earlier after the start
/// of a gateway, or of this process, finds the gateway unknown: its clients are pushed nothing until Redis is back.
const REFRESH: Duration = Duration::from_secs(2);
/// Most pending invalidations of the member cache. Beyond it an invalidation fails, and the log consumer retries it.
const INVALIDATIONS_MAX: usize = 100_000;
/// Most recipients of one resync push, which bounds the size of a call.
const SYNCING_MAX: usize = 4096;

/// Shared state in Redis. All parts fail together.
pub struct Shared {
    pub routes: Arc<dyn Routes>,
    pub recipients: Arc<dyn RecipientLookup>,
    pub cache: Arc<dyn MemberCache>,
    pub delivery: Arc<dyn Delivery>,
    /// The ids of peer gateways are their ids in routes.
    pub peers: Arc<dyn PeerRegistry>,
}

/// Keeps pushes going while shared state in Redis is unavailable (C8).
///
/// After the first failure, calls no longer go to Redis, so an outage costs one timeout instead of one for each message:
///
/// - Every push goes directly to every last known gateway, with all recipients. A gateway ignores users without a
///   connection to it.
/// - Members are read from the store.
/// - Once Redis answers again, the gateways are looked up for each push, because new ones may hold connections.
/// - The fallback ends 15 s after the last failure.
///
/// At its start and end, a push may arrive twice or before an earlier one. Clients detect both by the sequence.
///
/// A gateway that first became known after Redis answered again may have missed pushes without noticing, because its own
/// calls succeeded. All its clients are therefore asked to resync. If this process crashes before that, they detect the gap
/// with the next message of the chat.
///
/// Revocations always go both through Redis and directly to every gateway.
///
/// Use these routes only for pushes: in an outage, every user appears to be on every gateway.
///
/// Failed invalidations of the member cache are repeated before the cache is read again. A crash before that leaves the
/// cache outdated until its entries expire.
pub struct Fallback {
    shared: Shared,
    direct: Arc<dyn Delivery>,
    state: Mutex<FallbackState>,
}

#[derive(Default)]
struct FallbackState {
    /// The last known gateways.
    gateways: BTreeSet<GatewayId>,
    /// Gateways that became known during an outage and have clients that still need a resync.
    newcomers: BTreeSet<GatewayId>,
    /// During an outage, the earliest time at which shared state is trusted again.
    away_until: Option<Instant>,
    /// Whether a call has succeeded since the last failure.
    answers: bool,
    /// Chats with a pending cache invalidation. While there are any, the outage does not end.
    pending_invalidations: BTreeSet<ChatId>,
}

impl Fallback {
    /// Uses `shared` while it is available, and delivers through `direct` otherwise. [`run`](Self::run) must be running.
    pub fn new(shared: Shared, direct: Arc<dyn Delivery>) -> Self {
        Self { shared, direct, state: Mutex::default() }
    }

    /// Tracks the gateways and detects the end of an outage, until the task is aborted.
    pub async fn run(&self) {
        let mut ticks = time::interval(REFRESH);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(failure) = self.refresh().await {
                self.note(&failure);
            }
        }
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        self.look_up_gateways().await?;
        while let Some(chat_id) = self.take_invalidation() {
            if let Err(failure) = self.shared.cache.invalidate(chat_id).await {
                self.lock().pending_invalidations.insert(chat_id);
                return Err(failure);
            }
        }
        self.resync_newcomers().await?;
        let mut state = self.lock();
        if state.pending_invalidations.is_empty() && state.away_until.is_some_and(|until| until <= Instant::now()) {
            state.away_until = None;
            info!("shared state in Redis is available again");
        }
        Ok(())
    }

    async fn look_up_gateways(&self) -> Result<(), StoreError> {
        let peers = self.shared.peers.peers(ProcessRole::Gateway).await?;
        self.learn(peers);
        Ok(())
    }

    /// Asks the clients of newly known gateways to resync. Failed gateways are retried until their routes are gone, too.
    async fn resync_newcomers(&self) -> Result<(), StoreError> {
        let newcomers = self.lock().newcomers.clone();
        for gateway in newcomers {
            let routes = self.shared.routes.on_gateway(&gateway, usize::MAX).await?;
            let users: Vec<UserId> =
                BTreeSet::from_iter(routes.iter().map(|route| route.user_id)).into_iter().collect();
            let mut delivered = Ok(());
            for recipients in users.chunks(SYNCING_MAX) {
                let recipients = recipients.to_vec();
                let push = Push { recipients, except: None, frame: Resync::missed_pushes(), trace: None };
                delivered = delivered.and(self.direct.deliver(&gateway, &[push]).await);
            }
            if let Err(failure) = delivered {
                let (error, gateway) = (error_chain(&failure), &*gateway.0);
                warn!(%error, gateway, "resync of a new gateway's clients failed; retrying at next refresh");
            } else {
                self.lock().newcomers.remove(&gateway);
            }
        }
        Ok(())
    }

    /// The gateways to push to during an outage.
    async fn known_gateways(&self) -> BTreeSet<GatewayId> {
        let answers = self.lock().answers;
        if answers && let Err(failure) = self.look_up_gateways().await {
            self.note(&failure);
        }
        self.lock().gateways.clone()
    }

    fn learn(&self, peers: Vec<PeerProcess>) {
        let mut state = self.lock();
        state.answers = true;
        let peers = BTreeSet::from_iter(peers.into_iter().map(|peer| GatewayId(peer.id)));
        // After a wipe or an outage, Redis may list only some of the running gateways, so add to the known ones.
        if state.away_until.is_some() {
            let newcomers: Vec<_> = peers.difference(&state.gateways).cloned().collect();
            state.newcomers.extend(newcomers);
            state.gateways.extend(peers);
        } else if !peers.is_empty() {
            state.gateways = peers;
        }
    }

    fn take_invalidation(&self) -> Option<ChatId> {
        self.lock().pending_invalidations.pop_first()
    }

    /// Calls shared state. Returns `None` on failure and during an outage.
    async fn answer_in_time<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        if self.lock().away_until.is_some() {
            return None;
        }
        match answer.await {
            Ok(answer) => Some(answer),
            Err(failure) => {
                self.note(&failure);
                None
            }
        }
    }

    fn note(&self, failure: &StoreError) {
        let mut state = self.lock();
        state.answers = false;
        let before = state.away_until.replace(Instant::now() + REBUILD);
        drop(state);
        if before.is_none() {
            let error = error_chain(failure);
            warn!(%error, "shared state in Redis is unavailable; pushes go directly to every gateway");
        }
    }

    fn lock(&self) -> MutexGuard<'_, FallbackState> {
        lock(&self.state)
    }
}

#[async_trait]
impl Routes for Fallback {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let routes = self.answer_in_time(self.shared.routes.routes(user_id)).await;
        routes.ok_or_else(|| StoreError::unavailable("shared state in Redis is unavailable"))
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        if let Some(gateways) = self.answer_in_time(self.shared.routes.gateways(user_ids)).await {
            return Ok(gateways);
        }
        if user_ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.known_gateways().await.into_iter().map(|gateway| (gateway, user_ids.to_vec())).collect())
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        match self.answer_in_time(self.shared.routes.live_gateways()).await {
            Some(live) => Ok(live),
            None => Ok(self.known_gateways().await.into_iter().collect()),
        }
    }

    // No fallback: administration must see stored routes, not the last known gateways.
    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.shared.routes.on_gateway(gateway, limit).await
    }
}

#[async_trait]
impl RecipientLookup for Fallback {
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        Ok(self.answer_in_time(self.shared.recipients.cached(chat_id, named)).await.flatten())
    }

    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        if let Some(recipients) = self.answer_in_time(self.shared.recipients.of(members.clone(), named)).await {
            return Ok(recipients);
        }
        let known = self.known_gateways().await;
        let anywhere =
            || known.iter().map(|gateway| RecipientConnection { gateway: gateway.clone(), connection_id: None });
        let connections = named.iter().map(|user_id| (*user_id, anywhere().collect())).collect();
        let gateways = known.iter().map(|gateway| (gateway.clone(), members.to_vec())).collect();
        Ok(Recipients { members, gateways, connections })
    }
}

#[async_trait]
impl Delivery for Fallback {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        if self.answer_in_time(self.shared.delivery.deliver(gateway, pushes)).await.is_some() {
            return Ok(());
        }
        counter!("tidings_fanout_fallback_total").increment(1);
        self.direct.deliver(gateway, pushes).await
    }

    /// Takes both ways at once: Redis does not report which gateways received a message, and a gateway that is new may
    /// not be known for direct calls yet. Only direct calls are acknowledged.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        let published = self.answer_in_time(self.shared.delivery.revoke(revocation));
        let (published, called) = tokio::join!(published, self.direct.revoke(revocation));
        if published.is_none() {
            counter!("tidings_fanout_fallback_total").increment(1);
        }
        called
    }
}

#[async_trait]
impl MemberCache for Fallback {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        Ok(self.answer_in_time(self.shared.cache.members(chat_id)).await.flatten())
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        // A failure only costs another read from the store.
        self.answer_in_time(self.shared.cache.fill(chat_id, members)).await;
        Ok(())
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        if self.answer_in_time(self.shared.cache.invalidate(chat_id)).await.is_some() {
            return Ok(());
        }
        let mut state = self.lock();
        if state.pending_invalidations.len() >= INVALIDATIONS_MAX && !state.pending_invalidations.contains(&chat_id) {
            return Err(StoreError::unavailable(format!(
                "{INVALIDATIONS_MAX} chats already have a pending cache invalidation"
            )));
        }
        state.pending_invalidations.insert(chat_id);
        Ok(())
    }
}
