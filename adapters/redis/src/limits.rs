use std::time::Duration;

use async_trait::async_trait;
use domain::{Decision, Quota};
use ports::{LimitKey, RateLimiter, StoreError};

use crate::call::TAKE;
use crate::client::Redis;
use crate::keys;

/// The rate limits of a fleet.
///
/// A bucket is the moment at which it will be full again, and a full bucket is no key at all. A script looks and takes
/// in one step; what it found says here, by `Quota::decide` once more, what the caller is told.
pub struct RedisLimits {
    redis: Redis,
}

impl RedisLimits {
    /// The limits that this Redis counts.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl RateLimiter for RedisLimits {
    async fn take(&self, key: LimitKey, quota: Quota) -> Result<Decision, StoreError> {
        let now = self.redis.now();
        let (cost_ms, capacity_ms) = (quota.cost_ms(), quota.capacity_ms());
        let call = TAKE.call([&keys::rate_limit(key)]).arg(now.as_millis()).arg(cost_ms).arg(capacity_ms);
        let debt_ms: u64 = self.redis.run_one(call).await?;
        let (decision, _) = quota.decide(Some(now + Duration::from_millis(debt_ms)), now);
        Ok(decision)
    }
}
