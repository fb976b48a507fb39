//! The alert rules: all names in them exist, each links to a runbook, and `promtool` accepts them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect_file;

use crate::promql;
use crate::runbooks::Runbook;

/// An alert of a rule file.
pub(crate) struct Alert {
    pub(crate) file: String,
    pub(crate) name: String,
    severity: String,
    summary: String,
    /// The file of its runbook.
    pub(crate) runbook: String,
}

fn directory() -> PathBuf {
    xtask::workspace_root().join("deploy/prometheus")
}

fn rule_files() -> Vec<PathBuf> {
    let files = xtask::files(&directory(), ".rules.yml").unwrap();
    assert!(!files.is_empty());
    files
}

/// All alerts. The parser expects our layout of rule files: one key per line, and indented multi-line expressions.
pub(crate) fn all() -> Vec<Alert> {
    let mut alerts = vec![];
    for file in rule_files() {
        let text = fs::read_to_string(&file).unwrap();
        let file = file.file_name().unwrap().to_string_lossy().into_owned();
        for rule in text.split("      - alert: ").skip(1) {
            let value = |key: &str| {
                let line = rule.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "));
                line.unwrap_or_else(|| panic!("{file}: {key} is missing in {rule}")).trim_matches('"').to_owned()
            };
            let severity = value("labels");
            alerts.push(Alert {
                file: file.clone(),
                name: rule.lines().next().unwrap().to_owned(),
                severity: severity.trim_start_matches("{ severity: ").trim_end_matches(" }").to_owned(),
                summary: value("summary"),
                runbook: value("runbook"),
            });
        }
    }
    alerts
}

/// The expression of a rule, with its lines joined.
fn expression(rule: &str) -> String {
    let (_, rest) = rule.split_once(" expr: ").expect("a rule has an expression");
    match rest.strip_prefix("|\n") {
        Some(block) => {
            let lines = block.lines().take_while(|line| line.starts_with("          "));
            lines.map(str::trim).collect::<Vec<_>>().join(" ")
        }
        None => rest.lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn every_metric_and_label_that_a_rule_names_exists() {
    let mut wrong = vec![];
    for file in rule_files() {
        let text = fs::read_to_string(&file).unwrap();
        for rule in text.split("      - ").skip(1).filter(|rule| rule.contains(" expr: ")) {
            let found = promql::complaints(&expression(rule));
            wrong.extend(found.into_iter().map(|found| format!("{}: {found}", file.display())));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_alert_has_a_severity_and_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    for alert in all() {
        assert!(["critical", "warning", "info"].contains(&&*alert.severity), "{}: {}", alert.name, alert.severity);
        let tests = directory().join(alert.file.replace(".rules.yml", ".test.yml"));
        let tests = fs::read_to_string(&tests).unwrap_or_else(|error| panic!("{}: {error}", tests.display()));
        for title in ["fires", "is silent"] {
            assert!(tests.contains(&format!("- name: {} {title}\n", alert.name)), "{} {title}", alert.name);
        }
    }
}

#[test]
fn promtool_takes_the_rules_their_tests_and_the_example() {
    let rules = rule_files();
    promtool("check", "rules", &rules);
    promtool("check", "config", &[directory().join("prometheus.yml")]);
    promtool("test", "rules", &xtask::files(&directory(), ".test.yml").unwrap());
}

/// Runs `promtool` on files. `cargo xtask tidy` installs it.
pub(crate) fn promtool(verb: &str, what: &str, files: &[PathBuf]) {
    let output = Command::new("promtool").args([verb, what]).args(files).output().expect("promtool is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// The page of alerts is committed: `UPDATE_EXPECT=1` rewrites it.
#[test]
fn the_page_of_alerts_is_that_of_the_rules() {
    let mut page = "# Alerts\n\nMade from the rules in `deploy/prometheus`; do not edit. Each row links to a runbook, \
                    and a test follows its steps.\n\n| alert | severity | says | do |\n|---|---|---|---|\n"
        .to_owned();
    for Alert { name, severity, summary, runbook, .. } in all() {
        let runbook = runbook.strip_prefix("docs/").unwrap_or(&runbook);
        let title = Runbook::read(runbook.strip_prefix("runbooks/").unwrap_or(runbook)).title;
        let summary = summary.replace('|', "\\|");
        writeln!(page, "| `{name}` | {severity} | {summary} | [{title}]({runbook}) |").unwrap();
    }
    expect_file![xtask::workspace_root().join("docs/alerts.md")].assert_eq(&page);
}
