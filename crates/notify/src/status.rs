use std::time::Duration;

use domain::Timestamp;
use metrics::counter;
use webhook::CallError;

/// How the application's webhook is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookStatus {
    /// Places of the log that are not done.
    pub lag: u64,
    /// Since when tries have failed, if the last one did.
    pub failing_since: Option<Timestamp>,
    /// Why the last failed try failed: a status, or what kept it from getting one.
    pub last_error: Option<String>,
    /// Tries since the start of the process that were taken.
    pub delivered: u64,
    /// Tries since the start of the process that were not.
    pub failed: u64,
}

/// What has become of the tries so far.
#[derive(Default)]
pub(crate) struct Outcomes {
    failing_since: Option<Timestamp>,
    last_error: Option<String>,
    delivered: u64,
    failed: u64,
}

impl Outcomes {
    pub(crate) fn note(&mut self, outcome: &Result<(), CallError>, now: Timestamp) {
        let label = match outcome {
            Ok(()) => "taken",
            Err(CallError::Gone(_) | CallError::Refused(_)) => "refused",
            Err(CallError::Unavailable { .. } | CallError::Unanswered(_)) => "unavailable",
        };
        counter!("tidings_webhook_deliveries_total", "outcome" => label).increment(1);
        match outcome {
            Ok(()) => {
                self.delivered += 1;
                self.failing_since = None;
            }
            Err(error) => {
                self.failed += 1;
                self.failing_since.get_or_insert(now);
                self.last_error = Some(error.to_string());
            }
        }
    }

    /// For how long every try has failed.
    pub(crate) fn failing_for(&self, now: Timestamp) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    pub(crate) fn status(&self, lag: u64) -> WebhookStatus {
        WebhookStatus {
            lag,
            failing_since: self.failing_since,
            last_error: self.last_error.clone(),
            delivered: self.delivered,
            failed: self.failed,
        }
    }
}
