//! The table of metrics matches the metrics in the code, and generates the reference page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use expect_test::expect_file;
use tidings_metrics::{FOUNDING, FoundingMetric, Kind, Label, LabelValues, Metric, Part};

#[test]
fn every_metric_of_the_code_is_in_the_table_and_every_one_of_the_table_in_the_code() {
    let root = xtask::workspace_root();
    let mut recorded = BTreeSet::new();
    for file in xtask::files(&root, ".rs").unwrap() {
        let path = file.strip_prefix(&root).unwrap();
        let is_source = path.components().any(|part| part.as_os_str() == "src");
        if is_source && !path.starts_with("crates/metrics") {
            let source = fs::read_to_string(&file).unwrap();
            // Unit tests are at the end of a file, and may record any metric.
            let source = source.split("#[cfg(test)]").next().unwrap_or_default();
            recorded.extend(literals(source).map(str::to_owned));
        }
    }
    let listed: BTreeSet<String> = tidings_metrics::all().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(recorded, listed);
}

/// String literals of a source that are names of metrics. The prefix alone is the prefix of tables.
fn literals(source: &str) -> impl Iterator<Item = &str> {
    let texts = source.split('"').skip(1);
    texts.filter(|text| {
        text.strip_prefix("tidings_").is_some_and(|rest| {
            !rest.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        })
    })
}

/// The reference page is committed: `UPDATE_EXPECT=1` rewrites it.
#[test]
fn the_reference_page_is_that_of_the_table() {
    expect_file![xtask::workspace_root().join("docs/metrics.md")].assert_eq(&page());
}

const INTRODUCTION: &str = "\
# Metrics

Made from the table in `crates/metrics`; do not edit. `GET /metrics` on the admin listener (`admin.listen`,
127.0.0.1:9464) has them in Prometheus' format. No token is needed there, so restrict access to it: it shows how busy the service is.

A name is `tidings_`, the part that records it, what is measured, and the unit. Counters end in `_total`, begin at 0
with the process, and are there from the start with every value of their labels, so that an alert sees the first event.
Gauges are absent until they are known. No label has an id, a phone number or anything else that a user or client has chosen.
[alerts.md](alerts.md) lists what is alerted on, `deploy/grafana` has dashboards.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for part in Part::ALL {
        let (name, processes) = (part.name(), part.processes());
        write!(page, "\n## {name}\n\nRecorded by: {processes}.\n\n").unwrap();
        page += "| metric | kind | unit | labels | meaning | since |\n|---|---|---|---|---|---|\n";
        for metric in tidings_metrics::all().filter(|metric| metric.part == part) {
            page += &row(metric);
        }
    }
    page += "\n## Buckets\n\n| metric | upper bounds |\n|---|---|\n";
    for metric in tidings_metrics::all() {
        if let Kind::Histogram(bounds) = metric.kind {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            writeln!(page, "| `{}` | {} |", metric.name, bounds.join(", ")).unwrap();
        }
    }
    page += "\n## Names in the founding documents\n\n| there | named | here | what differs |\n|---|---|---|---|\n";
    for FoundingMetric { document, name, ours, why } in FOUNDING {
        let ours: Vec<String> = ours.iter().map(|name| format!("`{name}`")).collect();
        let ours = if ours.is_empty() { "none".to_owned() } else { ours.join(", ") };
        writeln!(page, "| {document} | `{name}` | {ours} | {why} |").unwrap();
    }
    page
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(described).collect();
    let Metric { name, kind, meaning, since, .. } = metric;
    format!("| `{name}` | {} | {} | {} | {meaning} | {since} |\n", kind.name(), metric.unit().name(), labels.join("; "))
}

fn described(label: &Label) -> String {
    let values = match label.values {
        LabelValues::Listed(values) => values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "),
        LabelValues::Routes => "the template of a route, or `none`".to_owned(),
        LabelValues::Version => "the release".to_owned(),
    };
    format!("`{}`: {values}", label.name)
}
