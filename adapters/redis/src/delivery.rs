use async_trait::async_trait;
use domain::SessionId;
use ports::{Delivery, GatewayId, Push, StoreError};

use crate::call::Call;
use crate::client::Redis;
use crate::envelope::{pack, pack_revocation};
use crate::keys;
use crate::routes::live;

/// Brings pushes to the gateways of a fleet, each of which listens with an [`Inbox`](crate::Inbox).
///
/// One publish carries all pushes of a call and all their recipients. Nobody says whether anybody listened.
pub struct RedisDelivery {
    redis: Redis,
}

impl RedisDelivery {
    /// Delivery through this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl Delivery for RedisDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: Vec<Push>) -> Result<(), StoreError> {
        // One after the other keeps the order in a cluster too, where a channel has its node like a key.
        for envelope in pack(&pushes).map_err(StoreError::unavailable)? {
            self.redis.run_one::<u64>(publish(gateway, &envelope)).await?;
        }
        Ok(())
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        let gateways: Vec<String> = self.redis.run_one(live(&self.redis, keys::SERVERS)).await?;
        let envelope = pack_revocation(session_id);
        let calls: Vec<_> =
            gateways.into_iter().map(|gateway| publish(&GatewayId(gateway.into()), &envelope)).collect();
        self.redis.run::<u64>(&calls).await?;
        Ok(())
    }
}

fn publish(gateway: &GatewayId, envelope: &[u8]) -> Call {
    Call::new("PUBLISH", &keys::deliveries(gateway)).arg(envelope)
}
