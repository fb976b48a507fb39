use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, DeviceId, Invariant, Timestamp, UserId};
use metrics::counter;
use ports::{BoxError, GatewayId, Route, Routes, StoreError, holds};
use tokio::try_join;

use crate::call::SlotCommand;
use crate::client::Redis;
use crate::due::DueUsers;
use crate::keys;
use crate::leases::Leases;

/// The routes of a fleet, and the presence changes derived from them.
///
/// A gateway sends one heartbeat for all its routes: they expire with its last heartbeat, while routes of the same
/// users on other gateways stay (C6). In addition each route has its own, much later expiry, and is refreshed before
/// it; so the first refresh after data loss restores it. Gateways and readers compare with their own clocks. A
/// heartbeat is valid for three heartbeat intervals, which tolerates clocks that differ by some seconds.
///
/// One script in a user's slot updates all keys of that user atomically. Writes to other slots follow in an order that
/// lets a sweep repair a crash in between: a connection is in its gateway's inventory before it is among its user's
/// connections, and stays there until its user is queued.
pub struct RedisRoutes {
    pub(crate) redis: Redis,
    pub(crate) leases: Leases,
    pub(crate) due: DueUsers,
}

impl RedisRoutes {
    /// The routes in this Redis, with heartbeats that are valid for `expiry`.
    pub fn new(redis: Redis, expiry: Duration) -> Self {
        Self { leases: Leases::new(redis.clone(), expiry), due: DueUsers::new(redis.clone()), redis }
    }

    async fn live_routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let now = self.redis.now();
        let members = self.redis.run_one(SlotCommand::live(&keys::user_connections(user_id), now));
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
                format!("connection {connection_id} of user {user_id} is recorded for user {whose}")
            })
        });
        Ok(routes)
    }

    async fn live_gateways_of(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let now = self.redis.now();
        let calls: Vec<_> = server_calls(user_ids, now).collect();
        let (mut held, servers) = try_join!(self.leases.recent(), self.redis.run(&calls))?;
        let mut gateways = by_gateway(user_ids, servers);
        if !gateways.keys().all(|gateway| held.is_live(gateway, now)) {
            held = self.leases.look_again().await?;
        }
        gateways.retain(|gateway, _| held.is_live(gateway, now));
        Ok(gateways)
    }

    /// Reads the details of connections. A connection without details is left out: it has ended, or its details were
    /// lost and return with the next refresh.
    pub(crate) async fn details(&self, connection_ids: Vec<ConnectionId>) -> Result<Vec<Route>, StoreError> {
        let asked = connection_ids.iter().map(|connection_id| {
            SlotCommand::new("HMGET", &keys::connection(*connection_id))
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
        let live = SlotCommand::live(&keys::server_connections(gateway), self.redis.now());
        let members: Vec<String> = self.redis.run_one(live.arg("LIMIT").arg(0).arg(limit)).await?;
        let connection_ids: Result<Vec<ConnectionId>, _> = members.iter().map(|member| member.parse()).collect();
        let connection_ids = connection_ids
            .map_err(|error| StoreError::Corrupt { table: "server_connections", source: Box::new(error) })?;
        self.details(connection_ids).await
    }
}

/// Reads the gateways of each user.
pub(crate) fn server_calls(user_ids: &[UserId], now: Timestamp) -> impl Iterator<Item = SlotCommand> {
    user_ids.iter().map(move |user_id| SlotCommand::live(&keys::user_servers(*user_id), now))
}

/// Groups users by the gateways that were read for each.
pub(crate) fn by_gateway(user_ids: &[UserId], servers: Vec<Vec<String>>) -> BTreeMap<GatewayId, Vec<UserId>> {
    let mut gateways: BTreeMap<GatewayId, Vec<UserId>> = BTreeMap::new();
    for (user_id, servers) in user_ids.iter().zip(servers) {
        for server in servers {
            gateways.entry(GatewayId(server.into())).or_default().push(*user_id);
        }
    }
    gateways
}

/// Counts a lookup by its outcome.
pub(crate) fn counted<T>(outcome: Result<T, StoreError>) -> Result<T, StoreError> {
    let label = if outcome.is_ok() { "ok" } else { "error" };
    counter!("tidings_routing_lookups_total", "outcome" => label).increment(1);
    outcome
}

/// A connection as a member of its user's set. It includes the gateway, so that removing a connection can check within
/// one slot whether the user has another one on the same gateway.
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
