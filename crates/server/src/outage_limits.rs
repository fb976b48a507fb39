use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Quota, RateDecision};
use ports::{LimitKey, RateLimiter, StoreError, error_chain, lock};
use tokio::time::Instant;
use tracing::warn;

/// Pause after a failure of the shared limiter, so that an outage does not delay every request.
const PAUSE: Duration = Duration::from_secs(1);

/// Rate limits that all processes share. While the shared limiter is unavailable, each process counts its own requests, so
/// that an outage of Redis does not block sends.
pub(crate) struct OutageLimits {
    shared: Arc<dyn RateLimiter>,
    own: Arc<dyn RateLimiter>,
    away_until: Mutex<Option<Instant>>,
}

impl OutageLimits {
    pub(crate) fn new(shared: Arc<dyn RateLimiter>, own: Arc<dyn RateLimiter>) -> Self {
        Self { shared, own, away_until: Mutex::new(None) }
    }

    fn is_unavailable(&self) -> bool {
        lock(&self.away_until).is_some_and(|until| Instant::now() < until)
    }
}

#[async_trait]
impl RateLimiter for OutageLimits {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        if self.is_unavailable() {
            return self.own.take_all(takes).await;
        }
        match self.shared.take_all(takes).await {
            Ok(decisions) => Ok(decisions),
            Err(failure) => {
                warn!(
                    error = %error_chain(&failure),
                    "the shared rate limiter failed; counting in this process until it is retried"
                );
                *lock(&self.away_until) = Some(Instant::now() + PAUSE);
                self.own.take_all(takes).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use memory::MemoryLimits;
    use ports::SystemClock;

    use super::*;

    /// A limiter that always fails, and counts its calls.
    #[derive(Default)]
    struct FailingLimiter(AtomicUsize);

    #[async_trait]
    impl RateLimiter for FailingLimiter {
        async fn take_all(&self, _: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(StoreError::unavailable("away"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_retried_once_a_second_and_limits_hold_meanwhile() {
        let away = Arc::new(FailingLimiter::default());
        let limits = OutageLimits::new(away.clone(), Arc::new(MemoryLimits::new(Arc::new(SystemClock))));
        let key = LimitKey::OtpRequestIp(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let quota = Quota::per(3, Duration::from_secs(3600)).unwrap();
        let mut allowed = vec![];
        for _ in 0..5 {
            allowed.push(limits.take(key, quota).await.unwrap().allowed);
        }
        assert_eq!(allowed, [true, true, true, false, false]);
        assert_eq!(away.0.load(Ordering::SeqCst), 1);
        tokio::time::advance(PAUSE).await;
        limits.take(key, quota).await.unwrap();
        assert_eq!(away.0.load(Ordering::SeqCst), 2);
    }
}
