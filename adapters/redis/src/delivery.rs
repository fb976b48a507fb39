use async_trait::async_trait;
use domain::{ConnectionId, UserId};
use ports::{ConnectionDisplacer, Delivery, GatewayId, PresenceNotifier, PresenceUpdate, Push, Revocation, StoreError};

use crate::call::SlotCommand;
use crate::client::Redis;
use crate::envelope::{pack, pack_displacement, pack_revocation, pack_updates};
use crate::keys;

/// Publishes pushes and presence changes to gateways, each of which subscribes with an [`Inbox`](crate::Inbox).
///
/// One publish carries all pushes or presence changes of a call and all their recipients. One publish reaches all
/// gateways with a revocation. Delivery is at most once and not acknowledged.
pub struct RedisDelivery {
    redis: Redis,
}

impl RedisDelivery {
    /// Delivery through this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    async fn publish(&self, channel: &str, envelope: &[u8]) -> Result<(), StoreError> {
        self.redis.run_one::<u64>(SlotCommand::new("PUBLISH", channel).arg(envelope)).await.map(drop)
    }
}

#[async_trait]
impl Delivery for RedisDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        // Sequential publishes keep the order in a cluster too, where each channel has a node like a key.
        for envelope in pack(pushes).map_err(StoreError::unavailable)? {
            self.publish(&keys::deliveries(gateway), &envelope).await?;
        }
        Ok(())
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.publish(keys::REVOCATIONS, &pack_revocation(revocation)).await
    }
}

#[async_trait]
impl ConnectionDisplacer for RedisDelivery {
    async fn displace(
        &self,
        gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError> {
        self.publish(&keys::deliveries(gateway), &pack_displacement(user_id, connection_id)).await
    }
}

#[async_trait]
impl PresenceNotifier for RedisDelivery {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        for envelope in pack_updates(&updates) {
            self.publish(&keys::deliveries(gateway), &envelope).await?;
        }
        Ok(())
    }
}
