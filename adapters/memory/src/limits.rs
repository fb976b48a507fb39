use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{Quota, RateDecision, Timestamp};
use ports::{Clock, LimitKey, RateLimiter, StoreError, lock};

use crate::expiring::ExpiringMap;

/// Maximum number of non-full buckets: about 100 MB. Beyond that a new key replaces an older one, which starts with a
/// full bucket again.
const BUCKETS_MAX: usize = 1_000_000;

/// The rate limits of one process.
///
/// A bucket is stored as the time at which it will be full again. A full bucket has no entry.
pub struct MemoryLimits {
    clock: Arc<dyn Clock>,
    full_at: Mutex<ExpiringMap<LimitKey, Timestamp>>,
}

impl MemoryLimits {
    /// Starts with all buckets full.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, full_at: Mutex::new(ExpiringMap::new(BUCKETS_MAX)) }
    }

    /// Refills all buckets, like a Redis that is flushed.
    pub fn wipe(&self) {
        *lock(&self.full_at) = ExpiringMap::new(BUCKETS_MAX);
    }
}

#[async_trait]
impl RateLimiter for MemoryLimits {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        let now = self.clock.now();
        let mut buckets = lock(&self.full_at);
        let states: Vec<_> = takes.iter().map(|(key, quota)| (*quota, buckets.get(key, now).copied())).collect();
        let mut decisions = Vec::with_capacity(takes.len());
        for ((key, _), (decision, full_at)) in takes.iter().zip(Quota::decide_all(&states, now)) {
            buckets.insert(*key, full_at, full_at, now);
            decisions.push(decision);
        }
        Ok(decisions)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::UserId;

    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn full_buckets_cost_no_memory() {
        let clock = Arc::new(ManualClock::default());
        let limits = MemoryLimits::new(clock.clone());
        let quota = Quota::per(10, Duration::from_secs(1)).unwrap();
        let key = |n: u32| LimitKey::SendPerUser(UserId::from_bytes(u128::from(n).to_be_bytes()));
        for n in 0..1000 {
            limits.take(key(n), quota).await.unwrap();
        }
        assert_eq!(limits.full_at.lock().unwrap().len(), 1000);

        clock.advance(Duration::from_secs(1));
        for _ in 0..1000 {
            limits.take(key(0), quota).await.unwrap();
        }
        assert_eq!(limits.full_at.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_wipe_fills_all_buckets() {
        let limits = MemoryLimits::new(Arc::new(ManualClock::default()));
        let quota = Quota::per(1, Duration::from_secs(1)).unwrap();
        let key = LimitKey::SendPerUser(UserId::from_bytes([1; 16]));
        let allowed = limits.take(key, quota).await.unwrap();
        assert_ne!(limits.take(key, quota).await.unwrap(), allowed);
        limits.wipe();
        assert_eq!(limits.take(key, quota).await.unwrap(), allowed);
    }
}
