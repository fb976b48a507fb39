//! The runbooks: every alert and every failure links to one, and a test follows its steps.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::alerts;

/// The required sections of a runbook, in order.
const SECTIONS: [&str; 4] = ["## Symptoms", "## Meaning", "## Actions", "## How you know it is over"];

/// A runbook, by its file.
pub(crate) struct Runbook {
    pub(crate) title: String,
    text: String,
}

impl Runbook {
    pub(crate) fn read(name: &str) -> Self {
        let path = directory().join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let title =
            text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a page has a title").to_owned();
        Self { title, text }
    }

    /// The tests that follow the steps of the page: file and name.
    fn drills(&self) -> Vec<(&str, &str)> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("Drill: "));
        let parts = lines.map(|line| line.split('`').skip(1).step_by(2).collect::<Vec<_>>());
        parts.map(|parts| <[&str; 2]>::try_from(parts).expect("a drill is a file and a test").into()).collect()
    }
}

fn directory() -> PathBuf {
    xtask::workspace_root().join("docs/runbooks")
}

fn names() -> BTreeSet<String> {
    let files = xtask::files(&directory(), ".md").unwrap();
    let names = files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != "README.md").collect()
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert_or_a_failure() {
    let of_alerts = alerts::all().into_iter().map(|alert| {
        let name = alert.runbook.strip_prefix("docs/runbooks/");
        name.unwrap_or_else(|| panic!("{} leads to {}", alert.name, alert.runbook)).to_owned()
    });
    let index = fs::read_to_string(directory().join("README.md")).unwrap();
    let of_failures = index.lines().filter_map(|line| {
        let (_, link) = line.strip_prefix("| ")?.rsplit_once("](")?;
        Some(link.trim_end_matches([' ', '|', ')']).to_owned())
    });
    assert_eq!(of_alerts.chain(of_failures).collect::<BTreeSet<_>>(), names());
}

#[test]
fn every_runbook_has_its_sections_and_a_drill_that_exists() {
    let root = xtask::workspace_root();
    for name in names() {
        let runbook = Runbook::read(&name);
        let offsets: Vec<usize> = SECTIONS
            .iter()
            .map(|section| runbook.text.find(section).unwrap_or_else(|| panic!("{name} lacks {section}")))
            .collect();
        assert!(offsets.is_sorted(), "{name} has its sections in another order");
        let drills = runbook.drills();
        assert!(!drills.is_empty(), "{name} names no drill");
        for (file, test) in drills {
            let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert!(source.contains(&format!("fn {test}(")), "{name}: {file} has no test {test}");
        }
    }
}

#[test]
fn commands_that_are_drilled_belong_to_a_page_that_a_drill_reads() {
    let root = xtask::workspace_root();
    for name in names() {
        let runbook = Runbook::read(&name);
        if runbook.text.contains("```sh drill") {
            let read = |(file, _): &(&str, &str)| fs::read_to_string(root.join(file)).unwrap().contains(&*name);
            assert!(runbook.drills().iter().any(read), "no drill of {name} reads it");
        }
    }
}
