use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::collector::Collector;
use super::measured::measured;

const METRICS_PATH: &str = "/v1/metrics";
const INTERVAL: Duration = Duration::from_secs(15);

/// Exports metrics at an interval. They are cumulative since the start, so a later export makes up for a failed one.
pub(super) struct MetricsExporter {
    collector: Arc<Collector>,
    resource: Resource,
    started_unix_nano: u64,
}

impl MetricsExporter {
    pub(super) fn new(collector: Arc<Collector>, resource: Resource) -> Self {
        Self { collector, resource, started_unix_nano: unix_nanos() }
    }

    /// Exports until the sender of `stopped` is dropped, then once more.
    pub(super) async fn run(self, metrics: PrometheusHandle, mut stopped: watch::Receiver<()>) {
        let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_over = tokio::select! {
                biased;
                _ = stopped.changed() => true,
                _ = ticks.tick() => false,
            };
            // The collector logs the failure.
            let _ = self.collector.post(METRICS_PATH, self.request(&metrics.render()).encode_to_vec().into()).await;
            if is_over {
                return;
            }
        }
    }

    fn request(&self, page: &str) -> ExportMetricsServiceRequest {
        let scope = InstrumentationScope {
            name: "tidings".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = measured(page, self.started_unix_nano, unix_nanos());
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }];
        ExportMetricsServiceRequest { resource_metrics }
    }
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
