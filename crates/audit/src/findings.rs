use std::collections::BTreeMap;

use domain::Invariant;

/// Violations of one invariant that are kept in full; the others are counted.
const EXAMPLES_MAX: usize = 10;

/// What was looked at, and what was wrong with it, by invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    tallies: BTreeMap<Invariant, Tally>,
}

/// How it stands with one invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often there was something to check. An invariant that was never exercised is not known to hold.
    pub checked: u64,
    /// How often it did not hold.
    pub violated: u64,
    /// The first violations.
    pub examples: Vec<Violation>,
}

/// One thing that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it breaks.
    pub invariant: Invariant,
    /// What is wrong: names the chat, message, user or row, and the values that do not go together. Never a content.
    pub detail: String,
}

impl Findings {
    /// Notes one check, and what is wrong if it does not hold.
    pub fn check(&mut self, invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) {
        self.checked(invariant, 1);
        if !holds {
            self.violate(invariant, detail());
        }
    }

    /// Notes checks that held, or whose violations are noted one by one.
    pub fn checked(&mut self, invariant: Invariant, times: u64) {
        self.tallies.entry(invariant).or_default().checked += times;
    }

    /// Notes a violation.
    pub fn violate(&mut self, invariant: Invariant, detail: String) {
        let tally = self.tallies.entry(invariant).or_default();
        tally.violated += 1;
        if tally.examples.len() < EXAMPLES_MAX {
            tally.examples.push(Violation { invariant, detail });
        }
    }

    /// Adds what another check has found.
    pub fn merge(&mut self, other: Self) {
        for (invariant, other) in other.tallies {
            let tally = self.tallies.entry(invariant).or_default();
            tally.checked += other.checked;
            tally.violated += other.violated;
            let room = EXAMPLES_MAX.saturating_sub(tally.examples.len());
            tally.examples.extend(other.examples.into_iter().take(room));
        }
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.tallies.values().all(|tally| tally.violated == 0)
    }

    /// How it stands with an invariant; all zero if nobody looked.
    pub fn tally(&self, invariant: Invariant) -> Tally {
        self.tallies.get(&invariant).cloned().unwrap_or_default()
    }

    /// The invariants that were looked at.
    pub fn iter(&self) -> impl Iterator<Item = (Invariant, &Tally)> {
        self.tallies.iter().map(|(invariant, tally)| (*invariant, tally))
    }

    /// The violations that were kept in full.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.tallies.values().flat_map(|tally| &tally.examples)
    }
}

impl FromIterator<(Invariant, Tally)> for Findings {
    fn from_iter<I: IntoIterator<Item = (Invariant, Tally)>>(tallies: I) -> Self {
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
