use std::time::Duration;

use crate::Timestamp;

/// How often something may happen: `burst` times at once, and `count` times in every `period` in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    count: u32,
    period: Duration,
    burst: u32,
}

/// Whether it may happen now, and what a client is told about the next times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub limit: u32,
    /// How many more would be allowed at once.
    pub remaining: u32,
    /// How long until one is allowed again; zero while some remain.
    pub retry_after: Duration,
    /// How long until the whole burst is there again.
    pub reset_after: Duration,
}

impl Quota {
    /// `count` in each `period`, all of which may come at once. `None` for 0: the limit is off.
    pub fn per(count: u32, period: Duration) -> Option<Self> {
        Self::with_burst(count, period, count)
    }

    /// `count` in each `period`, at most `burst` at once.
    pub fn with_burst(count: u32, period: Duration, burst: u32) -> Option<Self> {
        (count > 0 && burst > 0).then_some(Self { count, period, burst })
    }

    /// Decides one request by the generic cell rate algorithm.
    ///
    /// The state of a key is one moment: when its bucket will be full again. A key that was never seen, or whose moment
    /// has passed, is full. The pair of decision and new moment is for the keeper of the state to store together.
    pub fn decide(&self, full_at: Option<Timestamp>, now: Timestamp) -> (Decision, Timestamp) {
        let interval_ms = (self.period.as_millis() as u64 / u64::from(self.count)).max(1);
        let capacity_ms = interval_ms * u64::from(self.burst);
        let debt_ms = full_at.unwrap_or(now).since(now).as_millis() as u64;
        let allowed = debt_ms + interval_ms <= capacity_ms;
        let debt_after_ms = if allowed { debt_ms + interval_ms } else { debt_ms };
        let remaining = capacity_ms.saturating_sub(debt_after_ms) / interval_ms;
        let retry_ms = if remaining > 0 { 0 } else { (debt_after_ms + interval_ms).saturating_sub(capacity_ms) };
        let decision = Decision {
            allowed,
            limit: self.burst,
            remaining: remaining as u32,
            retry_after: Duration::from_millis(retry_ms),
            reset_after: Duration::from_millis(debt_after_ms),
        };
        (decision, now + Duration::from_millis(debt_after_ms))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zero_turns_a_limit_off() {
        assert_eq!(Quota::per(0, Duration::from_secs(60)), None);
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let quota = Quota::with_burst(10, Duration::from_secs(1), 20).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        let mut state = None;
        for n in 1..=20 {
            let (decision, next) = quota.decide(state, now);
            assert!(decision.allowed, "request {n}");
            assert_eq!(decision.remaining, 20 - n);
            state = Some(next);
        }
        let (decision, next) = quota.decide(state, now);
        assert!(!decision.allowed);
        assert_eq!(decision.retry_after, Duration::from_millis(100));
        assert_eq!(decision.reset_after, Duration::from_secs(2));
        assert!(quota.decide(Some(next), now + Duration::from_millis(100)).0.allowed);
        assert!(!quota.decide(Some(next), now + Duration::from_millis(99)).0.allowed);
    }

    proptest! {
        #[test]
        fn no_schedule_passes_more_than_the_burst_and_the_rate(gaps in proptest::collection::vec(0u64..500, 1..200)) {
            let quota = Quota::with_burst(10, Duration::from_secs(1), 5).unwrap();
            let start = Timestamp::from_millis(1_000_000);
            let (mut now, mut state, mut passed) = (start, None, 0u64);
            for gap in gaps {
                now = now + Duration::from_millis(gap);
                let (decision, next) = quota.decide(state, now);
                passed += u64::from(decision.allowed);
                state = Some(next);
                prop_assert!(passed <= 5 + now.since(start).as_millis() as u64 / 100);
            }
        }
    }
}
