use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::order::IntegrityViolations;

/// The measured time, after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementWindow {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

impl MeasurementWindow {
    /// How long after the window operations in flight may still complete.
    const GRACE: Duration = Duration::from_secs(10);

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// When to stop waiting for operations in flight.
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

/// A latency histogram.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // 1 us to 2 min with an error of one percent: a few kilobytes, so each task can have its own.
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

    /// The latency at a quantile.
    pub(super) fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(quantile))
    }
}

/// The measurements of one task.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadTally {
    /// Sends acknowledged in the window, with their latency.
    pub(super) acks: Latencies,
    /// Pushes received in the window, with the latency since their send.
    pub(super) deliveries: Latencies,
    /// Sends that the server refused.
    pub(super) refused: u64,
    pub(super) integrity: IntegrityViolations,
}

impl LoadTally {
    pub(super) fn acked(&mut self, window: &MeasurementWindow, sent_at: Instant) {
        record(&mut self.acks, window, sent_at);
    }

    pub(super) fn delivered(&mut self, window: &MeasurementWindow, sent_at: Instant) {
        record(&mut self.deliveries, window, sent_at);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.acks.merge(&other.acks);
        self.deliveries.merge(&other.deliveries);
        self.refused += other.refused;
        self.integrity += other.integrity;
    }
}

fn record(latencies: &mut Latencies, window: &MeasurementWindow, since: Instant) {
    let now = Instant::now();
    if window.counts(now) {
        latencies.record(now.saturating_duration_since(since));
    }
}
