use std::sync::Mutex;
use std::time::Duration;

use ports::lock;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A stream of random numbers. Every concern has its own, so that shrinking a plan does not change the others.
pub(crate) struct Dice(Mutex<StdRng>);

impl Dice {
    /// The stream of a concern.
    pub(crate) fn of(seed: u64, concern: &str) -> Self {
        // FNV-1a, so that the streams of one seed are independent.
        let mut mixed = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in concern.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(Mutex::new(StdRng::seed_from_u64(mixed)))
    }

    /// Returns `true` with this probability.
    pub(crate) fn chance(&self, probability: f64) -> bool {
        self.with(|rng| rng.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// A fraction of at least `from`.
    pub(crate) fn part(&self, from: f64) -> f64 {
        from + (1.0 - from) * self.below(0, 1001) as f64 / 1000.0
    }

    /// A number in `from..to`.
    pub(crate) fn below(&self, from: u64, to: u64) -> u64 {
        self.with(|rng| rng.random_range(from..to.max(from + 1)))
    }

    /// An index into a non-empty list.
    pub(crate) fn index(&self, len: usize) -> usize {
        self.below(0, len as u64) as usize
    }

    /// A time between two others.
    pub(crate) fn time(&self, from: Duration, to: Duration) -> Duration {
        Duration::from_millis(self.below(from.as_millis() as u64, to.as_millis() as u64))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut lock(&self.0))
    }
}
