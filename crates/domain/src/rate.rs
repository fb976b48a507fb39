use std::time::Duration;

use crate::Timestamp;

/// How often something may happen: `burst` times at once, and `count` times in every `period` in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    count: u32,
    period: Duration,
    burst: u32,
    /// How many one request counts for.
    weight: u32,
}

/// Whether it may happen now, and what a client is told about the next times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub limit: u32,
    /// How many more would be allowed at once.
    pub remaining: u32,
    /// How long until it is allowed, or the next one if it is; zero while some remain.
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
        (count > 0 && burst > 0).then_some(Self { count, period, burst, weight: 1 })
    }

    /// The same for a request that counts for so many: for all there can be, if it is more. One that counts for none
    /// takes nothing and says what is left.
    pub fn weighing(self, weight: u32) -> Self {
        Self { weight: weight.min(self.burst), ..self }
    }

    /// By how much a request puts off the moment at which the bucket is full.
    pub fn cost_ms(&self) -> u64 {
        self.interval_ms() * u64::from(self.weight)
    }

    /// By how much that moment may be off.
    pub fn capacity_ms(&self) -> u64 {
        self.interval_ms() * u64::from(self.burst)
    }

    /// How long the bucket takes to gain one.
    fn interval_ms(&self) -> u64 {
        (self.period.as_millis() as u64 / u64::from(self.count)).max(1)
    }

    /// Decides one request by the generic cell rate algorithm.
    ///
    /// The state of a key is one moment: when its bucket will be full again. A key that was never seen, or whose moment
    /// has passed, is full. The pair of decision and new moment is for the keeper of the state to store together.
    pub fn decide(&self, full_at: Option<Timestamp>, now: Timestamp) -> (Decision, Timestamp) {
        let (interval_ms, cost_ms, capacity_ms) = (self.interval_ms(), self.cost_ms(), self.capacity_ms());
        let debt_ms = full_at.unwrap_or(now).since(now).as_millis() as u64;
        let allowed = debt_ms + cost_ms <= capacity_ms;
        let debt_after_ms = if allowed { debt_ms + cost_ms } else { debt_ms };
        let remaining = capacity_ms.saturating_sub(debt_after_ms) / interval_ms;
        let wanted_ms = if allowed { interval_ms } else { cost_ms };
        let retry_ms = (debt_after_ms + wanted_ms).saturating_sub(capacity_ms);
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

    #[test]
    fn a_request_may_count_for_many_or_for_none() {
        let quota = Quota::per(10, Duration::from_secs(10)).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        let (look, untouched) = quota.weighing(0).decide(None, now);
        assert_eq!((look.allowed, look.remaining, untouched), (true, 10, now));
        let (taken, full_at) = quota.weighing(7).decide(None, now);
        assert_eq!((taken.allowed, taken.remaining, taken.retry_after), (true, 3, Duration::ZERO));
        let (refused, unmoved) = quota.weighing(4).decide(Some(full_at), now);
        assert_eq!((refused.allowed, refused.remaining, unmoved), (false, 3, full_at));
        assert_eq!(refused.retry_after, Duration::from_secs(1), "for the one that is missing");
        let (rest, empty) = quota.weighing(3).decide(Some(full_at), now);
        assert_eq!((rest.allowed, rest.remaining, rest.retry_after), (true, 0, Duration::from_secs(1)));
        assert_eq!(quota.weighing(0).decide(Some(empty), now).0.remaining, 0);
        let (all, _) = quota.weighing(11).decide(None, now);
        assert_eq!((all.allowed, all.remaining), (true, 0), "more than there can be is all of it");
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
