//! Checks the engine's journals before the engine reads them, and cuts off the torn end of the newest one.
//!
//! A commit is one batch of the newest journal, and it is synced before the next batch is written. After a power cut only the
//! last batch can be incomplete, in any part, and it was not acknowledged. The engine discards such a batch in most of its
//! forms and refuses to open in the others. It also takes damage in the middle of a journal for the end of it, and would
//! discard every commit after the damage. So this module decides first, at the first batch that does not check out:
//!
//! | what follows it | verdict |
//! |---|---|
//! | only zeros, up to the end of the newest journal | the journal ends here |
//! | a whole batch with the mark of a later commit | damage: refuse to open |
//! | a newer journal (the engine syncs a journal before it starts the next one) | damage: refuse to open |
//! | other bytes | a torn batch: copy its bytes to `torn/`, cut them off |
//!
//! A commit mark is a row that every commit writes (see [`Mark`]). Its key contains the secret id of the database, so bytes
//! inside a message cannot pass for a commit. When the store becomes idle or closes, the committer writes one more batch with
//! nothing but the mark: from then on damage to the last acknowledged commit is recognized, too.
//!
//! The layout of a batch (fjall 3, all numbers little endian):
//!
//! ```text
//! 1 count:u32 seqno:u64
//!   2 kind:u8 compression:u8 keyspace:u64 key_len:u16 value_len:u32 stored_len:u32 key stored     count times, or
//!   4 keyspace:u64
//! 3 xxh3_64 of the items:u64 "FJL" 3
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use metrics::counter;
use tracing::warn;
use xxhash_rust::xxh3::Xxh3;

use crate::durable::{make_directory, sync_directory};
use crate::store_file::Mark;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8] = b"FJL\x03";
const START_LEN: usize = 1 + 4 + 8;

/// Kind of an item that writes a value.
pub(crate) const VALUE: u8 = 0;
/// The highest item kind that the engine defines.
const KIND_MAX: u8 = 2;
const UNCOMPRESSED: u8 = 0;
pub(crate) const LZ4: u8 = 1;

const READ_BYTES: usize = 256 << 10;

/// The directory inside the database for cut-off ends of journals.
const TORN: &str = "torn";
/// Maximum number of retained ends. They contain messages that were never acknowledged.
const TORN_KEPT_MAX: usize = 4;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("cannot read or cut journal `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "journal `{}` is damaged at byte {offset}: {damage}. Nothing was changed. Restore a backup with `tidings store \
         restore`, or copy what is readable into a new directory with `tidings store repair`", .path.display()
    )]
    Damaged { path: PathBuf, offset: u64, damage: JournalDamage },
}

/// The extent of the damage to a journal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JournalDamage {
    /// Commits are unreadable, and later commits follow.
    #[error("{bytes} bytes of acknowledged commits are unreadable, {later} whole commits follow them")]
    Hole { bytes: u64, later: u64 },
    /// The end of a completely synced journal is unreadable.
    #[error("{bytes} bytes of acknowledged commits are unreadable, up to the end of the journal")]
    End { bytes: u64 },
    /// A journal ends before the next one begins.
    #[error("it ends with commit {last}, and the next journal begins with commit {next}")]
    Gap { last: u64, next: u64 },
}

/// The torn end of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// One row of a batch.
pub(crate) struct JournalItem<'a> {
    pub(crate) keyspace: u64,
    pub(crate) key: &'a [u8],
    pub(crate) kind: u8,
    pub(crate) compression: u8,
    pub(crate) value_len: u32,
    /// The value as it is stored, compressed or not.
    pub(crate) stored: &'a [u8],
}

/// A batch with a valid checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalBatch {
    pub(crate) len: u64,
    pub(crate) seqno: u64,
    /// The number of the commit, if the batch has a mark.
    commit: Option<u64>,
}

/// The complete batches at the start of a journal, and the bytes after them.
pub(crate) struct Scan {
    /// The offset after the last complete batch.
    pub(crate) end: u64,
    seqno: Option<u64>,
    pub(crate) first_commit: Option<u64>,
    pub(crate) last_commit: Option<u64>,
    /// The bytes from `end` on, without trailing zeros.
    pub(crate) rest: Vec<u8>,
}

/// Checks all journals of a closed database, and cuts a torn batch off the newest.
///
/// A database without an id was written by a version without commit marks. There every complete batch counts as a
/// commit.
pub(crate) fn recover(database: &Path, mark: Option<&Mark>) -> Result<Option<Torn>, JournalError> {
    let journals = journals(database)?;
    let mut before: Option<(u64, &Path, u64)> = None;
    let mut torn = None;
    for (position, (number, path)) in journals.iter().enumerate() {
        let scan = scan(path, mark, &mut ()).map_err(failed(path))?;
        if let (Some((number_before, path_before, last)), Some(next)) = (before, scan.first_commit)
            && number_before + 1 == *number
            && last + 1 != next
        {
            let offset = fs::metadata(path_before).map_err(failed(path_before))?.len();
            return Err(JournalError::Damaged {
                path: path_before.to_owned(),
                offset,
                damage: JournalDamage::Gap { last, next },
            });
        }
        let last_before = before.map(|(_, _, last)| last);
        before = scan.last_commit.map(|commit| (*number, path.as_path(), commit));
        if scan.rest.is_empty() {
            continue;
        }
        let is_newest = position + 1 == journals.len();
        if let Some(damage) = damage(&scan, mark, last_before, is_newest) {
            return Err(JournalError::Damaged { path: path.clone(), offset: scan.end, damage });
        }
        torn = Some(cut(database, path, &scan).map_err(failed(path))?);
    }
    Ok(torn)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> JournalError + '_ {
    move |source| JournalError::Io { path: path.to_owned(), source }
}

/// The journals of a database by number, the newest last.
pub(crate) fn journals(database: &Path) -> Result<Vec<(u64, PathBuf)>, JournalError> {
    let entries = match fs::read_dir(database) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(failed(database))?,
    };
    let mut journals = vec![];
    for entry in entries {
        let path = entry.map_err(failed(database))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number {
            journals.push((number, path));
        }
    }
    journals.sort_unstable();
    Ok(journals)
}

/// Receives the rows of a journal while it is read.
pub(crate) trait Visitor {
    /// The next row of a batch, before the checksum of the batch was verified.
    fn item(&mut self, item: &JournalItem<'_>);
    /// A batch begins.
    fn start(&mut self);
    /// The rows since the last `start` are a complete batch.
    fn batch(&mut self, batch: &JournalBatch);
}

/// Reads batches without using their rows.
impl Visitor for () {
    fn item(&mut self, _: &JournalItem<'_>) {}
    fn start(&mut self) {}
    fn batch(&mut self, _: &JournalBatch) {}
}

/// Reads the complete batches of a journal from its start.
pub(crate) fn scan(path: &Path, mark: Option<&Mark>, visitor: &mut impl Visitor) -> io::Result<Scan> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let mut scan = Scan { end: 0, seqno: None, first_commit: None, last_commit: None, rest: vec![] };
    let mut buffer = vec![];
    while let Some(batch) = read_batch(&mut reader, len - scan.end, mark, &mut buffer, visitor)?
        && scan.accept(&batch)
    {
        visitor.batch(&batch);
    }
    scan.rest = read_rest(reader.into_inner(), scan.end)?;
    // The journal of a running store may have grown since the scan started.
    let mut grown = 0;
    while let Some(batch) = batch_at(&scan.rest, grown, mark, &mut buffer, visitor)
        && scan.accept(&batch)
    {
        visitor.batch(&batch);
        grown += batch.len as usize;
    }
    scan.rest.drain(..grown);
    Ok(scan)
}

impl Scan {
    /// Accepts a complete batch, if it is the next one. The checksum does not cover the sequence number. A wrong number
    /// would hide later rows or be hidden by earlier ones.
    fn accept(&mut self, batch: &JournalBatch) -> bool {
        if self.seqno.is_some_and(|seqno| batch.seqno <= seqno) {
            return false;
        }
        self.end += batch.len;
        self.seqno = Some(batch.seqno);
        self.first_commit = self.first_commit.or(batch.commit);
        self.last_commit = batch.commit.or(self.last_commit);
        true
    }
}

/// The bytes of a file from an offset on, without trailing zeros.
fn read_rest(mut file: File, from: u64) -> io::Result<Vec<u8>> {
    let (mut at, mut end) = (from, from);
    let (mut chunk, zeros) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    file.seek(SeekFrom::Start(from))?;
    loop {
        let len = file.read(&mut chunk)?;
        if len == 0 {
            break;
        }
        // A journal is preallocated with 64 MiB of zeros. Whole chunks are compared, not single bytes.
        if chunk[..len] != zeros[..len]
            && let Some(last) = chunk[..len].iter().rposition(|byte| *byte != 0)
        {
            end = at + last as u64 + 1;
        }
        at += len as u64;
    }
    let mut rest = vec![0; usize::try_from(end - from).map_err(io::Error::other)?];
    file.seek(SeekFrom::Start(from))?;
    file.read_exact(&mut rest)?;
    Ok(rest)
}

/// Reads one batch of at most `limit` bytes; `None` if the bytes are not a complete batch.
fn read_batch(
    from: &mut impl Read,
    limit: u64,
    mark: Option<&Mark>,
    buffer: &mut Vec<u8>,
    visitor: &mut impl Visitor,
) -> io::Result<Option<JournalBatch>> {
    let mut bytes = Bounded { from, left: limit };
    let Some([START, start @ ..]) = bytes.array::<START_LEN>()? else { return Ok(None) };
    let (count, seqno) = (u32_at(&start, 0), u64_at(&start, 4));
    let (mut hash, mut commit) = (Xxh3::new(), None);
    visitor.start();
    for _ in 0..count {
        buffer.clear();
        match bytes.array()? {
            Some([ITEM]) => {
                const HEAD_LEN: usize = 1 + 1 + 8 + 2 + 4 + 4;
                let Some(head) = bytes.array::<HEAD_LEN>()? else { return Ok(None) };
                let [kind, compression, ..] = head;
                let (keyspace, key_len) = (u64_at(&head, 2), usize::from(u16::from_le_bytes([head[10], head[11]])));
                let (value_len, stored_len) = (u32_at(&head, 12), u32_at(&head, 16));
                if kind > KIND_MAX || compression > LZ4 || (compression == UNCOMPRESSED && value_len != stored_len) {
                    return Ok(None);
                }
                if !bytes.fill(buffer, key_len as u64 + u64::from(stored_len))? {
                    return Ok(None);
                }
                hash.update(&[ITEM]);
                hash.update(&head);
                hash.update(buffer);
                let (key, stored) = buffer.split_at(key_len);
                let item = JournalItem { keyspace, key, kind, compression, value_len, stored };
                commit = commit.or(mark.and_then(|mark| mark.commit(&item)));
                visitor.item(&item);
            }
            Some([CLEAR]) => {
                let Some(keyspace) = bytes.array::<8>()? else { return Ok(None) };
                hash.update(&[CLEAR]);
                hash.update(&keyspace);
            }
            _ => return Ok(None),
        }
    }
    const END_LEN: usize = 1 + 8 + MAGIC.len();
    let Some(end) = bytes.array::<END_LEN>()? else { return Ok(None) };
    let is_whole = end[0] == END && u64_at(&end, 1) == hash.digest() && end.ends_with(MAGIC);
    Ok(is_whole.then_some(JournalBatch { len: limit - bytes.left, seqno, commit }))
}

/// Reads up to a limit, so that a damaged length does not cause a large allocation.
struct Bounded<'a, R> {
    from: &'a mut R,
    left: u64,
}

impl<R: Read> Bounded<'_, R> {
    fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.left < N as u64 {
            return Ok(None);
        }
        let mut array = [0; N];
        self.from.read_exact(&mut array)?;
        self.left -= N as u64;
        Ok(Some(array))
    }

    fn fill(&mut self, buffer: &mut Vec<u8>, len: u64) -> io::Result<bool> {
        if self.left < len {
            return Ok(false);
        }
        let read = Read::by_ref(self.from).take(len).read_to_end(buffer)?;
        self.left -= len;
        if (read as u64) < len { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

/// Whether the bytes after the last good batch were synced before. `last_before` is the last commit of the previous
/// journal.
///
/// The proof is a commit after the bad one. The bad commit itself can occur after its own beginning: the engine repeats
/// a write that failed half-way when it closes its file. In that case nothing was synced.
pub(crate) fn damage(
    scan: &Scan,
    mark: Option<&Mark>,
    last_before: Option<u64>,
    is_newest: bool,
) -> Option<JournalDamage> {
    let bad_commit = scan.last_commit.or(last_before).unwrap_or(0) + 1;
    let mut later = later_batches(scan, mark, &mut ());
    later.retain(|(offset, batch)| *offset == 0 || batch.commit.is_none_or(|commit| commit > bad_commit));
    match later.first() {
        Some((offset, _)) => Some(JournalDamage::Hole { bytes: *offset as u64, later: later.len() as u64 }),
        None if !is_newest => Some(JournalDamage::End { bytes: scan.rest.len() as u64 }),
        None => None,
    }
}

/// Complete commits in the bytes after the last good batch, with their offsets in these bytes. The bad batch can itself
/// be complete if its sequence number is not above the previous one. A power cut does not cause that, because it loses
/// whole sectors.
pub(crate) fn later_batches(
    scan: &Scan,
    mark: Option<&Mark>,
    visitor: &mut impl Visitor,
) -> Vec<(usize, JournalBatch)> {
    let rest = &scan.rest;
    let mut found = vec![];
    if mark.is_some_and(|mark| !mark.occurs_in(rest)) {
        return found;
    }
    let (mut at, mut buffer) = (0, vec![]);
    while at + START_LEN < rest.len() {
        let begins_like_a_batch = rest[at] == START && matches!(rest[at + START_LEN], ITEM | CLEAR);
        if begins_like_a_batch
            && u32_at(rest, at + 1) > 0
            && let Some(batch) = batch_at(rest, at, mark, &mut buffer, visitor)
            && match mark {
                Some(_) => batch.commit.is_some(),
                None => scan.seqno.is_none_or(|seqno| batch.seqno > seqno),
            }
        {
            visitor.batch(&batch);
            found.push((at, batch));
            at += batch.len as usize;
        } else {
            at += 1;
        }
    }
    found
}

fn batch_at(
    bytes: &[u8],
    at: usize,
    mark: Option<&Mark>,
    buffer: &mut Vec<u8>,
    visitor: &mut impl Visitor,
) -> Option<JournalBatch> {
    let mut from = &bytes[at..];
    let limit = from.len() as u64;
    // Reading from a slice cannot fail.
    read_batch(&mut from, limit, mark, buffer, visitor).ok().flatten()
}

/// Copies the bytes after the last complete batch to `torn/` and cuts them off. If interrupted, the next start repeats
/// it.
fn cut(database: &Path, journal: &Path, scan: &Scan) -> io::Result<Torn> {
    let torn = Torn { offset: scan.end, bytes: scan.rest.len() as u64 };
    let kept = keep_aside(&database.join(TORN), journal, scan)?;
    let file = OpenOptions::new().write(true).open(journal)?;
    file.set_len(scan.end)?;
    file.sync_all()?;
    counter!("tidings_store_torn_commits_total").increment(1);
    warn!(
        journal = %journal.display(),
        offset = torn.offset,
        bytes = torn.bytes,
        kept = %kept.display(),
        "the last commit was interrupted before it was acknowledged; its bytes were cut off the journal and kept aside"
    );
    Ok(torn)
}

/// Removes the torn ends that were kept aside. They contain messages, which may have been sent again and deleted.
pub(crate) fn remove_torn(database: &Path) -> io::Result<()> {
    let directory = database.join(TORN);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        fs::remove_file(entry?.path())?;
    }
    sync_directory(&directory)
}

fn keep_aside(directory: &Path, journal: &Path, scan: &Scan) -> io::Result<PathBuf> {
    make_directory(directory)?;
    let name = journal.file_stem().unwrap_or_default().to_string_lossy();
    let path = directory.join(format!("{name}-{}.torn", scan.end));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(&scan.rest)?;
    file.sync_all()?;
    let mut older = vec![];
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        older.push((entry.metadata()?.modified()?, entry.path()));
    }
    older.sort_unstable();
    for (_, path) in older.iter().rev().skip(TORN_KEPT_MAX) {
        fs::remove_file(path)?;
    }
    sync_directory(directory)?;
    Ok(path)
}

#[cfg(test)]
mod tests;
