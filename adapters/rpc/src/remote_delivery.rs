use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use ports::{Delivery, GatewayId, ProcessRole, Push, Revocation, StoreError};

use crate::directory::Directory;
use crate::link::{PeerLink, timed};
use crate::wire;

/// Calls gateways directly while delivery through Redis is unavailable (C8).
pub struct RemoteDelivery {
    directory: Arc<Directory>,
}

/// The gateway is not in the directory.
#[derive(Debug, thiserror::Error)]
#[error("no gateway `{}` is known", .0.0)]
struct UnknownGateway(GatewayId);

impl RemoteDelivery {
    /// Uses the gateways in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }

    async fn revoke_at(&self, link: &Arc<PeerLink>, revocation: Revocation) -> Result<(), StoreError> {
        let reply = self.directory.ask(ProcessRole::Gateway, "revoke", [link.clone()], 1, |link, timeout| {
            let body = wire::to_revocation(revocation);
            let mut client = link.gateway();
            async move { client.revoke(timed(timeout, body)).await }
        });
        wire::read_taken(reply.await.map_err(StoreError::unavailable)?.error)
    }
}

#[async_trait]
impl Delivery for RemoteDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let links = self.directory.links(ProcessRole::Gateway);
        let link = links.iter().find(|link| link.peer.id == gateway.0);
        let link = link.ok_or_else(|| StoreError::unavailable(UnknownGateway(gateway.clone())))?;
        // Sequential requests keep the order.
        for body in wire::to_deliveries(gateway, pushes).map_err(StoreError::unavailable)? {
            let reply = self.directory.ask(ProcessRole::Gateway, "deliver", [link.clone()], 1, |link, timeout| {
                let (mut client, body) = (link.gateway(), body.clone());
                async move { client.deliver(timed(timeout, body)).await }
            });
            wire::read_taken(reply.await.map_err(StoreError::unavailable)?.error)?;
        }
        Ok(())
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        // Calls all gateways, even if some fail: an unreachable gateway must not keep the session open at another.
        let links = self.directory.links(ProcessRole::Gateway);
        let outcomes = join_all(links.iter().map(|link| self.revoke_at(link, revocation))).await;
        outcomes.into_iter().collect()
    }
}
