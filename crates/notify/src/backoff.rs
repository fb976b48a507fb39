use std::time::Duration;

/// How the pauses between tries grow: each is twice the one before, up to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many failures, the last one included: give or take a quarter, by a `random` number from 0 to 1,
    /// and no shorter than the receiver asks for.
    pub(crate) fn pause(self, failures: u32, random: f64, retry_after: Option<Duration>) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let pause = self.first.saturating_mul(1 << doublings).min(self.longest).mul_f64(0.75 + 0.5 * random);
        pause.max(retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_longest_give_or_take_a_quarter() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (9, 256.0), (10, 300.0), (u32::MAX, 300.0)] {
            let pauses = [0.0, 0.5, 1.0].map(|random| backoff.pause(failures, random, None).as_secs_f64());
            assert_eq!(pauses, [0.75 * seconds, seconds, 1.25 * seconds], "{failures}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_and_not_for_a_shorter_one() {
        let backoff = Backoff { first: Duration::from_secs(4), longest: Duration::from_secs(60) };
        assert_eq!(backoff.pause(1, 0.5, Some(Duration::from_secs(3600))), Duration::from_secs(3600));
        assert_eq!(backoff.pause(1, 0.5, Some(Duration::ZERO)), Duration::from_secs(4));
    }
}
