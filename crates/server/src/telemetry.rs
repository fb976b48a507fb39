//! What a process tells of itself: its log on standard error, and to a collector of OpenTelemetry, if one is set, its traces
//! and metrics.
//!
//! `level` says what is logged, now and again later; `line` puts the ids of a trace on each line, and `flood` keeps failures
//! that repeat themselves from filling the log. `layer` makes spans of planes and adapters into spans of OpenTelemetry and
//! decides which are kept; `asked` is how both choose what they look at. `measured` reads the metrics; `exporter` brings
//! them and the spans to the collector, which may be slow or away without anybody else noticing.

mod asked;
mod exporter;
mod flood;
mod layer;
mod level;
mod line;
mod measured;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry, reload};

pub(crate) use self::level::{LevelError, LevelStanding, LogLevel};

use self::exporter::Exporter;
use self::layer::TraceLayer;
use self::line::Lines;
use crate::config::{Config, LogFormat};

/// How long the last spans and metrics may take to get to the collector.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The telemetry of this process, from before its start to after its end.
pub struct Telemetry {
    pub(crate) level: LogLevel,
    /// What brings traces and metrics to a collector, if one is set and until it runs.
    exporter: Option<Exporter>,
    running: JoinSet<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Telemetry {
    /// Begins to log, and to gather spans if there is a collector for them. Settings that cannot be used are an error that
    /// names them.
    pub fn init(config: &Config) -> anyhow::Result<Self> {
        let exports = !config.telemetry.otlp_endpoint.is_empty();
        let (queue, exporter) = match exports {
            true => Exporter::open(config).map(|(queue, exporter)| (Some(queue), Some(exporter)))?,
            false => (None, None),
        };
        let traces =
            queue.map(|queue| TraceLayer::new(queue, config.telemetry.trace_ratio).with_filter(layer::filter()));
        // Lines have the fields of the spans that they are in, where there are any.
        let filter = level::filter(&config.log.level, exports).context("`log.level` is not usable")?;
        let (filter, handle) = reload::Layer::new(filter);
        let lines = fmt::layer().with_writer(std::io::stderr);
        let lines = match config.log.format {
            LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).map_event_format(Lines::text).boxed(),
            LogFormat::Json => lines.json().map_event_format(Lines::json).boxed(),
        };
        if exports {
            ports::trace::follow(layer::read);
        }
        registry().with(traces).with(lines.with_filter(filter.and(level::discretion()))).try_init()?;
        let level = LogLevel::new(&config.log.level, exports, move |filter| handle.reload(filter));
        Ok(Self { level, exporter, running: JoinSet::new(), stop: None })
    }

    /// Begins to export, where there is a collector.
    pub(crate) fn start(&mut self, metrics: &PrometheusHandle) {
        let Some(exporter) = self.exporter.take() else { return };
        let (stop, stopped) = oneshot::channel();
        self.running.spawn(exporter.run(metrics.clone(), stopped));
        self.stop = Some(stop);
    }

    /// Brings what is left to the collector, if it is quick.
    pub(crate) async fn finish(mut self) {
        // Nobody to tell it is what tells it.
        drop(self.stop.take());
        if tokio::time::timeout(FLUSH_MAX, self.running.join_next()).await.is_err() {
            tracing::warn!("the collector has not taken the last traces and metrics in time");
        }
    }
}
