use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use metrics::counter;
use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use ports::{Ids, RandomIds};
use prost::Message;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};

use super::layer::unix_nanos;
use super::measured::measured;
use crate::config::Config;

/// Spans that wait for the collector, at the most. The next one is dropped and counted.
const QUEUE_LEN_MAX: usize = 8192;
/// Spans in one request. So many do not wait for the next round.
const BATCH_LEN_MAX: usize = 512;
/// How often spans are sent, and metrics.
const SPANS_INTERVAL: Duration = Duration::from_secs(1);
const METRICS_INTERVAL: Duration = Duration::from_secs(15);
/// How long the collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a collector that failed is left alone, at first and at the most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The way of ended spans to the exporter. Nobody waits here.
#[derive(Clone)]
pub(super) struct Queue {
    spans: mpsc::Sender<Span>,
    /// Tells the exporter that there is a whole batch.
    full: Arc<Notify>,
}

impl Queue {
    fn new(len_max: usize) -> (Self, mpsc::Receiver<Span>) {
        let (spans, received) = mpsc::channel(len_max);
        (Self { spans, full: Arc::default() }, received)
    }

    pub(super) fn put(&self, span: Span) {
        match self.spans.try_send(span) {
            Ok(()) if self.spans.max_capacity() - self.spans.capacity() >= BATCH_LEN_MAX => self.full.notify_one(),
            Ok(()) => {}
            Err(_) => dropped(1),
        }
    }
}

fn dropped(spans: usize) {
    counter!("tidings_telemetry_dropped_total").increment(spans as u64);
}

/// Brings spans and metrics to a collector by OTLP over HTTP, each signal in its own requests.
///
/// A batch of spans that the collector does not take now is tried again, and meanwhile the queue fills up and drops. Metrics
/// are sums since the start: what was not taken is in the next ones.
pub(super) struct Exporter {
    http: reqwest::Client,
    endpoint: String,
    headers: HeaderMap,
    resource: Resource,
    exports_metrics: bool,
    started_unix_nano: u64,
    spans: mpsc::Receiver<Span>,
    full: Arc<Notify>,
    /// Taken from the queue and not by the collector.
    batch: Vec<Span>,
    outage: Option<Outage>,
}

/// A collector that does not take what it is sent.
struct Outage {
    pause: Duration,
    /// When it is tried again.
    until: Instant,
}

/// Why the collector has not taken something.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("it does not answer")]
    Away(#[source] reqwest::Error),
    #[error("it answers {0}")]
    Busy(http::StatusCode),
    #[error("it refuses what it is sent with {0}")]
    Refused(http::StatusCode),
}

impl Exporter {
    pub(super) fn open(config: &Config) -> anyhow::Result<(Queue, Self)> {
        let telemetry = &config.telemetry;
        let text = |name, text: &str| attribute(name, Value::StringValue(text.to_owned()));
        let attributes = vec![
            text("service.name", &telemetry.service_name),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &RandomIds.ulid().to_string()),
            text("tidings.roles", &config.roles),
        ];
        let (queue, spans) = Queue::new(QUEUE_LEN_MAX);
        let http = reqwest::Client::builder().timeout(TIMEOUT).build();
        let exporter = Self {
            http: http.context("no HTTP client can be made for `telemetry.otlp_endpoint`")?,
            endpoint: telemetry.otlp_endpoint.trim_end_matches('/').to_owned(),
            headers: headers(&telemetry.headers_file)?,
            resource: Resource { attributes, ..Resource::default() },
            exports_metrics: telemetry.metrics,
            started_unix_nano: unix_nanos(),
            spans,
            full: queue.full.clone(),
            batch: Vec::new(),
            outage: None,
        };
        Ok((queue, exporter))
    }

    /// Exports until it is told to stop, or nobody could tell it any more, and then what is left.
    pub(super) async fn run(mut self, metrics: PrometheusHandle, mut stopped: oneshot::Receiver<()>) {
        let mut ticks = interval(SPANS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut metrics_due = Instant::now() + METRICS_INTERVAL;
        loop {
            let is_over = tokio::select! {
                biased;
                _ = &mut stopped => true,
                _ = ticks.tick() => false,
                () = self.full.notified() => false,
            };
            let now = Instant::now();
            if is_over || self.outage.as_ref().is_none_or(|outage| outage.until <= now) {
                self.export_spans().await;
            }
            if self.exports_metrics && (is_over || (metrics_due <= now && self.outage.is_none())) {
                metrics_due = now + METRICS_INTERVAL;
                self.export_metrics(&metrics.render()).await;
            }
            if is_over {
                return;
            }
        }
    }

    async fn export_spans(&mut self) {
        loop {
            while self.batch.len() < BATCH_LEN_MAX
                && let Ok(span) = self.spans.try_recv()
            {
                self.batch.push(span);
            }
            if self.batch.is_empty() {
                return;
            }
            let spans = ScopeSpans { scope: Some(scope()), spans: self.batch.clone(), ..ScopeSpans::default() };
            let resource_spans = vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![spans],
                ..ResourceSpans::default()
            }];
            let outcome = self.post("/v1/traces", &ExportTraceServiceRequest { resource_spans }).await;
            let is_retried = matches!(outcome, Err(ExportError::Away(_) | ExportError::Busy(_)));
            if matches!(outcome, Err(ExportError::Refused(_))) {
                dropped(self.batch.len());
            }
            self.note(outcome);
            if is_retried {
                return;
            }
            self.batch.clear();
        }
    }

    async fn export_metrics(&mut self, rendered: &str) {
        let metrics = measured(rendered, self.started_unix_nano, unix_nanos());
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }];
        let outcome = self.post("/v1/metrics", &ExportMetricsServiceRequest { resource_metrics }).await;
        self.note(outcome);
    }

    async fn post(&self, path: &str, body: &impl Message) -> Result<(), ExportError> {
        let request = self.http.post(format!("{}{path}", self.endpoint)).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body.encode_to_vec());
        let answer = request.send().await.map_err(|error| ExportError::Away(error.without_url()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS => {
                Err(ExportError::Busy(status))
            }
            status => Err(ExportError::Refused(status)),
        }
    }

    /// Takes note of how a request went. The log hears of the first failure and of the end of it.
    fn note(&mut self, outcome: Result<(), ExportError>) {
        match (outcome, &mut self.outage) {
            (Ok(()), outage) => {
                if outage.take().is_some() {
                    info!("the collector takes traces and metrics again");
                }
            }
            (Err(_), Some(outage)) => {
                outage.pause = (2 * outage.pause).min(PAUSE_MAX);
                outage.until = Instant::now() + outage.pause;
            }
            (Err(failure), outage @ None) => {
                let error = &failure as &dyn std::error::Error;
                warn!(
                    error,
                    "the collector does not take traces and metrics; it is tried again, and spans are dropped"
                );
                *outage = Some(Outage { pause: PAUSE_MIN, until: Instant::now() + PAUSE_MIN });
            }
        }
    }
}

/// The headers of a file, each on its line: `name: value`. They are the way to show a token, so no error shows a value.
fn headers(file: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if file.is_empty() {
        return Ok(headers);
    }
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read `telemetry.headers_file`, `{file}`"))?;
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        ensure!(parsed.is_some(), "line {number} of `telemetry.headers_file`, `{file}`, is no `name: value`");
        headers.extend(parsed);
    }
    Ok(headers)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "tidings".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The other end of a queue, for tests.
#[cfg(test)]
pub(super) struct Received(mpsc::Receiver<Span>);

#[cfg(test)]
impl Received {
    pub(super) fn queue(len_max: usize) -> (Queue, Self) {
        let (queue, spans) = Queue::new(len_max);
        (queue, Self(spans))
    }

    /// Every span that waits.
    pub(super) fn all(&mut self) -> Vec<Span> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let (queue, mut received) = Received::queue(2);
        metrics::with_local_recorder(&recorder, || (0..5).for_each(|_| queue.put(Span::default())));
        assert_eq!(received.all().len(), 2);
        assert!(handle.render().contains("tidings_telemetry_dropped_total 3"), "{}", handle.render());
    }

    #[test]
    fn headers_are_read_from_a_file_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        std::fs::write(&path, "authorization: Bearer hush\n\nx-tenant:7\n").unwrap();
        let read = headers(path.to_str().unwrap()).unwrap();
        assert_eq!(
            (&read["authorization"], &read["x-tenant"]),
            (&"Bearer hush".parse().unwrap(), &"7".parse().unwrap())
        );
        assert!(!format!("{read:?}").contains("hush"), "{read:?}");
        std::fs::write(&path, "x-tenant: 7\nhush\n").unwrap();
        let refused = headers(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(refused.starts_with("line 2 of `telemetry.headers_file`") && !refused.contains("hush"), "{refused}");
    }
}
