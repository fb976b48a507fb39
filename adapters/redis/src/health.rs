use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::Timestamp;

/// Whether Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The last command was answered, or there was none yet.
    Ok,
    /// The last command was not.
    Failing {
        /// Since when none was.
        since: Timestamp,
        /// What the last one met.
        reason: String,
    },
}

/// The health that every command notes and everybody may ask for.
pub(crate) struct HealthCell(Mutex<Health>);

impl HealthCell {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Health::Ok))
    }

    pub(crate) fn get(&self) -> Health {
        self.lock().clone()
    }

    pub(crate) fn set_ok(&self) {
        *self.lock() = Health::Ok;
    }

    /// Notes a failure; a Redis that keeps failing does so since the first.
    pub(crate) fn set_failing(&self, now: Timestamp, reason: String) {
        let mut health = self.lock();
        let since = match *health {
            Health::Ok => now,
            Health::Failing { since, .. } => since,
        };
        *health = Health::Failing { since, reason };
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
    fn redis_fails_since_its_first_failure_and_for_its_last_reason() {
        let health = HealthCell::new();
        health.set_failing(Timestamp::from_millis(1), "refused".to_owned());
        health.set_failing(Timestamp::from_millis(2), "too late".to_owned());
        let expected = Health::Failing { since: Timestamp::from_millis(1), reason: "too late".to_owned() };
        assert_eq!(health.get(), expected);
        health.set_ok();
        assert_eq!(health.get(), Health::Ok);
    }
}
