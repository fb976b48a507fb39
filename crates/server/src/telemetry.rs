//! Telemetry of a process: its log on standard error, and traces and metrics to an OpenTelemetry collector, if one is
//! set.
//!
//! - `level` filters log lines and can change at run time.
//! - `line` adds the ids of a trace to each line, and `flood` limits repeated failures in the log.
//! - `bridge` turns spans of planes and adapters into OpenTelemetry spans and samples them.
//! - `uncached_filter` is the filter that both layers use.
//! - `span_queue` bounds the spans that wait for the collector.
//! - `measured` reads the metrics, and `metrics_exporter` exports them.
//! - `collector` sends both. A slow or unavailable collector does not affect the service.

mod bridge;
mod collector;
mod flood;
mod level;
mod line;
mod measured;
mod metrics_exporter;
mod span_queue;
mod uncached_filter;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use ports::{Ids, RandomIds};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry, reload};

pub(crate) use self::level::{LevelError, LogLevel, LogLevelStatus};

use self::bridge::RecordingSampler;
use self::collector::Collector;
use self::line::LogLineFormat;
use self::metrics_exporter::MetricsExporter;
use self::span_queue::{QUEUE_LEN_MAX, SpanQueue};
use crate::config::{Config, LogFormat};

/// Timeout for flushing the last spans and metrics to the collector.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The telemetry of this process, from before its start to after its end.
pub struct Telemetry {
    pub(crate) level: LogLevel,
    export: Option<TelemetryExport>,
}

/// The export of spans and metrics to a collector.
struct TelemetryExport {
    spans: SdkTracerProvider,
    /// Taken when the export starts.
    metrics: Option<MetricsExporter>,
    running: JoinSet<()>,
    /// Dropped to stop the export.
    stop: watch::Sender<()>,
}

impl Telemetry {
    /// Installs the log, and the export of spans if a collector is set. Must be called in the runtime. Fails with an
    /// error that names an unusable setting.
    pub fn init(config: &Config) -> anyhow::Result<Self> {
        let exports = !config.telemetry.otlp_endpoint.is_empty();
        let export = exports.then(|| TelemetryExport::open(config)).transpose()?;
        let traces = export.as_ref().map(|export| bridge::layer(&export.spans).with_filter(bridge::filter()));
        // Lines include the fields of their enclosing spans.
        let filter = level::filter(&config.log.level, exports).context("`log.level` is not usable")?;
        let (filter, handle) = reload::Layer::new(filter);
        let lines = fmt::layer().with_writer(std::io::stderr);
        let lines = match config.log.format {
            LogFormat::Text => {
                lines.with_ansi(std::io::stderr().is_terminal()).map_event_format(LogLineFormat::text).boxed()
            }
            LogFormat::Json => lines.json().map_event_format(LogLineFormat::json).boxed(),
        };
        if exports {
            ports::trace::follow(bridge::read);
        }
        registry().with(traces).with(lines.with_filter(filter.and(level::discretion()))).try_init()?;
        let level = LogLevel::new(&config.log.level, exports, move |filter| handle.reload(filter));
        Ok(Self { level, export })
    }

    /// Starts the export of metrics, if a collector is set.
    pub(crate) fn start(&mut self, metrics: &PrometheusHandle) {
        if let Some(export) = &mut self.export
            && let Some(exporter) = export.metrics.take()
        {
            export.running.spawn(exporter.run(metrics.clone(), export.stop.subscribe()));
        }
    }

    /// Flushes the remaining spans and metrics to the collector, within a timeout.
    pub(crate) async fn finish(self) {
        let Some(TelemetryExport { spans, mut running, stop, .. }) = self.export else { return };
        drop(stop);
        let spans = spawn_blocking(move || spans.shutdown_with_timeout(FLUSH_MAX));
        match timeout(FLUSH_MAX, async { tokio::join!(spans, running.join_next()).0 }).await {
            Ok(Ok(Ok(()))) => {}
            _ => tracing::warn!("the collector did not accept the last traces and metrics in time; they are lost"),
        }
    }
}

impl TelemetryExport {
    fn open(config: &Config) -> anyhow::Result<Self> {
        let telemetry = &config.telemetry;
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", telemetry.service_name.clone()),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", RandomIds.ulid().to_string()),
                KeyValue::new("tidings.roles", config.roles.clone()),
            ])
            .build();
        let collector = Arc::new(Collector::open(telemetry)?);
        let (stop, stopped) = watch::channel(());
        let exporter = collector.clone().span_exporter(stopped).context("`telemetry.otlp_endpoint` is not usable")?;
        let metrics = telemetry.metrics.then(|| MetricsExporter::new(collector, (&resource).into()));
        let spans = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(RecordingSampler::new(telemetry.trace_ratio))
            .with_span_limits(span_queue::limits())
            .with_span_processor(SpanQueue::new(exporter, QUEUE_LEN_MAX))
            .build();
        Ok(Self { spans, metrics, running: JoinSet::new(), stop })
    }
}
