use std::time::Duration;

use async_trait::async_trait;
use domain::{Quota, RateDecision};
use ports::{LimitKey, RateLimiter, StoreError};

use crate::call::TAKE;
use crate::client::Redis;
use crate::keys;

/// The rate limits of a fleet.
///
/// A bucket is stored as the time at which it is full again; a full bucket has no key. The buckets of a user share a
/// slot, so one script reads and takes from several of them atomically. It returns the previous levels, from which
/// `Quota::decide_all` derives the caller's decisions.
pub struct RedisLimits {
    redis: Redis,
}

impl RedisLimits {
    /// Rate limits in this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl RateLimiter for RedisLimits {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        let now = self.redis.now();
        let buckets: Vec<String> = takes.iter().map(|(key, _)| keys::rate_limit(*key)).collect();
        let Some(first) = buckets.first() else { return Ok(vec![]) };
        let mut call = TAKE.call_on(first, &buckets).arg(now.as_millis());
        for (_, quota) in takes {
            call = call.arg(quota.cost_ms()).arg(quota.capacity_ms());
        }
        let debts_ms: Vec<u64> = self.redis.run_one(call).await?;
        let full_at = debts_ms.into_iter().map(|debt_ms| Some(now + Duration::from_millis(debt_ms)));
        let states: Vec<_> = takes.iter().map(|(_, quota)| *quota).zip(full_at).collect();
        Ok(Quota::decide_all(&states, now).into_iter().map(|(decision, _)| decision).collect())
    }
}
