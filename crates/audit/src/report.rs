use domain::Invariant;
use serde::{Deserialize, Serialize};

use crate::{Findings, Tally, Violation};

/// Findings as they are printed as JSON, sent between processes and kept in files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// One for each invariant that was looked at, in the order of [`Invariant::ALL`].
    pub invariants: Vec<Line>,
}

/// How it stands with one invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// How often there was something to check.
    pub checked: u64,
    /// How often it did not hold.
    pub violated: u64,
    /// What is wrong, for the first.
    pub examples: Vec<String>,
}

/// A report that names what is no invariant of ours.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no invariant")]
pub struct UnknownInvariant(pub(crate) String);

impl From<&Findings> for Report {
    fn from(findings: &Findings) -> Self {
        let line = |(invariant, tally): (Invariant, &Tally)| Line {
            name: invariant.name().to_owned(),
            checked: tally.checked,
            violated: tally.violated,
            examples: tally.examples.iter().map(|violation| violation.detail.clone()).collect(),
        };
        Self { invariants: findings.iter().map(line).collect() }
    }
}

impl TryFrom<Report> for Findings {
    type Error = UnknownInvariant;

    fn try_from(report: Report) -> Result<Self, UnknownInvariant> {
        let tally = |Line { name, checked, violated, examples }| {
            let invariant = Invariant::ALL.iter().find(|invariant| invariant.name() == name);
            let invariant = *invariant.ok_or(UnknownInvariant(name))?;
            let examples = examples.into_iter().map(|detail| Violation { invariant, detail }).collect();
            Ok((invariant, Tally { checked, violated, examples }))
        };
        report.invariants.into_iter().map(tally).collect()
    }
}
