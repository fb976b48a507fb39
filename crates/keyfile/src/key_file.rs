use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const OWNER_ONLY: u32 = 0o600;

type KeyFileCause = Box<dyn std::error::Error + Send + Sync>;

/// The contents of a key file: a JSON object.
pub trait Keys: Serialize + DeserializeOwned {
    /// The name of the file.
    const FILE: &'static str;
    /// The version of its format.
    const VERSION: u32;
    /// The consequence of starting with new keys, shown to an operator who has lost the file.
    const LOSS: &'static str;
}

/// Why a key file cannot be used. It is never replaced automatically: an operator decides how to proceed.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file system reported an error.
    #[error("cannot {action} key file `{}`", path.display())]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file does not hold valid keys.
    #[error(
        "key file `{}` is damaged; restore it from a backup, or move it away and start again with new keys ({loss})",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The consequence of new keys.
        loss: &'static str,
        /// The defect.
        #[source]
        source: KeyFileCause,
    },
    /// The file was written by another version of this program.
    #[error("key file `{}` has version {found}, this program knows version {known}; use a newer program", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
}

/// The file of some keys in a data directory.
pub struct KeyFile<K> {
    path: PathBuf,
    keys: PhantomData<fn() -> K>,
}

/// The keys and the version of their format, in one JSON object.
#[derive(Serialize)]
struct Versioned<'a, K> {
    version: u32,
    #[serde(flatten)]
    keys: &'a K,
}

impl<K: Keys> KeyFile<K> {
    pub fn new(directory: &Path) -> Self {
        Self::at(directory.join(K::FILE))
    }

    /// The same keys in a file with another name.
    pub fn at(path: PathBuf) -> Self {
        Self { path, keys: PhantomData }
    }

    /// Reads the keys; `None` if there is no file. Blocks on the disk.
    ///
    /// If the file is accessible to other users, its permissions are restricted first. Refusing to start would not undo
    /// the exposure, and the mode may only be the result of a careless copy.
    pub fn read(&self) -> Result<Option<K>, KeyFileError> {
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| self.io("read", source))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            tracing::warn!(path = %self.path.display(), "the key file was accessible to other users; its permissions are now restricted");
            fs::set_permissions(&self.path, Permissions::from_mode(OWNER_ONLY))
                .map_err(|source| self.io("close to others", source))?;
        }
        let bytes = fs::read(&self.path).map_err(|source| self.io("read", source))?;
        self.decode(&bytes).map(Some)
    }

    /// The keys in the contents of a file.
    pub fn decode(&self, bytes: &[u8]) -> Result<K, KeyFileError> {
        #[derive(Deserialize)]
        struct VersionField {
            version: u32,
        }
        let VersionField { version } = serde_json::from_slice(bytes).map_err(|error| self.damaged(error))?;
        if version != K::VERSION {
            return Err(KeyFileError::Version { path: self.path.clone(), found: version, known: K::VERSION });
        }
        serde_json::from_slice(bytes).map_err(|error| self.damaged(error))
    }

    /// Replaces the file atomically: after a crash either the old or the new file is there, complete. Blocks on the
    /// disk.
    pub fn write(&self, keys: &K) -> Result<(), KeyFileError> {
        self.try_write(keys).map_err(|source| self.io("write", source))
    }

    fn try_write(&self, keys: &K) -> io::Result<()> {
        let temporary = self.path.with_extension("json.new");
        // A crash may have left a temporary file. It is removed, so that the new file is created by us and with our
        // permissions.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(&Versioned { version: K::VERSION, keys })?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The rename is durable only after the directory is synced too.
        File::open(directory_of(&self.path))?.sync_all()
    }

    /// The error for a readable file that does not hold valid keys.
    pub fn damaged(&self, source: impl Into<KeyFileCause>) -> KeyFileError {
        KeyFileError::Damaged { path: self.path.clone(), loss: K::LOSS, source: source.into() }
    }

    fn io(&self, action: &'static str, source: io::Error) -> KeyFileError {
        KeyFileError::Io { action, path: self.path.clone(), source }
    }
}

/// The directory that a file is in. That of a bare name is the current one.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct StoredSecret {
        #[serde(with = "crate::base64url")]
        secret: Vec<u8>,
    }

    impl Keys for StoredSecret {
        const FILE: &'static str = "secret.json";
        const VERSION: u32 = 3;
        const LOSS: &'static str = "nobody minds";
    }

    #[test]
    fn a_file_has_its_last_contents_and_its_version() {
        let directory = TempDir::new().unwrap();
        let file = KeyFile::<StoredSecret>::new(directory.path());
        assert_eq!(file.read().unwrap(), None);
        for secret in [b"one".to_vec(), b"other".to_vec()] {
            file.write(&StoredSecret { secret: secret.clone() }).unwrap();
            assert_eq!(file.read().unwrap(), Some(StoredSecret { secret }));
        }
        let text = fs::read_to_string(directory.path().join("secret.json")).unwrap();
        assert_eq!(text, "{\n  \"version\": 3,\n  \"secret\": \"b3RoZXI\"\n}");
    }

    #[test]
    fn a_file_without_a_directory_is_in_the_current_one() {
        for (path, directory) in [("operators.json", "."), ("./a", "."), ("keys/a", "keys"), ("/data/a", "/data")] {
            assert_eq!(directory_of(Path::new(path)), Path::new(directory), "{path}");
        }
    }

    #[test]
    fn an_error_states_the_consequence_and_hides_the_secret() {
        let file = KeyFile::<StoredSecret>::new(Path::new("/data"));
        let error = file.decode(br#"{"version": 3, "secret": "not*base64url"}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "key file `/data/secret.json` is damaged; restore it from a backup, or move it away and start again with new \
             keys (nobody minds)"
        );
        assert!(!format!("{error:?}").contains("not*base64url"), "{error:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in any::<Vec<u8>>()) {
            let _ = KeyFile::<StoredSecret>::new(Path::new("/data")).decode(&bytes);
        }
    }
}
