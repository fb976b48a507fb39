use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use domain::Backoff;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use ports::error_chain;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::config::TelemetrySettings;

const TRACES_PATH: &str = "/v1/traces";
/// Timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Delays after failures of the collector.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// An OpenTelemetry collector that accepts OTLP over HTTP.
#[derive(Debug)]
pub(super) struct Collector {
    http: reqwest::Client,
    endpoint: String,
    headers: HeaderMap,
    /// Whether the last request failed.
    is_unavailable: AtomicBool,
}

/// Why the collector did not accept a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("it does not answer")]
    Away(#[source] reqwest::Error),
    #[error("it answers {0}")]
    Busy(StatusCode),
    #[error("it refuses the request with {0}")]
    Refused(StatusCode),
}

impl Collector {
    pub(super) fn open(settings: &TelemetrySettings) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).build();
        Ok(Self {
            http: http.context("cannot build the HTTP client for `telemetry.otlp_endpoint`")?,
            endpoint: settings.otlp_endpoint.trim_end_matches('/').to_owned(),
            headers: headers(&settings.headers_file)?,
            is_unavailable: AtomicBool::new(false),
        })
    }

    /// Sends a message of OTLP once. Logs only the first failure in a row, and the recovery.
    pub(super) async fn post(&self, path: &str, message: Bytes) -> Result<(), ExportError> {
        let outcome = self.send(path, message).await;
        match (&outcome, self.is_unavailable.swap(outcome.is_err(), Relaxed)) {
            (Ok(()), true) => info!("the collector accepts traces and metrics again"),
            (Err(failure), false) => warn!(
                error = %error_chain(failure),
                "the collector does not accept traces and metrics; retrying with backoff, and dropping spans beyond the queue"
            ),
            _ => {}
        }
        outcome
    }

    async fn send(&self, path: &str, message: Bytes) -> Result<(), ExportError> {
        let request = self.http.post(format!("{}{path}", self.endpoint)).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(message);
        let answer = request.send().await.map_err(|error| ExportError::Away(error.without_url()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(ExportError::Busy(status))
            }
            status => Err(ExportError::Refused(status)),
        }
    }

    /// An exporter of spans to this collector. It retries a batch until the collector accepts or refuses it, or until the
    /// sender of `stopped` is dropped. It needs the current runtime.
    pub(super) fn span_exporter(
        self: Arc<Self>,
        stopped: watch::Receiver<()>,
    ) -> Result<SpanExporter, ExporterBuildError> {
        let endpoint = format!("{}{TRACES_PATH}", self.endpoint);
        SpanExporter::builder()
            .with_http()
            .with_endpoint(endpoint)
            .with_protocol(Protocol::HttpBinary)
            .with_retry_policy(RetryPolicy::disabled())
            .with_http_client(SpanTransport { collector: self, runtime: Handle::current(), stopped })
            .build()
    }
}

/// Sends encoded batches of spans, one after the other. The SDK calls it on a thread outside the runtime.
///
/// Retries are here and not in the exporter of `opentelemetry-otlp`, because that one sleeps through a shutdown.
#[derive(Debug)]
struct SpanTransport {
    collector: Arc<Collector>,
    runtime: Handle,
    stopped: watch::Receiver<()>,
}

#[async_trait]
impl HttpClient for SpanTransport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let delivery = deliver(self.collector.clone(), request.into_body(), self.stopped.clone());
        self.runtime.spawn(delivery).await??;
        Ok(Response::default())
    }
}

/// Posts a batch until the collector accepts or refuses it. After the shutdown has begun, one attempt is left.
async fn deliver(collector: Arc<Collector>, batch: Bytes, mut stopped: watch::Receiver<()>) -> Result<(), ExportError> {
    let mut failures = 0;
    loop {
        let is_last = stopped.has_changed().is_err();
        match collector.post(TRACES_PATH, batch.clone()).await {
            Err(ExportError::Away(_) | ExportError::Busy(_)) if !is_last => failures += 1,
            outcome => return outcome,
        }
        tokio::select! {
            () = sleep(BACKOFF.delay(failures)) => {}
            _ = stopped.changed() => {}
        }
    }
}

/// Reads headers from a file, `name: value` on each line. They may contain a token, so no error shows a value.
fn headers(file: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if file.is_empty() {
        return Ok(headers);
    }
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `telemetry.headers_file`, `{file}`"))?;
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        ensure!(
            parsed.is_some(),
            "line {number} of `telemetry.headers_file`, `{file}`, is not of the form `name: value`"
        );
        headers.extend(parsed);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::State;
    use axum::routing::post;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// A collector that answers every request with a status, and reports each one.
    async fn answering(status: StatusCode) -> (Arc<Collector>, mpsc::UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = TelemetrySettings {
            otlp_endpoint: format!("http://{}/", listener.local_addr().unwrap()),
            ..crate::config::Config::default().telemetry
        };
        let (report, requests) = mpsc::unbounded_channel();
        let answer = move |State(report): State<mpsc::UnboundedSender<()>>| async move {
            report.send(()).unwrap();
            status
        };
        let app = Router::new().route(TRACES_PATH, post(answer)).with_state(report);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (Arc::new(Collector::open(&settings).unwrap()), requests)
    }

    #[tokio::test]
    async fn a_refused_batch_is_not_retried() {
        let (collector, mut requests) = answering(StatusCode::BAD_REQUEST).await;
        let (_stop, stopped) = watch::channel(());
        let outcome = deliver(collector, Bytes::new(), stopped).await;
        assert!(matches!(outcome, Err(ExportError::Refused(StatusCode::BAD_REQUEST))), "{outcome:?}");
        requests.recv().await.unwrap();
        assert!(requests.is_empty());
    }

    #[tokio::test]
    async fn a_batch_is_retried_and_a_shutdown_leaves_one_more_attempt() {
        let (collector, mut requests) = answering(StatusCode::SERVICE_UNAVAILABLE).await;
        let (stop, stopped) = watch::channel(());
        let delivery = tokio::spawn(deliver(collector, Bytes::new(), stopped));
        requests.recv().await.unwrap();
        requests.recv().await.unwrap();
        drop(stop);
        let outcome = delivery.await.unwrap();
        assert!(matches!(outcome, Err(ExportError::Busy(_))), "{outcome:?}");
        requests.recv().await.unwrap();
    }

    #[test]
    fn headers_are_read_from_a_file_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        fs::write(&path, "authorization: Bearer hush\n\nx-tenant:7\n").unwrap();
        let read = headers(path.to_str().unwrap()).unwrap();
        assert_eq!(
            (&read["authorization"], &read["x-tenant"]),
            (&"Bearer hush".parse().unwrap(), &"7".parse().unwrap())
        );
        assert!(!format!("{read:?}").contains("hush"), "{read:?}");
        fs::write(&path, "x-tenant: 7\nhush\n").unwrap();
        let refused = headers(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(refused.starts_with("line 2 of `telemetry.headers_file`") && !refused.contains("hush"), "{refused}");
    }
}
