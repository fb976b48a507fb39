use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use domain::Timestamp;
use fjall::Snapshot;
use ports::StoreError;
use tokio::sync::oneshot;

use super::parts::{self, Chain, Kind};
use super::{BLOCK_BYTES, BLOCK_BYTES_MAX, EndRow, HeaderRow};
use crate::EmbeddedStore;
use crate::committer::Command;
use crate::directory::FORMAT_VERSION;
use crate::error::unreadable;
use crate::store::closed;
use crate::tables::{Table, Tables};

/// All tables as they were between two commits.
///
/// The database is not held open by it: whoever closes or reopens it does not wait for a backup, which then fails.
pub(crate) struct Source {
    pub(crate) tables: Weak<Tables>,
    pub(crate) snapshot: Snapshot,
    pub(crate) taken_at: Timestamp,
    pub(crate) log_end: u64,
}

/// A backup that is being taken: the bytes of its file, piece by piece.
///
/// What was committed before it began is in it and nothing else, however long it takes. Until it is dropped, the engine
/// keeps every row that it may still need.
pub struct Backup {
    source: Source,
    store_format: u32,
    version: &'static str,
    bytes_about: u64,
    chain: Chain,
    next: Next,
    tables: BTreeMap<String, u64>,
    /// Files that go with the store and are not written yet, the last one first.
    files: Vec<(String, Vec<u8>)>,
    file_names: Vec<String>,
}

/// What comes next in the file.
enum Next {
    Beginning,
    File,
    /// Rows of a table, by its number, behind a key.
    Rows(usize, Option<Vec<u8>>),
    Nothing,
}

impl EmbeddedStore {
    /// Begins a backup of what is committed now. `version` is that of the program.
    pub async fn backup(&self, version: &'static str) -> Result<Backup, StoreError> {
        let (waiter, source) = oneshot::channel();
        self.link().commands.send(Command::Freeze(waiter)).await.map_err(closed)?;
        let source = source.await.map_err(|_| StoreError::unavailable("the store cannot write now"))?;
        Backup::of(source, FORMAT_VERSION, version)
    }
}

impl Backup {
    pub(crate) fn of(source: Source, store_format: u32, version: &'static str) -> Result<Self, StoreError> {
        let tables = held(&source)?;
        let bytes_about = Table::ALL.iter().map(|table| tables.disk_space(*table)).sum();
        Ok(Self {
            source,
            store_format,
            version,
            bytes_about,
            chain: Chain::begin(),
            next: Next::Beginning,
            tables: BTreeMap::new(),
            files: vec![],
            file_names: vec![],
        })
    }

    /// When it was taken: everything that was acknowledged before is in it.
    pub fn taken_at(&self) -> Timestamp {
        self.source.taken_at
    }

    /// How long the file will be, roughly: what the engine has flushed to disk, compressed as it compresses.
    pub fn bytes_about(&self) -> u64 {
        self.bytes_about
    }

    /// Has a file go with the store. To be said before the first piece is asked for.
    pub fn add_file(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(0, (name.to_owned(), bytes));
    }

    /// The next bytes of the file; `None` behind the last ones. After a failure there are none.
    pub async fn next(self) -> Result<Option<(Self, Vec<u8>)>, StoreError> {
        let mut backup = self;
        let read = tokio::task::spawn_blocking(move || Ok(backup.next_piece()?.map(|piece| (backup, piece))));
        read.await.map_err(StoreError::unavailable)?
    }

    /// The same, for whoever may block on the disk.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            match std::mem::replace(&mut self.next, Next::Nothing) {
                Next::Beginning => {
                    self.next = Next::File;
                    let header = HeaderRow {
                        store_format: self.store_format,
                        version: self.version.to_owned(),
                        taken_at: self.source.taken_at.as_millis(),
                        log_end: self.source.log_end,
                    };
                    let header = self.chain.part(Kind::Header, &parts::encode(&header));
                    return Ok(Some([parts::beginning(), header].concat()));
                }
                Next::File => {
                    let Some((name, bytes)) = self.files.pop() else {
                        self.next = Next::Rows(0, None);
                        continue;
                    };
                    self.next = Next::File;
                    let part = self.chain.part(Kind::File, &parts::named(&name, &bytes));
                    self.file_names.push(name);
                    return Ok(Some(part));
                }
                Next::Rows(number, after) => {
                    let Some(table) = Table::ALL.get(number).copied() else {
                        let end = EndRow { tables: self.tables.clone(), files: self.file_names.clone() };
                        return Ok(Some(self.chain.part(Kind::End, &parts::encode(&end))));
                    };
                    let Some(Block { rows, count, last }) = block(&self.source, table, after)? else {
                        self.next = Next::Rows(number + 1, None);
                        continue;
                    };
                    self.next = Next::Rows(number, Some(last));
                    *self.tables.entry(table.name().to_owned()).or_default() += count;
                    let part = self.chain.part(Kind::Rows, &parts::named(table.name(), &pack(&rows)));
                    return Ok(Some(part));
                }
                Next::Nothing => return Ok(None),
            }
        }
    }
}

/// Some rows of a table.
struct Block {
    rows: Vec<u8>,
    count: u64,
    last: Vec<u8>,
}

/// The rows behind a key, as many as make a block; `None` if there are none.
fn block(source: &Source, table: Table, after: Option<Vec<u8>>) -> Result<Option<Block>, StoreError> {
    let tables = held(source)?;
    let view = tables.view_at(source.snapshot.clone());
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut rows, mut count, mut last) = (vec![], 0, None);
    for row in view.range(table, (from, Bound::Unbounded)) {
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
    Ok(last.map(|last| Block { rows, count, last: last.to_vec() }))
}

fn held(source: &Source) -> Result<Arc<Tables>, StoreError> {
    source.tables.upgrade().ok_or_else(|| StoreError::unavailable("the database was closed or reopened meanwhile"))
}

/// The rows of a block, compressed, behind their length.
fn pack(rows: &[u8]) -> Vec<u8> {
    let len = u32::try_from(rows.len()).expect("a block is bounded");
    [&len.to_be_bytes()[..], &lz4_flex::block::compress(rows)].concat()
}
