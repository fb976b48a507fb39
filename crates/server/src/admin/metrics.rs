use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Upper bounds of latency buckets in seconds: from below one fsync to the deadline of a send.
const LATENCY_BUCKETS: [f64; 14] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Upper bounds of batch sizes.
const BATCH_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0];

/// Begins to gather metrics for the whole process.
pub(crate) fn install_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets(&LATENCY_BUCKETS)?
        .set_buckets_for_metric(metrics_exporter_prometheus::Matcher::Suffix("_sends".into()), &BATCH_BUCKETS)?
        .set_buckets_for_metric(metrics_exporter_prometheus::Matcher::Suffix("_messages".into()), &BATCH_BUCKETS)?
        .install_recorder()?;
    Ok(handle)
}

/// The metrics of the process in Prometheus' format.
pub(super) async fn page(metrics: PrometheusHandle) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render())
}
