use std::time::Duration;

use tokio::time::Instant;
use webhook::HttpCallError;

use crate::EventWebhookConfig;

/// Failed attempts to deliver one event.
#[derive(Default)]
pub(crate) struct DeliveryAttempts {
    pub(crate) failures: u32,
    /// Attempts that the receiver rejected.
    refusals: u32,
    first_failure: Option<Instant>,
}

/// Next step after a failed attempt.
#[derive(Debug, PartialEq)]
pub(crate) enum DeliveryFailureAction {
    /// Retry after a pause.
    Retry(Duration),
    /// Give up, so that the chat continues.
    GiveUp,
}

impl DeliveryAttempts {
    /// Counts a failed attempt and returns the next step. A rejection is retried a few times, because the receiver may be
    /// fixed meanwhile. An unavailable receiver is retried until `patience` ends.
    pub(crate) fn fail(
        &mut self,
        error: &HttpCallError,
        config: &EventWebhookConfig,
        now: Instant,
        random: f64,
    ) -> DeliveryFailureAction {
        self.failures = self.failures.saturating_add(1);
        let since = *self.first_failure.get_or_insert(now);
        let (is_last, retry_after) = match error {
            HttpCallError::Gone(_) | HttpCallError::Refused(_) => {
                self.refusals += 1;
                (self.refusals >= config.refusals_max, None)
            }
            HttpCallError::Unavailable { retry_after, .. } => (now - since >= config.patience, *retry_after),
            HttpCallError::Unanswered(_) => (now - since >= config.patience, None),
        };
        if is_last {
            DeliveryFailureAction::GiveUp
        } else {
            let delay = config.backoff.jittered_delay(self.failures, random);
            DeliveryFailureAction::Retry(delay.max(retry_after.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(seconds: u64) -> DeliveryFailureAction {
        DeliveryFailureAction::Retry(Duration::from_secs(seconds))
    }

    fn unavailable(retry_after: Option<Duration>) -> HttpCallError {
        HttpCallError::Unavailable { status: StatusCode::SERVICE_UNAVAILABLE, retry_after }
    }

    #[test]
    fn a_rejected_event_is_attempted_five_times() {
        for error in [HttpCallError::Refused(StatusCode::BAD_REQUEST), HttpCallError::Gone(StatusCode::NOT_FOUND)] {
            let (mut tries, now) = (DeliveryAttempts::default(), Instant::now());
            let actions = [(); 5].map(|()| tries.fail(&error, &EventWebhookConfig::default(), now, 0.5));
            assert_eq!(actions, [seconds(1), seconds(2), seconds(4), seconds(8), DeliveryFailureAction::GiveUp]);
        }
    }

    #[test]
    fn an_unavailable_receiver_is_retried_until_patience_ends() {
        let (mut tries, start) = (DeliveryAttempts::default(), Instant::now());
        let mut fail = |retry_after, after| {
            tries.fail(&unavailable(retry_after), &EventWebhookConfig::default(), start + after, 0.5)
        };
        let actions = [(); 8].map(|()| fail(None, Duration::ZERO));
        assert_eq!(actions, [1, 2, 4, 8, 16, 32, 60, 60].map(seconds));
        assert_eq!(fail(Some(HOUR), HOUR), DeliveryFailureAction::Retry(HOUR));
        assert_eq!(fail(None, 24 * HOUR - Duration::from_millis(1)), seconds(60));
        assert_eq!(fail(None, 24 * HOUR), DeliveryFailureAction::GiveUp);
    }

    #[test]
    fn unavailability_does_not_count_as_a_rejection() {
        let (mut tries, now, config) = (DeliveryAttempts::default(), Instant::now(), EventWebhookConfig::default());
        for _ in 0..100 {
            assert_ne!(tries.fail(&unavailable(None), &config, now, 0.5), DeliveryFailureAction::GiveUp);
        }
        let refused = HttpCallError::Refused(StatusCode::BAD_REQUEST);
        let actions = [(); 5].map(|()| tries.fail(&refused, &config, now, 0.5));
        assert_eq!(actions, [seconds(60), seconds(60), seconds(60), seconds(60), DeliveryFailureAction::GiveUp]);
    }
}
