//! Records the metrics of the process, as the table of `tidings-metrics` describes them.

mod process;
mod zeros;

use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tidings_metrics::{Kind, Metric, Unit};

pub(crate) use process::measure as measure_process;
pub(super) use process::{cpu_time, resident_bytes};

use crate::config::Config;

/// Installs the metrics recorder of the process. Counters start at zero, so that an alert sees the first event.
pub(crate) fn install_metrics(config: &Config) -> anyhow::Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in tidings_metrics::all() {
        if let Kind::Histogram(bounds) = metric.kind {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), bounds)?;
        }
    }
    let handle = builder.install_recorder()?;
    let parts = zeros::parts(config)?;
    for metric in tidings_metrics::all().filter(|metric| parts.contains(&metric.part)) {
        describe(metric);
        zeros::begin(metric);
    }
    Ok(handle)
}

fn describe(metric: &Metric) {
    let Metric { name, meaning, .. } = *metric;
    let unit = match metric.unit() {
        Unit::Seconds => metrics::Unit::Seconds,
        Unit::Bytes => metrics::Unit::Bytes,
        Unit::Ratio | Unit::Count => metrics::Unit::Count,
    };
    match metric.kind {
        Kind::Counter => describe_counter!(name, unit, meaning),
        Kind::Gauge => describe_gauge!(name, unit, meaning),
        Kind::Histogram(_) => describe_histogram!(name, unit, meaning),
    }
}

/// The metrics of the process in Prometheus' format.
pub(super) async fn page(metrics: PrometheusHandle) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use protocol::{CloseReason, ErrorCode};
    use tidings_metrics::LabelValues;

    /// The values that the table lists for a label of a metric.
    fn listed(metric: &str, label: &str) -> BTreeSet<&'static str> {
        let metric = tidings_metrics::all().find(|found| found.name == metric).expect("there is such a metric");
        let label = metric.labels.iter().find(|found| found.name == label).expect("it has such a label");
        let LabelValues::Listed(values) = label.values else { panic!("{} is not listed", label.name) };
        values.iter().copied().collect()
    }

    #[test]
    fn label_values_equal_the_lists_in_the_code() {
        let codes: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(listed("tidings_gateway_errors_total", "code"), codes);
        assert_eq!(listed("tidings_api_errors_total", "code"), codes);
        let reasons = CloseReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(listed("tidings_gateway_closes_total", "reason"), reasons);
        let asserted = ports::invariants::ASSERTED.iter().map(|invariant| invariant.name()).collect();
        assert_eq!(listed("tidings_invariant_violations_total", "name"), asserted);
        let groups = [fanout::Fanout::GROUP, notify::Notifications::GROUP, notify::EventWebhook::GROUP];
        assert_eq!(listed("tidings_log_lag_events", "group"), groups.into());
    }

    #[cfg(feature = "fleet")]
    #[test]
    fn the_tables_of_the_metric_equal_the_schema() {
        let tables: BTreeSet<_> = dynamodb::schema::Table::ALL.iter().map(|table| table.name()).collect();
        assert_eq!(listed("tidings_dynamodb_consumed_units_total", "table"), tables);
    }
}
