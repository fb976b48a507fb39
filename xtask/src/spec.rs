//! Reports which requirements of the specification have tests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// The guarantees, G1 to this.
const GUARANTEES: u32 = 11;
/// The test scenarios of ADR-004, 1 to this.
const ADR_004_SCENARIOS: u32 = 7;
/// The test vectors of ADR-010 Part 4, by their names.
const ADR_010_VECTORS: [&str; 11] = [
    "server_crash_causes_entries_to_expire_within_expiry_window",
    "reconnect_updates_mapping_idempotently",
    "multi_device_routing_delivers_to_all_servers",
    "stale_routing_entry",
    "first_connection_transitions_to_online",
    "last_connection_transitions_to_offline",
    "multi_device_keeps_user_online",
    "presence_staleness_bounded_by_expiry_window",
    "redis_unavailable_degrades_to_broadcast_routing",
    "redis_recovery_rebuilds_state",
    "split_brain_prevented_by_conn_id_uniqueness",
];

/// A requirement of the specification. The name of its test begins with its id, `g2_…`, or with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requirement {
    Guarantee(u32),
    Adr004Scenario(u32),
    Adr010Vector(&'static str),
}

impl Requirement {
    fn all() -> impl Iterator<Item = Self> {
        let guarantees = (1..=GUARANTEES).map(Self::Guarantee);
        let scenarios = (1..=ADR_004_SCENARIOS).map(Self::Adr004Scenario);
        guarantees.chain(scenarios).chain(ADR_010_VECTORS.map(Self::Adr010Vector))
    }

    /// The requirement that the name of a function begins with.
    fn named_by(function: &str) -> Option<Self> {
        let number = |rest: &str| rest.split('_').next().and_then(|digits| digits.parse().ok());
        if let Some(rest) = function.strip_prefix("adr_004_scenario_") {
            number(rest).map(Self::Adr004Scenario)
        } else if let Some(vector) = ADR_010_VECTORS.iter().find(|vector| function.starts_with(**vector)) {
            Some(Self::Adr010Vector(vector))
        } else {
            number(function.strip_prefix('g')?).map(Self::Guarantee)
        }
    }

    fn title(self) -> String {
        match self {
            Self::Guarantee(number) => format!("G{number}"),
            Self::Adr004Scenario(number) => format!("ADR-004 scenario {number}"),
            Self::Adr010Vector(name) => format!("ADR-010 {name}"),
        }
    }
}

/// A line for each requirement with the number of tests that name it.
///
/// # Errors
/// If a source file cannot be read.
pub fn report(root: &Path) -> io::Result<String> {
    let mut counts: BTreeMap<Requirement, usize> = BTreeMap::new();
    // Tests of xtask contain such names without testing the requirement.
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
    fn a_requirement_is_named_by_the_prefix_of_a_function() {
        let source = "\
            pub async fn g2_a_retry(stores: ContractStores) {\n\
            fn g11_gone() {}\n\
            fn adr_004_scenario_7_counter_missing() {}\n\
            async fn stale_routing_entry_is_harmless() {}\n\
            fn group() {}\n\
            // fn g3_is_only_spoken_of\n\
            g4_call();\n";
        let named: Vec<_> = functions(source).filter_map(Requirement::named_by).collect();
        let expected = [
            Requirement::Guarantee(2),
            Requirement::Guarantee(11),
            Requirement::Adr004Scenario(7),
            Requirement::Adr010Vector("stale_routing_entry"),
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn a_requirement_that_no_test_names_is_reported() {
        let table = table(&BTreeMap::from([(Requirement::Guarantee(2), 5)]));
        assert_eq!(table.lines().count(), Requirement::all().count());
        assert!(table.starts_with("G1                   named by no test\nG2                   named by 5\n"));
    }
}
