use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::Timestamp;

/// A rate limit: at most `burst` requests at once, and on average `count` requests per `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    count: u32,
    period: Duration,
    burst: u32,
    /// The number of units that one request takes.
    weight: u32,
}

/// The outcome of a rate limit check, with the values for the client's next requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateDecision {
    pub allowed: bool,
    pub limit: u32,
    /// The number of further requests that are allowed now.
    pub remaining: u32,
    /// The delay until this request, or the next one if this one is allowed; zero while some remain.
    pub retry_after: Duration,
    /// The delay until the bucket is full again.
    pub reset_after: Duration,
}

impl Quota {
    /// `count` requests per `period`, all of which may come at once. `None` for 0: the limit is off.
    pub fn per(count: u32, period: Duration) -> Option<Self> {
        Self::with_burst(count, period, count)
    }

    /// `count` requests per `period`, at most `burst` at once.
    pub fn with_burst(count: u32, period: Duration, burst: u32) -> Option<Self> {
        (count > 0 && burst > 0).then_some(Self { count, period, burst, weight: 1 })
    }

    /// The same quota for a request that takes `weight` units, at most the whole burst. A request of weight 0 takes
    /// nothing and returns the current state.
    pub fn weighing(self, weight: u32) -> Self {
        Self { weight: weight.min(self.burst), ..self }
    }

    /// The number of units that one request takes.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The same quota in units of `size` of its units, at least one, for a request that takes one of them.
    pub fn in_units_of(self, size: u32) -> Self {
        let units = |count: u32| (count / size).max(1);
        Self { count: units(self.count), burst: units(self.burst), weight: 1, ..self }
    }

    /// The delay that a request adds to the time at which the bucket is full.
    pub fn cost_ms(&self) -> u64 {
        self.interval_ms() * u64::from(self.weight)
    }

    /// The maximum delay until the bucket is full.
    pub fn capacity_ms(&self) -> u64 {
        self.interval_ms() * u64::from(self.burst)
    }

    /// The time in which the bucket gains one unit.
    fn interval_ms(&self) -> u64 {
        (self.period.as_millis() as u64 / u64::from(self.count)).max(1)
    }

    /// Decides one request by the generic cell rate algorithm.
    ///
    /// The state of a key is one timestamp: the time at which its bucket is full again. A new key, or one with a
    /// timestamp in the past, has a full bucket. The caller must store the returned timestamp atomically with the
    /// decision.
    pub fn decide(&self, full_at: Option<Timestamp>, now: Timestamp) -> (RateDecision, Timestamp) {
        let (interval_ms, cost_ms, capacity_ms) = (self.interval_ms(), self.cost_ms(), self.capacity_ms());
        let debt_ms = full_at.unwrap_or(now).since(now).as_millis() as u64;
        let allowed = debt_ms + cost_ms <= capacity_ms;
        let debt_after_ms = if allowed { debt_ms + cost_ms } else { debt_ms };
        let remaining = capacity_ms.saturating_sub(debt_after_ms) / interval_ms;
        let wanted_ms = if allowed { interval_ms } else { cost_ms };
        let retry_ms = (debt_after_ms + wanted_ms).saturating_sub(capacity_ms);
        let decision = RateDecision {
            allowed,
            limit: self.burst,
            remaining: remaining as u32,
            retry_after: Duration::from_millis(retry_ms),
            reset_after: Duration::from_millis(debt_after_ms),
        };
        (decision, now + Duration::from_millis(debt_after_ms))
    }

    /// Decides one request that takes from several buckets: from all if each allows it, and from none otherwise.
    ///
    /// Each quota comes with the state of its bucket, as in [`decide`](Self::decide). If another bucket refuses, the
    /// decision of a bucket that allows the request shows its state without the request.
    pub fn decide_all(buckets: &[(Self, Option<Timestamp>)], now: Timestamp) -> Vec<(RateDecision, Timestamp)> {
        let decide = |(quota, full_at): &(Self, Option<Timestamp>)| quota.decide(*full_at, now);
        let mut decided: Vec<_> = buckets.iter().map(decide).collect();
        if decided.iter().any(|(decision, _)| !decision.allowed) {
            for ((quota, full_at), decided) in buckets.iter().zip(&mut decided) {
                if decided.0.allowed {
                    *decided = quota.weighing(0).decide(*full_at, now);
                }
            }
        }
        decided
    }
}

/// The network that limits count an address as: the /64 prefix for IPv6, because one client usually has all its
/// addresses.
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        v4 => v4,
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

    #[test]
    fn a_quota_in_larger_units_has_the_same_rate() {
        let kib = Quota::per(300 << 20, Duration::from_secs(86_400)).unwrap().weighing(5);
        let mib = kib.in_units_of(1024);
        assert_eq!((kib.weight(), mib.weight()), (5, 1));
        assert_eq!(mib, Quota::per(300 << 10, Duration::from_secs(86_400)).unwrap());
        assert_eq!(mib.cost_ms(), 281, "a KiB of 300 GiB a day takes less than a millisecond");
        assert_eq!(Quota::per(5, Duration::from_secs(1)).unwrap().in_units_of(1024).capacity_ms(), 1000);
    }

    #[test]
    fn addresses_count_by_network() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7", "an IPv4 address as IPv6 sockets see it");
    }

    #[test]
    fn one_bucket_that_refuses_keeps_the_others_as_they_are() {
        let [wide, narrow] = [2, 1].map(|count| Quota::per(count, Duration::from_secs(10)).unwrap());
        let now = Timestamp::from_millis(1_000_000);
        let [(first, wide_at), (second, narrow_at)] = Quota::decide_all(&[(wide, None), (narrow, None)], now)[..]
        else {
            panic!("two buckets are decided")
        };
        assert_eq!([(first.allowed, first.remaining), (second.allowed, second.remaining)], [(true, 1), (true, 0)]);
        let states = [(wide, Some(wide_at)), (narrow, Some(narrow_at))];
        let [(first, wide_then), (second, narrow_then)] = Quota::decide_all(&states, now)[..] else {
            panic!("two buckets are decided")
        };
        assert_eq!([(first.allowed, first.remaining), (second.allowed, second.remaining)], [(true, 1), (false, 0)]);
        assert_eq!((wide_then, narrow_then), (wide_at, narrow_at));
        assert_eq!(first.retry_after, Duration::ZERO);
        assert_eq!(Quota::decide_all(&[], now), []);
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
