//! Verifies every checksum of a database, and lists the damaged files.
//!
//! A disk that loses or changes bytes reports nothing until they are read, possibly after the last good backup was
//! deleted. A scrub reads all files:
//!
//! | file | checked by |
//! |---|---|
//! | `keyspaces/N/tables/ID` | the checksum that the version of the keyspace lists for it |
//! | `keyspaces/N/vID` | the checksum in `current` |
//! | `ID.jnl` | the checksum of each batch, as at a start (see [`journal`](crate::journal)) |
//!
//! It lists all files once and reads them in steps, so that the caller controls the pace. A running database continues:
//! the scrub holds nothing of the engine between two steps. (It must not hold a table of the engine: after a reopen the
//! engine reuses its number for another file, and dropping the old table would delete the new file.) So a file may be
//! replaced or deleted while it is read. A wrong checksum counts only if the database still uses the file.

pub(crate) mod version;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use ports::StoreError;
use xxhash_rust::xxh3::Xxh3;

use self::version::{TableFile, Unlisted, keyspace_path, keyspaces, names, table_path, version};
use crate::EmbeddedStore;
use crate::directory::{Directory, StoreOpenError};
use crate::journal::{self, JournalDamage, Scan};
use crate::store_file::{Mark, StoreFile};

/// Maximum bytes of a table file that one step reads.
const STEP_BYTES: u64 = 1 << 20;
/// Maximum number of retries for the journal being written, if a commit arrives while it is read.
const JOURNAL_TRIES_MAX: usize = 16;

const MISSING: &str = "it is missing";

/// The progress and the findings of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Files read completely.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Files that are damaged or missing.
    pub damaged: Vec<FileDamage>,
}

/// A file of a database that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDamage {
    /// The file.
    pub path: PathBuf,
    /// Its table; `None` for a journal, which belongs to all tables, and if the name is unreadable.
    pub table: Option<String>,
    /// The reason.
    pub reason: String,
}

/// A running scrub.
pub struct Scrub {
    mark: Option<Mark>,
    names: BTreeMap<u64, String>,
    tables: VecDeque<Listed>,
    reading: Option<Reading>,
    journals: VecDeque<(u64, PathBuf)>,
    /// The last scanned journal with its last commit.
    journal_before: Option<(u64, PathBuf, u64)>,
    bytes_about: u64,
    scrubbed: Scrubbed,
    /// Held while the database is closed, so that no process opens it meanwhile.
    _directory: Option<Directory>,
}

/// A table file from the initial list.
struct Listed {
    number: u64,
    keyspace: PathBuf,
    table: TableFile,
}

/// A table file that is being read.
struct Reading {
    listed: Listed,
    file: File,
    at: u64,
    hash: Xxh3,
}

impl EmbeddedStore {
    /// Starts a scrub of this store while it is running.
    pub async fn scrub(&self) -> Result<Scrub, StoreError> {
        self.read(|tables| Scrub::begin(tables.path(), None).map_err(StoreError::unavailable)).await
    }
}

impl Scrub {
    /// Starts a scrub of a closed store. It does not open the store, and changes nothing.
    pub fn of_directory(path: impl AsRef<Path>) -> Result<Self, StoreOpenError> {
        let path = path.as_ref();
        let directory = Directory::claim_to_read(path)?;
        let unusable = |source| StoreOpenError::Unusable { path: path.to_owned(), source };
        Self::begin(&directory.database(), Some(directory)).map_err(unusable)
    }

    /// Lists the files of a database, and verifies the lists themselves.
    fn begin(database: &Path, directory: Option<Directory>) -> io::Result<Self> {
        let mut scrub = Self {
            mark: None,
            names: BTreeMap::new(),
            tables: VecDeque::new(),
            reading: None,
            journals: VecDeque::new(),
            journal_before: None,
            bytes_about: 0,
            scrubbed: Scrubbed::default(),
            _directory: directory,
        };
        match StoreFile::read(database) {
            Ok(file) => scrub.mark = file.map(|file| file.mark),
            Err(error) if is_unreadable(&error) => {
                scrub.damaged(StoreFile::path(database), None, unreadable(&error));
            }
            Err(error) => return Err(error),
        }
        scrub.journals = journal::journals(database).map_err(io::Error::other)?.into();
        let keyspaces = keyspaces(database)?;
        scrub.names = names(&keyspaces);
        let missing: Vec<_> = scrub.names.keys().copied().filter(|number| !keyspaces.contains_key(number)).collect();
        for number in missing.into_iter().filter(|_| !keyspaces.is_empty()) {
            scrub.damaged(keyspace_path(database, number), Some(number), MISSING.to_owned());
        }
        for (number, keyspace) in keyspaces {
            match version(&keyspace) {
                Ok(version) => {
                    scrub.scrubbed.files += 1;
                    scrub.scrubbed.bytes += version.bytes;
                    let listed = |table| Listed { number, keyspace: keyspace.clone(), table };
                    scrub.tables.extend(version.tables.into_iter().map(listed));
                }
                Err(Unlisted::Nothing) => {}
                Err(Unlisted::Damaged { path, reason }) => scrub.damaged(path, Some(number), reason),
                Err(Unlisted::Io(error)) => return Err(error),
            }
        }
        let tables = scrub.tables.iter().map(|listed| table_path(&listed.keyspace, listed.table.id));
        let journals = scrub.journals.iter().map(|(_, path)| path.clone());
        // A missing file is reported when it is opened.
        let len = |path: PathBuf| path.metadata().map_or(0, |file| file.len());
        scrub.bytes_about = scrub.scrubbed.bytes + tables.chain(journals).map(len).sum::<u64>();
        Ok(scrub)
    }

    /// Estimated number of bytes to read: files that are deleted meanwhile are not read.
    pub fn bytes_about(&self) -> u64 {
        self.bytes_about
    }

    /// The progress and the findings so far.
    pub fn scrubbed(&self) -> &Scrubbed {
        &self.scrubbed
    }

    /// Runs one step and returns the number of bytes read, at most 1 MiB of a table or a whole journal; `None` at the
    /// end.
    pub async fn next(mut self) -> Result<(Self, Option<u64>), StoreError> {
        let step = tokio::task::spawn_blocking(move || {
            let read = self.next_step().map_err(StoreError::unavailable)?;
            Ok((self, read))
        });
        step.await.map_err(StoreError::unavailable)?
    }

    /// The same, for callers that may block on the disk.
    pub fn next_step(&mut self) -> io::Result<Option<u64>> {
        let before = self.scrubbed.bytes;
        if let Some(reading) = self.reading.take() {
            self.read_on(reading)?;
        } else if let Some((number, path)) = self.journals.pop_front() {
            self.read_journal(number, path)?;
        } else if let Some(listed) = self.tables.pop_front() {
            self.begin_table(listed)?;
        } else {
            return Ok(None);
        }
        Ok(Some(self.scrubbed.bytes - before))
    }

    fn begin_table(&mut self, listed: Listed) -> io::Result<()> {
        match File::open(table_path(&listed.keyspace, listed.table.id)) {
            Ok(file) => self.read_on(Reading { listed, file, at: 0, hash: Xxh3::new() }),
            Err(error) if error.kind() == ErrorKind::NotFound => self.blame(&listed, MISSING.to_owned()),
            Err(error) if is_unreadable(&error) => self.blame(&listed, unreadable(&error)),
            Err(error) => Err(error),
        }
    }

    fn read_on(&mut self, mut reading: Reading) -> io::Result<()> {
        // Cached pages prove nothing about the disk. Unsynced pages stay in the cache.
        let at = reading.at.try_into().map_err(io::Error::other)?;
        match posix_fadvise(&reading.file, at, STEP_BYTES as _, PosixFadviseAdvice::POSIX_FADV_DONTNEED) {
            // A file system without support for it may read from the cache.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = Vec::with_capacity(STEP_BYTES as usize);
        match Read::by_ref(&mut reading.file).take(STEP_BYTES).read_to_end(&mut bytes) {
            Err(error) if is_unreadable(&error) => {
                let reason = format!("from byte {} on {}", reading.at, unreadable(&error));
                return self.blame(&reading.listed, reason);
            }
            read => read?,
        };
        self.scrubbed.bytes += bytes.len() as u64;
        reading.at += bytes.len() as u64;
        reading.hash.update(&bytes);
        if bytes.len() as u64 == STEP_BYTES {
            self.reading = Some(reading);
            return Ok(());
        }
        if reading.hash.digest128() == reading.listed.table.checksum {
            self.scrubbed.files += 1;
            return Ok(());
        }
        self.blame(&reading.listed, format!("the checksum of its {} bytes is wrong", reading.at))
    }

    /// Reports a table file, unless the database no longer uses it.
    fn blame(&mut self, listed: &Listed, reason: String) -> io::Result<()> {
        let is_in_use = match version(&listed.keyspace) {
            Ok(version) => version.tables.contains(&listed.table),
            // The list was valid at the start, and is damaged now.
            Err(Unlisted::Damaged { .. }) => true,
            Err(Unlisted::Nothing) => false,
            Err(Unlisted::Io(error)) => return Err(error),
        };
        if is_in_use {
            self.damaged(table_path(&listed.keyspace, listed.table.id), Some(listed.number), reason);
        }
        Ok(())
    }

    fn damaged(&mut self, path: PathBuf, keyspace: Option<u64>, reason: String) {
        let table = keyspace.and_then(|number| self.names.get(&number).cloned());
        self.scrubbed.damaged.push(FileDamage { path, table, reason });
    }

    fn read_journal(&mut self, number: u64, path: PathBuf) -> io::Result<()> {
        let is_newest = self.journals.is_empty();
        let before = self.journal_before.take();
        let (scan, damage) = match self.scan_journal(&path, before.as_ref().map(|(_, _, last)| *last), is_newest) {
            // All its rows were flushed to tables.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if is_unreadable(&error) => {
                self.damaged(path, None, unreadable(&error));
                return Ok(());
            }
            scanned => scanned?,
        };
        self.scrubbed.bytes += scan.end + scan.rest.len() as u64;
        if let (Some((number_before, path_before, last)), Some(next)) = (before, scan.first_commit)
            && number_before + 1 == number
            && last + 1 != next
        {
            self.damaged(path_before, None, JournalDamage::Gap { last, next }.to_string());
        }
        match damage {
            Some(damage) => self.damaged(path, None, format!("at byte {}: {damage}", scan.end)),
            None => {
                self.scrubbed.files += 1;
                self.journal_before = scan.last_commit.map(|commit| (number, path, commit));
            }
        }
        Ok(())
    }

    /// Scans a journal. While it is written, a batch can be incomplete at first and complete when the later bytes are
    /// read, and would look like a hole. So damage counts only if a second scan finds it at the same offset.
    fn scan_journal(
        &self,
        path: &Path,
        last_before: Option<u64>,
        is_newest: bool,
    ) -> io::Result<(Scan, Option<JournalDamage>)> {
        let mark = self.mark.as_ref();
        let mut at = None;
        for _ in 0..JOURNAL_TRIES_MAX {
            let scan = journal::scan(path, mark, &mut ())?;
            let damage = if scan.rest.is_empty() { None } else { journal::damage(&scan, mark, last_before, is_newest) };
            if damage.is_none() || at.replace(scan.end) == Some(scan.end) {
                return Ok((scan, damage));
            }
        }
        Err(io::Error::other(format!("`{}` is written faster than it is read", path.display())))
    }
}

/// Whether an error means damage of the file and not a failed read: a part is missing, or the content is invalid.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
        || error.raw_os_error().is_some_and(|code| matches!(Errno::from_raw(code), Errno::EIO | Errno::EUCLEAN))
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

#[cfg(test)]
mod tests;
