//! The files of a keyspace, as the engine lists them on disk.
//!
//! `current` contains the number and the checksum of the version in use. `vN` is that version: it lists the table files
//! with their checksums. The engine writes a new version beside the old one and then replaces `current`. This module
//! reads the files and does not use the engine, so that it works for a running, a stopped and a damaged store.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, ValueType};
use xxhash_rust::xxh3::xxh3_128;

use super::MISSING;
use crate::tables::KEYSPACES;

/// The file that names the version of a keyspace.
const CURRENT: &str = "current";
/// Length of `current`: number, checksum, kind of the checksum.
const CURRENT_LEN: usize = 8 + 16 + 1;
const TABLES: &str = "tables";
/// The kind of every checksum.
const XXH3: u8 = 0;
/// The keyspace that names the others.
const INDEX: u64 = 0;
/// Maximum number of retries when a version is replaced while it is read.
const REPLACED_MAX: usize = 100;
/// Block cache for the index, which is read once.
const INDEX_CACHE_BYTES: u64 = 1 << 20;

/// A keyspace at one moment.
pub(crate) struct KeyspaceVersion {
    pub(crate) tables: Vec<TableFile>,
    /// Bytes read for it.
    pub(super) bytes: u64,
}

/// A table file as its version lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub(crate) id: u64,
    pub(super) checksum: u128,
    /// Offset to add to the sequence numbers of the rows.
    pub(crate) seqno: u64,
}

/// Why the files of a keyspace are unknown.
pub(crate) enum Unlisted {
    /// The keyspace is empty, or its creation was interrupted. The engine deletes it when it opens.
    Nothing,
    Damaged {
        path: PathBuf,
        reason: String,
    },
    Io(io::Error),
}

impl From<io::Error> for Unlisted {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The keyspaces of a database by number.
pub(super) fn keyspaces(database: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let entries = match fs::read_dir(database.join(KEYSPACES)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut keyspaces = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(number) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) {
            keyspaces.insert(number, path);
        }
    }
    Ok(keyspaces)
}

/// Reads the file list of a keyspace, and verifies its checksum.
pub(crate) fn version(keyspace: &Path) -> Result<KeyspaceVersion, Unlisted> {
    let mut current = read_current(keyspace)?;
    for _ in 0..REPLACED_MAX {
        let damaged = match read_version(keyspace, &current) {
            Err(damaged @ Unlisted::Damaged { .. }) => damaged,
            read => return read,
        };
        // The version may have been replaced and deleted meanwhile.
        let again = read_current(keyspace)?;
        if again == current {
            return Err(damaged);
        }
        current = again;
    }
    Err(io::Error::other(format!("the version of `{}` is replaced faster than it is read", keyspace.display())).into())
}

/// Path of a keyspace.
pub(super) fn keyspace_path(database: &Path, number: u64) -> PathBuf {
    database.join(KEYSPACES).join(number.to_string())
}

/// Path of a table file.
pub(crate) fn table_path(keyspace: &Path, id: u64) -> PathBuf {
    keyspace.join(TABLES).join(id.to_string())
}

fn read_current(keyspace: &Path) -> Result<Vec<u8>, Unlisted> {
    let path = keyspace.join(CURRENT);
    let damaged = |reason: &str| Unlisted::Damaged { path: path.clone(), reason: reason.to_owned() };
    match fs::read(&path) {
        Ok(bytes) if bytes.len() == CURRENT_LEN && bytes[CURRENT_LEN - 1] == XXH3 => Ok(bytes),
        Ok(_) => Err(damaged("it does not name a version")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let has_tables = match fs::read_dir(keyspace.join(TABLES)) {
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                tables => tables?.next().is_some(),
            };
            Err(if has_tables { damaged(MISSING) } else { Unlisted::Nothing })
        }
        Err(error) if super::is_unreadable(&error) => Err(damaged(&super::unreadable(&error))),
        Err(error) => Err(error.into()),
    }
}

fn read_version(keyspace: &Path, current: &[u8]) -> Result<KeyspaceVersion, Unlisted> {
    let mut fields = LittleEndianFields(current);
    let (Some(number), Some(checksum)) = (fields.u64(), fields.u128()) else {
        unreachable!("the length of `current` was checked");
    };
    let path = keyspace.join(format!("v{number}"));
    let damaged = |reason: String| Unlisted::Damaged { path: path.clone(), reason };
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(damaged(MISSING.to_owned())),
        Err(error) if super::is_unreadable(&error) => return Err(damaged(super::unreadable(&error))),
        bytes => bytes?,
    };
    if xxh3_128(&bytes) != checksum {
        return Err(damaged(format!("its checksum is not the one in `{CURRENT}`")));
    }
    let tables = tables(&bytes).ok_or_else(|| damaged("it does not list table files".to_owned()))?;
    Ok(KeyspaceVersion { tables, bytes: (current.len() + bytes.len()) as u64 })
}

/// Parses the table files listed in a version.
fn tables(version: &[u8]) -> Option<Vec<TableFile>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(version)).ok()?;
    let section = archive.toc().section(b"tables")?;
    let begin = usize::try_from(section.pos()).ok()?;
    let end = begin.checked_add(usize::try_from(section.len()).ok()?)?;
    let mut fields = LittleEndianFields(version.get(begin..end)?);
    let mut tables = vec![];
    for _ in 0..fields.u8()? {
        for _ in 0..fields.u8()? {
            for _ in 0..fields.u32()? {
                let (id, kind, checksum, seqno) = (fields.u64()?, fields.u8()?, fields.u128()?, fields.u64()?);
                if kind != XXH3 {
                    return None;
                }
                tables.push(TableFile { id, checksum, seqno });
            }
        }
    }
    Some(tables)
}

/// Takes little-endian numbers from the front of a slice.
struct LittleEndianFields<'a>(&'a [u8]);

impl LittleEndianFields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}

/// The names of keyspaces by number, as far as the index is readable. The engine writes the index without a journal, so
/// it is only in table files.
pub(super) fn names(keyspaces: &BTreeMap<u64, PathBuf>) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::from([(INDEX, "index of tables".to_owned())]);
    let Some(index) = keyspaces.get(&INDEX) else { return names };
    let Ok(version) = version(index) else { return names };
    for table in version.tables {
        // The scrub itself reports a damaged index, and continues without names.
        if let Some(more) = names_of_table(index, table) {
            names.extend(more);
        }
    }
    names
}

fn names_of_table(index: &Path, file: TableFile) -> Option<Vec<(u64, String)>> {
    let path = table_path(index, file.id);
    // The engine may panic on a damaged table.
    if xxh3_128(&fs::read(&path).ok()?) != file.checksum {
        return None;
    }
    let cache = Arc::new(Cache::with_capacity_bytes(INDEX_CACHE_BYTES));
    let checksum = Checksum::from_raw(file.checksum);
    let table = lsm_tree::Table::recover(path, checksum, file.seqno, INDEX, cache, None, false, false).ok()?;
    let mut names = vec![];
    for row in table.iter() {
        let row = row.ok()?;
        if let [b'n', number @ ..] = &*row.key.user_key
            && row.key.value_type == ValueType::Value
            && let Ok(number) = number.try_into()
        {
            names.push((u64::from_be_bytes(number), String::from_utf8_lossy(&row.value).into_owned()));
        }
    }
    Some(names)
}
