//! Samples of the last half hour, one every two seconds, for the plots of the console.

mod sample;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use domain::Timestamp;
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use ports::{Clock, EventLog, SystemClock, error_chain, lock};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_metrics::Scrape;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::warn;

use self::sample::{ProcessUsage, PulseSample};
use super::AdminState;
use super::error::AdminError;
use super::metrics::{cpu_time, resident_bytes};

const INTERVAL: Duration = Duration::from_secs(2);
/// Half an hour of samples; the oldest is dropped first.
const SAMPLES_MAX: usize = 900;

/// The latest samples, and the sources that they need besides the metrics.
pub(crate) struct Pulse {
    /// Consumer groups and the log to query for their lag. Kafka's consumers report their lag as a metric instead.
    consumers: Vec<(&'static str, Arc<dyn EventLog>)>,
    samples: Mutex<VecDeque<Arc<PulseSample>>>,
}

impl Pulse {
    pub(crate) fn new(consumers: Vec<(&'static str, Arc<dyn EventLog>)>) -> Self {
        Self { consumers, samples: Mutex::default() }
    }

    /// Takes samples until it is stopped.
    pub(crate) async fn run(&self, metrics: PrometheusHandle) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = (Instant::now(), Scrape::of(&metrics.render()), cpu_time());
        loop {
            ticks.tick().await;
            let now = (Instant::now(), Scrape::of(&metrics.render()), cpu_time());
            let over = now.0 - before.0;
            let machine = ProcessUsage {
                memory_bytes: resident_bytes(),
                cpu_cores: now.2.zip(before.2).map(|(now, before)| (now - before).as_secs_f64() / over.as_secs_f64()),
            };
            let mut sample = PulseSample::between(SystemClock.now(), over, &before.1, &now.1, machine);
            sample.lag_events.extend(self.lags().await);
            self.keep(sample);
            before = now;
        }
    }

    async fn lags(&self) -> BTreeMap<String, f64> {
        let mut lags = BTreeMap::new();
        for (group, log) in &self.consumers {
            match log.lag(group).await {
                Ok(lag) => {
                    gauge!("tidings_log_lag_events", "group" => *group).set(lag as f64);
                    lags.insert((*group).to_owned(), lag as f64);
                }
                Err(failure) => warn!(
                    error = %error_chain(&failure),
                    group, "could not read the consumer lag; it is missing in this sample"
                ),
            }
        }
        lags
    }

    fn keep(&self, sample: PulseSample) {
        let mut samples = self.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(Arc::new(sample));
    }

    fn since(&self, since: Timestamp) -> Vec<Arc<PulseSample>> {
        self.lock().iter().filter(|sample| sample.at > since).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<PulseSample>>> {
        lock(&self.samples)
    }
}

#[derive(Deserialize)]
pub(super) struct PulseQuery {
    since: Option<String>,
}

/// The samples of this process that were taken after `since`, or all that are kept.
pub(super) async fn pulse(
    State(admin): State<AdminState>,
    Query(PulseQuery { since }): Query<PulseQuery>,
) -> Result<Json<Value>, AdminError> {
    let since = match since {
        None => Timestamp::default(),
        Some(text) => text.parse().map_err(|_| {
            let message = format!("`since` is `{text}`, and must be a time like 2026-01-30T14:30:00.000Z");
            AdminError::new(ErrorCode::ValidationError, message)
        })?,
    };
    let samples = admin.pulse.since(since);
    Ok(Json(json!({ "interval_ms": INTERVAL.as_millis() as u64, "samples": samples })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64) -> PulseSample {
        let (nothing, machine) = (Scrape::of(""), ProcessUsage { memory_bytes: None, cpu_cores: None });
        PulseSample::between(Timestamp::from_millis(at), INTERVAL, &nothing, &nothing, machine)
    }

    #[test]
    fn samples_of_half_an_hour_are_kept_and_returned_from_a_given_time() {
        let pulse = Pulse::new(vec![]);
        for n in 1..=SAMPLES_MAX as u64 + 5 {
            pulse.keep(sample(n));
        }
        let times =
            |since| pulse.since(Timestamp::from_millis(since)).iter().map(|s| s.at.as_millis()).collect::<Vec<_>>();
        assert_eq!(times(0), (6..=905).collect::<Vec<_>>());
        assert_eq!(times(903), [904, 905]);
        assert_eq!(times(905), [0_u64; 0]);
    }

    /// The recorder's output and [`Scrape`] have to agree.
    #[test]
    fn the_output_of_the_recorder_is_parsed() {
        let recorder =
            metrics_exporter_prometheus::PrometheusBuilder::new().set_buckets(&[0.5, 1.0]).unwrap().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("sends_total", "outcome" => "new", "code" => "NOT_FOUND").increment(2);
            metrics::histogram!("took_seconds").record(0.7);
            metrics::gauge!("connections").set(3.0);
        });
        let scrape = Scrape::of(&recorder.handle().render());
        assert_eq!(scrape.by("sends_total", "outcome"), [("new".to_owned(), 2.0)].into());
        assert_eq!(scrape.by("sends_total", "code"), [("NOT_FOUND".to_owned(), 2.0)].into());
        let took = scrape.buckets("took_seconds");
        assert_eq!((took.count(), took.quantile(0.5), took.greatest()), (1.0, Some(0.75), Some(1.0)));
        assert_eq!(scrape.value("connections"), Some(3.0));
    }
}
