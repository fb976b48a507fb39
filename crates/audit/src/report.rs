use domain::Invariant;
use serde::{Deserialize, Serialize};

use crate::{Findings, InvariantTally, Violation};

/// Findings in the form for JSON output, transfer between processes, and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// One line for each checked invariant, in the order of [`Invariant::ALL`].
    pub invariants: Vec<Line>,
}

/// Checks and violations of one invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The name of the invariant.
    pub name: String,
    /// Number of checks.
    pub checked: u64,
    /// Number of violations.
    pub violated: u64,
    /// Details of the first violations.
    pub examples: Vec<String>,
}

/// A report with an unknown invariant.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no invariant")]
pub struct UnknownInvariant(pub(crate) String);

impl From<&Findings> for Report {
    fn from(findings: &Findings) -> Self {
        let line = |(invariant, tally): (Invariant, &InvariantTally)| Line {
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
            Ok((invariant, InvariantTally { checked, violated, examples }))
        };
        report.invariants.into_iter().map(tally).collect()
    }
}
