use ports::PageBookmark;
use serde::{Deserialize, Serialize};

use crate::report::UnknownInvariant;
use crate::{Findings, Report, Stage};

/// Position at which an audit can resume, with its findings so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The current stage.
    pub stage: Stage,
    /// The last completed page of the stage.
    pub after: Option<PageBookmark>,
    /// Rows and records read so far.
    pub read: u64,
    /// Findings so far.
    pub findings: Findings,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { stage: Stage::Log, after: None, read: 0, findings: Findings::default() }
    }
}

/// Version of the text format.
const VERSION: u32 = 1;

/// Reason that a text is not a valid checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is not JSON of the expected form.
    #[error("it is not a checkpoint")]
    Json(#[from] serde_json::Error),
    /// It has another format version.
    #[error("it is of version {0}, and this is version {VERSION}")]
    Version(u32),
    /// It contains an unknown name.
    #[error("it names `{0}`, which is not known")]
    Unknown(String),
}

#[derive(Serialize, Deserialize)]
struct CheckpointText {
    version: u32,
    stage: String,
    after: Option<String>,
    read: u64,
    findings: Report,
}

impl Checkpoint {
    /// Encodes the checkpoint as text, for a file.
    pub fn encode(&self) -> String {
        let text = CheckpointText {
            version: VERSION,
            stage: self.stage.name().to_owned(),
            after: self.after.as_ref().map(|after| after.0.clone()),
            read: self.read,
            findings: Report::from(&self.findings),
        };
        serde_json::to_string(&text).expect("plain data always encodes")
    }

    /// Parses the text of a checkpoint.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let CheckpointText { version, stage, after, read, findings } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(CheckpointError::Version(version));
        }
        let known = Stage::ALL.into_iter().find(|known| known.name() == stage);
        let stage = known.ok_or(CheckpointError::Unknown(stage))?;
        let findings = findings.try_into().map_err(|UnknownInvariant(name)| CheckpointError::Unknown(name))?;
        Ok(Self { stage, after: after.map(PageBookmark), read, findings })
    }
}

#[cfg(test)]
mod tests {
    use domain::Invariant;

    use super::*;

    #[test]
    fn a_checkpoint_comes_back_from_its_text_with_all_that_was_found() {
        let mut findings = Findings::default();
        for n in 0..25 {
            findings.check(Invariant::NoZeroSequence, n % 2 == 0, || format!("row {n}"));
        }
        findings.checked(Invariant::OwnerAlwaysExists, 7);
        let after = Some(PageBookmark("a \"place\"".to_owned()));
        let checkpoint = Checkpoint { stage: Stage::SendKeys, after, read: 12, findings };
        assert_eq!(Checkpoint::parse(&checkpoint.encode()).unwrap(), checkpoint);
    }

    #[test]
    fn a_text_that_is_no_checkpoint_of_ours_is_refused_by_name() {
        let text = Checkpoint::default().encode();
        for (text, reason) in [
            (text.replace("\"log\"", "\"attic\""), "it names `attic`, which is not known"),
            (text.replace("\"version\":1", "\"version\":2"), "it is of version 2, and this is version 1"),
            ("{}".to_owned(), "it is not a checkpoint"),
        ] {
            assert_eq!(Checkpoint::parse(&text).unwrap_err().to_string(), reason);
        }
    }
}
