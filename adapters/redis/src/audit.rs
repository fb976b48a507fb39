use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::ConnectionId;
use ports::{AuditPage, AuditRoutes, AuditedRow, End, GatewayId, PageBookmark, RouteRows, Routes, StoreError};

use crate::call::SlotCommand;
use crate::keys;
use crate::routes::{RedisRoutes, parse};

/// The `PTTL` of a key without expiry. A missing key has -2.
const FOR_EVER: i64 = -1;

#[async_trait]
impl AuditRoutes for RedisRoutes {
    async fn gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        self.live_gateways().await
    }

    async fn routes(
        &self,
        gateway: &GatewayId,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<RouteRows>, StoreError> {
        let inventory = keys::server_connections(gateway);
        let cursor = after.map_or("0", |PageBookmark(cursor)| cursor);
        let scan = SlotCommand::new("ZSCAN", &inventory).arg(cursor).arg("COUNT").arg(count);
        let (next, members): (String, Vec<(String, f64)>) = self.redis.run_one(scan).await?;
        let now = self.redis.now().as_millis() as f64;
        let live = members.into_iter().filter(|(_, expires_at)| *expires_at > now);
        // `ZSCAN` may return a member twice.
        let members: BTreeSet<String> = live.map(|(member, _)| member).collect();
        let mut rows = vec![];
        for member in members {
            let row = match member.parse() {
                Ok(connection_id) => match self.of_connection(connection_id, gateway).await {
                    Err(StoreError::Corrupt { source, .. }) => Err(source.to_string()),
                    row => Ok(row?),
                },
                Err(error) => Err(error.to_string()),
            };
            rows.push(AuditedRow {
                table: "server_connections",
                bytes: member.len(),
                key: member,
                end: End::Timed,
                row,
            });
        }
        Ok(AuditPage { rows, next: (next != "0").then_some(PageBookmark(next)) })
    }
}

impl RedisRoutes {
    /// Reads the other keys of a connection in a gateway's inventory.
    async fn of_connection(&self, connection_id: ConnectionId, gateway: &GatewayId) -> Result<RouteRows, StoreError> {
        let route = self.details(vec![connection_id]).await?.pop();
        let mut keys = vec![keys::server_connections(gateway), keys::connection(connection_id)];
        let (mut of_user, mut user_has_gateway) = (vec![], false);
        if let Some(route) = &route {
            let now = self.redis.now();
            let (connections, servers) = (keys::user_connections(route.user_id), keys::user_servers(route.user_id));
            let sets = [SlotCommand::live(&connections, now), SlotCommand::live(&servers, now)];
            let sets: Vec<Vec<String>> = self.redis.run(&sets).await?;
            if let [members, gateways] = &sets[..] {
                let named = members.iter().filter_map(|member| parse(member).ok());
                of_user = named.filter(|(id, _)| *id == connection_id).map(|(_, gateway)| gateway).collect();
                user_has_gateway = gateways.iter().any(|name| **name == *gateway.0);
            }
            keys.extend([connections, servers, keys::user_presence(route.user_id)]);
        }
        let lives: Vec<i64> =
            self.redis.run(&keys.iter().map(|key| SlotCommand::new("PTTL", key)).collect::<Vec<_>>()).await?;
        let without_expiry = keys.into_iter().zip(lives).filter(|(_, life)| *life == FOR_EVER);
        let without_expiry = without_expiry.map(|(key, _)| key).collect();
        Ok(RouteRows { connection_id, gateway: gateway.clone(), route, of_user, user_has_gateway, without_expiry })
    }
}
