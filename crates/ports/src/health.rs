use std::sync::{Mutex, MutexGuard};

use domain::Timestamp;

use crate::lock;

/// The health of an engine behind an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineHealth {
    /// The engine is healthy.
    Ok,
    /// The engine is failing, and the adapter retries.
    Failing {
        /// The time of the first failure.
        since: Timestamp,
        /// The error of the last attempt.
        reason: String,
    },
}

/// The health of an engine: the adapter writes it, and any component may read it.
#[derive(Debug)]
pub struct HealthCell(Mutex<EngineHealth>);

impl HealthCell {
    /// Creates a cell that reports [`EngineHealth::Ok`].
    #[expect(clippy::new_without_default, reason = "a default would not say that the engine starts as healthy")]
    pub fn new() -> Self {
        Self(Mutex::new(EngineHealth::Ok))
    }

    /// The current health.
    pub fn get(&self) -> EngineHealth {
        self.lock().clone()
    }

    /// Records a success.
    pub fn set_ok(&self) {
        *self.lock() = EngineHealth::Ok;
    }

    /// Records a failure. `since` keeps the time of the first failure in a row.
    pub fn set_failing(&self, now: Timestamp, reason: &str) {
        let mut health = self.lock();
        let since = match *health {
            EngineHealth::Ok => now,
            EngineHealth::Failing { since, .. } => since,
        };
        *health = EngineHealth::Failing { since, reason: reason.to_owned() };
    }

    fn lock(&self) -> MutexGuard<'_, EngineHealth> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_keeps_the_time_of_the_first_failure_and_the_last_reason() {
        let health = HealthCell::new();
        health.set_failing(Timestamp::from_millis(1), "no space");
        health.set_failing(Timestamp::from_millis(2), "still none");
        let expected = EngineHealth::Failing { since: Timestamp::from_millis(1), reason: "still none".to_owned() };
        assert_eq!(health.get(), expected);
        health.set_ok();
        assert_eq!(health.get(), EngineHealth::Ok);
    }
}
