use std::collections::BTreeSet;
use std::fs;

/// Suffixes that Prometheus' histograms add to the name under which the code records them.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

#[test]
fn every_metric_an_alert_names_is_recorded_by_the_code() {
    let root = xtask::workspace_root();
    let mut recorded = BTreeSet::new();
    for file in xtask::files(&root, ".rs").unwrap() {
        recorded.extend(metrics(&fs::read_to_string(file).unwrap()));
    }
    let rules = xtask::files(&root, ".rules.yml").unwrap();
    assert!(!rules.is_empty());
    for file in rules {
        for metric in metrics(&fs::read_to_string(&file).unwrap()) {
            let name = HISTOGRAM_SUFFIXES.iter().find_map(|suffix| metric.strip_suffix(suffix)).unwrap_or(&metric);
            assert!(recorded.contains(name), "{} names {name}", file.display());
        }
    }
}

/// Words that are names of metrics.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tidings_")).map(str::to_owned).collect()
}
