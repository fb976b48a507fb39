use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::order::Integrity;

/// The time that counts, after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

impl Window {
    /// How long after the window what is under way may still arrive.
    const GRACE: Duration = Duration::from_secs(10);

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// When to stop waiting for what is under way.
    pub(super) fn deadline(&self) -> Instant {
        self.until + Self::GRACE
    }

    pub(super) fn seconds(&self) -> f64 {
        (self.until - self.from).as_secs_f64()
    }

    fn counts(&self, at: Instant) -> bool {
        (self.from..self.until).contains(&at)
    }
}

/// How long things took.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // 1 us to 2 min with a percent of error: a few kilobytes, so each task can have its own.
        Self(Histogram::new_with_bounds(1, 120_000_000, 2).expect("the bounds are in order"))
    }
}

impl Latencies {
    pub(super) fn record(&mut self, took: Duration) {
        self.0.saturating_record(took.as_micros() as u64);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time within which this share of them was done.
    pub(super) fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(quantile))
    }
}

/// What one task has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Sends acknowledged in the window, and how long each took.
    pub(super) acks: Latencies,
    /// Pushes that arrived in the window, and how long after their send.
    pub(super) deliveries: Latencies,
    /// Sends that the server refused.
    pub(super) refused: u64,
    pub(super) integrity: Integrity,
}

impl Tally {
    pub(super) fn acked(&mut self, window: &Window, sent_at: Instant) {
        record(&mut self.acks, window, sent_at);
    }

    pub(super) fn delivered(&mut self, window: &Window, sent_at: Instant) {
        record(&mut self.deliveries, window, sent_at);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.acks.merge(&other.acks);
        self.deliveries.merge(&other.deliveries);
        self.refused += other.refused;
        self.integrity += other.integrity;
    }
}

fn record(latencies: &mut Latencies, window: &Window, since: Instant) {
    let now = Instant::now();
    if window.counts(now) {
        latencies.record(now.saturating_duration_since(since));
    }
}
