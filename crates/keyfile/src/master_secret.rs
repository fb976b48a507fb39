use std::fs;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// Fewer bytes could be guessed.
const BYTES_MIN: usize = 32;

/// The one secret from which the processes of a fleet derive their keys: they agree without a word to each other, and
/// none of them writes a file that the others would have to read.
///
/// Whoever has it can make every key of the fleet. `Debug` shows nothing of it.
pub struct MasterSecret(Prk);

/// Why a master secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MasterSecretError {
    /// The file system said no.
    #[error("cannot read the secret `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It could be guessed.
    #[error(
        "the secret `{}` has {len} bytes and could be guessed; make one of {BYTES_MIN} or more: openssl rand -hex 32",
        path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// How long it is, without white space around it.
        len: usize,
    },
}

impl MasterSecret {
    /// The secret in a file; white space around it does not count. Blocks on the disk.
    pub fn read(path: &Path) -> Result<Self, MasterSecretError> {
        let bytes = fs::read(path).map_err(|source| MasterSecretError::Io { path: path.to_owned(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < BYTES_MIN {
            return Err(MasterSecretError::TooShort { path: path.to_owned(), len: secret.len() });
        }
        Ok(Self(Salt::new(HKDF_SHA256, b"tidings").extract(secret)))
    }

    /// The n-th key for a purpose: the same for everybody who has the secret, and no help in finding another (RFC 5869).
    pub fn derive(&self, purpose: &str, n: u64) -> [u8; 32] {
        let (n, mut key) = (n.to_be_bytes(), [0; 32]);
        // The number has a fixed length, so no purpose runs into another.
        let expanded = self.0.expand(&[purpose.as_bytes(), &n], KeyLen).and_then(|okm| okm.fill(&mut key));
        expanded.expect("HKDF gives 32 bytes");
        key
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(…)")
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
