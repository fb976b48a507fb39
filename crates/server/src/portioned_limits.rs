//! The quota of all users together, without a round trip for each message.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{Quota, RateDecision, Timestamp};
use metrics::gauge;
use ports::{LimitKey, RateLimiter, StoreError, lock};
use tokio::time::Instant;

/// The portion that a process takes from the quota of all users, in units of a take.
const PORTION: u32 = 1024;

/// Rate limits in which [`LimitKey::MessageTotal`] is taken in portions.
///
/// The other limits of a send are those of one user: one slot of Redis, and one script. The quota of all users is one key
/// of another slot, which every send of the fleet would update. So a process takes a MiB of it at a time and spends that
/// on its own messages. Of a fleet of `n` processes, at most `n` MiB are taken and not spent.
///
/// A take is refused locally until the quota has refilled by a portion, so an exhausted quota costs no round trips.
pub(crate) struct PortionedLimits {
    limits: Arc<dyn RateLimiter>,
    portion: Mutex<Portion>,
}

#[derive(Default)]
struct Portion {
    /// Units that were taken and are not spent.
    left: u32,
    /// The last refusal, and the time until which it holds.
    refused: Option<(RateDecision, Instant)>,
}

impl PortionedLimits {
    pub(crate) fn new(limits: Arc<dyn RateLimiter>) -> Self {
        // Zero means that there is no quota.
        gauge!("tidings_message_quota_mib").set(0.0);
        gauge!("tidings_message_quota_left_mib").set(0.0);
        Self { limits, portion: Mutex::default() }
    }

    /// Spends the weight of a quota.
    async fn spend(&self, quota: Quota) -> Result<RateDecision, StoreError> {
        loop {
            if let Some(decision) = self.spend_taken(quota) {
                return Ok(decision);
            }
            let taken = self.limits.take(LimitKey::MessageTotal, quota.in_units_of(PORTION)).await?;
            gauge!("tidings_message_quota_mib").set(taken.limit);
            gauge!("tidings_message_quota_left_mib").set(taken.remaining);
            let mut portion = lock(&self.portion);
            if taken.allowed {
                portion.left += PORTION;
            } else {
                portion.refused = Some((taken, Instant::now() + taken.retry_after));
            }
        }
    }

    /// Spends from the current portion; `None` if another one has to be taken.
    fn spend_taken(&self, quota: Quota) -> Option<RateDecision> {
        let mut portion = lock(&self.portion);
        if let Some(left) = portion.left.checked_sub(quota.weight()) {
            portion.left = left;
            return Some(allowed(quota));
        }
        let (refused, until) = portion.refused?;
        let retry_after = until.saturating_duration_since(Instant::now());
        (!retry_after.is_zero()).then_some(RateDecision { retry_after, ..refused })
    }

    fn give_back(&self, quota: Quota) {
        lock(&self.portion).left += quota.weight();
    }
}

/// The decision on a take that the current portion covers.
fn allowed(quota: Quota) -> RateDecision {
    quota.weighing(0).decide(None, Timestamp::default()).0
}

#[async_trait]
impl RateLimiter for PortionedLimits {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        let Some(at) = takes.iter().position(|(key, _)| *key == LimitKey::MessageTotal) else {
            return self.limits.take_all(takes).await;
        };
        let (mut others, total) = (takes.to_vec(), takes[at].1);
        others.remove(at);
        let spent = self.spend(total).await?;
        if !spent.allowed {
            for (_, quota) in &mut others {
                *quota = quota.weighing(0);
            }
        }
        let decided = if others.is_empty() { Ok(vec![]) } else { self.limits.take_all(&others).await };
        let is_taken = decided.as_ref().is_ok_and(|decisions| decisions.iter().all(|decision| decision.allowed));
        if spent.allowed && !is_taken {
            self.give_back(total);
        }
        let mut decisions = decided?;
        decisions.insert(at, spent);
        Ok(decisions)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use domain::UserId;
    use memory::{ManualClock, MemoryLimits};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Limits in memory that count their calls.
    struct Counted {
        limits: MemoryLimits,
        calls: AtomicUsize,
    }

    #[async_trait]
    impl RateLimiter for Counted {
        async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.limits.take_all(takes).await
        }
    }

    struct World {
        clock: Arc<ManualClock>,
        counted: Arc<Counted>,
    }

    impl World {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::default());
            let counted = Counted { limits: MemoryLimits::new(clock.clone()), calls: AtomicUsize::new(0) };
            Self { clock, counted: Arc::new(counted) }
        }

        fn process(&self) -> PortionedLimits {
            PortionedLimits::new(self.counted.clone())
        }
    }

    fn total(kib: u32) -> (LimitKey, Quota) {
        (LimitKey::MessageTotal, Quota::per(3 * 1024, DAY).unwrap().weighing(kib))
    }

    fn of_user(count: u32) -> (LimitKey, Quota) {
        (LimitKey::SendPerUser(UserId::from_bytes([1; 16])), Quota::per(count, DAY).unwrap())
    }

    async fn is_taken(process: &PortionedLimits, takes: &[(LimitKey, Quota)]) -> Vec<bool> {
        process.take_all(takes).await.unwrap().iter().map(|decision| decision.allowed).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn all_processes_together_get_the_quota_and_no_more() {
        let world = World::new();
        let processes = [world.process(), world.process()];
        let mut taken = [0, 0];
        for (n, process) in processes.iter().cycle().take(6000).enumerate() {
            taken[n % 2] += u32::from(is_taken(process, &[total(1)]).await[0]);
        }
        assert_eq!(taken, [2048, 1024]);
        assert!(world.counted.calls.load(Ordering::Relaxed) <= 5, "portions and refusals, not messages");
        let refused = processes[0].take_all(&[total(1)]).await.unwrap()[0];
        assert_eq!(refused.retry_after, DAY / 3);
        world.clock.advance(DAY / 3);
        tokio::time::advance(DAY / 3).await;
        assert_eq!(is_taken(&processes[0], &[total(5)]).await, [true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_send_that_another_limit_refuses_spends_nothing_and_the_reverse() {
        let world = World::new();
        let process = world.process();
        assert_eq!(is_taken(&process, &[of_user(1), total(1024)]).await, [true, true]);
        for _ in 0..10 {
            assert_eq!(is_taken(&process, &[of_user(1), total(1024)]).await, [false, true]);
        }
        assert_eq!(is_taken(&process, &[total(1024)]).await, [true]);
        assert_eq!(is_taken(&process, &[total(1024)]).await, [true]);
        let other = (LimitKey::SendPerUser(UserId::from_bytes([2; 16])), of_user(1).1);
        assert_eq!(is_taken(&process, &[total(1), other]).await, [false, true]);
        assert_eq!(is_taken(&process, &[other]).await, [true], "the refused send took nothing from its user");
    }
}
