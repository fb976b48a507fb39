//! Which requirements of the specification some test names, and which none does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// The guarantees, G1 to this.
const GUARANTEES: u32 = 11;
/// The test scenarios of ADR-004, 1 to this.
const ADR_004_SCENARIOS: u32 = 7;

/// Something that the specification promises. A test names it by beginning with its id: `g2_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requirement {
    Guarantee(u32),
    Adr004Scenario(u32),
}

impl Requirement {
    fn all() -> impl Iterator<Item = Self> {
        (1..=GUARANTEES).map(Self::Guarantee).chain((1..=ADR_004_SCENARIOS).map(Self::Adr004Scenario))
    }

    /// What the name of a function begins with, if it is a requirement.
    fn named_by(function: &str) -> Option<Self> {
        let number = |rest: &str| rest.split('_').next().and_then(|digits| digits.parse().ok());
        if let Some(rest) = function.strip_prefix("adr_004_scenario_") {
            number(rest).map(Self::Adr004Scenario)
        } else {
            number(function.strip_prefix('g')?).map(Self::Guarantee)
        }
    }

    fn title(self) -> String {
        match self {
            Self::Guarantee(number) => format!("G{number}"),
            Self::Adr004Scenario(number) => format!("ADR-004 scenario {number}"),
        }
    }
}

/// A line for each requirement: how many tests name it, or that none does.
///
/// # Errors
/// If a source file cannot be read.
pub fn report(root: &Path) -> io::Result<String> {
    let mut counts: BTreeMap<Requirement, usize> = BTreeMap::new();
    // Our own tests speak of such names without keeping the promise.
    let ours = root.join("xtask");
    for file in crate::files(root, ".rs")?.into_iter().filter(|file| !file.starts_with(&ours)) {
        for requirement in functions(&fs::read_to_string(file)?).filter_map(Requirement::named_by) {
            *counts.entry(requirement).or_default() += 1;
        }
    }
    Ok(table(&counts))
}

fn table(counts: &BTreeMap<Requirement, usize>) -> String {
    let mut table = String::new();
    for requirement in Requirement::all() {
        let count = counts.get(&requirement).map_or("no test".to_owned(), usize::to_string);
        writeln!(table, "{:<20} named by {count}", requirement.title()).expect("a string takes any text");
    }
    table
}

/// The names of the functions that a source file defines.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ")?.split(['(', '<']).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_named_by_what_a_function_begins_with() {
        let source = "\
            pub async fn g2_a_retry(stores: Stores) {\n\
            fn g11_gone() {}\n\
            fn adr_004_scenario_7_counter_missing() {}\n\
            fn group() {}\n\
            // fn g3_is_only_spoken_of\n\
            g4_call();\n";
        let named: Vec<_> = functions(source).filter_map(Requirement::named_by).collect();
        assert_eq!(named, [Requirement::Guarantee(2), Requirement::Guarantee(11), Requirement::Adr004Scenario(7)]);
    }

    #[test]
    fn a_requirement_that_no_test_names_is_reported() {
        let table = table(&BTreeMap::from([(Requirement::Guarantee(2), 5)]));
        assert_eq!(table.lines().count() as u32, GUARANTEES + ADR_004_SCENARIOS);
        assert!(table.starts_with("G1                   named by no test\nG2                   named by 5\n"));
    }
}
