use std::collections::BTreeMap;

/// The metrics of a process at one moment, in Prometheus' format, read back.
///
/// Labels are read as we write them: values without quotes in them.
pub(super) struct Scrape(Vec<Series>);

struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The observations of a histogram up to each bound, in the order of the bounds.
pub(super) type Buckets = Vec<(f64, f64)>;

impl Scrape {
    pub(super) fn of(text: &str) -> Self {
        Self(text.lines().filter_map(series).collect())
    }

    /// The sum over all labels.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.named(name).map(|series| series.value).sum()
    }

    /// The value, if it was ever set.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.named(name).next().map(|series| series.value)
    }

    /// The sums over everything but one label, by that.
    pub(super) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for series in self.named(name) {
            if let Some(value) = series.labels.get(label) {
                *sums.entry(value.clone()).or_default() += series.value;
            }
        }
        sums
    }

    pub(super) fn buckets(&self, histogram: &str) -> Buckets {
        let name = format!("{histogram}_bucket");
        let mut buckets: Buckets = vec![];
        for series in self.named(&name) {
            let Some(bound) = series.labels.get("le").and_then(|bound| bound.parse::<f64>().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += series.value,
                None => buckets.push((bound, series.value)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        buckets
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.0.iter().filter(move |series| series.name == name)
    }
}

fn series(line: &str) -> Option<Series> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
    };
    let labels = labels.split("\",").filter_map(label).collect();
    Some(Series { name: name.to_owned(), labels, value: value.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE sends_total counter
sends_total{outcome=\"new\",lane=\"a\"} 3
sends_total{outcome=\"new\",lane=\"b\"} 4
sends_total{outcome=\"busy\"} 1

# TYPE connections gauge
connections 12
# TYPE took_seconds histogram
took_seconds_bucket{le=\"0.001\"} 5
took_seconds_bucket{le=\"+Inf\"} 7
took_seconds_sum 0.2
took_seconds_count 7
what is this";

    #[test]
    fn series_are_summed_by_name_and_by_label() {
        let scrape = Scrape::of(TEXT);
        assert_eq!((scrape.sum("sends_total"), scrape.sum("nothing")), (8.0, 0.0));
        assert_eq!((scrape.value("connections"), scrape.value("nothing")), (Some(12.0), None));
        let by_outcome: Vec<_> = scrape.by("sends_total", "outcome").into_iter().collect();
        assert_eq!(by_outcome, [("busy".to_owned(), 1.0), ("new".to_owned(), 7.0)]);
    }

    #[test]
    fn buckets_are_in_the_order_of_their_bounds() {
        assert_eq!(Scrape::of(TEXT).buckets("took_seconds"), [(0.001, 5.0), (f64::INFINITY, 7.0)]);
    }

    /// The recorder of a process and this have to agree.
    #[test]
    fn what_the_recorder_writes_is_read_back() {
        let recorder =
            metrics_exporter_prometheus::PrometheusBuilder::new().set_buckets(&[0.5, 1.0]).unwrap().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("sends_total", "outcome" => "new", "code" => "NOT_FOUND").increment(2);
            metrics::histogram!("took_seconds").record(0.7);
            metrics::gauge!("connections").set(3.0);
        });
        let scrape = Scrape::of(&recorder.handle().render());
        assert_eq!(scrape.by("sends_total", "outcome"), [("new".to_owned(), 2.0)].into());
        assert_eq!(scrape.by("sends_total", "code"), [("NOT_FOUND".to_owned(), 2.0)].into());
        assert_eq!(scrape.buckets("took_seconds"), [(0.5, 0.0), (1.0, 1.0), (f64::INFINITY, 1.0)]);
        assert_eq!(scrape.value("connections"), Some(3.0));
    }
}
