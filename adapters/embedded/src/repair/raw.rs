//! Reads the rows of a database file by file, without the engine, and skips blocks and batches with a wrong checksum.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use fjall::Slice;
use lsm_tree::table::Scanner;
use lsm_tree::{Cache, Checksum, CompressionType, InternalValue, Table as TableFile};

use super::Unreadable;
use crate::journal::{self, JournalBatch, JournalItem, LZ4, VALUE, Visitor};
use crate::scrub::version::{TableFile as TableEntry, Unlisted, table_path, version};
use crate::store_file::{Mark, StoreFile};

/// Size of the block cache; every block is read once.
const CACHE_BYTES: u64 = 4 << 20;
/// Maximum number of unreadable blocks before the rest of a file is skipped: a damaged index can be endless.
const UNREADABLE_BLOCKS_MAX: u64 = 100_000;
/// Prefix of the keyspace names in the engine's own keyspace 0.
const NAME_OF_KEYSPACE: u8 = b'n';

/// One version of a row.
struct RowVersion {
    key: Slice,
    seqno: u64,
    /// `None` for a deletion.
    value: Option<Slice>,
}

/// A read-only view of a database.
pub(super) struct RawDatabase {
    keyspaces: PathBuf,
    /// The number of each keyspace by its name.
    numbers: BTreeMap<String, u64>,
    /// The journaled rows of each keyspace, sorted by key, the newest version of a row first.
    journaled: BTreeMap<u64, Vec<RowVersion>>,
    unreadable: Failures,
}

/// Read failures so far. Rows are read lazily, so the list grows during iteration.
type Failures = Rc<RefCell<Vec<Unreadable>>>;

/// Versions of rows, sorted by key, the newest version of a row first.
type Versions = Box<dyn Iterator<Item = RowVersion>>;

impl RawDatabase {
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let mut unreadable = vec![];
        let store_file = StoreFile::read(database).unwrap_or_else(|error| {
            unreadable.push(Unreadable::new(&database.join("STORE"), error));
            None
        });
        let journaled = read_journals(database, store_file.as_ref().map(|file| &file.mark), &mut unreadable)?;
        let unreadable = Rc::new(RefCell::new(unreadable));
        let keyspaces = database.join("keyspaces");
        let mut source = Self { keyspaces, numbers: BTreeMap::new(), journaled, unreadable };
        for (key, name) in source.rows(0)? {
            if let [NAME_OF_KEYSPACE, number @ ..] = &*key
                && let Ok(number) = number.try_into().map(u64::from_be_bytes)
            {
                source.numbers.insert(String::from_utf8_lossy(&name).into_owned(), number);
            }
        }
        Ok(source)
    }

    /// The read failures of all tables read so far.
    pub(super) fn into_unreadable(self) -> Vec<Unreadable> {
        self.unreadable.take()
    }

    /// The newest version of every row of a table, in key order, without deleted rows. May be called once per table.
    pub(super) fn table(&mut self, name: &str) -> io::Result<impl Iterator<Item = (Slice, Slice)> + use<>> {
        match self.numbers.get(name) {
            Some(number) => self.rows(*number),
            None => {
                self.failed(&self.keyspaces, format!("no keyspace is named `{name}`"));
                Ok(Newest::of(vec![]))
            }
        }
    }

    /// The number of a keyspace.
    #[cfg(test)]
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    fn failed(&self, file: &Path, reason: impl Display) {
        self.unreadable.borrow_mut().push(Unreadable::new(file, reason));
    }

    fn rows(&mut self, number: u64) -> io::Result<Newest> {
        let files = self.table_files(&self.keyspaces.join(number.to_string()))?;
        let mut sources: Vec<_> = files.iter().map(|file| self.read_table(file)).collect();
        sources.push(Box::new(self.journaled.remove(&number).unwrap_or_default().into_iter()));
        Ok(Newest::of(sources))
    }

    /// The files with the rows of a keyspace. If its index is unreadable, all files in the directory: deleted rows may
    /// then come back from files that the engine no longer used.
    fn table_files(&self, keyspace: &Path) -> io::Result<Vec<LiveFile>> {
        live_files(keyspace).or_else(|error| {
            self.failed(&keyspace.join("current"), error);
            let entries = match fs::read_dir(keyspace.join("tables")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                entries => entries?,
            };
            entries.map(|entry| Ok(LiveFile { path: entry?.path(), seqno: 0 })).collect()
        })
    }

    /// The rows of one file: block by block through its index or, if that is unreadable, by a scan from its start.
    fn read_table(&self, file: &LiveFile) -> Versions {
        let cache = Arc::new(Cache::with_capacity_bytes(CACHE_BYTES));
        // The checksum of the whole file is ignored: each block has its own.
        let sum = Checksum::from_raw(0);
        match TableFile::recover(file.path.clone(), sum, file.seqno, 0, cache, None, false, true) {
            Ok(table) => {
                let failures = self.unreadable.clone();
                Box::new(ReadableRows { rows: Box::new(table.iter()), file: file.path.clone(), blocks: 0, failures })
            }
            Err(error) => {
                self.failed(&file.path, error);
                let scanner = compression(&file.path)
                    .and_then(|compression| Scanner::new(&file.path, usize::MAX, compression, file.seqno));
                match scanner {
                    // The index follows the last block of rows and ends the scan like an unreadable block.
                    Ok(scanner) => Box::new(scanner.map_while(|row| row.ok().map(RowVersion::from))),
                    Err(_) => Box::new(std::iter::empty()),
                }
            }
        }
    }
}

/// The compression of a file's blocks, deduced from the two lengths in the head of the first block.
fn compression(file: &Path) -> lsm_tree::Result<CompressionType> {
    /// Magic bytes, type and checksum of a block.
    const BEFORE_LENGTHS: usize = 4 + 1 + 16;
    let mut file = File::open(file)?;
    read_bytes::<BEFORE_LENGTHS>(&mut file)?;
    let (stored, whole) = (read_bytes::<4>(&mut file)?, read_bytes::<4>(&mut file)?);
    Ok(if stored == whole { CompressionType::None } else { CompressionType::Lz4 })
}

/// The rows of a file, without those of unreadable blocks.
struct ReadableRows {
    rows: Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>>>,
    file: PathBuf,
    /// Unreadable blocks so far.
    blocks: u64,
    failures: Failures,
}

impl Iterator for ReadableRows {
    type Item = RowVersion;

    fn next(&mut self) -> Option<RowVersion> {
        while self.blocks < UNREADABLE_BLOCKS_MAX {
            match self.rows.next()? {
                Ok(row) => return Some(row.into()),
                // The next call continues with the next block.
                Err(error) => {
                    self.blocks += 1;
                    self.failures.borrow_mut().push(Unreadable::new(&self.file, format!("a block: {error}")));
                }
            }
        }
        None
    }
}

impl From<InternalValue> for RowVersion {
    fn from(InternalValue { key, value }: InternalValue) -> Self {
        let value = (!key.value_type.is_tombstone()).then_some(value);
        Self { key: key.user_key, seqno: key.seqno, value }
    }
}

/// A file with rows, and the offset to add to their sequence numbers.
struct LiveFile {
    path: PathBuf,
    seqno: u64,
}

/// The files that the current version of a keyspace lists.
fn live_files(keyspace: &Path) -> Result<Vec<LiveFile>, String> {
    match version(keyspace) {
        Ok(version) => {
            let file = |table: TableEntry| LiveFile { path: table_path(keyspace, table.id), seqno: table.seqno };
            Ok(version.tables.into_iter().map(file).collect())
        }
        Err(Unlisted::Nothing) => Ok(vec![]),
        Err(Unlisted::Damaged { reason, .. }) => Err(reason),
        Err(Unlisted::Io(error)) => Err(error.to_string()),
    }
}

fn read_bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Merges several sources to the newest version of each row, without deleted rows.
struct Newest {
    sources: Vec<Versions>,
    /// The next version of each source: key, sequence number, index of the source.
    next: BinaryHeap<Reverse<(Slice, Reverse<u64>, usize)>>,
    values: Vec<Option<Slice>>,
    last: Option<Slice>,
}

impl Newest {
    fn of(sources: Vec<Versions>) -> Self {
        let values = sources.iter().map(|_| None).collect();
        let mut newest = Self { sources, next: BinaryHeap::new(), values, last: None };
        (0..newest.sources.len()).for_each(|number| newest.refill(number));
        newest
    }

    fn refill(&mut self, number: usize) {
        if let Some(RowVersion { key, seqno, value }) = self.sources[number].next() {
            self.values[number] = value;
            self.next.push(Reverse((key, Reverse(seqno), number)));
        }
    }
}

impl Iterator for Newest {
    type Item = (Slice, Slice);

    fn next(&mut self) -> Option<(Slice, Slice)> {
        loop {
            let Reverse((key, _, number)) = self.next.pop()?;
            let value = self.values[number].take();
            self.refill(number);
            if self.last.as_ref() == Some(&key) {
                continue;
            }
            self.last = Some(key.clone());
            if let Some(value) = value {
                return Some((key, value));
            }
        }
    }
}

fn read_journals(
    database: &Path,
    mark: Option<&Mark>,
    unreadable: &mut Vec<Unreadable>,
) -> io::Result<BTreeMap<u64, Vec<RowVersion>>> {
    let mut rows = JournalRows::default();
    for (_, path) in journal::journals(database).map_err(io::Error::other)? {
        let scan = match journal::scan(&path, mark, &mut rows) {
            Ok(scan) => scan,
            Err(error) => {
                unreadable.push(Unreadable::new(&path, error));
                continue;
            }
        };
        if scan.rest.is_empty() {
            continue;
        }
        let later = journal::later_batches(&scan, mark, &mut rows);
        let bytes = scan.rest.len() as u64 - later.iter().map(|(_, batch)| batch.len).sum::<u64>();
        let what = format!("{bytes} bytes from {} on are unreadable, {} whole commits follow", scan.end, later.len());
        unreadable.push(Unreadable::new(&path, what));
    }
    let mut journaled = rows.whole;
    for versions in journaled.values_mut() {
        versions.sort_unstable_by(|one, other| one.key.cmp(&other.key).then(other.seqno.cmp(&one.seqno)));
    }
    Ok(journaled)
}

/// The rows of all complete batches in the journals, by keyspace.
#[derive(Default)]
struct JournalRows {
    batch: Vec<(u64, Slice, Option<Slice>)>,
    whole: BTreeMap<u64, Vec<RowVersion>>,
}

impl Visitor for JournalRows {
    fn start(&mut self) {
        self.batch.clear();
    }

    fn item(&mut self, item: &JournalItem<'_>) {
        let value = match (item.kind, item.compression) {
            (VALUE, LZ4) => lz4_flex::block::decompress(item.stored, item.value_len as usize).ok().map(Slice::from),
            (VALUE, _) => Some(item.stored.into()),
            _ => None,
        };
        self.batch.push((item.keyspace, item.key.into(), value));
    }

    fn batch(&mut self, batch: &JournalBatch) {
        for (keyspace, key, value) in self.batch.drain(..) {
            self.whole.entry(keyspace).or_default().push(RowVersion { key, seqno: batch.seqno, value });
        }
    }
}
