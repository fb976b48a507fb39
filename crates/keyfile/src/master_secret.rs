use std::fs;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// Shorter secrets could be guessed.
const BYTES_MIN: usize = 32;

/// The shared secret from which the processes of a fleet derive their keys. They agree on keys without communication,
/// and no process writes a file that the others would have to read.
///
/// It is as sensitive as every key of the fleet together. `Debug` does not reveal it.
pub struct MasterSecret(Prk);

/// Why a master secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MasterSecretError {
    /// The file system reported an error.
    #[error("cannot read the secret `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The secret is short enough to be guessed.
    #[error(
        "the secret `{}` has {len} bytes and could be guessed; make one of {BYTES_MIN} or more: openssl rand -hex 32",
        path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length without surrounding white space.
        len: usize,
    },
}

impl MasterSecret {
    /// Reads the secret from a file, without surrounding white space. Blocks on the disk.
    pub fn read(path: &Path) -> Result<Self, MasterSecretError> {
        let bytes = fs::read(path).map_err(|source| MasterSecretError::Io { path: path.to_owned(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < BYTES_MIN {
            return Err(MasterSecretError::TooShort { path: path.to_owned(), len: secret.len() });
        }
        Ok(Self(Salt::new(HKDF_SHA256, b"tidings").extract(secret)))
    }

    /// Derives the n-th key for a purpose (RFC 5869). Every process with the secret derives the same key, and one key
    /// reveals nothing about another.
    pub fn derive(&self, purpose: &str, n: u64) -> [u8; 32] {
        let (n, mut key) = (n.to_be_bytes(), [0; 32]);
        // The number has a fixed length, so two purposes cannot yield the same input.
        let expanded = self.0.expand(&[purpose.as_bytes(), &n], KeyLen).and_then(|okm| okm.fill(&mut key));
        expanded.expect("HKDF gives 32 bytes");
        key
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(***)")
    }
}

struct KeyLen;

impl KeyType for KeyLen {
    fn len(&self) -> usize {
        32
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn secret(text: &str) -> Result<MasterSecret, MasterSecretError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        MasterSecret::read(file.path())
    }

    #[test]
    fn a_key_follows_from_secret_purpose_and_number_alone() {
        let (one, other) = (secret(&"a".repeat(32)).unwrap(), secret(&"b".repeat(32)).unwrap());
        let again = secret(&format!("  {}\n", "a".repeat(32))).unwrap();
        assert_eq!(one.derive("codes", 1), again.derive("codes", 1));
        let keys = [one.derive("codes", 1), one.derive("codes", 2), one.derive("tokens", 1), other.derive("codes", 1)];
        for (n, key) in keys.iter().enumerate() {
            assert!(!keys[..n].contains(key));
        }
    }

    #[test]
    fn a_short_secret_is_refused_with_a_way_to_a_longer_one() {
        let error = secret(&"a".repeat(31)).unwrap_err().to_string();
        assert!(error.contains("31 bytes") && error.contains("openssl rand -hex 32"), "{error}");
    }
}
