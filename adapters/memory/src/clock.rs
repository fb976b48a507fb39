use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::Timestamp;
use ports::{Clock, Ids};
use ulid::Ulid;

/// A clock that only moves when a test sets it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock set to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicU64::new(now.as_millis()))
    }

    /// Sets the clock to `now`, forward or back as wall clocks do.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        self.set(self.now() + duration);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Ids that count up from 1, so that runs that create ids in the same order get the same ids.
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

impl Ids for SequentialIds {
    fn ulid(&self) -> Ulid {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        Ulid::from_parts(0, u128::from(before) + 1)
    }
}
