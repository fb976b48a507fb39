use std::collections::BTreeMap;

/// The metrics of a process at one moment, parsed from the Prometheus text format.
///
/// It supports only our own subset of the format: label values contain no quotes.
pub struct Scrape(Vec<Series>);

struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Cumulative counts of a histogram's observations, in the order of the bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramBuckets(Vec<(f64, f64)>);

impl Scrape {
    /// Parses the text of `/metrics`. Lines that are not a series are skipped.
    pub fn of(text: &str) -> Self {
        Self(text.lines().filter_map(series).collect())
    }

    /// The sum over all labels.
    pub fn sum(&self, name: &str) -> f64 {
        self.named(name).map(|series| series.value).sum()
    }

    /// The value, if it was ever set.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.named(name).next().map(|series| series.value)
    }

    /// Sums a metric by the values of one label, over all other labels.
    pub fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for series in self.named(name) {
            if let Some(value) = series.labels.get(label) {
                *sums.entry(value.clone()).or_default() += series.value;
            }
        }
        sums
    }

    /// A histogram, summed over all labels.
    pub fn buckets(&self, histogram: &str) -> HistogramBuckets {
        let name = format!("{histogram}_bucket");
        let mut buckets: Vec<(f64, f64)> = vec![];
        for series in self.named(&name) {
            let Some(bound) = series.labels.get("le").and_then(|bound| bound.parse::<f64>().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += series.value,
                None => buckets.push((bound, series.value)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        HistogramBuckets(buckets)
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.0.iter().filter(move |series| series.name == name)
    }
}

impl HistogramBuckets {
    /// The observations added since `before`.
    pub fn since(mut self, before: &Self) -> Self {
        for (bound, count) in &mut self.0 {
            *count -= before.0.iter().find(|(known, _)| known == bound).map_or(0.0, |(_, count)| *count);
        }
        self
    }

    /// The number of observations.
    pub fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// Estimates a quantile as Prometheus does, by linear interpolation within the bucket.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let all = self.count();
        if all <= 0.0 {
            return None;
        }
        let rank = q * all;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= rank {
                let share = if *count > below { (rank - below) / (count - below) } else { 0.0 };
                // The last bucket has no upper bound, so interpolation is impossible there; return its lower bound.
                return Some(if bound.is_finite() { lower + (bound - lower) * share } else { lower });
            }
            (lower, below) = (*bound, *count);
        }
        None
    }

    /// Estimates how many observations were above `value`. Rounds up: it counts from the largest bound not above
    /// `value`.
    pub fn above(&self, value: f64) -> f64 {
        let up_to = self.0.iter().rev().find(|(bound, _)| *bound <= value).map_or(0.0, |(_, count)| *count);
        self.count() - up_to
    }

    /// The smallest bound that no observation exceeded; infinite if one exceeded all finite bounds.
    pub fn greatest(&self) -> Option<f64> {
        let all = self.count();
        let (bound, _) = self.0.iter().find(|(_, count)| all > 0.0 && *count >= all)?;
        Some(*bound)
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
        assert_eq!(
            Scrape::of(TEXT).buckets("took_seconds"),
            HistogramBuckets(vec![(0.001, 5.0), (f64::INFINITY, 7.0)])
        );
    }

    #[test]
    fn quantiles_are_reckoned_within_a_bucket_and_not_beyond_the_last_bound() {
        let buckets = HistogramBuckets(vec![(1.0, 90.0), (2.0, 100.0), (f64::INFINITY, 100.0)]);
        assert_eq!((buckets.quantile(0.5), buckets.quantile(0.99)), (Some(50.0 / 90.0), Some(1.9)));
        assert_eq!(HistogramBuckets(vec![(1.0, 0.0), (5.0, 0.0), (f64::INFINITY, 3.0)]).quantile(0.5), Some(5.0));
        assert_eq!(HistogramBuckets(vec![(1.0, 0.0), (f64::INFINITY, 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn above_counts_from_the_bound_below_the_value() {
        let before = HistogramBuckets(vec![(1.0, 0.0), (5.0, 0.0), (25.0, 0.0), (f64::INFINITY, 7.0)]);
        let now = HistogramBuckets(vec![(1.0, 90.0), (5.0, 96.0), (25.0, 99.0), (f64::INFINITY, 106.0)]);
        let added = now.clone().since(&before);
        assert_eq!(added.count(), 99.0);
        assert_eq!([0.5, 1.0, 4.0, 5.0, 30.0].map(|value| added.above(value)), [99.0, 9.0, 9.0, 3.0, 0.0]);
        assert_eq!((added.greatest(), now.greatest()), (Some(25.0), Some(f64::INFINITY)));
        assert_eq!(HistogramBuckets::default().greatest(), None);
    }
}
