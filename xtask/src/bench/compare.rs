use std::fmt::Write;

use super::sample::{BenchSample, Better, Measure};

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComparisonRow {
    workload: String,
    figure: String,
    base: f64,
    head: f64,
    spread: f64,
    pub(super) verdict: SpeedVerdict,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeedVerdict {
    Slower,
    Faster,
    Same,
}

/// Compares the samples of a workload, in the order of base's first report. A figure that only one side reports is left
/// out, because it has no counterpart.
pub(super) fn compare(
    workload: &str,
    base: &[BenchSample],
    head: &[BenchSample],
    threshold: f64,
) -> Vec<ComparisonRow> {
    let Some(BenchSample(measures)) = base.first() else { return vec![] };
    let row = |Measure { name, better, .. }: &Measure| {
        let (base, head) = (RoundValues::of(name, base)?, RoundValues::of(name, head)?);
        Some(ComparisonRow {
            workload: workload.to_owned(),
            figure: name.clone(),
            base: base.median(),
            head: head.median(),
            spread: (base.range() / base.median()).max(head.range() / head.median()),
            verdict: judge(&base, &head, *better, threshold),
        })
    };
    measures.iter().filter_map(row).collect()
}

/// Slower or faster if the medians differ by more than the threshold, and by more than the sum of both ranges. Among
/// unchanged figures with random noise of any size, the rate of false `Slower` is then below one in a hundred after three
/// rounds, and one in a thousand after four.
fn judge(base: &RoundValues, head: &RoundValues, better: Better, threshold: f64) -> SpeedVerdict {
    let (was, is) = (base.median(), head.median());
    let gain = match better {
        Better::More => is / was,
        Better::Less => was / is,
    };
    let is_clear = (is - was).abs() > base.range() + head.range();
    match gain {
        gain if is_clear && gain < threshold => SpeedVerdict::Slower,
        gain if is_clear && gain > 1.0 / threshold => SpeedVerdict::Faster,
        _ => SpeedVerdict::Same,
    }
}

/// A figure in all rounds of a side, in order of size; at least one.
struct RoundValues(Vec<f64>);

impl RoundValues {
    fn of(name: &str, samples: &[BenchSample]) -> Option<Self> {
        let named =
            |BenchSample(measures): &BenchSample| measures.iter().find(|measure| measure.name == name).map(|m| m.value);
        let mut values: Vec<f64> = samples.iter().filter_map(named).collect();
        values.sort_by(f64::total_cmp);
        Some(Self(values)).filter(|values| !values.0.is_empty())
    }

    /// The middle value, or the mean of the two middle values.
    fn median(&self) -> f64 {
        let Self(values) = self;
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    }

    /// The difference between the highest and the lowest value.
    fn range(&self) -> f64 {
        let Self(values) = self;
        values[values.len() - 1] - values[0]
    }
}

/// The rows as a text table.
pub(super) fn table(rows: &[ComparisonRow]) -> String {
    let width = rows.iter().map(|row| row.figure.len()).max().unwrap_or(0);
    let mut table = format!(
        "{:<12} {:<width$} {:>10} {:>10} {:>6} {:>7}  verdict\n",
        "workload", "figure", "base", "head", "ratio", "spread"
    );
    for ComparisonRow { workload, figure, base, head, spread, verdict } in rows {
        let verdict = match verdict {
            SpeedVerdict::Slower => "slower",
            SpeedVerdict::Faster => "faster",
            SpeedVerdict::Same => "same",
        };
        let (ratio, spread) = (head / base, 100.0 * spread);
        let (base, head) = (number(*base), number(*head));
        writeln!(
            table,
            "{workload:<12} {figure:<width$} {base:>10} {head:>10} {ratio:>6.2} {spread:>5.0} %  {verdict}"
        )
        .expect("a string takes any text");
    }
    table
}

fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// Rounds of one figure.
    fn rounds(better: Better, values: &[f64]) -> Vec<BenchSample> {
        let measure = |value| Measure { name: "figure".to_owned(), value, better };
        values.iter().map(|value| BenchSample(vec![measure(*value)])).collect()
    }

    fn verdict(better: Better, base: &[f64], head: &[f64]) -> SpeedVerdict {
        let rows = compare("pairs", &rounds(better, base), &rounds(better, head), 0.9);
        assert_eq!(rows.len(), 1);
        rows[0].verdict
    }

    #[test]
    fn a_rate_that_falls_is_slower_and_one_that_grows_is_faster() {
        assert_eq!(verdict(Better::More, &[100.0, 101.0, 102.0], &[80.0, 81.0, 82.0]), SpeedVerdict::Slower);
        assert_eq!(verdict(Better::More, &[100.0, 101.0, 102.0], &[120.0, 121.0, 122.0]), SpeedVerdict::Faster);
    }

    #[test]
    fn a_time_that_grows_is_slower_and_one_that_falls_is_faster() {
        assert_eq!(verdict(Better::Less, &[5.0, 5.1, 5.2], &[6.5, 6.6, 6.7]), SpeedVerdict::Slower);
        assert_eq!(verdict(Better::Less, &[5.0, 5.1, 5.2], &[4.0, 4.1, 4.2]), SpeedVerdict::Faster);
    }

    #[test]
    fn a_difference_within_the_threshold_is_none_however_clear_it_is() {
        assert_eq!(verdict(Better::More, &[100.0; 3], &[91.0; 3]), SpeedVerdict::Same);
        assert_eq!(verdict(Better::More, &[100.0; 3], &[89.0; 3]), SpeedVerdict::Slower);
        assert_eq!(verdict(Better::More, &[100.0; 3], &[111.0; 3]), SpeedVerdict::Same);
        assert_eq!(verdict(Better::More, &[100.0; 3], &[112.0; 3]), SpeedVerdict::Faster);
        assert_eq!(verdict(Better::Less, &[100.0; 3], &[111.0; 3]), SpeedVerdict::Same);
        assert_eq!(verdict(Better::Less, &[100.0; 3], &[112.0; 3]), SpeedVerdict::Slower);
    }

    #[test]
    fn a_difference_that_is_no_larger_than_the_spread_is_none_however_large_it_is() {
        // Far beyond the threshold, but the rounds of both sides overlap.
        assert_eq!(verdict(Better::More, &[60.0, 100.0, 110.0], &[50.0, 70.0, 90.0]), SpeedVerdict::Same);
        // They do not overlap, but the sum of both ranges is larger than the difference.
        assert_eq!(verdict(Better::More, &[100.0, 105.0, 110.0], &[85.0, 90.0, 95.0]), SpeedVerdict::Same);
        assert_eq!(verdict(Better::More, &[102.0, 105.0, 109.0], &[87.0, 90.0, 93.0]), SpeedVerdict::Slower);
        // The noise may be on one side only.
        assert_eq!(verdict(Better::Less, &[10.0, 10.0, 10.0], &[9.0, 15.0, 16.0]), SpeedVerdict::Same);
        assert_eq!(verdict(Better::Less, &[10.0, 10.0, 10.0], &[14.0, 15.0, 16.0]), SpeedVerdict::Slower);
    }

    #[test]
    fn the_order_of_the_rounds_does_not_matter() {
        assert_eq!(verdict(Better::More, &[102.0, 100.0, 101.0], &[82.0, 80.0, 81.0]), SpeedVerdict::Slower);
        assert_eq!(verdict(Better::More, &[100.0, 140.0, 100.0], &[100.0, 100.0, 100.0]), SpeedVerdict::Same);
    }

    #[test]
    fn the_threshold_is_as_it_was_asked_for() {
        let (base, head) = (rounds(Better::More, &[100.0; 3]), rounds(Better::More, &[85.0; 3]));
        let verdict = |threshold| compare("pairs", &base, &head, threshold)[0].verdict;
        assert_eq!((verdict(0.9), verdict(0.8)), (SpeedVerdict::Slower, SpeedVerdict::Same));
    }

    #[test]
    fn medians_are_in_the_middle_and_the_spread_is_that_of_the_more_restless_side() {
        let base = rounds(Better::More, &[90.0, 100.0, 110.0, 400.0]);
        let rows = compare("pairs", &base, &rounds(Better::More, &[104.0, 100.0, 96.0]), 0.9);
        assert_eq!((rows[0].base, rows[0].head), (105.0, 100.0));
        assert_eq!(rows[0].spread, 310.0 / 105.0);
    }

    /// How many of 10,000 figures are called slower if head multiplies them by `part`, and rounds have log-normal noise of
    /// this deviation.
    fn called_slower(part: f64, deviation: f64, rounds: usize) -> usize {
        let mut state = 1_u64;
        // A linear congruential generator with the constants of Knuth's MMIX, so that each run sees the same noise.
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        // Twelve of them, less their mean, are nearly normal with a deviation of 1.
        let mut noise = || (deviation * ((0..12).map(|_| random()).sum::<f64>() - 6.0)).exp();
        let mut rounds_of = |part: f64| (0..rounds).map(|_| part * noise()).collect::<Vec<_>>();
        let slower = |_: &_| verdict(Better::More, &rounds_of(1.0), &rounds_of(part)) == SpeedVerdict::Slower;
        (0..10_000).filter(slower).count()
    }

    /// The figures that `docs/performance.md` gives.
    #[test]
    fn noise_is_rarely_reported_as_slower() {
        for deviation in [0.03, 0.06, 0.1, 0.2, 0.4] {
            let [three, four] = [3, 4].map(|rounds| called_slower(1.0, deviation, rounds));
            assert!(three < 100 && four < 10, "{deviation}: {three} with three rounds, {four} with four");
        }
    }

    /// The figures that `docs/performance.md` gives.
    #[test]
    fn a_loss_is_seen_where_figures_are_calm() {
        let [calm, restless] = [0.03, 0.06].map(|deviation| called_slower(0.85, deviation, 3));
        assert!(calm > 8_500 && (3_000..4_000).contains(&restless), "{calm}, {restless}");
    }

    #[test]
    fn a_rate_that_comes_to_nothing_is_slower_and_nothing_against_nothing_is_the_same() {
        assert_eq!(verdict(Better::More, &[100.0; 3], &[0.0; 3]), SpeedVerdict::Slower);
        assert_eq!(verdict(Better::More, &[0.0; 3], &[100.0; 3]), SpeedVerdict::Faster);
        assert_eq!(verdict(Better::More, &[0.0; 3], &[0.0; 3]), SpeedVerdict::Same);
    }

    #[test]
    fn figures_of_one_side_only_are_left_out() {
        let base = BenchSample::read(REPORT.as_bytes()).unwrap();
        let BenchSample(mut measures) = base.clone();
        measures[0].name = "a new figure, msg/s".to_owned();
        let rows =
            compare("pairs", &[base.clone(), base], &[BenchSample(measures.clone()), BenchSample(measures)], 0.9);
        assert_eq!(rows.iter().map(|row| &*row.figure).collect::<Vec<_>>(), ["send to ack p50, ms"]);
        assert_eq!(compare("pairs", &[], &[], 0.9), []);
    }

    const REPORT: &str = r#"{
        "figures": [{ "name": "messages delivered", "value": 15000, "unit": "msg/s" }],
        "latencies": [{ "name": "send to ack", "count": 1, "quantiles": [[0.5, 5.8]] }],
        "integrity": { "lost": 0, "doubled": 0, "reordered": 0 },
        "server": null
    }"#;

    #[test]
    fn a_table_for_people() {
        let sample = BenchSample::read(REPORT.as_bytes()).unwrap();
        let slow = BenchSample::read(REPORT.replace("15000", "9000").as_bytes()).unwrap();
        let rows = compare("pairs", &[sample.clone(), sample], &[slow.clone(), slow], 0.9);
        expect![[r#"
            workload     figure                          base       head  ratio  spread  verdict
            pairs        messages delivered, msg/s      15000       9000   0.60     0 %  slower
            pairs        send to ack p50, ms             5.80       5.80   1.00     0 %  same
        "#]]
        .assert_eq(&table(&rows));
    }
}
