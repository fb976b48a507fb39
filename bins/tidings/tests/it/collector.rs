//! An OpenTelemetry collector that keeps every span and metric for the test.
#![allow(dead_code, reason = "several test binaries share this file, and each uses its own part of it")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::HeaderMap;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use ports::lock;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::server::PATIENCE;

pub(crate) struct TestCollector {
    address: SocketAddr,
    seen: SharedTelemetry,
    serving: AbortHandle,
}

type SharedTelemetry = Arc<Mutex<CollectedTelemetry>>;

#[derive(Default)]
struct CollectedTelemetry {
    /// Spans with the roles of their processes.
    spans: Vec<(String, Span)>,
    /// The last value of each counter, over all its labels.
    counters: HashMap<String, f64>,
    headers: HeaderMap,
}

/// A summary of a span.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpanStep {
    pub(crate) roles: String,
    pub(crate) name: String,
}

impl TestCollector {
    pub(crate) async fn start() -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn start_on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = SharedTelemetry::default();
        let app = Router::new()
            .route("/v1/traces", post(take_spans))
            .route("/v1/metrics", post(take_metrics))
            .with_state(seen.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle();
        Self { address, seen, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All received spans, with the roles of the exporting process.
    pub(crate) fn spans(&self) -> Vec<(String, Span)> {
        self.seen.lock().unwrap().spans.clone()
    }

    pub(crate) fn counter(&self, name: &str) -> Option<f64> {
        self.seen.lock().unwrap().counters.get(name).copied()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let taken = self.seen.lock().unwrap();
        taken.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// The path from the first span of a trace to the span of that name, after all of it has arrived. `from` is the
    /// parent span that the client sent.
    pub(crate) async fn way_to(&self, name: &str, trace_id: [u8; 16], from: [u8; 8]) -> Vec<SpanStep> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            let of_trace: Vec<_> = spans.iter().filter(|(_, span)| span.trace_id == trace_id).collect();
            if let Some(way) = way(&of_trace, name, from) {
                return way;
            }
            let names: Vec<_> = of_trace.iter().map(|(roles, span)| (roles, &span.name)).collect();
            assert!(Instant::now() < deadline, "of the way to {name} there is {names:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn way(spans: &[&(String, Span)], name: &str, from: [u8; 8]) -> Option<Vec<SpanStep>> {
    let mut at = spans.iter().find(|(_, span)| span.name == name)?;
    let mut way = vec![];
    loop {
        way.push(SpanStep { roles: at.0.clone(), name: at.1.name.clone() });
        if at.1.parent_span_id == from {
            way.reverse();
            return Some(way);
        }
        at = spans.iter().find(|(_, span)| span.span_id == at.1.parent_span_id)?;
    }
}

/// The text of an attribute.
pub(crate) fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

pub(crate) fn has_failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == i32::from(StatusCode::Error))
}

impl Drop for TestCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take_spans(State(seen): State<SharedTelemetry>, headers: HeaderMap, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut taken = lock(&seen);
    taken.headers = headers;
    for resource_spans in request.resource_spans {
        let roles = attribute(&resource_spans.resource.unwrap().attributes, "tidings.roles").to_owned();
        let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
        taken.spans.extend(spans.map(|span| (roles.clone(), span)));
    }
}

async fn take_metrics(State(seen): State<SharedTelemetry>, body: Bytes) {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let mut taken = lock(&seen);
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    for metric in scopes.flat_map(|scope| scope.metrics) {
        if let Some(Data::Sum(sum)) = metric.data {
            let value = |point: &_| match point {
                Some(Number::AsDouble(value)) => *value,
                _ => 0.0,
            };
            let total = sum.data_points.iter().map(|point| value(&point.value)).sum();
            taken.counters.insert(metric.name, total);
        }
    }
}
