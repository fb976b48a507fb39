//! Encryption at rest: rows are encrypted with a key that the operator keeps outside of the data directory.
//!
//! The layers above see plain rows. [`Tables`](crate::tables::Tables) encrypts a row when it hands it to the engine and
//! decrypts it when it gets it back, so journals, tables, the engine's cache and backups contain encrypted rows only.
//!
//! ```text
//! stored row = nonce:12 AES-256-GCM-SIV(row; additional data: table 0 stored key) tag:16
//! ```
//!
//! - Nonces are random. GCM-SIV stays secure for many more rows under one key than GCM does, even if a nonce repeats.
//! - The additional data binds a row to its place: a row that was moved or exchanged does not decrypt.
//! - Keys of rows stay in the clear, because the engine sorts by them: ids, sequences, times and sizes are visible. The
//!   keys of [`Table::UserKeys`] are the exception, because they are phone numbers and subjects. A stored key of that
//!   table is the HMAC of the key, and the key itself is part of the encrypted row.
//! - An old copy of a row decrypts: encryption does not detect that the whole directory was replaced by an older one.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::{hmac, rand};
use fjall::Slice;
use ports::BoxError;

use crate::tables::Table;

const TAG_LEN: usize = 16;
const KEY_LEN: usize = 32;
/// Length of the plain key in front of a row of [`Table::UserKeys`].
const LEN_BYTES: usize = 4;

/// The key of an encrypted store. Clones are the same key. `Debug` shows its id only.
#[derive(Clone)]
pub struct StoreKey(Arc<DerivedKeys>);

struct DerivedKeys {
    id: KeyId,
    rows: LessSafeKey,
    files: LessSafeKey,
    user_keys: hmac::Key,
}

/// Identifies a [`StoreKey`] in files and errors, without revealing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

/// The secret is short enough to be guessed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the key has {len} bytes and could be guessed; make one of {} or more: openssl rand -hex 32",
    StoreKey::SECRET_BYTES_MIN
)]
pub struct ShortKey {
    /// The length of the secret.
    pub len: usize,
}

impl StoreKey {
    /// The minimum length of a secret.
    pub const SECRET_BYTES_MIN: usize = 32;

    /// Derives the keys of a store from a secret (HKDF).
    pub fn derive(secret: &[u8]) -> Result<Self, ShortKey> {
        if secret.len() < Self::SECRET_BYTES_MIN {
            return Err(ShortKey { len: secret.len() });
        }
        let root = Salt::new(HKDF_SHA256, b"tidings store").extract(secret);
        let cipher = |purpose| {
            let key = UnboundKey::new(&AES_256_GCM_SIV, &expand::<KEY_LEN>(&root, purpose));
            LessSafeKey::new(key.expect("the key has the length of the algorithm"))
        };
        Ok(Self(Arc::new(DerivedKeys {
            id: KeyId(expand(&root, b"id")),
            rows: cipher(b"rows"),
            files: cipher(b"files"),
            user_keys: hmac::Key::new(hmac::HMAC_SHA256, &expand::<KEY_LEN>(&root, b"user keys")),
        })))
    }

    /// The id of the key.
    pub fn id(&self) -> KeyId {
        self.0.id
    }

    /// The key under which the engine stores a row.
    pub(crate) fn stored_key(&self, table: Table, key: &[u8]) -> Slice {
        match table {
            Table::UserKeys => hmac::sign(&self.0.user_keys, key).as_ref().into(),
            _ => key.into(),
        }
    }

    /// Encrypts a row.
    pub(crate) fn encrypt(&self, table: Table, key: &[u8], stored_key: &[u8], row: &[u8]) -> Slice {
        let location = location(table, stored_key);
        match table {
            Table::UserKeys => {
                let len = u32::try_from(key.len()).expect("a key is shorter than 4 GiB").to_be_bytes();
                seal(&self.0.rows, &location, &[&len, key, row]).into()
            }
            _ => seal(&self.0.rows, &location, &[row]).into(),
        }
    }

    /// Decrypts a row. Returns it with its key.
    pub(crate) fn decrypt(
        &self,
        table: Table,
        stored_key: Slice,
        stored_row: &[u8],
    ) -> Result<(Slice, Slice), BoxError> {
        let row = open(&self.0.rows, &location(table, &stored_key), stored_row)?;
        match table {
            Table::UserKeys => {
                let (len, rest) = row.split_first_chunk::<LEN_BYTES>().ok_or("an encrypted row has no key")?;
                let (key, row) =
                    rest.split_at_checked(u32::from_be_bytes(*len) as usize).ok_or("an encrypted row has no key")?;
                Ok((key.into(), row.into()))
            }
            _ => Ok((stored_key, row.into())),
        }
    }

    /// Encrypts a file of a backup.
    pub(crate) fn encrypt_file(&self, name: &str, bytes: &[u8]) -> Vec<u8> {
        seal(&self.0.files, name.as_bytes(), &[bytes])
    }

    /// Decrypts a file of a backup.
    pub(crate) fn decrypt_file(&self, name: &str, stored: &[u8]) -> Result<Vec<u8>, BoxError> {
        open(&self.0.files, name.as_bytes(), stored)
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreKey({})", self.id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl KeyId {
    /// The id that `Display` has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16)?;
        Some(Self(id.to_be_bytes()))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

/// The place of a row, which its encryption authenticates.
fn location(table: Table, stored_key: &[u8]) -> Vec<u8> {
    [table.name().as_bytes(), &[0], stored_key].concat()
}

fn seal(key: &LessSafeKey, location: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).expect("the operating system has random bytes");
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut sealed = Vec::with_capacity(NONCE_LEN + len + TAG_LEN);
    sealed.extend(nonce);
    parts.iter().for_each(|part| sealed.extend_from_slice(part));
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(location), &mut sealed[NONCE_LEN..]);
    sealed.extend_from_slice(tag.expect("a row is shorter than the limit of the algorithm").as_ref());
    sealed
}

fn open(key: &LessSafeKey, location: &[u8], sealed: &[u8]) -> Result<Vec<u8>, BoxError> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or("it is shorter than an encrypted row")?;
    let mut bytes = sealed.to_vec();
    let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(location), &mut bytes);
    let len = opened.map_err(|_| "it does not decrypt: it was changed, moved, or encrypted with another key")?.len();
    bytes.truncate(len);
    Ok(bytes)
}

/// Derives a key of `N` bytes for a purpose.
fn expand<const N: usize>(root: &Prk, purpose: &[u8]) -> [u8; N] {
    struct Len(usize);
    impl KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut key = [0; N];
    let expanded = root.expand(&[purpose], Len(N)).and_then(|okm| okm.fill(&mut key));
    expanded.expect("HKDF yields up to 8160 bytes");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> StoreKey {
        StoreKey::derive(&[n; 32]).unwrap()
    }

    fn encrypted(key: &StoreKey, table: Table, row_key: &[u8], row: &[u8]) -> (Slice, Slice) {
        let stored_key = key.stored_key(table, row_key);
        let row = key.encrypt(table, row_key, &stored_key, row);
        (stored_key, row)
    }

    #[test]
    fn a_row_decrypts_in_its_place_with_its_key_and_nowhere_else() {
        let (stored_key, row) = encrypted(&key(1), Table::Messages, b"here", b"text");
        assert_eq!(&*stored_key, b"here");
        let (found_key, found) = key(1).decrypt(Table::Messages, stored_key.clone(), &row).unwrap();
        assert_eq!((&*found_key, &*found), (&b"here"[..], &b"text"[..]));
        assert!(key(2).decrypt(Table::Messages, stored_key.clone(), &row).is_err());
        assert!(key(1).decrypt(Table::Messages, b"there".into(), &row).is_err());
        assert!(key(1).decrypt(Table::Log, stored_key.clone(), &row).is_err());
        for at in 0..row.len() {
            let mut changed = row.to_vec();
            changed[at] ^= 1;
            assert!(key(1).decrypt(Table::Messages, stored_key.clone(), &changed).is_err(), "byte {at}");
            assert!(key(1).decrypt(Table::Messages, stored_key.clone(), &row[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn equal_rows_differ_when_encrypted_and_show_nothing_of_their_text() {
        let (_, one) = encrypted(&key(1), Table::Messages, b"here", b"recognizable");
        let (_, other) = encrypted(&key(1), Table::Messages, b"here", b"recognizable");
        assert_ne!(one, other);
        assert!(!one.windows(4).any(|window| b"recognizable".windows(4).any(|part| part == window)));
    }

    #[test]
    fn a_phone_number_is_in_no_stored_key_and_comes_back_with_its_row() {
        let number = b"p+14155550100";
        let (stored_key, row) = encrypted(&key(1), Table::UserKeys, number, b"user");
        assert_eq!(stored_key, key(1).stored_key(Table::UserKeys, number), "it can be looked up");
        assert_ne!(stored_key, key(2).stored_key(Table::UserKeys, number), "only with the key");
        assert!(![&stored_key, &row].iter().any(|bytes| bytes.windows(5).any(|window| window == b"55501")));
        let (found_key, found) = key(1).decrypt(Table::UserKeys, stored_key, &row).unwrap();
        assert_eq!((&*found_key, &*found), (&number[..], &b"user"[..]));
    }

    #[test]
    fn a_file_decrypts_under_its_name_only() {
        let stored = key(1).encrypt_file("keys.json", b"secret");
        assert_eq!(key(1).decrypt_file("keys.json", &stored).unwrap(), b"secret");
        assert!(key(1).decrypt_file("vapid.json", &stored).is_err());
    }

    #[test]
    fn an_id_names_its_key_and_a_short_secret_is_refused() {
        assert_eq!(KeyId::parse(&key(1).id().to_string()), Some(key(1).id()));
        assert_ne!(key(1).id(), key(2).id());
        assert_eq!(format!("{:?}", key(1)), format!("StoreKey({})", key(1).id()));
        for text in ["", "0123", "0123456789abcdeg", "0123456789abcdef0"] {
            assert_eq!(KeyId::parse(text), None, "{text}");
        }
        let short = StoreKey::derive(&[1; 31]).unwrap_err().to_string();
        assert!(short.contains("31 bytes") && short.contains("openssl rand -hex 32"), "{short}");
    }
}
