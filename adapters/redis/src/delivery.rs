use async_trait::async_trait;
use domain::{ConnectionId, SessionId, UserId};
use ports::{Delivery, Displacement, GatewayId, PresenceNews, Push, StoreError, Watchers};

use crate::call::Call;
use crate::client::Redis;
use crate::envelope::{pack, pack_displacement, pack_news, pack_revocation};
use crate::keys;

/// Brings pushes and news to the gateways of a fleet, each of which listens with an [`Inbox`](crate::Inbox).
///
/// One publish carries all pushes or news of a call and all their recipients, and one tells every gateway of a
/// revocation. Nobody says whether anybody listened.
pub struct RedisDelivery {
    redis: Redis,
}

impl RedisDelivery {
    /// Delivery through this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    async fn publish(&self, channel: &str, envelope: &[u8]) -> Result<(), StoreError> {
        self.redis.run_one::<u64>(Call::new("PUBLISH", channel).arg(envelope)).await.map(drop)
    }
}

#[async_trait]
impl Delivery for RedisDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        // One after the other keeps the order in a cluster too, where a channel has its node like a key.
        for envelope in pack(pushes).map_err(StoreError::unavailable)? {
            self.publish(&keys::deliveries(gateway), &envelope).await?;
        }
        Ok(())
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        self.publish(keys::REVOCATIONS, &pack_revocation(session_id)).await
    }
}

#[async_trait]
impl Displacement for RedisDelivery {
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
impl Watchers for RedisDelivery {
    async fn tell(&self, gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError> {
        for envelope in pack_news(&news) {
            self.publish(&keys::deliveries(gateway), &envelope).await?;
        }
        Ok(())
    }
}
