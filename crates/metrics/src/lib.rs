//! Every metric that Tidings records, in one table.
//!
//! Planes and adapters record metrics under a name. This table is the single definition of each name's meaning, labels,
//! label values and buckets. The server describes its metrics from the table. `cargo xtask` generates the reference
//! page (`docs/metrics.md`) and the dashboards (`deploy/grafana`) from it, and checks alert rules and code against it.
//!
//! A name consists of `tidings_`, the recording part, the measured quantity, and the unit: `_seconds`, `_bytes`,
//! `_ratio`, or the counted noun. Counters end in `_total`. No label contains an id: [`LabelValues`] lists the possible
//! values of each.
//!
//! [`Scrape`] parses the metrics that a process exposes.

mod engines;
mod founding;
mod metric;
mod planes;
mod process;
mod scrape;

pub use founding::{FOUNDING, FoundingMetric};
pub use metric::{Kind, Label, LabelValues, Metric, Part, Unit};
pub use scrape::{HistogramBuckets, Scrape};

/// All metrics, part by part.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [process::METRICS, planes::METRICS, engines::METRICS].into_iter().flatten()
}

/// The metric that a series belongs to, by the name of the series: histograms have three for each.
pub fn of_series(name: &str) -> Option<&'static Metric> {
    all().find(|metric| {
        name == metric.name
            || matches!(metric.kind, Kind::Histogram(_))
                && name.strip_prefix(metric.name).is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_there_once_and_says_its_kind_and_unit() {
        let names: BTreeSet<_> = all().map(|metric| metric.name).collect();
        assert_eq!(names.len(), all().count(), "a name stands for one metric");
        for metric in all() {
            assert!(metric.name.starts_with("tidings_"), "{}", metric.name);
            let is_counter = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
            assert!(metric.meaning.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn buckets_grow_and_have_the_bounds_that_alerts_compare_with() {
        for metric in all() {
            let Kind::Histogram(bounds) = metric.kind else { continue };
            assert!(bounds.is_sorted_by(|a, b| a < b), "{}", metric.name);
        }
        for bound in [0.01, 0.05, 0.1, 0.25, 5.0] {
            assert!(metric::LATENCY.contains(&bound), "{bound}");
        }
    }

    #[test]
    fn a_series_of_a_histogram_is_the_histogram() {
        let found = |name| of_series(name).map(|metric| metric.name);
        assert_eq!(found("tidings_store_commit_seconds_bucket"), Some("tidings_store_commit_seconds"));
        assert_eq!(found("tidings_gateway_connections"), Some("tidings_gateway_connections"));
        assert_eq!(found("tidings_gateway_connections_count"), None);
    }

    #[test]
    fn every_founding_metric_maps_to_recorded_metrics() {
        for founding in FOUNDING {
            assert!(founding.ours.iter().all(|name| all().any(|metric| metric.name == *name)), "{}", founding.name);
        }
    }
}
