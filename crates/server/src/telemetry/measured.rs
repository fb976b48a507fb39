use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

/// Converts the Prometheus page of the process to OpenTelemetry metrics, so that both report the same values under the
/// same names. Sums count from the start of the process.
pub(super) fn measured(page: &str, started_unix_nano: u64, now_unix_nano: u64) -> Vec<Metric> {
    let times = Times { started_unix_nano, now_unix_nano };
    let mut metrics: Vec<Metric> = vec![];
    let mut descriptions = BTreeMap::new();
    let mut histogram: Option<(&str, BTreeMap<&str, HistogramSeries>)> = None;
    for line in page.lines() {
        if let Some((name, description)) = line.strip_prefix("# HELP ").and_then(|help| help.split_once(' ')) {
            descriptions.insert(name, description);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|kind| kind.split_once(' ')) {
            finish(&mut metrics, histogram.take(), times);
            let temporality = AggregationTemporality::Cumulative.into();
            let data = match kind {
                "counter" => {
                    Data::Sum(Sum { is_monotonic: true, aggregation_temporality: temporality, data_points: vec![] })
                }
                "gauge" => Data::Gauge(Gauge::default()),
                "histogram" => {
                    histogram = Some((name, BTreeMap::new()));
                    Data::Histogram(Histogram { aggregation_temporality: temporality, data_points: vec![] })
                }
                // We record no other types.
                _ => continue,
            };
            let description = descriptions.get(name).copied().unwrap_or_default().to_owned();
            let unit = if name.ends_with("_seconds") { "s" } else { "" }.to_owned();
            metrics.push(Metric { name: name.to_owned(), description, unit, data: Some(data), ..Metric::default() });
        } else if let Some((series, value)) = line.rsplit_once(' ')
            && let Ok(value) = value.parse::<f64>()
        {
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.strip_suffix('}').unwrap_or(labels);
            match (&mut histogram, metrics.last_mut()) {
                (Some((of, buckets)), _) => note(name.strip_prefix(*of), labels, value, buckets),
                (None, Some(metric)) if metric.name == name => add(metric, labels, value, times),
                _ => {}
            }
        }
    }
    finish(&mut metrics, histogram, times);
    metrics
}

#[derive(Clone, Copy)]
struct Times {
    started_unix_nano: u64,
    now_unix_nano: u64,
}

/// A histogram under one set of labels: cumulative counts by bound, total count, and sum.
#[derive(Default)]
struct HistogramSeries {
    bounds: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
}

fn add(metric: &mut Metric, labels: &str, value: f64, times: Times) {
    let point = |start_time_unix_nano| NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano,
        time_unix_nano: times.now_unix_nano,
        value: Some(Number::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.push(point(times.started_unix_nano)),
        Some(Data::Gauge(gauge)) => gauge.data_points.push(point(0)),
        _ => {}
    }
}

/// Records a line of a histogram, by the suffix of its name.
fn note<'a>(suffix: Option<&str>, labels: &'a str, value: f64, all: &mut BTreeMap<&'a str, HistogramSeries>) {
    match suffix {
        // The bound is the last label.
        Some("_bucket") => {
            let (labels, bound) = match labels.rsplit_once(",le=") {
                Some((labels, bound)) => (labels, bound),
                None => ("", labels.strip_prefix("le=").unwrap_or_default()),
            };
            if let Some(bound) = bound.trim_matches('"').parse().ok().filter(|bound: &f64| bound.is_finite()) {
                all.entry(labels).or_default().bounds.push((bound, value as u64));
            }
        }
        Some("_sum") => all.entry(labels).or_default().sum = value,
        Some("_count") => all.entry(labels).or_default().count = value as u64,
        _ => {}
    }
}

fn finish(metrics: &mut [Metric], histogram: Option<(&str, BTreeMap<&str, HistogramSeries>)>, times: Times) {
    let (Some((_, all)), Some(Metric { data: Some(Data::Histogram(data)), .. })) = (histogram, metrics.last_mut())
    else {
        return;
    };
    data.data_points = all
        .into_iter()
        .map(|(labels, HistogramSeries { bounds, count, sum })| {
            // Prometheus counts observations up to each bound, OpenTelemetry those between two bounds.
            let mut below = 0;
            let mut between = |upto: u64| upto.saturating_sub(std::mem::replace(&mut below, upto));
            let bucket_counts = bounds.iter().map(|(_, upto)| *upto).chain([count]).map(&mut between).collect();
            HistogramDataPoint {
                attributes: attributes(labels),
                start_time_unix_nano: times.started_unix_nano,
                time_unix_nano: times.now_unix_nano,
                count,
                sum: Some(sum),
                bucket_counts,
                explicit_bounds: bounds.into_iter().map(|(bound, _)| bound).collect(),
                ..HistogramDataPoint::default()
            }
        })
        .collect();
}

/// Parses labels as we write them: values contain no quotes.
fn attributes(labels: &str) -> Vec<KeyValue> {
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"")?;
        Some(attribute(name, value.trim_end_matches('"')))
    };
    labels.split("\",").filter_map(label).collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use metrics::{counter, describe_counter, gauge, histogram};
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn every_kind_of_metric_reads_as_it_was_recorded() {
        let recorder = PrometheusBuilder::new().set_buckets(&[0.1, 1.0]).unwrap().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            describe_counter!("tidings_sends_total", "Sends.");
            counter!("tidings_sends_total", "outcome" => "new", "kind" => "a").increment(3);
            counter!("tidings_sends_total", "outcome" => "duplicate", "kind" => "a").increment(1);
            gauge!("tidings_connections").set(7.5);
            for seconds in [0.05, 0.5, 0.6, 30.0] {
                histogram!("tidings_call_seconds", "method" => "sync").record(seconds);
            }
            histogram!("tidings_wait_seconds").record(0.01);
        });
        let metrics = measured(&handle.render(), 10, 20);
        let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();

        let Some(Data::Sum(sends)) = &named("tidings_sends_total").data else { panic!("{metrics:?}") };
        assert_eq!(named("tidings_sends_total").description, "Sends.");
        assert!(sends.is_monotonic);
        let mut points: Vec<_> = sends.data_points.iter().map(|point| (point.value, point.attributes.len())).collect();
        points.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
        assert_eq!(points, [(Some(Number::AsDouble(1.0)), 2), (Some(Number::AsDouble(3.0)), 2)]);
        assert_eq!((sends.data_points[0].start_time_unix_nano, sends.data_points[0].time_unix_nano), (10, 20));

        let Some(Data::Gauge(connections)) = &named("tidings_connections").data else { panic!("{metrics:?}") };
        assert_eq!(connections.data_points[0].value, Some(Number::AsDouble(7.5)));

        let Some(Data::Histogram(calls)) = &named("tidings_call_seconds").data else { panic!("{metrics:?}") };
        let [call] = &calls.data_points[..] else { panic!("{calls:?}") };
        assert_eq!(call.attributes, [attribute("method", "sync")]);
        assert_eq!((call.count, &call.bucket_counts, &call.explicit_bounds), (4, &vec![1, 2, 1], &vec![0.1, 1.0]));
        assert_eq!(call.sum, Some(31.15));
        let Some(Data::Histogram(waits)) = &named("tidings_wait_seconds").data else { panic!("{metrics:?}") };
        assert_eq!((waits.data_points[0].count, &waits.data_points[0].bucket_counts), (1, &vec![1, 0, 0]));
        assert_eq!(named("tidings_wait_seconds").unit, "s");
    }
}
