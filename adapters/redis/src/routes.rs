use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, DeviceId, UserId};
use ports::{BoxError, GatewayId, Route, Routes, StoreError};

use crate::call::{Call, FORGET_ROUTE, TOUCH_CONNECTION, TOUCH_MEMBERS, TOUCH_USER};
use crate::client::Redis;
use crate::keys;

/// How long a route lives unless it is registered again.
const LIFE: Duration = Duration::from_secs(15);
/// How many routes are registered in one round trip, so that a gateway that refreshes all of its connections does not
/// hold up the pushes meanwhile.
const REGISTER_LEN: usize = 256;

/// The routes of a fleet.
///
/// Every member of a set is scored by its own expiry, so a dead gateway's connections end though others of the same
/// user beat on (C6). Registering writes everything there is of a route, so the first refresh after a loss heals it.
/// Gateways and readers compare their own clocks; a route lives three beats, which leaves room for clocks that are some
/// seconds apart.
pub struct RedisRoutes {
    redis: Redis,
}

impl RedisRoutes {
    /// The routes that this Redis holds.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// Everything that is written for some routes: two calls for each, then one for each gateway.
    fn registration(&self, routes: &[Route]) -> Vec<Call> {
        let now = self.redis.now();
        let (now_ms, expiry_ms, life_ms) = (now.as_millis(), (now + LIFE).as_millis(), LIFE.as_millis() as u64);
        let mut calls = Vec::with_capacity(2 * routes.len() + 1);
        for route in routes {
            let (user_connections, user_servers) =
                (keys::user_connections(route.user_id), keys::user_servers(route.user_id));
            calls.push(
                TOUCH_USER
                    .call([&user_connections, &user_servers])
                    .arg(now_ms)
                    .arg(expiry_ms)
                    .arg(life_ms)
                    .arg(member(route))
                    .arg(&*route.gateway.0),
            );
            calls.push(
                TOUCH_CONNECTION
                    .call([&keys::connection(route.connection_id)])
                    .arg(life_ms)
                    .arg(("user_id", route.user_id.to_string()))
                    .arg(("device_id", route.device_id.to_string()))
                    .arg(("server_id", &*route.gateway.0)),
            );
        }
        let gateways: BTreeSet<&GatewayId> = routes.iter().map(|route| &route.gateway).collect();
        for gateway in gateways {
            let connections = routes.iter().filter(|route| route.gateway == *gateway);
            let connections: Vec<_> = connections.map(|route| route.connection_id.to_string()).collect();
            let on_gateway = TOUCH_MEMBERS.call([&keys::server_connections(gateway)]);
            calls.push(on_gateway.arg(now_ms).arg(expiry_ms).arg(life_ms).arg(connections));
        }
        calls
    }
}

#[async_trait]
impl Routes for RedisRoutes {
    async fn register(&self, routes: &[Route]) -> Result<Vec<ConnectionId>, StoreError> {
        let mut unknown = vec![];
        for routes in routes.chunks(REGISTER_LEN) {
            let answers: Vec<Option<u64>> = self.redis.run(&self.registration(routes)).await?;
            // Two for each route, of which the first says whether it is new.
            let added = answers.iter().step_by(2).map(|added| *added == Some(1));
            unknown.extend(routes.iter().zip(added).filter(|(_, added)| *added).map(|(route, _)| route.connection_id));
        }
        Ok(unknown)
    }

    async fn unregister(&self, route: &Route) -> Result<(), StoreError> {
        let (user_connections, user_servers) =
            (keys::user_connections(route.user_id), keys::user_servers(route.user_id));
        let forgotten = FORGET_ROUTE
            .call([&user_connections, &user_servers])
            .arg(self.redis.now().as_millis())
            .arg(member(route))
            .arg(&*route.gateway.0);
        let connection = Call::new("DEL", &keys::connection(route.connection_id));
        let on_gateway =
            Call::new("ZREM", &keys::server_connections(&route.gateway)).arg(route.connection_id.to_string());
        self.redis.run::<()>(&[forgotten, connection, on_gateway]).await?;
        Ok(())
    }

    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let members: Vec<String> =
            self.redis.run_one(Call::live(&keys::user_connections(user_id), self.redis.now())).await?;
        let connections: Result<Vec<_>, _> = members.iter().map(|member| parse(member)).collect();
        let connections = connections.map_err(|source| StoreError::Corrupt { table: "user_connections", source })?;
        let asked = connections.iter().map(|(id, _)| Call::new("HGET", &keys::connection(*id)).arg("device_id"));
        let devices: Vec<Option<String>> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        let mut routes = vec![];
        for ((connection_id, gateway), device) in connections.into_iter().zip(devices) {
            // What is gone since the first look is no route; what was lost alone comes back with the next refresh.
            let Some(device) = device else { continue };
            let device_id: DeviceId =
                device.parse().map_err(|error| StoreError::Corrupt { table: "connection", source: Box::new(error) })?;
            routes.push(Route { connection_id, user_id, device_id, gateway });
        }
        Ok(routes)
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let now = self.redis.now();
        let calls: Vec<_> = user_ids.iter().map(|user_id| Call::live(&keys::user_servers(*user_id), now)).collect();
        let servers: Vec<Vec<String>> = self.redis.run(&calls).await?;
        let mut gateways: BTreeMap<GatewayId, Vec<UserId>> = BTreeMap::new();
        for (user_id, servers) in user_ids.iter().zip(servers) {
            for server in servers {
                gateways.entry(GatewayId(server.into())).or_default().push(*user_id);
            }
        }
        Ok(gateways)
    }
}

/// A connection as a member of its user's set. The gateway is part of it, so that forgetting one connection of a user
/// can tell within one slot whether another is on the same gateway.
fn member(route: &Route) -> String {
    format!("{}@{}", route.connection_id, route.gateway.0)
}

fn parse(member: &str) -> Result<(ConnectionId, GatewayId), BoxError> {
    let (connection_id, gateway) = member.split_once('@').ok_or("a connection without a gateway")?;
    Ok((connection_id.parse()?, GatewayId(gateway.into())))
}
