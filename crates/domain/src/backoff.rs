use std::time::Duration;

/// Exponential backoff: each delay is twice the previous one, up to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub longest: Duration,
}

impl Backoff {
    /// The delay after this number of failures in a row, including the last one.
    pub fn delay(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// The same with a jitter of ±25 %. `random` is a number from 0 to 1.
    pub fn jittered_delay(self, failures: u32, random: f64) -> Duration {
        self.delay(failures).mul_f64(0.75 + 0.5 * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_longest_give_or_take_a_quarter() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
        for (failures, seconds) in [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (9, 256.0), (10, 300.0), (u32::MAX, 300.0)]
        {
            assert_eq!(backoff.delay(failures).as_secs_f64(), seconds, "{failures}");
            let delays = [0.0, 0.5, 1.0].map(|random| backoff.jittered_delay(failures, random).as_secs_f64());
            assert_eq!(delays, [0.75 * seconds, seconds, 1.25 * seconds], "{failures}");
        }
    }

    #[test]
    fn the_longest_delay_bounds_the_first_too() {
        let backoff = Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(30) };
        assert_eq!(backoff.delay(1), Duration::from_secs(30));
    }
}
