use std::time::Duration;

use domain::Backoff;

use crate::ErrorBody;

/// Longest delay that a server can request; a longer one is capped.
pub(super) const SERVER_DELAY_MAX: Duration = Duration::from_secs(15 * 60);

/// The backoff of the contract.
pub(super) const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// The delay after this many failures in a row, including the last one: 1 s, doubling up to 30 s, with a jitter of ±25
/// %.
pub(super) fn pause(failures: u32, random: &mut Random) -> Duration {
    pause_from(BACKOFF.first, failures, random)
}

/// The same with another initial delay.
pub(super) fn pause_from(first: Duration, failures: u32, random: &mut Random) -> Duration {
    Backoff { first, ..BACKOFF }.jittered_delay(failures, random.unit())
}

/// The delay that an error requests with `retry_after_seconds`.
pub(super) fn retry_after(error: &ErrorBody) -> Option<Duration> {
    let seconds = error.details.as_ref()?.get("retry_after_seconds")?.as_u64()?;
    Some(Duration::from_secs(seconds).min(SERVER_DELAY_MAX))
}

/// A seeded random number generator (SplitMix64). It only spreads reconnects, so it need not be secure, and a run can
/// be repeated.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number from 0 up to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn pauses_double_from_one_second_to_thirty_give_or_take_a_quarter() {
        let mut random = Random::new(7);
        for (failures, seconds) in
            [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (6, 30.0), (7, 30.0), (u32::MAX, 30.0)]
        {
            let pauses: Vec<f64> = (0..200).map(|_| pause(failures, &mut random).as_secs_f64() / seconds).collect();
            assert!(pauses.iter().all(|ratio| (0.75..1.25).contains(ratio)), "{failures}: {pauses:?}");
            let (low, high) = pauses.iter().fold((2.0, 0.0), |(low, high), &p| (f64::min(low, p), f64::max(high, p)));
            assert!(low < 0.8 && high > 1.2, "{failures}: {low} to {high} has too little jitter");
        }
    }

    #[test]
    fn pauses_with_a_shorter_start_double_to_the_same_maximum() {
        let mut random = Random::new(7);
        for (failures, millis) in [(1, 20.0), (2, 40.0), (11, 20_480.0), (12, 30_000.0), (u32::MAX, 30_000.0)] {
            let pause = pause_from(Duration::from_millis(20), failures, &mut random).as_secs_f64() * 1000.0;
            assert!((0.75..1.25).contains(&(pause / millis)), "{failures}: {pause} ms");
        }
    }

    #[test]
    fn a_requested_delay_is_honoured_up_to_the_maximum() {
        let asks = |details| retry_after(&ErrorBody::new(ErrorCode::RateLimited, "later").with_details(details));
        assert_eq!(asks(serde_json::json!({ "retry_after_seconds": 7 })), Some(Duration::from_secs(7)));
        assert_eq!(asks(serde_json::json!({ "retry_after_seconds": u64::MAX })), Some(SERVER_DELAY_MAX));
        assert_eq!(asks(serde_json::json!({ "retry_after_seconds": -1 })), None);
        assert_eq!(asks(serde_json::json!([])), None);
    }
}
