use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use async_trait::async_trait;
use domain::{OnlineStatus, Timestamp, UserId};
use ports::{
    Clock, GatewayId, PresenceTransition, PresenceTransitions, RefreshedRoute, Route, RouteWriter, Routes, StoreError,
    SweepResult,
};

use crate::due::Due;
use crate::expiring::ExpiringMap;

/// Lifetime of a route after each write, and of the offline state of a user.
const LIFE: Duration = Duration::from_secs(300);
/// Maximum number of users with a route: many times the connections that one process can hold. Beyond that a new user
/// replaces another one; a refresh restores the routes of the latter.
const USERS_MAX: usize = 1_000_000;
/// Number of routes written per lock acquisition, so that a gateway that refreshes all connections does not block
/// pushes.
const WRITE_LEN: usize = 256;

/// The routes of one process, and the presence changes of its users.
pub struct MemoryRoutes {
    clock: Arc<dyn Clock>,
    expiry: Duration,
    state: RwLock<MemoryRouteState>,
}

struct MemoryRouteState {
    /// The last heartbeat of each gateway.
    heartbeats: BTreeMap<GatewayId, Timestamp>,
    users: ExpiringMap<UserId, OfUser>,
    due: Due,
}

/// State of a user. It lives as long as their longest-lived route or, without routes, as long as the offline state.
#[derive(Default)]
struct OfUser {
    routes: Vec<RouteEntry>,
    /// The last announced presence; unknown at first.
    announced: Option<bool>,
    /// When the user was last seen: the start of a connection, or the end of one.
    last_seen: Timestamp,
}

struct RouteEntry {
    route: Route,
    expires_at: Timestamp,
}

impl MemoryRoutes {
    /// Starts without routes. A gateway is dead without a heartbeat for `expiry`.
    pub fn new(clock: Arc<dyn Clock>, expiry: Duration) -> Self {
        let state =
            MemoryRouteState { heartbeats: BTreeMap::new(), users: ExpiringMap::new(USERS_MAX), due: Due::default() };
        Self { clock, expiry, state: RwLock::new(state) }
    }

    /// Loses all routes, heartbeats and pending announcements, like a Redis that is flushed (C6). Gateways notice with
    /// their next heartbeat.
    pub fn wipe(&self) {
        let mut state = self.write();
        state.heartbeats.clear();
        state.users = ExpiringMap::new(USERS_MAX);
        state.due.wipe();
    }

    fn read(&self) -> RwLockReadGuard<'_, MemoryRouteState> {
        // No code under the lock can leave the state inconsistent.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryRouteState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfUser {
    fn is_online(&self) -> bool {
        !self.routes.is_empty()
    }

    fn is_announced(&self) -> bool {
        self.announced == Some(self.is_online())
    }

    fn standing(&self) -> OnlineStatus {
        if self.is_online() { OnlineStatus::Online } else { OnlineStatus::Offline { last_seen: self.last_seen } }
    }

    /// When the state of the user expires.
    fn expires_at(&self, now: Timestamp) -> Timestamp {
        self.routes.iter().map(|kept| kept.expires_at).max().unwrap_or(now + LIFE)
    }
}

impl MemoryRouteState {
    /// Changes the state of a user, and queues an announcement if their presence changed. Going offline is announced
    /// after `back_within`.
    fn change<T>(
        &mut self,
        user_id: UserId,
        now: Timestamp,
        back_within: Duration,
        change: impl FnOnce(&mut OfUser, bool) -> T,
    ) -> T {
        let known = self.users.remove(&user_id, now);
        let is_known = known.is_some();
        let mut of_user = known.unwrap_or_default();
        of_user.routes.retain(|kept| kept.expires_at > now);
        let changed = change(&mut of_user, is_known);
        match (of_user.is_announced(), of_user.is_online()) {
            (true, _) => {}
            (false, true) => self.due.came_online(user_id, now),
            (false, false) => self.due.went_offline(user_id, now + back_within),
        }
        let expires_at = of_user.expires_at(now);
        self.users.insert(user_id, of_user, expires_at, now);
        changed
    }

    fn keep(&mut self, route: &Route, now: Timestamp, is_new: bool) -> RefreshedRoute {
        self.change(route.user_id, now, Duration::ZERO, |of_user, is_known| {
            let others = of_user.routes.len();
            of_user.routes.retain(|kept| kept.route.connection_id != route.connection_id);
            let was_known = of_user.routes.len() < others;
            of_user.routes.push(RouteEntry { route: route.clone(), expires_at: now + LIFE });
            if is_new || !was_known {
                of_user.last_seen = of_user.last_seen.max(now);
            }
            // The state of this user was lost in a wipe; their presence had been announced before.
            if !is_known && !is_new {
                of_user.announced = Some(true);
            }
            RefreshedRoute { was_known, connections: of_user.routes.len() }
        })
    }

    fn forget(&mut self, route: &Route, gone_at: Timestamp, now: Timestamp, back_within: Duration) {
        self.change(route.user_id, now, back_within, |of_user, _| {
            of_user.routes.retain(|kept| kept.route.connection_id != route.connection_id);
            of_user.last_seen = of_user.last_seen.max(gone_at);
        });
    }

    fn routes(&self, user_id: UserId, now: Timestamp) -> impl Iterator<Item = &Route> {
        let of_user = self.users.get(&user_id, now);
        let kept = of_user.into_iter().flat_map(|of_user| &of_user.routes).filter(move |kept| kept.expires_at > now);
        kept.map(|kept| &kept.route)
    }

    fn live_routes(&self, user_id: UserId, now: Timestamp, expiry: Duration) -> impl Iterator<Item = &Route> {
        self.routes(user_id, now).filter(move |route| self.is_live(&route.gateway, now, expiry))
    }

    fn is_live(&self, gateway: &GatewayId, now: Timestamp, expiry: Duration) -> bool {
        self.heartbeats.get(gateway).is_some_and(|beat| *beat + expiry > now)
    }

    /// All routes of a gateway. It scans every user: in a single-process service the only gateway dies with the
    /// process, and an index would cost every connection.
    fn on_gateway(&self, gateway: &GatewayId, now: Timestamp) -> impl Iterator<Item = &RouteEntry> {
        let kept = self.users.values(now).flat_map(|of_user| &of_user.routes);
        kept.filter(move |kept| kept.route.gateway == *gateway)
    }
}

#[async_trait]
impl Routes for MemoryRoutes {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        Ok(self.read().live_routes(user_id, self.clock.now(), self.expiry).cloned().collect())
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let now = self.clock.now();
        let state = self.read();
        // There are few gateways and many users: find the gateway by linear search, and check its liveness once.
        let mut gateways: Vec<(&GatewayId, bool, Vec<UserId>)> = vec![];
        for user_id in user_ids {
            for route in state.routes(*user_id, now) {
                let known = gateways.iter().position(|(gateway, ..)| **gateway == route.gateway);
                let place = known.unwrap_or_else(|| {
                    let is_live = state.is_live(&route.gateway, now, self.expiry);
                    gateways.push((&route.gateway, is_live, vec![]));
                    gateways.len() - 1
                });
                let (_, is_live, on_gateway) = &mut gateways[place];
                // Name a user with two connections on a gateway once: the gateway finds both.
                if *is_live && on_gateway.last() != Some(user_id) {
                    on_gateway.push(*user_id);
                }
            }
        }
        let live = gateways.into_iter().filter(|(_, is_live, _)| *is_live);
        Ok(live.map(|(gateway, _, users)| (gateway.clone(), users)).collect())
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        let now = self.clock.now();
        let state = self.read();
        Ok(state.heartbeats.keys().filter(|gateway| state.is_live(gateway, now, self.expiry)).cloned().collect())
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        let state = self.read();
        let routes = state.on_gateway(gateway, self.clock.now()).map(|kept| &kept.route);
        Ok(routes.take(limit).cloned().collect())
    }
}

#[async_trait]
impl RouteWriter for MemoryRoutes {
    async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let mut state = self.write();
        let was_live = state.is_live(gateway, now, self.expiry);
        state.heartbeats.insert(gateway.clone(), now);
        Ok(was_live)
    }

    async fn register(&self, route: &Route) -> Result<(), StoreError> {
        self.write().keep(route, self.clock.now(), true);
        Ok(())
    }

    async fn refresh(&self, routes: &[Route]) -> Result<Vec<RefreshedRoute>, StoreError> {
        let now = self.clock.now();
        let mut refreshed = Vec::with_capacity(routes.len());
        for routes in routes.chunks(WRITE_LEN) {
            let mut state = self.write();
            refreshed.extend(routes.iter().map(|route| state.keep(route, now, false)));
        }
        Ok(refreshed)
    }

    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError> {
        let now = self.clock.now();
        for routes in routes.chunks(WRITE_LEN) {
            let mut state = self.write();
            routes.iter().for_each(|route| state.forget(route, now, now, back_within));
        }
        Ok(())
    }
}

#[async_trait]
impl PresenceTransitions for MemoryRoutes {
    async fn claim(&self, limit: usize) -> Result<Vec<PresenceTransition>, StoreError> {
        let now = self.clock.now();
        let mut state = self.write();
        let mut claimed = vec![];
        while claimed.len() < limit
            && let Some((user_id, claim)) = state.due.claim(now)
        {
            match state.users.get(&user_id, now) {
                Some(of_user) => {
                    let is_change = !of_user.is_announced();
                    claimed.push(PresenceTransition { user_id, standing: of_user.standing(), is_change, claim });
                }
                None => state.due.settle(user_id, claim, None),
            }
        }
        Ok(claimed)
    }

    async fn offline_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let now = self.clock.now();
        let state = self.read();
        let offline_since = |user_id| match state.users.get(user_id, now)?.standing() {
            OnlineStatus::Online => None,
            OnlineStatus::Offline { last_seen } => Some(last_seen),
        };
        Ok(user_ids.iter().map(offline_since).collect())
    }

    async fn settle(&self, announced: &[PresenceTransition]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut state = self.write();
        for PresenceTransition { user_id, standing, claim, .. } in announced {
            let mut has_changed = false;
            if let Some(mut of_user) = state.users.remove(user_id, now) {
                of_user.announced = Some(*standing == OnlineStatus::Online);
                has_changed = !of_user.is_announced();
                let expires_at = of_user.expires_at(now);
                state.users.insert(*user_id, of_user, expires_at, now);
            }
            state.due.settle(*user_id, *claim, has_changed.then_some(now));
        }
        Ok(())
    }

    async fn sweep(&self, limit: usize) -> Result<SweepResult, StoreError> {
        let now = self.clock.now();
        let mut state = self.write();
        let dead = state.heartbeats.iter().filter(|(_, beat)| **beat + self.expiry <= now);
        let dead: Vec<_> = dead.map(|(gateway, beat)| (gateway.clone(), *beat)).collect();
        let mut swept = SweepResult::default();
        for (gateway, beat) in dead {
            // Keep routes written after the last heartbeat for one heartbeat expiry: the next heartbeat may be in
            // flight.
            let since = (beat + self.expiry).max(now.minus(self.expiry));
            let written_before = state.on_gateway(&gateway, now).filter(|kept| kept.expires_at < since + LIFE);
            let routes: Vec<Route> =
                written_before.take(limit - swept.deleted).map(|kept| kept.route.clone()).collect();
            routes.iter().for_each(|route| state.forget(route, beat, now, Duration::ZERO));
            let left = state.on_gateway(&gateway, now).count();
            swept.deleted += routes.len();
            swept.remaining += left;
            if left == 0 {
                state.heartbeats.remove(&gateway);
            }
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use domain::{ConnectionId, DeviceId};

    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn repeated_reconnects_cost_no_more_than_the_live_routes() {
        let clock = Arc::new(ManualClock::default());
        let routes = MemoryRoutes::new(clock.clone(), Duration::from_secs(15));
        let user_id = UserId::from_bytes([1; 16]);
        for n in 0..100 {
            let route = Route {
                connection_id: ConnectionId::from_bytes([n; 16]),
                user_id,
                device_id: DeviceId::from_bytes([1; 16]),
                gateway: GatewayId("a".into()),
                connected_at: clock.now(),
            };
            routes.register(&route).await.unwrap();
            clock.advance(LIFE / 3);
        }
        let state = routes.read();
        assert_eq!(state.users.get(&user_id, clock.now()).map(|of_user| of_user.routes.len()), Some(3));
    }

    #[tokio::test]
    async fn wiped_routes_are_rebuilt_by_heartbeats_and_refreshes() {
        let routes = MemoryRoutes::new(Arc::new(ManualClock::default()), Duration::from_secs(15));
        let [one, other] = [(1, "a"), (2, "b")].map(|(n, gateway)| Route {
            connection_id: ConnectionId::from_bytes([n; 16]),
            user_id: UserId::from_bytes([n; 16]),
            device_id: DeviceId::from_bytes([n; 16]),
            gateway: GatewayId(gateway.into()),
            connected_at: Timestamp::default(),
        });
        let users = [one.user_id, other.user_id];
        let before = async || routes.gateways(&users).await.unwrap();
        for route in [&one, &other] {
            routes.heartbeat(&route.gateway).await.unwrap();
            routes.register(route).await.unwrap();
        }
        let all = before().await;
        assert_eq!(all.len(), 2);
        routes.settle(&routes.claim(1).await.unwrap()).await.unwrap();
        let unsettled = routes.claim(10).await.unwrap();
        routes.wipe();
        assert_eq!(before().await, BTreeMap::new());
        assert_eq!(routes.live_gateways().await.unwrap(), []);

        for route in [&one, &other] {
            assert!(!routes.heartbeat(&route.gateway).await.unwrap());
            let refreshed = routes.refresh(std::slice::from_ref(route)).await.unwrap();
            assert_eq!(refreshed, [RefreshedRoute { was_known: false, connections: 1 }]);
        }
        assert_eq!(before().await, all);
        routes.settle(&unsettled).await.unwrap();
        assert_eq!(routes.claim(10).await.unwrap(), [], "no user went offline, so no announcement is due");
    }
}
