//! A gateway over the memory adapter, for the tests of this crate. Time is the runtime's, and what is around can fail.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, DeviceId, PresenceView, Sequence, SessionId, Timestamp, UserId};
use domain::{WatermarkKind, Watermarks};
use futures_util::future::BoxFuture;
use memory::{MemoryLimits, MemoryRoutes, SequentialIds};
use ports::{
    Clock, GatewayId, Identity, IdentityError, Ids, Ingest, IngestError, Look, Page, Presences, Principal, Refreshed,
    Route, RouteWriter, Routes, SendRequest, Sent, Signal, Signals, StoreError, SyncRequest,
};
use protocol::Timing;
use protocol::frame::{Outbound, ServerFrame};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

use crate::hub::{Admitted, Hub, Refused};
use crate::peer::Peer;
use crate::{Config, Gateway, Limits, Origins};

pub(crate) const BEAT: Duration = Duration::from_secs(5);
pub(crate) const UNHEALTHY_AFTER: Duration = Duration::from_secs(10);
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);

/// A gateway that keeps its routes and shows whom its clients watch.
pub(crate) struct World {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) routes: Arc<Shared>,
    pub(crate) others: Arc<Others>,
    ids: SequentialIds,
    _tasks: JoinSet<()>,
}

impl World {
    /// A gateway whose first beat is done.
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let clock = Arc::new(RuntimeClock(Instant::now()));
        let routes = Arc::new(Shared::new(MemoryRoutes::new(clock.clone(), EXPIRY)));
        let others = Arc::new(Others::default());
        let hub = Arc::new(Hub::new(GatewayId("a".into()), 10_000));
        let timing = Timing::default();
        let gateway = Arc::new(Gateway {
            config: Config {
                heartbeat_interval: BEAT,
                unhealthy_after: UNHEALTHY_AFTER,
                expiry: EXPIRY,
                timing,
                limits,
                origins: Origins::default(),
            },
            displacement: hub.clone(),
            hub,
            identity: others.clone(),
            ingest: others.clone(),
            signals: others.clone(),
            limiter: Arc::new(MemoryLimits::new(clock.clone())),
            presences: others.clone(),
            routes: routes.clone(),
            route_writer: routes.clone(),
            clock,
            ids: Arc::new(SequentialIds::default()),
        });
        let mut tasks = JoinSet::new();
        let (keeping, watching) = (gateway.clone(), gateway.clone());
        tasks.spawn(async move { keeping.keep_routes().await });
        tasks.spawn(async move { watching.watch_presence().await });
        time::sleep(Duration::from_millis(1)).await;
        Self { gateway, routes, others, ids: SequentialIds::default(), _tasks: tasks }
    }

    pub(crate) fn user(&self) -> UserId {
        self.ids.ulid().into()
    }

    /// A connection of a user, as the handshake makes one.
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
        let peer = Peer::new(connection_id, user_id, device_id, session_id, self.gateway.now());
        self.gateway.hub.admit(peer, None, 0).expect("there is room")
    }

    /// Whether one more connection would be taken.
    pub(crate) fn try_admit(&self) -> Result<(), Refused> {
        let peer =
            Peer::new(self.ids.ulid().into(), self.user(), DeviceId::from_bytes([1; 16]), None, self.gateway.now());
        self.gateway.hub.admit(peer, None, 0).map(drop)
    }

    /// A connection of each of so many users.
    pub(crate) async fn connect_many(&self, count: usize) -> Vec<Admitted> {
        let mut connections = vec![];
        for _ in 0..count {
            connections.push(self.connect(self.user()).await);
        }
        connections
    }

    /// Has all of these clients beat.
    pub(crate) fn hear(&self, connections: &[Admitted]) {
        connections.iter().for_each(|connection| self.gateway.hub.handle_frame(&connection.peer));
    }

    /// Whether the route of a connection is live.
    pub(crate) async fn is_routed(&self, peer: &Peer) -> bool {
        self.routes.routes(peer.user_id).await.unwrap().contains(&self.gateway.hub.route(peer))
    }
}

/// What was pushed to a connection since this was last asked.
pub(crate) fn pushed(peer: &Peer) -> Vec<ServerFrame> {
    std::iter::from_fn(|| peer.mailbox.pop().map(|pushed| pushed.frame.text()))
        .map(|frame| Outbound::parse(str::from_utf8(&frame).unwrap()).unwrap().frame)
        .collect()
}

/// A clock that goes with the time of the runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_769_783_400_000) + self.0.elapsed()
    }
}

/// The routes that a fleet shares. They remember what was written, and can be away or slow.
pub(crate) struct Shared {
    routes: MemoryRoutes,
    pub(crate) is_away: AtomicBool,
    /// Whether routes alone cannot be written.
    pub(crate) is_full: AtomicBool,
    pub(crate) refresh_takes: Mutex<Duration>,
    pub(crate) refreshed: Mutex<Vec<Vec<ConnectionId>>>,
    pub(crate) unregistered: Mutex<Vec<(Vec<ConnectionId>, Duration)>>,
}

impl Shared {
    fn new(routes: MemoryRoutes) -> Self {
        Self {
            routes,
            is_away: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            refresh_takes: Mutex::default(),
            refreshed: Mutex::default(),
            unregistered: Mutex::default(),
        }
    }

    pub(crate) fn leave(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    pub(crate) fn come_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// The connections whose routes were refreshed since this was last asked, by call.
    pub(crate) fn take_refreshed(&self) -> Vec<Vec<ConnectionId>> {
        std::mem::take(&mut self.refreshed.lock().unwrap())
    }

    pub(crate) fn take_unregistered(&self) -> Vec<(Vec<ConnectionId>, Duration)> {
        std::mem::take(&mut self.unregistered.lock().unwrap())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::SeqCst) { Err(StoreError::unavailable("away")) } else { Ok(()) }
    }
}

#[async_trait]
impl Routes for Shared {
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
impl RouteWriter for Shared {
    async fn beat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        self.check()?;
        self.routes.beat(gateway).await
    }

    async fn register(&self, route: &Route) -> Result<(), StoreError> {
        self.check()?;
        self.routes.register(route).await
    }

    async fn refresh(&self, routes: &[Route]) -> Result<Vec<Refreshed>, StoreError> {
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

/// The other planes, and what they know of users.
#[derive(Default)]
pub(crate) struct Others {
    pub(crate) is_away: AtomicBool,
    pub(crate) ended_sessions: Mutex<BTreeSet<SessionId>>,
    /// What each viewer sees of each user; nothing at first.
    views: Mutex<HashMap<(UserId, UserId), PresenceView>>,
    pub(crate) look_takes: Mutex<Duration>,
    /// How many looks were asked for at a time.
    looks: Mutex<Vec<usize>>,
    pub(crate) signals: watch::Sender<Vec<Signal>>,
}

impl Others {
    /// Has users see something of another.
    pub(crate) fn show(&self, viewers: &[UserId], user_id: UserId, view: PresenceView) {
        self.views.lock().unwrap().extend(viewers.iter().map(|viewer| ((*viewer, user_id), view)));
    }

    pub(crate) fn take_looks(&self) -> Vec<usize> {
        std::mem::take(&mut self.looks.lock().unwrap())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::SeqCst) { Err(StoreError::unavailable("away")) } else { Ok(()) }
    }
}

#[async_trait]
impl Presences for Others {
    async fn look(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError> {
        self.looks.lock().unwrap().push(looks.len());
        self.check()?;
        let views = {
            let views = self.views.lock().unwrap();
            let see = |look: &Look| views.get(&(look.viewer, look.user_id)).copied().unwrap_or(PresenceView::Unknown);
            looks.iter().map(see).collect()
        };
        // The answer takes its time, and may be old when it comes.
        let takes = *self.look_takes.lock().unwrap();
        time::sleep(takes).await;
        Ok(views)
    }
}

#[async_trait]
impl Identity for Others {
    /// Tokens are the names of users.
    async fn identify(&self, token: &str, device_id: DeviceId) -> Result<Principal, IdentityError> {
        let user_id = token.parse().map_err(|_| IdentityError::InvalidToken("no user".into()))?;
        let device_id = Some(device_id);
        Ok(Principal { user_id, session_id: None, device_id, token_expires_at: Timestamp::MAX })
    }

    async fn redeem(&self, _: &str, _: DeviceId) -> Result<Principal, IdentityError> {
        unreachable!("nobody has a ticket")
    }

    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
        self.check()?;
        let ended = self.ended_sessions.lock().unwrap();
        Ok(session_ids.iter().map(|session_id| !ended.contains(session_id)).collect())
    }
}

#[async_trait]
impl Ingest for Others {
    fn send(&self, _: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        unreachable!("nobody sends")
    }

    async fn sync(&self, _: SyncRequest) -> Result<Page, IngestError> {
        unreachable!("nobody syncs")
    }

    async fn advance(&self, _: UserId, _: ChatId, _: WatermarkKind, _: Sequence) -> Result<Watermarks, IngestError> {
        unreachable!("nobody reads")
    }
}

#[async_trait]
impl Signals for Others {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        self.signals.send_modify(|signals| signals.push(signal));
        Ok(true)
    }
}
