//! The Grafana dashboards, generated from the table of metrics and committed: `UPDATE_EXPECT=1` rewrites them.

mod panel;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use expect_test::expect_file;
use serde_json::{Value, json};
use tidings_metrics::Part;

use self::panel::Panel;
use crate::{alerts, promql};

/// Columns of Grafana's grid, panels in a row, and the height of a panel.
const COLUMNS: usize = 24;
const BESIDE: usize = 3;
const HEIGHT: usize = 8;

struct Dashboard {
    name: &'static str,
    title: &'static str,
    panels: Vec<Panel>,
}

fn all() -> Vec<Dashboard> {
    let of = |name, title, parts: &[Part]| {
        let metrics = tidings_metrics::all().filter(|metric| parts.contains(&metric.part));
        Dashboard { name, title, panels: metrics.map(Panel::of).collect() }
    };
    vec![
        Dashboard { name: "overview", title: "Tidings: overview", panels: overview() },
        of("gateway", "Tidings: connections", &[Part::Gateway]),
        of("ingest", "Tidings: sends", &[Part::Ingest]),
        of("fanout", "Tidings: pushes", &[Part::Fanout]),
        of("api", "Tidings: REST, presence, notifications", &[Part::Api, Part::Presence, Part::Notify]),
        of("store", "Tidings: the store of one machine", &[Part::Store, Part::Purge]),
        of("fleet", "Tidings: engines of a fleet", &[Part::Relay, Part::Dynamodb, Part::Kafka, Part::Redis, Part::Rpc]),
        of("processes", "Tidings: processes", &[Part::Process]),
    ]
}

/// The first dashboard to open: sends, deliveries, and their bottlenecks.
fn overview() -> Vec<Panel> {
    let panel = |title: &str, unit: &'static str, description: &str, expressions: &[(&str, &str)]| Panel {
        title: title.to_owned(),
        description: description.to_owned(),
        unit,
        expressions: expressions.iter().map(|(expr, legend)| ((*expr).to_owned(), (*legend).to_owned())).collect(),
    };
    let percentiles = |title: &str, description: &str, histogram: &str| Panel {
        expressions: panel::quantiles(histogram).into(),
        ..panel(title, "s", description, &[])
    };
    vec![
        panel(
            "Sends",
            "ops",
            "Answered sends, by outcome.",
            &[("sum by (outcome) (rate(tidings_ingest_sends_total[$__rate_interval]))", "{{outcome}}")],
        ),
        panel(
            "Sends refused because of a server fault",
            "percentunit",
            "The objective is 0.1 %.",
            &[(
                "sum(rate(tidings_ingest_sends_total{outcome=~\"unavailable|busy|unreadable|counter_missing\"}\
                 [$__rate_interval])) / sum(rate(tidings_ingest_sends_total[$__rate_interval]))",
                "faults",
            )],
        ),
        percentiles("Send to acknowledgement", "The objective is 99 % within 250 ms.", "tidings_ingest_answer_seconds"),
        panel(
            "Connections",
            "short",
            "Connections of clients, by gateway.",
            &[("sum by (instance) (tidings_gateway_connections)", "{{instance}}")],
        ),
        panel(
            "Pushes",
            "ops",
            "Frames put into mailboxes of connections, and clients notified to sync instead.",
            &[
                ("sum(rate(tidings_gateway_pushes_total[$__rate_interval]))", "pushed"),
                ("sum(rate(tidings_gateway_pushes_missed_total[$__rate_interval]))", "notified to sync"),
            ],
        ),
        percentiles("Commit to push", "Time from the commit of a message to its pushes.", "tidings_fanout_lag_seconds"),
        panel(
            "Consumer lag",
            "short",
            "Events of the log that a consumer group has not processed yet.",
            &[("sum by (group) (tidings_log_lag_events)", "{{group}}")],
        ),
        panel(
            "Dependencies",
            "short",
            "1 if the dependency is healthy in all processes.",
            &[("min by (dependency) (tidings_dependency_up)", "{{dependency}}")],
        ),
        panel(
            "Errors",
            "ops",
            "Commands and requests that were answered with an error.",
            &[
                ("sum by (code) (rate(tidings_gateway_errors_total[$__rate_interval])) > 0", "{{code}} (WebSocket)"),
                ("sum by (code) (rate(tidings_api_errors_total[$__rate_interval])) > 0", "{{code}} (REST)"),
            ],
        ),
        panel(
            "Violations",
            "short",
            "Operations refused because an invariant did not hold. Anything but 0 is an incident.",
            &[("sum by (name) (tidings_invariant_violations_total) > 0", "{{name}}")],
        ),
        panel(
            "Memory",
            "bytes",
            "Resident memory of each process.",
            &[("tidings_process_resident_memory_bytes", "{{instance}}")],
        ),
        panel(
            "Processors",
            "short",
            "Cores that each process uses.",
            &[("rate(tidings_process_cpu_seconds_total[5m])", "{{instance}}")],
        ),
    ]
}

impl Dashboard {
    fn json(&self) -> Value {
        let width = COLUMNS / BESIDE;
        let place = |n: usize| json!({ "x": n % BESIDE * width, "y": n / BESIDE * HEIGHT, "w": width, "h": HEIGHT });
        let panels: Vec<Value> = self.panels.iter().enumerate().map(|(n, panel)| panel.json(n + 1, place(n))).collect();
        json!({
            "uid": format!("tidings-{}", self.name),
            "title": self.title,
            "tags": ["tidings"],
            "schemaVersion": 39,
            "editable": true,
            "refresh": "30s",
            "time": { "from": "now-1h", "to": "now" },
            "templating": { "list": [
                { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            ] },
            "links": [{ "type": "dashboards", "title": "Tidings", "tags": ["tidings"], "asDropdown": true }],
            "panels": panels,
        })
    }
}

#[test]
fn the_dashboards_are_generated_from_the_table() {
    let directory = xtask::workspace_root().join("deploy/grafana");
    let mut expected = BTreeSet::new();
    for dashboard in all() {
        let file = directory.join(format!("{}.json", dashboard.name));
        let text = serde_json::to_string_pretty(&dashboard.json()).unwrap() + "\n";
        expect_file![&file].assert_eq(&text);
        expected.insert(file);
    }
    let files: BTreeSet<_> = xtask::files(&directory, ".json").unwrap().into_iter().collect();
    assert_eq!(files, expected, "no dashboard is left that nobody makes");
}

#[test]
fn every_metric_is_shown_somewhere_and_everything_shown_exists() {
    let dashboards = all();
    let panels = || dashboards.iter().flat_map(|dashboard| &dashboard.panels);
    for panel in panels() {
        assert!(!panel.unit.is_empty() && panel.description.ends_with('.'), "{}", panel.title);
        for (expression, _) in &panel.expressions {
            assert_eq!(promql::complaints(expression), [""; 0], "{expression}");
        }
    }
    let shown: String = panels().flat_map(|panel| &panel.expressions).map(|(expression, _)| &**expression).collect();
    let names = tidings_metrics::all().map(|metric| metric.name);
    let hidden: Vec<&str> = names.filter(|name| !shown.contains(name)).collect();
    assert_eq!(hidden, [""; 0]);
}

#[test]
fn promtool_can_read_every_expression() {
    let mut rules = "groups:\n  - name: dashboards\n    rules:\n".to_owned();
    for (n, (expression, _)) in all().iter().flat_map(|d| &d.panels).flat_map(|panel| &panel.expressions).enumerate() {
        // Grafana puts a time in its place.
        let expression = expression.replace("$__rate_interval", "5m").replace('\'', "''");
        rules += &format!("      - record: panel:{n}\n        expr: '{expression}'\n");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboards.rules.yml");
    fs::write(&file, rules).unwrap();
    alerts::promtool("check", "rules", &[file]);
}
