use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::Timestamp;

/// Whether an engine that an adapter stands on does its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Ok,
    /// It does not, and is tried again and again.
    Failing {
        /// Since when.
        since: Timestamp,
        /// What the last try met.
        reason: String,
    },
}

/// The health that an adapter notes and everybody may ask for.
#[derive(Debug)]
pub struct HealthCell(Mutex<Health>);

impl HealthCell {
    /// Nothing has failed yet.
    #[expect(clippy::new_without_default, reason = "a default would not say that it is a good one")]
    pub fn new() -> Self {
        Self(Mutex::new(Health::Ok))
    }

    /// The health now.
    pub fn get(&self) -> Health {
        self.lock().clone()
    }

    /// Notes a success.
    pub fn set_ok(&self) {
        *self.lock() = Health::Ok;
    }

    /// Notes a failure; an engine that keeps failing does so since the first.
    pub fn set_failing(&self, now: Timestamp, reason: &str) {
        let mut health = self.lock();
        let since = match *health {
            Health::Ok => now,
            Health::Failing { since, .. } => since,
        };
        *health = Health::Failing { since, reason: reason.to_owned() };
    }

    /// Each value is written whole, so one left by a panicking thread is as good as any.
    fn lock(&self) -> MutexGuard<'_, Health> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_fails_since_its_first_failure_and_for_its_last_reason() {
        let health = HealthCell::new();
        health.set_failing(Timestamp::from_millis(1), "no space");
        health.set_failing(Timestamp::from_millis(2), "still none");
        let expected = Health::Failing { since: Timestamp::from_millis(1), reason: "still none".to_owned() };
        assert_eq!(health.get(), expected);
        health.set_ok();
        assert_eq!(health.get(), Health::Ok);
    }
}
