//! A backup: the store as one file, as of one commit.
//!
//! ```text
//! file  = "tidings backup\n" version:u8 part*
//! part  = kind:u8 number:u32 len:u32 payload:len sum:32
//! kinds = H header, once and first; F a file beside the store; T rows of one table; E what all of it adds up to, last
//! ```
//!
//! Numbers are big-endian. A sum is the SHA-256 of the previous sum, the head of its part and its payload. The first
//! one chains to the start of the file. So a changed byte, or a part that is missing, moved or from another backup,
//! causes a wrong sum at a known offset. Rows are in key order, grouped into blocks of one part each, and compressed.
//!
//! The backup of an encrypted store has version 2. Its header names the key, its rows are encrypted as they are in the
//! store, and so are its files. Names, sums and keys of rows are in the clear, so a backup is checked without the key.
//!
//! [`Backup`] writes the bytes, [`BackupReader`] parses and validates them, and `restore` creates a store from them.

#[cfg(test)]
mod fuzz;
mod parts;
mod reader;
mod take;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;

use domain::Timestamp;
use serde::{Deserialize, Serialize};

pub use reader::{BackupPart, BackupReadError, BackupReader, BackupRows, SecretBytes};
pub use take::Backup;

pub(crate) use take::BackupSource;

use crate::KeyId;

/// Magic bytes at the start of the file, before its version.
const MAGIC: &[u8; 15] = b"tidings backup\n";
/// The highest version that this program reads.
const FILE_VERSION_MAX: u8 = FileVersion::Encrypted as u8;

/// The version of a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileVersion {
    /// Of an unencrypted store.
    Plain = 1,
    /// Of an encrypted store.
    Encrypted = 2,
}

impl FileVersion {
    fn of(byte: u8) -> Option<Self> {
        [Self::Plain, Self::Encrypted].into_iter().find(|version| *version as u8 == byte)
    }
}

/// Size of rows at which a block is closed.
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum uncompressed size of a block: a full block plus a row longer than any row of the store.
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Maximum size of the payload of a part. Compression may enlarge incompressible data.
const PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES_MAX + (1 << 20);
/// Maximum size of an additional file. The files of Tidings have a few hundred bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Metadata of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format of the rows.
    pub store_format: u32,
    /// The version of the program that took the backup.
    pub version: String,
    /// The backup contains everything acknowledged before this time.
    pub taken_at: Timestamp,
    /// The end offset of the log.
    pub log_end: u64,
    /// The key that encrypts the rows and the files.
    pub key: Option<KeyId>,
}

/// Summary of a backup, after all of it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupContents {
    /// Its metadata.
    pub header: Header,
    /// The number of rows by table; empty tables are left out.
    pub tables: BTreeMap<String, u64>,
    /// The names of the additional files.
    pub files: Vec<String>,
    /// Length of the backup file.
    pub bytes: u64,
}

impl BackupContents {
    /// The number of rows in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.values().sum()
    }
}

/// Reads a whole backup and returns a summary, or an error if any part is damaged. `progress` is called with the number
/// of bytes read.
pub fn check(from: impl Read, mut progress: impl FnMut(u64)) -> Result<BackupContents, BackupReadError> {
    let mut reader = BackupReader::open(from)?;
    while reader.next()?.is_some() {
        progress(reader.position());
    }
    Ok(reader.into_contents())
}

/// The payload of the header.
#[derive(Serialize, Deserialize)]
struct BackupHeaderRow {
    store_format: u32,
    version: String,
    taken_at: u64,
    log_end: u64,
}

/// The payload of the header of an encrypted store.
#[derive(Serialize, Deserialize)]
struct EncryptedHeaderRow {
    header: BackupHeaderRow,
    key_id: [u8; 8],
}

/// The payload of the end.
#[derive(PartialEq, Serialize, Deserialize)]
struct EndRow {
    tables: BTreeMap<String, u64>,
    files: Vec<String>,
}
