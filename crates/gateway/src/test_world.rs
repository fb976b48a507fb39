//! A gateway over the memory adapter, for the tests of this crate. It uses the runtime's clock and has injectable faults.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ConnectionId, DeviceId, IngestError, PresenceView, Quota, RateDecision, SessionId, Timestamp, UserId, Watermarks,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use memory::{MemoryLimits, MemoryRoutes, SequentialIds};
use ports::{
    AdvanceRequest, Assertion, Clock, ConnectionHolder, GatewayId, Identity, IdentityError, Ids, Ingest, LimitKey,
    Page, PresenceLookup, PresenceReader, Principal, RateLimiter, RefreshedRoute, Route, RouteWriter, Routes,
    SendRequest, Sent, Signal, SignalSender, StoreError, SyncRequest,
};
use protocol::frame::{Outbound, ServerFrame};
use protocol::{OutboxBounds, Timing};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

use crate::hub::{AdmissionError, Admitted, Hub};
use crate::peer::ConnectionPeer;
use crate::{Config, Gateway, Limits, Origins};

pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
pub(crate) const UNHEALTHY_AFTER: Duration = Duration::from_secs(10);
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);
pub(crate) const ASSERTION_LIFETIME: Duration = Duration::from_secs(600);

/// A gateway with its background tasks for routes and presence.
pub(crate) struct World {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) routes: Arc<FaultyRoutes>,
    pub(crate) others: Arc<FakePlanes>,
    pub(crate) limiter: Arc<CountingLimiter>,
    ids: SequentialIds,
    _tasks: JoinSet<()>,
}

impl World {
    /// A gateway that has sent its first heartbeat.
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let clock = Arc::new(GatewayTestClock(Instant::now()));
        let routes = Arc::new(FaultyRoutes::new(MemoryRoutes::new(clock.clone(), EXPIRY)));
        let others = Arc::new(FakePlanes::default());
        let limiter =
            Arc::new(CountingLimiter { limits: MemoryLimits::new(clock.clone()), calls: AtomicUsize::new(0) });
        let hub = Arc::new(Hub::new(GatewayId("a".into()), 10_000));
        let timing = Timing::default();
        let gateway = Arc::new(Gateway {
            config: Config {
                heartbeat_interval: HEARTBEAT_INTERVAL,
                unhealthy_after: UNHEALTHY_AFTER,
                expiry: EXPIRY,
                timing,
                limits,
                outbox: OutboxBounds::default(),
                origins: Origins::default(),
            },
            displacement: hub.clone(),
            hub,
            identity: others.clone(),
            ingest: others.clone(),
            signals: others.clone(),
            limiter: limiter.clone(),
            presences: others.clone(),
            routes: routes.clone(),
            route_writer: routes.clone(),
            clock,
            ids: Arc::new(SequentialIds::default()),
        });
        let mut tasks = JoinSet::new();
        let (keeping, watching, checking) = (gateway.clone(), gateway.clone(), gateway.clone());
        tasks.spawn(async move { keeping.keep_routes().await });
        tasks.spawn(async move { checking.recheck_connections().await });
        tasks.spawn(async move { watching.watch_presence().await });
        time::sleep(Duration::from_millis(1)).await;
        Self { gateway, routes, others, limiter, ids: SequentialIds::default(), _tasks: tasks }
    }

    pub(crate) fn user(&self) -> UserId {
        self.ids.ulid().into()
    }

    /// A connection of a user, as the handshake creates it.
    pub(crate) async fn connect(&self, user_id: UserId) -> Admitted {
        self.connect_with(user_id, None).await
    }

    pub(crate) async fn connect_with(&self, user_id: UserId, session_id: Option<SessionId>) -> Admitted {
        let admitted = self.admit(user_id, session_id);
        self.gateway.register_route(&admitted.peer).await;
        admitted
    }

    /// A connection in the middle of its handshake.
    pub(crate) fn admit(&self, user_id: UserId, session_id: Option<SessionId>) -> Admitted {
        let (connection_id, device_id) = (self.ids.ulid().into(), DeviceId::from_bytes(self.ids.ulid().to_bytes()));
        let peer = ConnectionPeer::new(connection_id, user_id, device_id, session_id, self.gateway.now(), None);
        self.gateway.hub.admit(peer, None, 0).expect("there is room")
    }

    /// A connection of a new user with an assertion, as in a fleet.
    pub(crate) async fn connect_asserted(&self, session_id: Option<SessionId>) -> Admitted {
        let (connection_id, device_id) = (self.ids.ulid().into(), DeviceId::from_bytes(self.ids.ulid().to_bytes()));
        let now = self.gateway.now();
        let assertion = fake_assertion(0, session_id, now);
        let peer = ConnectionPeer::new(connection_id, self.user(), device_id, session_id, now, Some(assertion));
        self.gateway.hub.admit(peer, None, 0).expect("there is room")
    }

    /// Whether the hub would accept one more connection.
    pub(crate) fn try_admit(&self) -> Result<(), AdmissionError> {
        let peer = ConnectionPeer::new(
            self.ids.ulid().into(),
            self.user(),
            DeviceId::from_bytes([1; 16]),
            None,
            self.gateway.now(),
            None,
        );
        self.gateway.hub.admit(peer, None, 0).map(drop)
    }

    /// One connection for each of `count` new users.
    pub(crate) async fn connect_many(&self, count: usize) -> Vec<Admitted> {
        let mut connections = vec![];
        for _ in 0..count {
            connections.push(self.connect(self.user()).await);
        }
        connections
    }

    /// Simulates a frame from each of these clients.
    pub(crate) fn hear(&self, connections: &[Admitted]) {
        connections.iter().for_each(|connection| self.gateway.hub.handle_frame(&connection.peer));
    }

    /// Whether the route of a connection is live.
    pub(crate) async fn is_routed(&self, peer: &ConnectionPeer) -> bool {
        self.routes.routes(peer.user_id).await.unwrap().contains(&self.gateway.hub.route(peer))
    }
}

/// The frames pushed to a connection since the last call.
pub(crate) fn pushed(peer: &ConnectionPeer) -> Vec<ServerFrame> {
    std::iter::from_fn(|| peer.mailbox.pop().map(|pushed| pushed.frame.text()))
        .map(|frame| Outbound::parse(str::from_utf8(&frame).unwrap()).unwrap().frame)
        .collect()
}

/// A clock that follows the runtime's time.
struct GatewayTestClock(Instant);

impl Clock for GatewayTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_769_783_400_000) + self.0.elapsed()
    }
}

/// A routing table that records writes, and can be unavailable or slow.
pub(crate) struct FaultyRoutes {
    routes: MemoryRoutes,
    pub(crate) is_unavailable: AtomicBool,
    /// Whether route refreshes fail while heartbeats succeed.
    pub(crate) is_full: AtomicBool,
    pub(crate) refresh_takes: Mutex<Duration>,
    pub(crate) refreshed: Mutex<Vec<Vec<ConnectionId>>>,
    pub(crate) unregistered: Mutex<Vec<(Vec<ConnectionId>, Duration)>>,
}

impl FaultyRoutes {
    fn new(routes: MemoryRoutes) -> Self {
        Self {
            routes,
            is_unavailable: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            refresh_takes: Mutex::default(),
            refreshed: Mutex::default(),
            unregistered: Mutex::default(),
        }
    }

    pub(crate) fn leave(&self) {
        self.is_unavailable.store(true, Ordering::SeqCst);
    }

    pub(crate) fn come_back(&self) {
        self.is_unavailable.store(false, Ordering::SeqCst);
    }

    /// The connections of refreshed routes since the last call, one list for each `refresh`.
    pub(crate) fn take_refreshed(&self) -> Vec<Vec<ConnectionId>> {
        std::mem::take(&mut self.refreshed.lock().unwrap())
    }

    pub(crate) fn take_unregistered(&self) -> Vec<(Vec<ConnectionId>, Duration)> {
        std::mem::take(&mut self.unregistered.lock().unwrap())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_unavailable.load(Ordering::SeqCst) { Err(StoreError::unavailable("away")) } else { Ok(()) }
    }
}

#[async_trait]
impl Routes for FaultyRoutes {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        self.check()?;
        self.routes.routes(user_id).await
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        self.check()?;
        self.routes.gateways(user_ids).await
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        self.check()?;
        self.routes.live_gateways().await
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.check()?;
        self.routes.on_gateway(gateway, limit).await
    }
}

#[async_trait]
impl RouteWriter for FaultyRoutes {
    async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        self.check()?;
        self.routes.heartbeat(gateway).await
    }

    async fn register(&self, route: &Route) -> Result<(), StoreError> {
        self.check()?;
        self.routes.register(route).await
    }

    async fn refresh(&self, routes: &[Route]) -> Result<Vec<RefreshedRoute>, StoreError> {
        self.check()?;
        let takes = *self.refresh_takes.lock().unwrap();
        time::sleep(takes).await;
        if self.is_full.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("full"));
        }
        self.refreshed.lock().unwrap().push(routes.iter().map(|route| route.connection_id).collect());
        self.routes.refresh(routes).await
    }

    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError> {
        self.check()?;
        let connections = routes.iter().map(|route| route.connection_id).collect();
        self.unregistered.lock().unwrap().push((connections, back_within));
        self.routes.unregister(routes, back_within).await
    }
}

/// A rate limiter that counts its calls.
pub(crate) struct CountingLimiter {
    limits: MemoryLimits,
    pub(crate) calls: AtomicUsize,
}

#[async_trait]
impl RateLimiter for CountingLimiter {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.limits.take_all(takes).await
    }
}

/// Test doubles of the other planes.
#[derive(Default)]
pub(crate) struct FakePlanes {
    pub(crate) is_unavailable: AtomicBool,
    pub(crate) ended_sessions: Mutex<BTreeSet<SessionId>>,
    pub(crate) suspended_users: Mutex<BTreeSet<UserId>>,
    /// The view of each (viewer, user) pair; unknown by default.
    views: Mutex<HashMap<(UserId, UserId), PresenceView>>,
    pub(crate) look_takes: Mutex<Duration>,
    /// Number of lookups in each call.
    lookups: Mutex<Vec<usize>>,
    pub(crate) signals: watch::Sender<Vec<Signal>>,
}

impl FakePlanes {
    /// Sets the view that these viewers have of a user.
    pub(crate) fn show(&self, viewers: &[UserId], user_id: UserId, view: PresenceView) {
        self.views.lock().unwrap().extend(viewers.iter().map(|viewer| ((*viewer, user_id), view)));
    }

    pub(crate) fn take_looks(&self) -> Vec<usize> {
        std::mem::take(&mut self.lookups.lock().unwrap())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_unavailable.load(Ordering::SeqCst) { Err(StoreError::unavailable("away")) } else { Ok(()) }
    }
}

#[async_trait]
impl PresenceReader for FakePlanes {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        self.lookups.lock().unwrap().push(lookups.len());
        self.check()?;
        let views = {
            let views = self.views.lock().unwrap();
            let see = |look: &PresenceLookup| {
                views.get(&(look.viewer, look.user_id)).copied().unwrap_or(PresenceView::Unknown)
            };
            lookups.iter().map(see).collect()
        };
        // The lookup is slow, so its result may be outdated.
        let takes = *self.look_takes.lock().unwrap();
        time::sleep(takes).await;
        Ok(views)
    }
}

#[async_trait]
impl Identity for FakePlanes {
    /// Tokens are user ids.
    async fn identify(&self, token: &str, device_id: DeviceId) -> Result<Principal, IdentityError> {
        let user_id = token.parse().map_err(|_| IdentityError::InvalidToken("no user".into()))?;
        let device_id = Some(device_id);
        Ok(Principal { user_id, session_id: None, device_id, token_expires_at: Timestamp::MAX, assertion: None })
    }

    async fn redeem(&self, _: &str, _: DeviceId) -> Result<Principal, IdentityError> {
        unreachable!("nobody has a ticket")
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        self.check()?;
        let (ended, suspended) = (self.ended_sessions.lock().unwrap(), self.suspended_users.lock().unwrap());
        let is_live = |holder: &ConnectionHolder| {
            !suspended.contains(&holder.user_id) && holder.session_id.is_none_or(|id| !ended.contains(&id))
        };
        Ok(holders.iter().map(is_live).collect())
    }

    async fn renew(&self, assertion: &Assertion) -> Result<Assertion, IdentityError> {
        self.check()?;
        let session_id = assertion.proof[1..].try_into().ok().map(SessionId::from_bytes);
        if session_id.is_some_and(|session_id| self.ended_sessions.lock().unwrap().contains(&session_id)) {
            return Err(IdentityError::TokenRevoked);
        }
        // As if it were renewed when it is due.
        Ok(fake_assertion(assertion.proof[0] + 1, session_id, assertion.renew_at))
    }
}

/// The n-th assertion of a connection.
fn fake_assertion(n: u8, session_id: Option<SessionId>, now: Timestamp) -> Assertion {
    let proof = [n].into_iter().chain(session_id.into_iter().flat_map(SessionId::to_bytes)).collect();
    Assertion { proof, renew_at: now + ASSERTION_LIFETIME / 2, expires_at: now + ASSERTION_LIFETIME }
}

#[async_trait]
impl Ingest for FakePlanes {
    /// The queue of ingest is always full.
    fn send(&self, _: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        std::future::ready(Err(IngestError::Busy)).boxed()
    }

    async fn sync(&self, _: SyncRequest) -> Result<Page, IngestError> {
        unreachable!("nobody syncs")
    }

    async fn advance(&self, _: AdvanceRequest) -> Result<Watermarks, IngestError> {
        unreachable!("nobody reads")
    }
}

#[async_trait]
impl SignalSender for FakePlanes {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        self.signals.send_modify(|signals| signals.push(signal));
        Ok(true)
    }
}
