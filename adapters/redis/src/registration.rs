use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ConnectionId, Timestamp, UserId};
use ports::{GatewayId, RefreshedRoute, Route, RouteWriter, StoreError};
use tokio::try_join;

use crate::call::{
    FORGET_ROUTE, LuaScript, REFRESH_ROUTE, REGISTER_ROUTE, SlotCommand, TOUCH_CONNECTION, TOUCH_MEMBERS,
};
use crate::keys;
use crate::routes::{RedisRoutes, member};

/// Lifetime of a route without a refresh.
pub(crate) const LIFE: Duration = Duration::from_secs(300);
/// Limit of routes written in one round trip, so that a gateway that refreshes all connections does not delay pushes.
pub(crate) const BATCH_LEN: usize = 256;

#[async_trait]
impl RouteWriter for RedisRoutes {
    async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        self.leases.heartbeat(gateway).await
    }

    async fn register(&self, route: &Route) -> Result<(), StoreError> {
        let now = self.redis.now();
        let details = [touch_connection(route, now), touch_inventory(&route.gateway, &[route.connection_id], now)];
        self.redis.run::<()>(&details).await?;
        let is_due: bool = self.redis.run_one(touch_user(&REGISTER_ROUTE, route, now)).await?;
        if is_due {
            self.due.came_online(&[route.user_id], now).await?;
        }
        Ok(())
    }

    async fn refresh(&self, routes: &[Route]) -> Result<Vec<RefreshedRoute>, StoreError> {
        let mut refreshed = Vec::with_capacity(routes.len());
        for routes in routes.chunks(BATCH_LEN) {
            let now = self.redis.now();
            let users: Vec<_> = routes.iter().map(|route| touch_user(&REFRESH_ROUTE, route, now)).collect();
            let lives: Vec<_> = routes
                .iter()
                .map(|route| {
                    SlotCommand::new("PEXPIRE", &keys::connection(route.connection_id)).arg(LIFE.as_millis() as u64)
                })
                .collect();
            let inventories: Vec<_> = by_gateway(routes)
                .into_iter()
                .map(|(gateway, connection_ids)| touch_inventory(gateway, &connection_ids, now))
                .collect();
            let (users, lives, _) = try_join!(
                self.redis.run::<(bool, usize, bool)>(&users),
                self.redis.run::<bool>(&lives),
                self.redis.run::<()>(&inventories),
            )?;

            let (mut lost, mut back) = (vec![], vec![]);
            for ((route, (was_known, connections, is_gone)), has_details) in routes.iter().zip(users).zip(lives) {
                // Also rewrites the details if a sweep may be deleting them right now; the sweep then notices the newer
                // write.
                if !was_known || !has_details {
                    lost.push(touch_connection(route, now));
                }
                if is_gone {
                    back.push(route.user_id);
                }
                refreshed.push(RefreshedRoute { was_known, connections });
            }
            self.redis.run::<()>(&lost).await?;
            self.due.came_online(&back, now).await?;
        }
        Ok(refreshed)
    }

    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError> {
        for routes in routes.chunks(BATCH_LEN) {
            let now = self.redis.now();
            let calls: Vec<_> = routes
                .iter()
                .map(|route| forget_route(route.user_id, route.connection_id, &route.gateway, now, now))
                .collect();
            let forgotten: Vec<(bool, bool)> = self.redis.run(&calls).await?;
            let gone = routes.iter().zip(forgotten).filter(|(_, (_, is_due))| *is_due);
            let gone: Vec<UserId> = gone.map(|(route, _)| route.user_id).collect();
            self.due.went_offline(&gone, now + back_within).await?;

            let details = routes.iter().map(|route| SlotCommand::new("DEL", &keys::connection(route.connection_id)));
            let inventories = by_gateway(routes).into_iter().map(|(gateway, connection_ids)| {
                SlotCommand::new("ZREM", &keys::server_connections(gateway)).arg(texts(&connection_ids))
            });
            self.redis.run::<()>(&details.chain(inventories).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}

/// Removes a connection of a user, with `seen` as the user's last-seen time.
pub(crate) fn forget_route(
    user_id: UserId,
    connection_id: ConnectionId,
    gateway: &GatewayId,
    now: Timestamp,
    seen: Timestamp,
) -> SlotCommand {
    let (user_connections, user_servers, user_presence) = user_keys(user_id);
    FORGET_ROUTE
        .call([&user_connections, &user_servers, &user_presence])
        .arg(now.as_millis())
        .arg(LIFE.as_millis() as u64)
        .arg(member(connection_id, gateway))
        .arg(&*gateway.0)
        .arg(seen.to_string())
}

/// Writes a connection to its user's keys.
fn touch_user(script: &LuaScript, route: &Route, now: Timestamp) -> SlotCommand {
    let (user_connections, user_servers, user_presence) = user_keys(route.user_id);
    script
        .call([&user_connections, &user_servers, &user_presence])
        .arg(now.as_millis())
        .arg((now + LIFE).as_millis())
        .arg(LIFE.as_millis() as u64)
        .arg(member(route.connection_id, &route.gateway))
        .arg(&*route.gateway.0)
        .arg(now.to_string())
}

fn user_keys(user_id: UserId) -> (String, String, String) {
    (keys::user_connections(user_id), keys::user_servers(user_id), keys::user_presence(user_id))
}

/// Writes the details of a connection.
fn touch_connection(route: &Route, now: Timestamp) -> SlotCommand {
    TOUCH_CONNECTION
        .call([&keys::connection(route.connection_id)])
        .arg(LIFE.as_millis() as u64)
        .arg(("user_id", route.user_id.to_string()))
        .arg(("device_id", route.device_id.to_string()))
        .arg(("server_id", &*route.gateway.0))
        .arg(("connected_at", route.connected_at.to_string()))
        .arg(("last_heartbeat", now.to_string()))
}

/// Writes connections to a gateway's inventory.
fn touch_inventory(gateway: &GatewayId, connection_ids: &[ConnectionId], now: Timestamp) -> SlotCommand {
    TOUCH_MEMBERS
        .call([&keys::server_connections(gateway)])
        .arg(now.as_millis())
        .arg((now + LIFE).as_millis())
        .arg(LIFE.as_millis() as u64)
        .arg(texts(connection_ids))
}

fn by_gateway(routes: &[Route]) -> BTreeMap<&GatewayId, Vec<ConnectionId>> {
    let mut gateways: BTreeMap<&GatewayId, Vec<ConnectionId>> = BTreeMap::new();
    for route in routes {
        gateways.entry(&route.gateway).or_default().push(route.connection_id);
    }
    gateways
}

fn texts(connection_ids: &[ConnectionId]) -> Vec<String> {
    connection_ids.iter().map(ConnectionId::to_string).collect()
}
