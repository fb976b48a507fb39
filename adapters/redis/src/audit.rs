use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::ConnectionId;
use ports::{AuditPage, AuditRoutes, Audited, Bookmark, End, GatewayId, RouteRows, Routes, StoreError};

use crate::call::Call;
use crate::keys;
use crate::routes::{RedisRoutes, parse};

/// What Redis says of a key that has no expiry. One that is not there is -2.
const FOR_EVER: i64 = -1;

#[async_trait]
impl AuditRoutes for RedisRoutes {
    async fn gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        self.live_gateways().await
    }

    async fn routes(
        &self,
        gateway: &GatewayId,
        after: Option<&Bookmark>,
        count: usize,
    ) -> Result<AuditPage<RouteRows>, StoreError> {
        let inventory = keys::server_connections(gateway);
        let cursor = after.map_or("0", |Bookmark(cursor)| cursor);
        let scan = Call::new("ZSCAN", &inventory).arg(cursor).arg("COUNT").arg(count);
        let (next, members): (String, Vec<(String, f64)>) = self.redis.run_one(scan).await?;
        let now = self.redis.now().as_millis() as f64;
        let live = members.into_iter().filter(|(_, expires_at)| *expires_at > now);
        // A set may be shown some members twice.
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
            rows.push(Audited { table: "server_connections", bytes: member.len(), key: member, end: End::Timed, row });
        }
        Ok(AuditPage { rows, next: (next != "0").then_some(Bookmark(next)) })
    }
}

impl RedisRoutes {
    /// What else is known of a connection that the inventory of a gateway names.
    async fn of_connection(&self, connection_id: ConnectionId, gateway: &GatewayId) -> Result<RouteRows, StoreError> {
        let route = self.details(vec![connection_id]).await?.pop();
        let mut keys = vec![keys::server_connections(gateway), keys::connection(connection_id)];
        let (mut of_user, mut user_has_gateway) = (vec![], false);
        if let Some(route) = &route {
            let now = self.redis.now();
            let (connections, servers) = (keys::user_connections(route.user_id), keys::user_servers(route.user_id));
            let sets = [Call::live(&connections, now), Call::live(&servers, now)];
            let sets: Vec<Vec<String>> = self.redis.run(&sets).await?;
            if let [members, gateways] = &sets[..] {
                let named = members.iter().filter_map(|member| parse(member).ok());
                of_user = named.filter(|(id, _)| *id == connection_id).map(|(_, gateway)| gateway).collect();
                user_has_gateway = gateways.iter().any(|name| **name == *gateway.0);
            }
            keys.extend([connections, servers, keys::user_presence(route.user_id)]);
        }
        let lives: Vec<i64> =
            self.redis.run(&keys.iter().map(|key| Call::new("PTTL", key)).collect::<Vec<_>>()).await?;
        let without_expiry = keys.into_iter().zip(lives).filter(|(_, life)| *life == FOR_EVER);
        let without_expiry = without_expiry.map(|(key, _)| key).collect();
        Ok(RouteRows { connection_id, gateway: gateway.clone(), route, of_user, user_has_gateway, without_expiry })
    }
}
