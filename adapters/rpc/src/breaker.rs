use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Number of failures that opens the breaker.
const FAILURES_MAX: usize = 5;
/// Time window in which failures are counted together.
const WINDOW: Duration = Duration::from_secs(30);
/// After this time a probe without a result counts as lost, and another call may probe.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// A circuit breaker: stops calls to a failing process.
///
/// ```text
///         5 failures in 30 s            the pause is over
/// Closed ───────────────────► Open ───────────────────────► Probing
///   ▲                          ▲    one call is let through    │ │
///   │                          └────────── failure ────────────┘ │
///   └───────────────────────────────────── success ──────────────┘
/// ```
///
/// Reads no clock. The caller decides which outcomes are failures; a refusal is never one, since the process has
/// answered.
#[derive(Debug)]
pub(crate) struct Breaker {
    pause: Duration,
    state: BreakerState,
}

#[derive(Debug)]
enum BreakerState {
    /// The latest failures, at most as many as open the breaker.
    Closed {
        failures: VecDeque<Instant>,
    },
    Open {
        until: Instant,
    },
    Probing {
        until: Instant,
    },
}

impl Breaker {
    /// Creates a breaker that stays open for `pause`.
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, state: BreakerState::Closed { failures: VecDeque::new() } }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed { .. })
    }

    /// Whether a call may be made now. After the pause, the first caller makes the probe.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until } | BreakerState::Probing { until } if until <= now => {
                self.state = BreakerState::Probing { until: now + PROBE_MAX };
                true
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } => false,
        }
    }

    /// The time at which [`admit`](Self::admit) may return true.
    pub(crate) fn admits_at(&self, now: Instant) -> Instant {
        match self.state {
            BreakerState::Closed { .. } => now,
            BreakerState::Open { until } | BreakerState::Probing { until } => until,
        }
    }

    /// Records an answer. A late answer while the breaker is open does not close it.
    pub(crate) fn handle_success(&mut self) {
        if let BreakerState::Probing { .. } = self.state {
            self.state = BreakerState::Closed { failures: VecDeque::new() };
        }
    }

    /// Records a failure.
    pub(crate) fn handle_failure(&mut self, now: Instant) {
        let until = now + self.pause;
        match &mut self.state {
            BreakerState::Closed { failures } => {
                failures.retain(|at| now.duration_since(*at) < WINDOW);
                failures.push_back(now);
                if failures.len() >= FAILURES_MAX {
                    self.state = BreakerState::Open { until };
                }
            }
            BreakerState::Probing { .. } => self.state = BreakerState::Open { until },
            BreakerState::Open { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn opened(at: Instant) -> Breaker {
        let mut breaker = Breaker::new(PAUSE);
        (0..5).for_each(|_| breaker.handle_failure(at));
        breaker
    }

    #[test]
    fn five_failures_in_thirty_seconds_open_it_and_four_do_not() {
        let (mut breaker, begin) = (Breaker::new(PAUSE), Instant::now());
        for n in 0..4 {
            breaker.handle_failure(begin + seconds(n));
        }
        assert!(breaker.admit(begin + seconds(4)));
        breaker.handle_failure(begin + seconds(29));
        assert!(!breaker.is_closed());
        assert!(!breaker.admit(begin + seconds(58)));
        assert_eq!(breaker.admits_at(begin), begin + seconds(59));
    }

    #[test]
    fn failures_that_lie_further_apart_do_not_open_it() {
        let (mut breaker, begin) = (Breaker::new(PAUSE), Instant::now());
        for n in 0..20 {
            breaker.handle_failure(begin + seconds(n * 8));
            assert!(breaker.is_closed(), "{n}");
        }
    }

    #[test]
    fn after_the_pause_one_probe_is_let_through_and_its_success_closes_it() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        assert_eq!([29, 30, 30, 34].map(|n| breaker.admit(begin + seconds(n))), [false, true, false, false]);
        breaker.handle_success();
        assert!(breaker.is_closed());
        (0..4).for_each(|_| breaker.handle_failure(begin + seconds(31)));
        assert!(breaker.is_closed(), "the failures before the pause are forgotten");
    }

    #[test]
    fn a_probe_that_fails_begins_another_pause() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        assert!(breaker.admit(begin + seconds(30)));
        breaker.handle_failure(begin + seconds(31));
        assert_eq!([60, 61].map(|n| breaker.admit(begin + seconds(n))), [false, true]);
    }

    #[test]
    fn a_probe_that_was_lost_is_followed_by_another() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        assert_eq!([30, 34, 35].map(|n| breaker.admit(begin + seconds(n))), [true, false, true]);
    }

    #[test]
    fn an_answer_that_comes_late_does_not_close_it() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        breaker.handle_success();
        breaker.handle_failure(begin + seconds(20));
        assert_eq!([29, 30].map(|n| breaker.admit(begin + seconds(n))), [false, true]);
    }
}
