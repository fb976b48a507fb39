use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// One stream of random numbers. Every concern has its own, so that a plan that is made shorter leaves the others alone.
pub(crate) struct Dice(Mutex<StdRng>);

impl Dice {
    /// The stream of a concern.
    pub(crate) fn of(seed: u64, concern: &str) -> Self {
        // FNV-1a, so that the streams of one seed have nothing to do with each other.
        let mut mixed = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in concern.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(Mutex::new(StdRng::seed_from_u64(mixed)))
    }

    /// Whether something happens that does so with this probability.
    pub(crate) fn chance(&self, probability: f64) -> bool {
        self.with(|rng| rng.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// A number from `from` to below `to`.
    pub(crate) fn below(&self, from: u64, to: u64) -> u64 {
        self.with(|rng| rng.random_range(from..to.max(from + 1)))
    }

    /// An index into something that is not empty.
    pub(crate) fn index(&self, len: usize) -> usize {
        self.below(0, len as u64) as usize
    }

    /// A time between two others.
    pub(crate) fn time(&self, from: Duration, to: Duration) -> Duration {
        Duration::from_millis(self.below(from.as_millis() as u64, to.as_millis() as u64))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
