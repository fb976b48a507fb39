use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Secret, Timestamp};
use keyfile::{KeyFile, KeyFileError, Keys};
use serde::{Deserialize, Serialize};

use super::access::OperatorRole;
use super::operators::{OperatorTokenDigest, ROOT, random_token};

/// Most operators in a file.
const OPERATORS_MAX: usize = 100;
/// Most tokens of an operator: the current one, and the one before a rotation.
const TOKENS_MAX: usize = 2;
/// Most bytes in a file. A full one has less than half of it.
const FILE_BYTES_MAX: u64 = 128 << 10;
const NAME_LEN_MAX: usize = 32;
/// Longest time that a token stays valid after its rotation.
pub(super) const OVERLAP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The named operators, in a JSON file: `operators.json` of a data directory, or the file `admin.operators_file`.
///
/// The file has digests of tokens only. A token has 256 random bits, so its digest reveals nothing: the file is not
/// secret, but write access to it grants the rights of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorsFile {
    pub(super) operators: Vec<StoredOperator>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredOperator {
    pub(super) name: String,
    pub(super) role: OperatorRole,
    pub(super) created_at: Timestamp,
    pub(super) tokens: Vec<StoredToken>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredToken {
    pub(super) sha256: OperatorTokenDigest,
    pub(super) created_at: Timestamp,
    /// Set by a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
}

/// Why a file of operators cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorsError {
    #[error("cannot read the operators in `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error("`{name}` is not a name of an operator: 1 to {NAME_LEN_MAX} of a-z, 0-9, `.`, `_` and `-`, not `{ROOT}`")]
    Name { name: String },
    #[error("there is an operator `{name}` already; remove or rotate it")]
    Exists { name: String },
    #[error("there is no operator `{name}`")]
    Unknown { name: String },
    #[error("a service has at most {OPERATORS_MAX} operators")]
    Full,
    #[error("an old token is valid for at most {} s after its rotation", OVERLAP_MAX.as_secs())]
    Overlap,
}

impl Keys for OperatorsFile {
    const FILE: &'static str = "operators.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "every operator but `root` has to be added again";
}

impl OperatorsFile {
    /// Reads a file; `None` if there is none. Blocks on the disk.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, OperatorsError> {
        let unreadable = |source| OperatorsError::Unreadable { path: path.to_owned(), source };
        let file = match File::open(path) {
            Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(unreadable)?,
        };
        let mut bytes = vec![];
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let key_file = KeyFile::<Self>::at(path.to_owned());
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(key_file.damaged(format!("it has over {FILE_BYTES_MAX} bytes")).into());
        }
        let operators = key_file.decode(&bytes)?;
        operators.check().map_err(|defect| key_file.damaged(defect))?;
        Ok(Some(operators))
    }

    /// Applies a change to a file, which is created if it is missing. The file is replaced atomically and durably, and
    /// not at all if the change is refused. Blocks on the disk.
    pub fn edit<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, OperatorsError>,
    ) -> Result<T, OperatorsError> {
        let mut operators = Self::read(path)?.unwrap_or_default();
        let changed = change(&mut operators)?;
        KeyFile::at(path.to_owned()).write(&operators)?;
        Ok(changed)
    }

    /// The names and roles in a file, in the order of their addition. Blocks on the disk.
    pub fn list(path: &Path) -> Result<Vec<(String, OperatorRole)>, OperatorsError> {
        let operators = Self::read(path)?.unwrap_or_default().operators;
        Ok(operators.into_iter().map(|operator| (operator.name, operator.role)).collect())
    }

    /// Adds an operator and returns the token, which is stored nowhere.
    pub fn add(&mut self, name: &str, role: OperatorRole, now: Timestamp) -> Result<Secret, OperatorsError> {
        if !is_name(name) {
            return Err(OperatorsError::Name { name: name.to_owned() });
        }
        if self.operators.iter().any(|operator| operator.name == name) {
            return Err(OperatorsError::Exists { name: name.to_owned() });
        }
        if self.operators.len() == OPERATORS_MAX {
            return Err(OperatorsError::Full);
        }
        let (token, stored) = StoredToken::random(now);
        self.operators.push(StoredOperator { name: name.to_owned(), role, created_at: now, tokens: vec![stored] });
        Ok(token)
    }

    pub fn remove(&mut self, name: &str) -> Result<(), OperatorsError> {
        let at = self.operators.iter().position(|operator| operator.name == name);
        self.operators.remove(at.ok_or_else(|| OperatorsError::Unknown { name: name.to_owned() })?);
        Ok(())
    }

    /// Gives an operator a new token, and returns it. The current token stays valid for `overlap`, and no other.
    pub fn rotate(&mut self, name: &str, overlap: Duration, now: Timestamp) -> Result<Secret, OperatorsError> {
        let operator = self.operators.iter_mut().find(|operator| operator.name == name);
        let operator = operator.ok_or_else(|| OperatorsError::Unknown { name: name.to_owned() })?;
        check_overlap(overlap)?;
        let (token, stored) = StoredToken::random(now);
        operator.tokens.retain(|token| token.expires_at.is_none() && !overlap.is_zero());
        for old in &mut operator.tokens {
            old.expires_at = Some(now + overlap);
        }
        operator.tokens.push(stored);
        Ok(token)
    }

    /// Refuses a file that our own changes cannot have produced.
    fn check(&self) -> Result<(), String> {
        if self.operators.len() > OPERATORS_MAX {
            return Err(format!("it has {} operators, and at most {OPERATORS_MAX} are allowed", self.operators.len()));
        }
        for (at, StoredOperator { name, tokens, .. }) in self.operators.iter().enumerate() {
            if !is_name(name) {
                return Err(format!("operator {} has no valid name", at + 1));
            }
            if self.operators[..at].iter().any(|other| other.name == *name) {
                return Err(format!("the operator `{name}` is there twice"));
            }
            if tokens.len() > TOKENS_MAX {
                return Err(format!("the operator `{name}` has more than {TOKENS_MAX} tokens"));
            }
        }
        Ok(())
    }
}

pub(super) fn check_overlap(overlap: Duration) -> Result<(), OperatorsError> {
    if overlap <= OVERLAP_MAX { Ok(()) } else { Err(OperatorsError::Overlap) }
}

impl StoredToken {
    fn random(now: Timestamp) -> (Secret, Self) {
        let token = random_token();
        let stored = Self { sha256: OperatorTokenDigest::of(&token), created_at: now, expires_at: None };
        (Secret::from(token), stored)
    }
}

/// Names are part of paths and of every audit line.
fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    (1..=NAME_LEN_MAX).contains(&name.len())
        && name.chars().all(is_allowed)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name != ROOT
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp::MAX;

    #[test]
    fn a_file_has_digests_and_no_tokens_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("operators.json");
        assert_eq!(OperatorsFile::read(&path).unwrap(), None);
        let token = OperatorsFile::edit(&path, |file| file.add("ann", OperatorRole::Support, NOW)).unwrap();
        assert_eq!(token.expose().len(), 64);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(token.expose()), "{text}");
        let stored = OperatorsFile::read(&path).unwrap().unwrap();
        assert_eq!(stored.operators[0].tokens[0].sha256, OperatorTokenDigest::of(token.expose()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(OperatorsFile::list(&path).unwrap(), [("ann".to_owned(), OperatorRole::Support)]);
    }

    #[test]
    fn names_are_short_unique_and_not_root() {
        let mut file = OperatorsFile::default();
        file.add("ann", OperatorRole::Viewer, NOW).unwrap();
        let mut refusal = |name: &str| file.add(name, OperatorRole::Viewer, NOW).unwrap_err();
        assert!(matches!(refusal("ann"), OperatorsError::Exists { .. }));
        for name in ["", "root", "Ann", "-ann", "a/b", "a b", "ann\n", &"a".repeat(33)] {
            assert!(matches!(refusal(name), OperatorsError::Name { .. }), "{name:?}");
        }
        assert!(matches!(file.remove("bob"), Err(OperatorsError::Unknown { .. })));
        file.remove("ann").unwrap();
        assert_eq!(file, OperatorsFile::default());
    }

    #[test]
    fn a_rotation_keeps_the_old_token_for_the_overlap_and_no_older_one() {
        let mut file = OperatorsFile::default();
        file.add("ann", OperatorRole::Viewer, NOW).unwrap();
        let at = Timestamp::from_millis(1000);
        let hour = Duration::from_secs(3600);
        let digests = |file: &OperatorsFile| -> Vec<_> {
            file.operators[0].tokens.iter().map(|token| (token.sha256, token.expires_at)).collect()
        };
        let first = digests(&file)[0].0;
        let second = OperatorTokenDigest::of(file.rotate("ann", hour, at).unwrap().expose());
        assert_eq!(digests(&file), [(first, Some(at + hour)), (second, None)]);
        let third = OperatorTokenDigest::of(file.rotate("ann", hour, at).unwrap().expose());
        assert_eq!(digests(&file), [(second, Some(at + hour)), (third, None)]);
        let last = OperatorTokenDigest::of(file.rotate("ann", Duration::ZERO, at).unwrap().expose());
        assert_eq!(digests(&file), [(last, None)]);
        let too_long = OVERLAP_MAX + Duration::from_secs(1);
        assert!(matches!(file.rotate("ann", too_long, at), Err(OperatorsError::Overlap)));
    }

    #[test]
    fn a_full_file_fits_and_takes_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("operators.json");
        let mut file = OperatorsFile::default();
        for n in 0..OPERATORS_MAX {
            let name = format!("{n:0>NAME_LEN_MAX$}");
            file.add(&name, OperatorRole::Support, NOW).unwrap();
            file.rotate(&name, OVERLAP_MAX, NOW).unwrap();
        }
        assert!(matches!(file.add("one-more", OperatorRole::Viewer, NOW), Err(OperatorsError::Full)));
        KeyFile::at(path.clone()).write(&file).unwrap();
        assert_eq!(OperatorsFile::read(&path).unwrap(), Some(file));
    }

    #[test]
    fn a_file_that_we_cannot_have_written_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("operators.json");
        let operator = |name: &str, digest: &str| {
            format!(
                r#"{{"name":"{name}","role":"admin","created_at":"2026-11-18T00:00:00.000Z",
                    "tokens":[{{"sha256":"{digest}","created_at":"2026-11-18T00:00:00.000Z"}}]}}"#
            )
        };
        let good = "0".repeat(64);
        for operators in [
            operator("root", &good),
            operator("ann", "00"),
            operator("ann", &"g".repeat(64)),
            format!("{0},{0}", operator("ann", &good)),
            "{}".to_owned(),
        ] {
            std::fs::write(&path, format!(r#"{{"version":1,"operators":[{operators}]}}"#)).unwrap();
            assert!(OperatorsFile::read(&path).is_err(), "{operators}");
        }
        std::fs::write(&path, " ".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert!(OperatorsFile::read(&path).is_err(), "it is too long");
        let file = format!(r#"{{"version":1,"operators":[{}]}}"#, operator("ann", &good));
        std::fs::write(&path, file).unwrap();
        assert!(OperatorsFile::read(&path).is_ok());
    }
}
