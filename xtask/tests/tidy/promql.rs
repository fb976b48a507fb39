//! The metrics and labels in a PromQL expression. This is not a parser: `promtool` checks the syntax.

use std::collections::BTreeSet;

use tidings_metrics::{LabelValues, Metric};

/// Labels that a scrape adds, and the label of histogram buckets.
const SCRAPED: [&str; 3] = ["instance", "job", "le"];

/// The errors in the metrics and labels of an expression.
pub(crate) fn complaints(expression: &str) -> Vec<String> {
    let mut complaints = vec![];
    let mut labels: BTreeSet<&str> = SCRAPED.into();
    for (name, matchers) in selectors(expression) {
        let Some(metric) = tidings_metrics::of_series(name) else {
            complaints.push(format!("{name} is no metric"));
            continue;
        };
        labels.extend(metric.labels.iter().map(|label| label.name));
        complaints.extend(matchers.split_terminator("\",").filter_map(|matcher| unmatched(metric, matcher)));
    }
    let grouped = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    let grouped = grouped.flat_map(|group| group.split(',')).map(str::trim);
    complaints.extend(grouped.filter(|label| !labels.contains(label)).map(|label| format!("nothing has {label}")));
    complaints
}

/// The series that an expression names, each with its matchers.
fn selectors(expression: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    expression.match_indices("tidings_").map(move |(at, _)| {
        let rest = &expression[at..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let matchers = rest[end..].strip_prefix('{').and_then(|inside| inside.split('}').next());
        (&rest[..end], matchers.unwrap_or_default())
    })
}

/// The error of a matcher such as `outcome=~"busy|unavailable`, if its metric never has such a label or value.
fn unmatched(metric: &Metric, matcher: &str) -> Option<String> {
    let (name, wanted) = matcher.split_once('=')?;
    let name = name.trim().trim_end_matches('!');
    let wanted = wanted.trim_start_matches('~').trim_matches('"');
    if SCRAPED.contains(&name) {
        return None;
    }
    let Some(label) = metric.labels.iter().find(|label| label.name == name) else {
        return Some(format!("{} has no label {name}", metric.name));
    };
    let LabelValues::Listed(values) = label.values else { return None };
    let has = |wanted: &str| match wanted.strip_suffix(".*") {
        Some(prefix) => values.iter().any(|value| value.starts_with(prefix)),
        None => values.contains(&wanted),
    };
    let missing = wanted.split('|').find(|wanted| !has(wanted))?;
    Some(format!("{} never has {name} {missing}", metric.name))
}

#[test]
fn a_metric_a_label_and_a_value_that_do_not_exist_are_found() {
    let none: [&str; 0] = [];
    let sends = "sum by (outcome) (rate(tidings_ingest_sends_total{outcome=~\"busy|new\"}[5m])) > 0";
    assert_eq!(complaints(sends), none);
    assert_eq!(complaints("tidings_dependency_up{dependency=~\"kafka.*\",instance=\"one\"} == 0"), none);
    assert_eq!(complaints("tidings_nothing_total"), ["tidings_nothing_total is no metric"]);
    let wrong = "sum by (room) (tidings_ingest_sends_total{outcome=\"lost\",lane=\"1\"})";
    assert_eq!(
        complaints(wrong),
        [
            "tidings_ingest_sends_total never has outcome lost",
            "tidings_ingest_sends_total has no label lane",
            "nothing has room"
        ]
    );
}
