use embedded::Scrubbed;
use serde::{Deserialize, Serialize};

use super::Report;

/// The result of a verification, as it is printed as JSON and sent between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The result of an audit of all rows. It has no invariants if files are damaged, because their rows are
    /// unreadable.
    #[serde(flatten)]
    pub report: Report,
    /// The result of a scrub, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<ScrubbedFiles>,
}

/// The files of an embedded store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedFiles {
    /// Files that were read to their end.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Files that are damaged or missing.
    pub damaged: Vec<DamagedFile>,
}

/// A file of an embedded store that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedFile {
    /// The file.
    pub file: String,
    /// The table it belongs to, if it belongs to one.
    pub table: Option<String>,
    /// The kind of damage.
    pub reason: String,
}

impl Verified {
    /// Whether no invariant is violated and no file is damaged.
    pub fn is_clean(&self) -> bool {
        let is_damaged = self.files.as_ref().is_some_and(|files| !files.damaged.is_empty());
        !is_damaged && self.report.invariants.iter().all(|line| line.violated == 0)
    }
}

impl From<Scrubbed> for ScrubbedFiles {
    fn from(scrubbed: Scrubbed) -> Self {
        let damaged = scrubbed.damaged.into_iter().map(|file| DamagedFile {
            file: file.path.display().to_string(),
            table: file.table,
            reason: file.reason,
        });
        Self { files: scrubbed.files, bytes: scrubbed.bytes, damaged: damaged.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_without_a_scrub_keeps_its_format() {
        let plain = json!({ "invariants": [] });
        let verified: Verified = serde_json::from_value(plain.clone()).unwrap();
        assert_eq!(verified, Verified::default());
        assert_eq!(serde_json::to_value(&verified).unwrap(), plain);
    }
}
