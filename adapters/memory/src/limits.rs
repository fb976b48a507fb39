use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{Decision, Quota, Timestamp};
use ports::{Clock, LimitKey, RateLimiter, StoreError};

use crate::expiring::ExpiringMap;

/// Buckets that are not full, at the most: some 100 MB. Beyond that a new key takes the place of an older one, which
/// counts from a full bucket again.
const BUCKETS_MAX: usize = 1_000_000;

/// The rate limits of one process.
///
/// A bucket is the moment at which it will be full again, and a full bucket is no entry at all.
pub struct MemoryLimits {
    clock: Arc<dyn Clock>,
    full_at: Mutex<ExpiringMap<LimitKey, Timestamp>>,
}

impl MemoryLimits {
    /// All buckets full.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, full_at: Mutex::new(ExpiringMap::new(BUCKETS_MAX)) }
    }

    /// Forgets what was taken, as a Redis that is flushed does: all buckets are full again.
    pub fn wipe(&self) {
        *self.full_at.lock().expect("no holder of the lock panics") = ExpiringMap::new(BUCKETS_MAX);
    }
}

#[async_trait]
impl RateLimiter for MemoryLimits {
    async fn take(&self, key: LimitKey, quota: Quota) -> Result<Decision, StoreError> {
        let now = self.clock.now();
        let mut buckets = self.full_at.lock().expect("no holder of the lock panics");
        let (decision, full_at) = quota.decide(buckets.get(&key, now).copied(), now);
        buckets.insert(key, full_at, full_at, now);
        Ok(decision)
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
