use std::sync::Arc;

use async_trait::async_trait;
use domain::SessionId;
use futures_util::future::join_all;
use ports::{Delivery, GatewayId, ProcessRole, Push, StoreError};

use crate::directory::Directory;
use crate::link::{Link, timed};
use crate::{proto, wire};

/// Calls gateways directly, for the time in which the usual way of pushes is away (C8).
pub struct RemoteDelivery {
    directory: Arc<Directory>,
}

/// A gateway that cannot be called.
#[derive(Debug, thiserror::Error)]
#[error("no gateway `{}` is known", .0.0)]
struct UnknownGateway(GatewayId);

impl RemoteDelivery {
    /// The gateways that `directory` knows.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }

    async fn revoke_at(&self, link: &Arc<Link>, session_id: SessionId) -> Result<(), StoreError> {
        let reply = self.directory.ask(ProcessRole::Gateway, "revoke", [link.clone()], 1, |link, timeout| {
            let body = proto::RevokeRequest { session_id: session_id.to_bytes().into() };
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
        // One after the other keeps the order.
        for body in wire::to_deliveries(gateway, pushes).map_err(StoreError::unavailable)? {
            let reply = self.directory.ask(ProcessRole::Gateway, "deliver", [link.clone()], 1, |link, timeout| {
                let (mut client, body) = (link.gateway(), body.clone());
                async move { client.deliver(timed(timeout, body)).await }
            });
            wire::read_taken(reply.await.map_err(StoreError::unavailable)?.error)?;
        }
        Ok(())
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        // All of them, whatever one says: a gateway that is away does not keep the session open at another.
        let links = self.directory.links(ProcessRole::Gateway);
        let outcomes = join_all(links.iter().map(|link| self.revoke_at(link, session_id))).await;
        outcomes.into_iter().collect()
    }
}
