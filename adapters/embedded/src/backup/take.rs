use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use domain::Timestamp;
use fjall::Snapshot;
use ports::StoreError;
use tokio::sync::oneshot;

use super::parts::{self, Chain, PartKind};
use super::{BLOCK_BYTES, BLOCK_BYTES_MAX, BackupHeaderRow, EncryptedHeaderRow, EndRow, FileVersion};
use crate::committer::CommitterCommand;
use crate::directory::FORMAT_VERSION;
use crate::error::unreadable;
use crate::store::closed;
use crate::tables::{Table, Tables};
use crate::{EmbeddedStore, StoreKey};

/// A snapshot of all tables between two commits.
///
/// It holds only a weak reference: closing or reopening the database does not wait for a backup, and the backup then
/// fails.
pub(crate) struct BackupSource {
    pub(crate) tables: Weak<Tables>,
    pub(crate) snapshot: Snapshot,
    pub(crate) taken_at: Timestamp,
    pub(crate) log_end: u64,
}

/// A running backup that produces its file piece by piece.
///
/// It contains exactly the commits before its start, however long it takes. Until it is dropped, the engine keeps every
/// row version that it may still need.
pub struct Backup {
    source: BackupSource,
    /// The key of an encrypted store.
    key: Option<StoreKey>,
    store_format: u32,
    version: &'static str,
    bytes_about: u64,
    chain: Chain,
    next: NextSection,
    tables: BTreeMap<String, u64>,
    /// Additional files that are not written yet, the last one first.
    files: Vec<(String, Vec<u8>)>,
    file_names: Vec<String>,
}

/// The next section of the file.
enum NextSection {
    Beginning,
    File,
    /// Rows of a table, by its index, after a key.
    Rows(usize, Option<Vec<u8>>),
    Nothing,
}

impl EmbeddedStore {
    /// Starts a backup of the committed state. `version` is the version of the program.
    pub async fn backup(&self, version: &'static str) -> Result<Backup, StoreError> {
        let (waiter, source) = oneshot::channel();
        self.link().commands.send(CommitterCommand::Freeze(waiter)).await.map_err(closed)?;
        let source = source.await.map_err(|_| StoreError::unavailable("the store cannot write now"))?;
        Backup::of(source, FORMAT_VERSION, version)
    }
}

impl Backup {
    pub(crate) fn of(source: BackupSource, store_format: u32, version: &'static str) -> Result<Self, StoreError> {
        let tables = held(&source)?;
        let bytes_about = Table::ALL.iter().map(|table| tables.disk_space(*table)).sum();
        let key = tables.key().cloned();
        Ok(Self {
            source,
            chain: Chain::begin(file_version(key.as_ref())),
            key,
            store_format,
            version,
            bytes_about,
            next: NextSection::Beginning,
            tables: BTreeMap::new(),
            files: vec![],
            file_names: vec![],
        })
    }

    /// Time of the snapshot: the backup contains everything acknowledged before it.
    pub fn taken_at(&self) -> Timestamp {
        self.source.taken_at
    }

    /// Estimated length of the file: the size of the flushed tables, which the engine compresses similarly.
    pub fn bytes_about(&self) -> u64 {
        self.bytes_about
    }

    /// Adds a file to the backup. Must be called before the first piece is taken.
    pub fn add_file(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(0, (name.to_owned(), bytes));
    }

    /// The next bytes of the file; `None` after the last ones. After a failure there are none.
    pub async fn next(self) -> Result<Option<(Self, Vec<u8>)>, StoreError> {
        let mut backup = self;
        let read = tokio::task::spawn_blocking(move || Ok(backup.next_piece()?.map(|piece| (backup, piece))));
        read.await.map_err(StoreError::unavailable)?
    }

    /// The same, for callers that may block on the disk.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            match std::mem::replace(&mut self.next, NextSection::Nothing) {
                NextSection::Beginning => {
                    self.next = NextSection::File;
                    let header = BackupHeaderRow {
                        store_format: self.store_format,
                        version: self.version.to_owned(),
                        taken_at: self.source.taken_at.as_millis(),
                        log_end: self.source.log_end,
                    };
                    let header = match &self.key {
                        Some(key) => parts::encode(&EncryptedHeaderRow { header, key_id: key.id().to_bytes() }),
                        None => parts::encode(&header),
                    };
                    let header = self.chain.part(PartKind::Header, &header);
                    return Ok(Some([parts::beginning(file_version(self.key.as_ref())), header].concat()));
                }
                NextSection::File => {
                    let Some((name, bytes)) = self.files.pop() else {
                        self.next = NextSection::Rows(0, None);
                        continue;
                    };
                    self.next = NextSection::File;
                    let bytes = match &self.key {
                        Some(key) => key.encrypt_file(&name, &bytes),
                        None => bytes,
                    };
                    let part = self.chain.part(PartKind::File, &parts::named(&name, &bytes));
                    self.file_names.push(name);
                    return Ok(Some(part));
                }
                NextSection::Rows(number, after) => {
                    let Some(table) = Table::ALL.get(number).copied() else {
                        let end = EndRow { tables: self.tables.clone(), files: self.file_names.clone() };
                        return Ok(Some(self.chain.part(PartKind::End, &parts::encode(&end))));
                    };
                    let Some(RowBlock { rows, count, last }) = block(&self.source, table, after)? else {
                        self.next = NextSection::Rows(number + 1, None);
                        continue;
                    };
                    self.next = NextSection::Rows(number, Some(last));
                    *self.tables.entry(table.name().to_owned()).or_default() += count;
                    let part = self.chain.part(PartKind::Rows, &parts::named(table.name(), &pack(&rows)));
                    return Ok(Some(part));
                }
                NextSection::Nothing => return Ok(None),
            }
        }
    }
}

/// A block of rows of one table.
struct RowBlock {
    rows: Vec<u8>,
    count: u64,
    last: Vec<u8>,
}

fn file_version(key: Option<&StoreKey>) -> FileVersion {
    if key.is_some() { FileVersion::Encrypted } else { FileVersion::Plain }
}

/// The next block of stored rows after a key; `None` if there are none.
fn block(source: &BackupSource, table: Table, after: Option<Vec<u8>>) -> Result<Option<RowBlock>, StoreError> {
    let tables = held(source)?;
    let view = tables.view_at(source.snapshot.clone());
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut rows, mut count, mut last) = (vec![], 0, None);
    for row in view.stored_range(table, (from, Bound::Unbounded)) {
        let (key, row) = row?;
        parts::push_row(&mut rows, &key, &row);
        if rows.len() > BLOCK_BYTES_MAX {
            return Err(unreadable(
                table,
                format!("a row has {} bytes, and none of ours has nearly as many", row.len()),
            ));
        }
        count += 1;
        last = Some(key);
        if rows.len() >= BLOCK_BYTES {
            break;
        }
    }
    Ok(last.map(|last| RowBlock { rows, count, last: last.to_vec() }))
}

fn held(source: &BackupSource) -> Result<Arc<Tables>, StoreError> {
    source.tables.upgrade().ok_or_else(|| StoreError::unavailable("the database was closed or reopened meanwhile"))
}

/// Compresses the rows of a block and prefixes their length.
fn pack(rows: &[u8]) -> Vec<u8> {
    let len = u32::try_from(rows.len()).expect("a block is bounded");
    [&len.to_be_bytes()[..], &lz4_flex::block::compress(rows)].concat()
}
