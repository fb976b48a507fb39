use std::time::Duration;

use tokio::time::Instant;
use webhook::CallError;

use crate::EventWebhookConfig;

/// The tries of one event that have failed.
#[derive(Default)]
pub(crate) struct Tries {
    pub(crate) failures: u32,
    /// Those to which the receiver has said no.
    refusals: u32,
    first_failure: Option<Instant>,
}

/// What is to be done after a failed try.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Try again after a pause.
    Again(Duration),
    /// Give up, so that the chat goes on.
    GiveUp,
}

impl Tries {
    /// Counts a failed try and says what follows. A receiver that says no is asked a few times, because a mistake may be
    /// mended; one that is not there is waited for.
    pub(crate) fn fail(
        &mut self,
        error: &CallError,
        config: &EventWebhookConfig,
        now: Instant,
        random: f64,
    ) -> Verdict {
        self.failures = self.failures.saturating_add(1);
        let since = *self.first_failure.get_or_insert(now);
        let (is_last, retry_after) = match error {
            CallError::Gone(_) | CallError::Refused(_) => {
                self.refusals += 1;
                (self.refusals >= config.refusals_max, None)
            }
            CallError::Unavailable { retry_after, .. } => (now - since >= config.patience, *retry_after),
            CallError::Unanswered(_) => (now - since >= config.patience, None),
        };
        if is_last { Verdict::GiveUp } else { Verdict::Again(config.backoff.pause(self.failures, random, retry_after)) }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(seconds: u64) -> Verdict {
        Verdict::Again(Duration::from_secs(seconds))
    }

    fn unavailable(retry_after: Option<Duration>) -> CallError {
        CallError::Unavailable { status: StatusCode::SERVICE_UNAVAILABLE, retry_after }
    }

    #[test]
    fn a_receiver_that_says_no_is_asked_five_times() {
        for error in [CallError::Refused(StatusCode::BAD_REQUEST), CallError::Gone(StatusCode::NOT_FOUND)] {
            let (mut tries, now) = (Tries::default(), Instant::now());
            let verdicts = [(); 5].map(|()| tries.fail(&error, &EventWebhookConfig::default(), now, 0.5));
            assert_eq!(verdicts, [seconds(1), seconds(2), seconds(4), seconds(8), Verdict::GiveUp]);
        }
    }

    #[test]
    fn a_receiver_that_sleeps_is_waited_for_until_patience_ends() {
        let (mut tries, start) = (Tries::default(), Instant::now());
        let mut fail = |retry_after, after| {
            tries.fail(&unavailable(retry_after), &EventWebhookConfig::default(), start + after, 0.5)
        };
        let verdicts = [(); 8].map(|()| fail(None, Duration::ZERO));
        assert_eq!(verdicts, [1, 2, 4, 8, 16, 32, 60, 60].map(seconds));
        assert_eq!(fail(Some(HOUR), HOUR), Verdict::Again(HOUR));
        assert_eq!(fail(None, 24 * HOUR - Duration::from_millis(1)), seconds(60));
        assert_eq!(fail(None, 24 * HOUR), Verdict::GiveUp);
    }

    #[test]
    fn a_sleep_does_not_count_as_a_no() {
        let (mut tries, now, config) = (Tries::default(), Instant::now(), EventWebhookConfig::default());
        for _ in 0..100 {
            assert_ne!(tries.fail(&unavailable(None), &config, now, 0.5), Verdict::GiveUp);
        }
        let refused = CallError::Refused(StatusCode::BAD_REQUEST);
        let verdicts = [(); 5].map(|()| tries.fail(&refused, &config, now, 0.5));
        assert_eq!(verdicts, [seconds(60), seconds(60), seconds(60), seconds(60), Verdict::GiveUp]);
    }
}
