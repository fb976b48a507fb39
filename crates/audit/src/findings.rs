use std::collections::BTreeMap;

use domain::Invariant;

/// Violations of one invariant that are kept with details. Further ones are only counted.
const EXAMPLES_MAX: usize = 10;

/// Number of checks and violations, by invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    tallies: BTreeMap<Invariant, InvariantTally>,
}

/// Checks and violations of one invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvariantTally {
    /// Number of checks. An invariant without checks is not known to hold.
    pub checked: u64,
    /// Number of violations.
    pub violated: u64,
    /// The first violations.
    pub examples: Vec<Violation>,
}

/// One violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violated invariant.
    pub invariant: Invariant,
    /// Description: the chat, message, user or row, and the inconsistent values. Never message content.
    pub detail: String,
}

impl Findings {
    /// Counts one check, and records a violation if it does not hold.
    pub fn check(&mut self, invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) {
        self.checked(invariant, 1);
        if !holds {
            self.violate(invariant, detail());
        }
    }

    /// Counts checks that held, or that have their violations recorded separately.
    pub fn checked(&mut self, invariant: Invariant, times: u64) {
        self.tallies.entry(invariant).or_default().checked += times;
    }

    /// Records a violation.
    pub fn violate(&mut self, invariant: Invariant, detail: String) {
        let tally = self.tallies.entry(invariant).or_default();
        tally.violated += 1;
        if tally.examples.len() < EXAMPLES_MAX {
            tally.examples.push(Violation { invariant, detail });
        }
    }

    /// Adds the findings of another check.
    pub fn merge(&mut self, other: Self) {
        for (invariant, other) in other.tallies {
            let tally = self.tallies.entry(invariant).or_default();
            tally.checked += other.checked;
            tally.violated += other.violated;
            let room = EXAMPLES_MAX.saturating_sub(tally.examples.len());
            tally.examples.extend(other.examples.into_iter().take(room));
        }
    }

    /// Whether there are no violations.
    pub fn is_clean(&self) -> bool {
        self.tallies.values().all(|tally| tally.violated == 0)
    }

    /// The tally of an invariant; all zero if it was not checked.
    pub fn tally(&self, invariant: Invariant) -> InvariantTally {
        self.tallies.get(&invariant).cloned().unwrap_or_default()
    }

    /// The tallies of all checked invariants.
    pub fn iter(&self) -> impl Iterator<Item = (Invariant, &InvariantTally)> {
        self.tallies.iter().map(|(invariant, tally)| (*invariant, tally))
    }

    /// The violations that were kept with details.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.tallies.values().flat_map(|tally| &tally.examples)
    }
}

impl FromIterator<(Invariant, InvariantTally)> for Findings {
    fn from_iter<I: IntoIterator<Item = (Invariant, InvariantTally)>>(tallies: I) -> Self {
        Self { tallies: tallies.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_counts_and_the_first_violations_are_kept() {
        let (mut findings, mut others) = (Findings::default(), Findings::default());
        for n in 0..8 {
            findings.check(Invariant::NoZeroSequence, n != 3, || format!("row {n}"));
            others.check(Invariant::NoZeroSequence, false, || format!("other row {n}"));
        }
        assert_eq!(findings.violations().map(|violation| violation.detail.as_str()).collect::<Vec<_>>(), ["row 3"]);
        others.checked(Invariant::OwnerAlwaysExists, 2);
        findings.merge(others);
        assert!(!findings.is_clean());
        let tally = findings.tally(Invariant::NoZeroSequence);
        assert_eq!((tally.checked, tally.violated, tally.examples.len()), (16, 9, 9));
        for n in 0..5 {
            findings.violate(Invariant::NoZeroSequence, format!("late row {n}"));
        }
        assert_eq!(findings.tally(Invariant::NoZeroSequence).examples.len(), EXAMPLES_MAX);
        assert_eq!(findings.tally(Invariant::OwnerAlwaysExists).checked, 2);
    }
}
