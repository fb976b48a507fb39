//! A store as one file, as of one moment.
//!
//! ```text
//! file  = "tidings backup\n" version:u8 part*
//! part  = kind:u8 number:u32 len:u32 payload:len sum:32
//! kinds = H header, once and first; F a file beside the store; T rows of one table; E what all of it adds up to, last
//! ```
//!
//! Numbers are big-endian. A sum is the SHA-256 of the sum before it, the head of its part and its payload, and the first
//! one goes on from the beginning of the file: a byte that changed, and a part that is missing, moved or from another
//! backup, all end in a sum that does not fit, at a place that can be named. Rows are in the order of their keys, as many
//! in a part as make a block, and compressed.
//!
//! [`Backup`] makes the bytes, [`Reader`] takes them apart and believes none of them, `restore` makes a store of them.

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

pub use reader::{Part, ReadError, Reader, Rows, Secret};
pub use take::Backup;

pub(crate) use take::Source;

/// How a file begins, before its version.
const MAGIC: &[u8; 15] = b"tidings backup\n";
/// The version that this program writes, and the highest one it reads.
const FILE_VERSION: u8 = 1;

/// Bytes of rows after which a block is closed.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of a block before they are compressed, at the most: a full one, and a row that is longer than any of ours.
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Bytes of the payload of a part, at the most. Compression may add to what cannot be compressed.
const PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES_MAX + (1 << 20);
/// Bytes of a file that goes with the store, at the most. Those of ours have a few hundred.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format of the rows.
    pub store_format: u32,
    /// The version of the program that took it.
    pub version: String,
    /// Everything that was acknowledged before this is in it.
    pub taken_at: Timestamp,
    /// The offset behind the last event of the log.
    pub log_end: u64,
}

/// What is in a backup, once all of it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// What it says of itself.
    pub header: Header,
    /// The rows of each table that has some.
    pub tables: BTreeMap<String, u64>,
    /// The files that go with the store.
    pub files: Vec<String>,
    /// How long the file is.
    pub bytes: u64,
}

impl Contents {
    /// The rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.values().sum()
    }
}

/// Reads a whole backup and says what is in it, if none of it is damaged. `progress` is told how many bytes were read.
pub fn check(from: impl Read, mut progress: impl FnMut(u64)) -> Result<Contents, ReadError> {
    let mut reader = Reader::open(from)?;
    while reader.next()?.is_some() {
        progress(reader.position());
    }
    Ok(reader.into_contents())
}

/// The payload of the header.
#[derive(Serialize, Deserialize)]
struct HeaderRow {
    store_format: u32,
    version: String,
    taken_at: u64,
    log_end: u64,
}

/// The payload of the end.
#[derive(PartialEq, Serialize, Deserialize)]
struct EndRow {
    tables: BTreeMap<String, u64>,
    files: Vec<String>,
}
