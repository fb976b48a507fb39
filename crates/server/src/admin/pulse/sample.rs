use std::collections::BTreeMap;
use std::time::Duration;

use domain::Timestamp;
use serde::Serialize;
use tidings_metrics::Scrape;

/// Rates and percentiles between two moments, and gauges at the second.
///
/// Values without measurements are absent: a percentile over no observations, a gauge that this process does not have.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct PulseSample {
    pub(super) at: Timestamp,
    /// Answered sends, with any outcome.
    sends_per_second: f64,
    /// Acknowledged sends, new or duplicate.
    acks_per_second: f64,
    /// Frames put into mailboxes of connections.
    pushes_per_second: f64,
    /// From the ingest queue to the answer.
    ack_p50_ms: Option<f64>,
    ack_p99_ms: Option<f64>,
    /// From the commit of an event to its pushes.
    push_p50_ms: Option<f64>,
    push_p99_ms: Option<f64>,
    connections: Option<f64>,
    /// Sends that wait for their commit.
    ingest_queue: Option<f64>,
    /// Pushes queued in the fullest mailbox.
    mailbox_fullest: Option<f64>,
    /// Events of the log that each consumer has not processed yet.
    pub(super) lag_events: BTreeMap<String, f64>,
    errors_per_second: BTreeMap<String, f64>,
    /// Clients notified to resync because their mailbox was full.
    missed_per_second: f64,
    /// Violations since the start of the process, by invariant.
    violations: BTreeMap<String, f64>,
    memory_bytes: Option<u64>,
    cpu_cores: Option<f64>,
    /// Bytes of the files of an embedded store, and the free bytes of its disk.
    disk_used_bytes: Option<f64>,
    disk_free_bytes: Option<f64>,
    /// Bytes of the files from which on sends are refused, if there is a limit.
    disk_limit_bytes: Option<f64>,
}

/// CPU and memory of this process, from the operating system.
pub(super) struct ProcessUsage {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu_cores: Option<f64>,
}

const SENDS: &str = "tidings_ingest_sends_total";

impl PulseSample {
    pub(super) fn between(at: Timestamp, over: Duration, before: &Scrape, now: &Scrape, machine: ProcessUsage) -> Self {
        let seconds = over.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |name: &str| (now.sum(name) - before.sum(name)) / seconds;
        let outcomes = rates(&before.by(SENDS, "outcome"), &now.by(SENDS, "outcome"), seconds);
        let outcome = |name: &str| outcomes.get(name).copied().unwrap_or(0.0);
        let added = |histogram: &str| now.buckets(histogram).since(&before.buckets(histogram));
        let (ack, push) = (added("tidings_ingest_answer_seconds"), added("tidings_fanout_lag_seconds"));
        let mut errors = BTreeMap::new();
        for name in ["tidings_gateway_errors_total", "tidings_api_errors_total"] {
            for (code, rate) in rates(&before.by(name, "code"), &now.by(name, "code"), seconds) {
                *errors.entry(code).or_default() += rate;
            }
        }
        // All counters exist from the start, most of them at zero.
        let mut violations = now.by("tidings_invariant_violations_total", "name");
        violations.retain(|_, count| *count > 0.0);
        Self {
            at,
            sends_per_second: rate(SENDS),
            acks_per_second: outcome("new") + outcome("duplicate"),
            pushes_per_second: rate("tidings_gateway_pushes_total"),
            ack_p50_ms: ack.quantile(0.5).map(milliseconds),
            ack_p99_ms: ack.quantile(0.99).map(milliseconds),
            push_p50_ms: push.quantile(0.5).map(milliseconds),
            push_p99_ms: push.quantile(0.99).map(milliseconds),
            connections: now.value("tidings_gateway_connections"),
            // The decrement of a send may be counted before its increment, so the gauge can be negative for a moment.
            ingest_queue: now.value("tidings_ingest_queue_sends").map(|waiting| waiting.max(0.0)),
            mailbox_fullest: now.value("tidings_gateway_mailbox_messages_max"),
            lag_events: now.by("tidings_log_lag_events", "group"),
            errors_per_second: errors,
            missed_per_second: rate("tidings_gateway_pushes_missed_total"),
            violations,
            memory_bytes: machine.memory_bytes,
            cpu_cores: machine.cpu_cores,
            disk_used_bytes: now.value("tidings_store_disk_bytes"),
            disk_free_bytes: now.value("tidings_store_free_bytes"),
            disk_limit_bytes: now.value("tidings_store_limit_bytes").filter(|limit| *limit > 0.0),
        }
    }
}

/// Increases per second; labels without an increase are left out.
fn rates(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>, seconds: f64) -> BTreeMap<String, f64> {
    let grown = |(label, value): (&String, &f64)| {
        let grown = value - before.get(label).copied().unwrap_or(0.0);
        (grown > 0.0).then(|| (label.clone(), grown / seconds))
    };
    now.iter().filter_map(grown).collect()
}

fn milliseconds(seconds: f64) -> f64 {
    seconds * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(before: &str, now: &str) -> PulseSample {
        let machine = ProcessUsage { memory_bytes: Some(5), cpu_cores: Some(0.5) };
        let (before, now) = (Scrape::of(before), Scrape::of(now));
        PulseSample::between(Timestamp::from_millis(7), Duration::from_secs(2), &before, &now, machine)
    }

    #[test]
    fn rates_are_increments_per_second() {
        let before = "tidings_ingest_sends_total{outcome=\"new\"} 10\ntidings_gateway_pushes_total 5";
        let now = "tidings_ingest_sends_total{outcome=\"new\"} 20\ntidings_ingest_sends_total{outcome=\"duplicate\"} 2\n\
                   tidings_ingest_sends_total{outcome=\"busy\"} 4\ntidings_gateway_pushes_total 9\n\
                   tidings_gateway_errors_total{code=\"NOT_FOUND\"} 6\ntidings_api_errors_total{code=\"NOT_FOUND\"} 2\n\
                   tidings_gateway_pushes_missed_total 1";
        let sample = sample(before, now);
        assert_eq!((sample.sends_per_second, sample.acks_per_second, sample.pushes_per_second), (8.0, 6.0, 2.0));
        assert_eq!(sample.errors_per_second, [("NOT_FOUND".to_owned(), 4.0)].into());
        assert_eq!(sample.missed_per_second, 0.5);
    }

    #[test]
    fn gauges_are_read_at_the_second_moment_and_absent_if_not_measured() {
        let now = "tidings_gateway_connections 3\ntidings_ingest_queue_sends -1\n\
                   tidings_log_lag_events{group=\"fanout\"} 9\ntidings_invariant_violations_total{name=\"no_zero_sequence\"} 2";
        let sample = sample("tidings_invariant_violations_total{name=\"no_zero_sequence\"} 2", now);
        assert_eq!((sample.connections, sample.ingest_queue, sample.mailbox_fullest), (Some(3.0), Some(0.0), None));
        assert_eq!(sample.lag_events, [("fanout".to_owned(), 9.0)].into());
        assert_eq!(sample.violations, [("no_zero_sequence".to_owned(), 2.0)].into());
        assert_eq!((sample.memory_bytes, sample.cpu_cores, sample.ack_p99_ms), (Some(5), Some(0.5), None));
    }

    #[test]
    fn the_disk_is_that_of_an_embedded_store_and_0_is_no_limit() {
        let disk = |sample: PulseSample| (sample.disk_used_bytes, sample.disk_free_bytes, sample.disk_limit_bytes);
        let gauges = "tidings_store_disk_bytes 10\ntidings_store_free_bytes 90\ntidings_store_limit_bytes ";
        assert_eq!(disk(sample("", &format!("{gauges}50"))), (Some(10.0), Some(90.0), Some(50.0)));
        assert_eq!(disk(sample("", &format!("{gauges}0"))), (Some(10.0), Some(90.0), None));
        assert_eq!(disk(sample("", "")), (None, None, None), "a process of a fleet");
    }

    #[test]
    fn percentiles_cover_the_observations_in_between() {
        let bucket = |le: &str, count: u32| format!("tidings_ingest_answer_seconds_bucket{{le=\"{le}\"}} {count}\n");
        // Before, everything was slow. Since then a hundred observations were added, and ninety of them took up to 1
        // ms.
        let before = bucket("0.001", 0) + &bucket("0.002", 0) + &bucket("+Inf", 1000);
        let now = bucket("0.001", 90) + &bucket("0.002", 100) + &bucket("+Inf", 1100);
        let sample = sample(&before, &now);
        let (p50, p99) = (sample.ack_p50_ms.unwrap(), sample.ack_p99_ms.unwrap());
        assert!((p50 - 50.0 / 90.0).abs() < 1e-9, "{p50}");
        assert!((p99 - 1.9).abs() < 1e-9, "{p99}");
    }
}
