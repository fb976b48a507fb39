use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use ports::BoxError;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
const OWNER_ONLY: u32 = 0o600;

/// Why the key file cannot be used. It is never replaced by a guess: whoever has lost it decides what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file system said no.
    #[error("cannot {action} key file `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not what was written.
    #[error(
        "key file `{}` is damaged; restore it from a backup, or move it away and start again with new keys \
         (access tokens are then refreshed, waiting one-time codes are void)",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The file is of another version of this program.
    #[error(
        "key file `{}` has version {found}, this program knows version {VERSION}; use a newer program",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u32,
    },
}

/// All that the key file holds.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyRecords {
    version: u32,
    /// The secret under which one-time codes are digested.
    #[serde(with = "base64url")]
    pub(crate) code_secret: Vec<u8>,
    /// The keys of access tokens, oldest first; the last one signs.
    pub(crate) token_keys: Vec<TokenKeyRecord>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenKeyRecord {
    pub(crate) created_at: Timestamp,
    /// An Ed25519 key pair.
    #[serde(with = "base64url")]
    pub(crate) pkcs8: Vec<u8>,
}

impl KeyRecords {
    pub(crate) fn new(code_secret: Vec<u8>, token_key: TokenKeyRecord) -> Self {
        Self { version: VERSION, code_secret, token_keys: vec![token_key] }
    }
}

/// The file `keys.json` of a data directory.
pub(crate) struct KeyFile(PathBuf);

impl KeyFile {
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.join("keys.json"))
    }

    /// What the file holds; `None` if there is no file.
    ///
    /// A file that others may read is closed to them first: what is there may be a careless copy, and refusing to start
    /// would not undo that.
    pub(crate) fn read(&self) -> Result<Option<KeyRecords>, KeyFileError> {
        let metadata = match fs::metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| self.io("read", source))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            tracing::warn!(path = %self.0.display(), "the key file was open to others and is closed now");
            fs::set_permissions(&self.0, Permissions::from_mode(OWNER_ONLY))
                .map_err(|source| self.io("close to others", source))?;
        }
        let bytes = fs::read(&self.0).map_err(|source| self.io("read", source))?;
        self.decode(&bytes).map(Some)
    }

    fn decode(&self, bytes: &[u8]) -> Result<KeyRecords, KeyFileError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_slice(bytes).map_err(|error| self.damaged(error))?;
        if version != VERSION {
            return Err(KeyFileError::Version { path: self.0.clone(), found: version });
        }
        serde_json::from_slice(bytes).map_err(|error| self.damaged(error))
    }

    /// Puts the file in the place of the one before. After a crash there is the one or the other, whole.
    pub(crate) fn write(&self, records: &KeyRecords) -> Result<(), KeyFileError> {
        self.try_write(records).map_err(|source| self.io("write", source))
    }

    fn try_write(&self, records: &KeyRecords) -> io::Result<()> {
        let temporary = self.0.with_extension("json.new");
        // What a crash left of an earlier try is cleared away, so the file below is ours with our permissions.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(records)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.0)?;
        // The new name is in the directory, which has to reach the disk too.
        match self.0.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    pub(crate) fn damaged(&self, source: impl Into<BoxError>) -> KeyFileError {
        KeyFileError::Damaged { path: self.0.clone(), source: source.into() }
    }

    fn io(&self, action: &'static str, source: io::Error) -> KeyFileError {
        KeyFileError::Io { action, path: self.0.clone(), source }
    }
}

mod base64url {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        // The error of the decoder names offending bytes, and these are secret.
        let text = String::deserialize(deserializer)?;
        BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| de::Error::custom("a value is not base64url"))
    }
}
