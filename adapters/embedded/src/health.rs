use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::Timestamp;

/// Whether the store takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Ok,
    /// It does not, and tries to again and again. Reads go on.
    Failing {
        /// Since when.
        since: Timestamp,
        /// What the last try met.
        reason: String,
    },
}

/// The health that the committer keeps and everybody may ask for.
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

    /// Notes a failure; a store that keeps failing does so since the first.
    pub(crate) fn set_failing(&self, now: Timestamp, reason: &str) {
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
    fn a_store_fails_since_its_first_failure_and_for_its_last_reason() {
        let health = HealthCell::new();
        health.set_failing(Timestamp::from_millis(1), "no space");
        health.set_failing(Timestamp::from_millis(2), "still none");
        let expected = Health::Failing { since: Timestamp::from_millis(1), reason: "still none".to_owned() };
        assert_eq!(health.get(), expected);
        health.set_ok();
        assert_eq!(health.get(), Health::Ok);
    }
}
