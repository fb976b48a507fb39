use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Decision, Quota};
use ports::{LimitKey, RateLimiter, StoreError};
use tokio::time::Instant;
use tracing::warn;

/// How long the shared limiter is left alone after it failed, so that an outage does not hold up every request.
const PAUSE: Duration = Duration::from_secs(1);

/// Limits that all processes share, and that each counts for itself while the shared ones are away: an outage of what may
/// be lost at any moment keeps nobody from sending.
pub(crate) struct OutageLimits {
    shared: Arc<dyn RateLimiter>,
    own: Arc<dyn RateLimiter>,
    away_until: Mutex<Option<Instant>>,
}

impl OutageLimits {
    pub(crate) fn new(shared: Arc<dyn RateLimiter>, own: Arc<dyn RateLimiter>) -> Self {
        Self { shared, own, away_until: Mutex::new(None) }
    }

    fn is_away(&self) -> bool {
        self.away_until.lock().expect("no holder of this lock panics").is_some_and(|until| Instant::now() < until)
    }
}

#[async_trait]
impl RateLimiter for OutageLimits {
    async fn take(&self, key: LimitKey, quota: Quota) -> Result<Decision, StoreError> {
        if self.is_away() {
            return self.own.take(key, quota).await;
        }
        match self.shared.take(key, quota).await {
            Ok(decision) => Ok(decision),
            Err(failure) => {
                warn!(error = &failure as &dyn std::error::Error, "limits are counted by each process for a while");
                *self.away_until.lock().expect("no holder of this lock panics") = Some(Instant::now() + PAUSE);
                self.own.take(key, quota).await
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

    /// A limiter that always fails, and counts how often it was asked.
    #[derive(Default)]
    struct Away(AtomicUsize);

    #[async_trait]
    impl RateLimiter for Away {
        async fn take(&self, _: LimitKey, _: Quota) -> Result<Decision, StoreError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(StoreError::unavailable("away"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_asked_about_once_a_second_and_limits_hold_meanwhile() {
        let away = Arc::new(Away::default());
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
