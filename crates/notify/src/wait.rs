use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use ports::{EventConsumer, EventLog, StoreError, error_chain};
use tracing::error;

/// Pause before a failed call to the log or the store is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Logs a failure and waits before the caller retries: a delivery may be late, but is not lost.
pub(crate) async fn wait_out(failure: StoreError) {
    error!(error = %error_chain(&failure), "notify cannot read the log or the store; retrying");
    tokio::time::sleep(RETRY_PAUSE).await;
}

/// Opens a consumer of the log, with retries.
pub(crate) async fn consumer(log: &dyn EventLog, group: &str) -> Box<dyn EventConsumer> {
    loop {
        match log.consumer(group).await {
            Ok(consumer) => return consumer,
            Err(failure) => wait_out(failure).await,
        }
    }
}

/// A number from 0 to 1 that spreads the retries of different deliveries. It depends on nothing but the attempt, so that a
/// simulated run can be repeated.
pub(crate) fn jitter(attempt: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    attempt.hash(&mut hasher);
    hasher.finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_spread_evenly_and_repeatably() {
        let numbers: Vec<f64> = (0..1000).map(|n| jitter(("delivery", n))).collect();
        for tenth in 0..10 {
            let count = numbers.iter().filter(|number| (**number * 10.0) as u64 == tenth).count();
            assert!((70..130).contains(&count), "{count} of 1000 numbers are in tenth {tenth}");
        }
        assert_eq!(jitter(("delivery", 7)), numbers[7]);
    }
}
