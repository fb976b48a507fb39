use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, Timestamp, UserId};
use ports::{Clock, GatewayId, Route, Routes, StoreError};

use crate::expiring::ExpiringMap;

/// How long a route lives unless it is registered again.
const LIFE: Duration = Duration::from_secs(15);
/// Users with a route, at the most: many times what one process can hold connections of. Beyond that a new user's routes
/// take the place of another's, which come back when they are refreshed.
const USERS_MAX: usize = 1_000_000;
/// How many routes are registered under one hold of the lock, so that a gateway that refreshes all of its connections
/// does not stop the pushes meanwhile.
const REGISTER_LEN: usize = 256;

/// The routes of one process.
pub struct MemoryRoutes {
    clock: Arc<dyn Clock>,
    /// The routes of each user, for as long as the longest-lived of them.
    users: RwLock<ExpiringMap<UserId, Vec<LiveRoute>>>,
}

#[derive(Clone)]
struct LiveRoute {
    route: Route,
    expires_at: Timestamp,
}

impl MemoryRoutes {
    /// No routes yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, users: RwLock::new(ExpiringMap::new(USERS_MAX)) }
    }
}

#[async_trait]
impl Routes for MemoryRoutes {
    async fn register(&self, routes: &[Route]) -> Result<Vec<ConnectionId>, StoreError> {
        let now = self.clock.now();
        let expires_at = now + LIFE;
        let mut unknown = vec![];
        for routes in routes.chunks(REGISTER_LEN) {
            let mut users = self.users.write().expect("no holder of the lock panics");
            for route in routes {
                let mut of_user = users.remove(&route.user_id, now).unwrap_or_default();
                of_user.retain(|live| live.expires_at > now);
                let before = of_user.len();
                of_user.retain(|live| live.route.connection_id != route.connection_id);
                if of_user.len() == before {
                    unknown.push(route.connection_id);
                }
                of_user.push(LiveRoute { route: route.clone(), expires_at });
                users.insert(route.user_id, of_user, expires_at, now);
            }
        }
        Ok(unknown)
    }

    async fn unregister(&self, route: &Route) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut users = self.users.write().expect("no holder of the lock panics");
        let mut of_user = users.remove(&route.user_id, now).unwrap_or_default();
        of_user.retain(|live| live.route.connection_id != route.connection_id);
        if let Some(expires_at) = of_user.iter().map(|live| live.expires_at).max() {
            users.insert(route.user_id, of_user, expires_at, now);
        }
        Ok(())
    }

    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let now = self.clock.now();
        let users = self.users.read().expect("no holder of the lock panics");
        Ok(live_routes(&users, user_id, now).cloned().collect())
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let now = self.clock.now();
        let mut gateways: BTreeMap<GatewayId, Vec<UserId>> = BTreeMap::new();
        let users = self.users.read().expect("no holder of the lock panics");
        for user_id in user_ids {
            for route in live_routes(&users, *user_id, now) {
                match gateways.get_mut(&route.gateway) {
                    // A user with two connections on a gateway is named once: the gateway finds both.
                    Some(on_gateway) if on_gateway.last() == Some(user_id) => {}
                    Some(on_gateway) => on_gateway.push(*user_id),
                    None => {
                        gateways.insert(route.gateway.clone(), vec![*user_id]);
                    }
                }
            }
        }
        Ok(gateways)
    }
}

fn live_routes(
    users: &ExpiringMap<UserId, Vec<LiveRoute>>,
    user_id: UserId,
    now: Timestamp,
) -> impl Iterator<Item = &Route> {
    let of_user = users.get(&user_id, now).map(Vec::as_slice).unwrap_or_default();
    of_user.iter().filter(move |live| live.expires_at > now).map(|live| &live.route)
}

#[cfg(test)]
mod tests {
    use domain::{ConnectionId, DeviceId};

    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn a_user_who_reconnects_for_ever_costs_no_more_than_their_live_routes() {
        let clock = Arc::new(ManualClock::default());
        let routes = MemoryRoutes::new(clock.clone());
        let user_id = UserId::from_bytes([1; 16]);
        for n in 0..100 {
            let route = Route {
                connection_id: ConnectionId::from_bytes([n; 16]),
                user_id,
                device_id: DeviceId::from_bytes([1; 16]),
                gateway: GatewayId("a".into()),
            };
            routes.register(&[route]).await.unwrap();
            clock.advance(LIFE / 3);
        }
        let users = routes.users.read().unwrap();
        assert_eq!(users.get(&user_id, clock.now()).map(Vec::len), Some(3));
    }
}
