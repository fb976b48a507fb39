//! Rewrites the files of the database, so that deleted rows are in none of them. [`erase`](crate::erase) decides when.
//!
//! The engine (fjall 3.1, lsm-tree 3.1) keeps the bytes of a deleted row in these files:
//!
//! | file | the engine removes it when |
//! |---|---|
//! | the active journal | a flush finds more than 64 MB in it and seals it. There is no call for that: [`Upkeep::Pad`] fills the journal |
//! | a sealed journal | each table has a file with a row that is newer than the table's last row in the journal. A table whose newest rows were deleted and merged away has none, and would keep the journal: [`Upkeep::Touch`] writes a newer one |
//! | a table file | a compaction replaces it. The new file has the deleted row only if a reader may still see it |
//! | a replaced table file | no reader may see it, and a table gets a new memtable after a later commit |

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use lsm_tree::{AbstractTree, Table as TableFile};

use super::{Table, Tables, WriteBatch};
use crate::durable::sync_directory;
use crate::journal::{self, JournalError};

/// The row of [`Tables::padding`].
const PADDING_KEY: &[u8] = b"padding";
/// A key that no table has. Deleting it changes no row.
const TOUCHED_KEY: &[u8] = b"\0touched\0";
/// The directory of table files in the directory of a keyspace.
const TABLE_FILES: &str = "tables";

/// A write to the files of the engine that changes no row.
#[derive(Clone, Debug)]
pub(crate) enum Upkeep {
    /// Adds these bytes to the active journal.
    Pad(Vec<u8>),
    /// Deletes the padding.
    Unpad,
    /// Gives every keyspace a newer sequence number.
    Touch,
}

impl Upkeep {
    /// Size in the journal, approximately; never 0.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Pad(bytes) => PADDING_KEY.len() + bytes.len(),
            Self::Unpad => PADDING_KEY.len(),
            Self::Touch => Table::ALL.len() * TOUCHED_KEY.len(),
        }
    }
}

impl WriteBatch<'_> {
    pub(crate) fn upkeep(&mut self, upkeep: Upkeep) {
        let tables = self.tables;
        match upkeep {
            Upkeep::Pad(bytes) => self.batch.insert(&tables.padding, PADDING_KEY, bytes),
            Upkeep::Unpad => self.batch.remove(&tables.padding, PADDING_KEY),
            // Every commit writes its mark, so the keyspace of marks needs no touch.
            Upkeep::Touch => {
                for keyspace in tables.keyspaces.iter().chain([&tables.padding]) {
                    self.batch.remove(keyspace, TOUCHED_KEY);
                }
            }
        }
    }
}

impl Tables {
    /// The number of the active journal.
    pub(crate) fn active_journal(&self) -> Result<u64, JournalError> {
        Ok(journal::journals(&self.path)?.last().map_or(0, |(number, _)| *number))
    }

    /// Whether a journal up to this one still exists.
    pub(crate) fn has_journal_up_to(&self, number: u64) -> Result<bool, JournalError> {
        Ok(journal::journals(&self.path)?.first().is_some_and(|(oldest, _)| *oldest <= number))
    }

    /// Makes the removal of journals durable.
    pub(crate) fn sync_journals(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }

    /// Whether the workers have flushed the padding so far, and no commit has to wait for them. With more padding they
    /// would fall behind, and commits would wait.
    pub(crate) fn accepts_padding(&self) -> bool {
        self.padding.sealed_memtable_count() == 0 && !self.is_congested()
    }

    /// Writes all memtables to files, one after the other.
    pub(crate) fn flush_all(&self) -> fjall::Result<()> {
        self.keyspaces.iter().chain([&self.commits, &self.padding]).try_for_each(|keyspace| self.flush(keyspace))
    }

    /// Compacts the deleted padding, and returns whether nothing is left of it.
    ///
    /// Then no reader is left that started before the padding was deleted, and every later compaction drops the rows
    /// that were deleted before. The engine does not publish the age of its oldest reader.
    pub(crate) fn compact_padding(&self) -> fjall::Result<bool> {
        self.flush(&self.padding)?;
        if self.padding.table_count() > 0 {
            self.padding.major_compact()?;
        }
        Ok(self.padding.approximate_len() == 0)
    }

    /// Makes the engine delete replaced files that no reader may see, after a commit has written padding.
    pub(crate) fn remove_replaced_files(&self) -> fjall::Result<()> {
        self.padding.rotate_memtable().map(drop)
    }

    /// The files of a table that are not part of its current version: replaced ones, and the remains of failed
    /// compactions. A file that is being written is among them, until it is part of the version.
    pub(crate) fn replaced_files(&self, table: Table) -> io::Result<HashSet<PathBuf>> {
        let mut files = HashSet::new();
        match fs::read_dir(self.table_files(table)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            entries => {
                for entry in entries? {
                    files.insert(entry?.path());
                }
            }
        }
        // After the directory: a file that appears in between belongs to the version.
        let version = self.keyspace(table).tree.current_version();
        let current: HashSet<_> = version.iter_tables().map(|file| TableFile::id(file).to_string()).collect();
        files.retain(|path| !path.file_name().is_some_and(|name| current.contains(&*name.to_string_lossy())));
        Ok(files)
    }

    /// Makes the removal of a table's files durable.
    pub(crate) fn sync_table_files(&self, table: Table) -> io::Result<()> {
        sync_directory(&self.table_files(table))
    }

    fn table_files(&self, table: Table) -> PathBuf {
        self.keyspace(table).path().join(TABLE_FILES)
    }
}
