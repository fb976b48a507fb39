use std::path::Path;
use std::time::Duration;

use domain::Timestamp;
use keyfile::{KeyFile, KeyFileError, Keys};
use serde::{Deserialize, Serialize};

use super::operators::{OperatorTokenDigest, random_token};

/// The token of the operator `root`, in the file `admin.json` of a data directory. Read access to the file grants all
/// rights of an operator.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct AdminToken {
    token: String,
    /// The token before the last rotation, while it is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousToken>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct PreviousToken {
    sha256: OperatorTokenDigest,
    expires_at: Timestamp,
}

impl Keys for AdminToken {
    const FILE: &'static str = "admin.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "every copy of the old token has to be replaced";
}

impl AdminToken {
    /// Reads the token of a data directory, or creates one. Blocks on the disk.
    pub(crate) fn open(directory: &Path) -> Result<Self, KeyFileError> {
        let file = KeyFile::<Self>::new(directory);
        match file.read()? {
            Some(token) => Ok(token),
            None => {
                let token = Self { token: random_token(), previous: None };
                file.write(&token)?;
                Ok(token)
            }
        }
    }

    /// Reads the token of a data directory, if a service has created one. Blocks on the disk.
    pub fn read(directory: &Path) -> Result<Option<Self>, KeyFileError> {
        KeyFile::new(directory).read()
    }

    /// Replaces the token of a data directory; the old one stays valid for `overlap`. Blocks on the disk.
    pub(super) fn rotate(directory: &Path, overlap: Duration, now: Timestamp) -> Result<Self, KeyFileError> {
        let file = KeyFile::<Self>::new(directory);
        let old = file.read()?.filter(|_| !overlap.is_zero());
        let previous = old.map(|old| PreviousToken { sha256: old.digest(), expires_at: now + overlap });
        let token = Self { token: random_token(), previous };
        file.write(&token)?;
        Ok(token)
    }

    pub fn expose(&self) -> &str {
        &self.token
    }

    /// The digests of all tokens of `root`, and when they expire.
    pub(super) fn digests(&self) -> impl Iterator<Item = (OperatorTokenDigest, Option<Timestamp>)> {
        let previous = self.previous.as_ref().map(|previous| (previous.sha256, Some(previous.expires_at)));
        std::iter::once((self.digest(), None)).chain(previous)
    }

    fn digest(&self) -> OperatorTokenDigest {
        OperatorTokenDigest::of(&self.token)
    }
}
