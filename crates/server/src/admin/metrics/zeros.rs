//! Creates counters at zero: Prometheus does not see an increase if a series first appears with the value one.

use std::collections::BTreeSet;

use metrics::{Label, counter, histogram};
use tidings_metrics::{Kind, LabelValues, Metric, Part};

use crate::config::Config;

/// Most series of one metric that are created in advance. Metrics with more create their series on first use.
const SERIES_MAX: usize = 100;

/// The parts of the service that run in a process.
pub(super) fn parts(config: &Config) -> anyhow::Result<BTreeSet<Part>> {
    Ok(config.store.engine.descriptor().metric_parts(&config.roles()?))
}

/// Creates the series of a counter or histogram, one for each combination of label values. Gauges stay absent until
/// set.
pub(super) fn begin(metric: &Metric) {
    for labels in series(metric) {
        match metric.kind {
            Kind::Counter => counter!(metric.name, labels).increment(0),
            Kind::Histogram(_) => drop(histogram!(metric.name, labels)),
            Kind::Gauge => {}
        }
    }
}

/// The label sets of a metric; empty if their values are not listed, or if there are too many.
fn series(metric: &Metric) -> Vec<Vec<Label>> {
    let mut all = vec![vec![]];
    for label in metric.labels {
        let LabelValues::Listed(values) = label.values else { return vec![] };
        let with = |series: &Vec<Label>, value: &'static str| [&series[..], &[Label::new(label.name, value)]].concat();
        all = all.iter().flat_map(|series| values.iter().copied().map(move |value| with(series, value))).collect();
    }
    if all.len() <= SERIES_MAX { all } else { vec![] }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::config::StoreEngine;

    #[test]
    fn every_series_that_counts_is_there_before_anything_happens() {
        let recorder = PrometheusBuilder::new().set_buckets(&[1.0]).unwrap().build_recorder();
        metrics::with_local_recorder(&recorder, || tidings_metrics::all().for_each(begin));
        let told = recorder.handle().render();
        for line in [
            "tidings_store_commit_errors_total 0",
            "tidings_ingest_sends_total{outcome=\"counter_missing\"} 0",
            "tidings_rpc_calls_total{method=\"send\",outcome=\"failed\"} 0",
            "tidings_ingest_answer_seconds_count 0",
        ] {
            assert!(told.lines().any(|told| told == line), "{line} is not in {told}");
        }
        assert!(!told.contains("tidings_redis_available"), "a gauge is absent until it is set");
        assert!(!told.contains("tidings_dynamodb_consumed_units_total{"), "of these there are too many");
    }

    #[test]
    fn a_process_has_the_parts_of_its_roles() {
        let mut config = Config::default();
        let alone = parts(&config).unwrap();
        assert!(alone.contains(&Part::Store) && !alone.contains(&Part::Redis), "{alone:?}");
        config.store.engine = StoreEngine::Dynamodb;
        config.roles = "gateway".into();
        assert_eq!(parts(&config).unwrap(), [Part::Process, Part::Gateway, Part::Redis, Part::Rpc].into());
    }
}
