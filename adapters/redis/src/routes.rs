use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, DeviceId, Invariant, Timestamp, UserId};
use metrics::counter;
use ports::{BoxError, GatewayId, Route, Routes, StoreError, holds};
use tokio::try_join;

use crate::call::Call;
use crate::client::Redis;
use crate::due::DueUsers;
use crate::keys;
use crate::leases::Leases;

/// The routes of a fleet, and the comings and goings of users by them.
///
/// A gateway beats once for all of its routes: they end with its last beat, though others of the same users live on
/// (C6). Each route has an expiry of its own besides, far behind, and is written again before it: so the first refresh
/// after a loss heals it. Gateways and readers compare their own clocks; a beat holds for three of them, which leaves
/// room for clocks that are some seconds apart.
///
/// What concerns one user is done by one script in the slot of that user. What has to happen elsewhere comes behind it,
/// in an order in which a crash in between leaves something to find: a connection is in the inventory of its gateway
/// before it is its user's, and until its user is due.
pub struct RedisRoutes {
    pub(crate) redis: Redis,
    pub(crate) leases: Leases,
    pub(crate) due: DueUsers,
}

impl RedisRoutes {
    /// The routes that this Redis holds, for gateways each of whose beats holds for `expiry`.
    pub fn new(redis: Redis, expiry: Duration) -> Self {
        Self { leases: Leases::new(redis.clone(), expiry), due: DueUsers::new(redis.clone()), redis }
    }

    async fn live_routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let now = self.redis.now();
        let members = self.redis.run_one(Call::live(&keys::user_connections(user_id), now));
        let (mut held, members) = try_join!(self.leases.recent(), members)?;
        let members: Vec<String> = members;
        let connections: Result<Vec<_>, _> = members.iter().map(|member| parse(member)).collect();
        let connections = connections.map_err(|source| StoreError::Corrupt { table: "user_connections", source })?;
        if !connections.iter().all(|(_, gateway)| held.is_live(gateway, now)) {
            held = self.leases.look_again().await?;
        }
        let live = connections.into_iter().filter(|(_, gateway)| held.is_live(gateway, now));
        let mut routes = self.details(live.map(|(connection_id, _)| connection_id).collect()).await?;
        routes.retain(|Route { connection_id, user_id: whose, .. }| {
            holds(Invariant::RoutingDenormalizationConsistent, *whose == user_id, || {
                format!("connection {connection_id} of user {user_id} is written down as one of {whose}")
            })
        });
        Ok(routes)
    }

    async fn live_gateways_of(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let now = self.redis.now();
        let calls: Vec<_> = user_ids.iter().map(|user_id| Call::live(&keys::user_servers(*user_id), now)).collect();
        let (mut held, servers) = try_join!(self.leases.recent(), self.redis.run(&calls))?;
        let servers: Vec<Vec<String>> = servers;
        let mut gateways: BTreeMap<GatewayId, Vec<UserId>> = BTreeMap::new();
        for (user_id, servers) in user_ids.iter().zip(servers) {
            for server in servers {
                gateways.entry(GatewayId(server.into())).or_default().push(*user_id);
            }
        }
        if !gateways.keys().all(|gateway| held.is_live(gateway, now)) {
            held = self.leases.look_again().await?;
        }
        gateways.retain(|gateway, _| held.is_live(gateway, now));
        Ok(gateways)
    }

    /// Connections as they were written. What is gone since it was named is no route; what was lost alone comes back
    /// with the next refresh.
    pub(crate) async fn details(&self, connection_ids: Vec<ConnectionId>) -> Result<Vec<Route>, StoreError> {
        let asked = connection_ids.iter().map(|connection_id| {
            Call::new("HMGET", &keys::connection(*connection_id))
                .arg("user_id")
                .arg("device_id")
                .arg("server_id")
                .arg("connected_at")
        });
        let found: Vec<[Option<String>; 4]> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        let mut routes = vec![];
        for (connection_id, fields) in connection_ids.into_iter().zip(found) {
            if let [Some(user_id), Some(device_id), Some(server_id), Some(connected_at)] = fields {
                let route = parse_route(connection_id, &user_id, &device_id, &server_id, &connected_at);
                routes.push(route.map_err(|source| StoreError::Corrupt { table: "connection", source })?);
            }
        }
        Ok(routes)
    }
}

#[async_trait]
impl Routes for RedisRoutes {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        counted(self.live_routes(user_id).await)
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        counted(self.live_gateways_of(user_ids).await)
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        let now = self.redis.now();
        Ok(self.leases.read().await?.live(now))
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        let live = Call::live(&keys::server_connections(gateway), self.redis.now());
        let members: Vec<String> = self.redis.run_one(live.arg("LIMIT").arg(0).arg(limit)).await?;
        let connection_ids: Result<Vec<ConnectionId>, _> = members.iter().map(|member| member.parse()).collect();
        let connection_ids = connection_ids
            .map_err(|error| StoreError::Corrupt { table: "server_connections", source: Box::new(error) })?;
        self.details(connection_ids).await
    }
}

fn counted<T>(outcome: Result<T, StoreError>) -> Result<T, StoreError> {
    let label = if outcome.is_ok() { "ok" } else { "error" };
    counter!("tidings_routing_lookups_total", "outcome" => label).increment(1);
    outcome
}

/// A connection as a member of its user's set. The gateway is part of it, so that forgetting one connection of a user
/// can tell within one slot whether another is on the same gateway.
pub(crate) fn member(connection_id: ConnectionId, gateway: &GatewayId) -> String {
    format!("{connection_id}@{}", gateway.0)
}

pub(crate) fn parse(member: &str) -> Result<(ConnectionId, GatewayId), BoxError> {
    let (connection_id, gateway) = member.split_once('@').ok_or("a connection without a gateway")?;
    Ok((connection_id.parse()?, GatewayId(gateway.into())))
}

fn parse_route(
    connection_id: ConnectionId,
    user_id: &str,
    device_id: &str,
    server_id: &str,
    connected_at: &str,
) -> Result<Route, BoxError> {
    let (user_id, device_id): (UserId, DeviceId) = (user_id.parse()?, device_id.parse()?);
    let connected_at: Timestamp = connected_at.parse()?;
    Ok(Route { connection_id, user_id, device_id, gateway: GatewayId(server_id.into()), connected_at })
}
