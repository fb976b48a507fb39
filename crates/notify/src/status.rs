use std::time::Duration;

use domain::Timestamp;
use metrics::counter;
use webhook::HttpCallError;

/// State of the application's webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookStatus {
    /// Log records that are not delivered yet.
    pub lag: u64,
    /// When attempts started to fail, if the last one failed.
    pub failing_since: Option<Timestamp>,
    /// Error of the last failed attempt: the response status, or the reason that there was none.
    pub last_error: Option<String>,
    /// Successful attempts since the start of the process.
    pub delivered: u64,
    /// Failed attempts since the start of the process.
    pub failed: u64,
}

/// Results of all attempts so far.
#[derive(Default)]
pub(crate) struct WebhookTally {
    failing_since: Option<Timestamp>,
    last_error: Option<String>,
    delivered: u64,
    failed: u64,
}

impl WebhookTally {
    pub(crate) fn note(&mut self, outcome: &Result<(), HttpCallError>, now: Timestamp) {
        let label = match outcome {
            Ok(()) => "taken",
            Err(HttpCallError::Gone(_) | HttpCallError::Refused(_)) => "refused",
            Err(HttpCallError::Unavailable { .. } | HttpCallError::Unanswered(_)) => "unavailable",
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

    /// How long all attempts have failed.
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
