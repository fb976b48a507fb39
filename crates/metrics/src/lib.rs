//! Every metric that Tidings records, in one table.
//!
//! Planes and adapters record under a name. What it means, which labels and values it has, and which buckets fit it is
//! said here, once. The server describes its metrics from it; the checks of the tree make the reference page
//! (`docs/metrics.md`) and the dashboards (`deploy/grafana`) from it, and hold alert rules and code against it.
//!
//! A name is `tidings_`, the part that records it, what is measured, and the unit: `_seconds`, `_bytes`, `_ratio`, or
//! what is counted; counters end in `_total`. No label has an id in it: [`Values`] says which values each can have.
//!
//! [`Scrape`] reads back what a process says of them.

mod engines;
mod founding;
mod metric;
mod planes;
mod process;
mod scrape;

pub use founding::{FOUNDING, Founding};
pub use metric::{Kind, Label, Metric, Part, Unit, Values};
pub use scrape::{Buckets, Scrape};

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
    fn what_answers_a_name_of_the_founding_documents_is_a_metric() {
        for founding in FOUNDING {
            assert!(founding.ours.iter().all(|name| all().any(|metric| metric.name == *name)), "{}", founding.name);
        }
    }
}
