use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ports::BoxError;

use crate::durable::{make_directory, remove_directory, replace_file, sync_directory};
use crate::journal;
use crate::migrate::OLDEST_FORMAT;
use crate::private::{PrivateError, private_tree};
use crate::store_file::StoreFile;
use crate::tables::Tables;
use crate::{Config, StoreKey};

/// The format that this version writes, and the only one it serves from.
pub(crate) const FORMAT_VERSION: u32 = 2;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_FILE_NEW: &str = "FORMAT.new";
const FORMAT_PREFIX: &str = "tidings embedded store, format ";
const LOCK_FILE: &str = "LOCK";
const PROBE_FILE: &str = "PROBE";
const DATABASE: &str = "db";
/// Directory in which a first start creates the database.
const DATABASE_NEW: &str = "db.new";
/// A database in the current format that will replace an older one.
const DATABASE_NEXT: &str = "db.next";
/// Directory in which a migration creates it.
const WORKSHOP: &str = "migrating";

/// Entries that a directory may contain before the first start is complete, besides the database. `lost+found` comes
/// from the file system of a volume mounted there.
const OF_FIRST_START: [&str; 4] = [LOCK_FILE, FORMAT_FILE_NEW, DATABASE_NEW, "lost+found"];

/// Bytes that must fit on the disk before the store accepts writes again: about one flushed table.
const PROBE_BYTES: usize = 16 << 20;
const CHUNK_BYTES: usize = 1 << 20;

/// Why a directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The path exists and is not a directory.
    #[error("`{}` is not a directory; name a directory that is empty or was made by tidings", .0.display())]
    NotADirectory(PathBuf),
    /// The directory cannot be created, read or written.
    #[error("cannot use the directory `{}`", .path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory contains other files and no Tidings store.
    #[error("`{}` holds other files and no tidings store; name an empty directory", .0.display())]
    NotOurs(PathBuf),
    /// An earlier version wrote the store, and a migration exists.
    #[error(
        "the store in `{0}` has format {found}, this version of tidings writes format {FORMAT_VERSION}; bring it there \
         with `tidings store migrate --data-dir {0}`, which takes a backup first", .path.display()
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// The version in its format file.
        found: u32,
    },
    /// The store has a format that this version does not know.
    #[error(
        "the store in `{}` has format {found}, this version of tidings writes format {FORMAT_VERSION}; start the \
         version that wrote it, or a later one", .path.display()
    )]
    Format {
        /// The directory.
        path: PathBuf,
        /// The version in its format file.
        found: String,
    },
    /// Another process has it open.
    #[error("the store in `{}` is in use by another process; stop that one or name another directory", .0.display())]
    InUse(PathBuf),
    /// The directory has a format file and keys, but no database.
    #[error("`{}` is missing, and the directory was in use; put it back, or restore a backup into an empty directory", .0.display())]
    DatabaseMissing(PathBuf),
    /// Other users can access the directory, and it cannot be restricted.
    #[error(transparent)]
    NotPrivate(#[from] PrivateError),
    /// The engine cannot open it.
    #[error("the store in `{}` cannot be opened", .path.display())]
    Engine {
        /// The directory.
        path: PathBuf,
        /// The error of the engine.
        #[source]
        source: BoxError,
    },
}

/// A directory that contains a Tidings store, locked against other processes until this is dropped.
///
/// A first start creates the database in a temporary directory and writes the format file last:
///
/// ```text
/// empty ─► db.new ─► made by the engine, synced ─► renamed to db, synced ─► FORMAT
/// ```
///
/// If it is interrupted before the rename, it starts over; after the rename, it only writes `FORMAT`.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks a directory, restricts it to its owner, and creates a store in it if it is new or empty. `key` encrypts a
    /// new store.
    pub(crate) fn claim(path: &Path, key: Option<&StoreKey>) -> Result<Self, StoreOpenError> {
        let unusable = |source| StoreOpenError::Unusable { path: path.to_owned(), source };
        match make_directory(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists || error.kind() == ErrorKind::NotADirectory => {
                return Err(StoreOpenError::NotADirectory(path.to_owned()));
            }
            made => made.map_err(unusable)?,
        }
        // Check the format before creating any file, and again under the lock, because another process may have created
        // a store in between.
        check_format(path)?;
        let lock = lock(path)?;
        let found = check_format(path)?;
        // Not earlier: until here the directory may be one that is not for a store.
        private_tree(path)?;
        let directory = Self { path: path.to_owned(), _lock: lock };
        directory.finish_replacing().map_err(unusable)?;
        match found {
            DirectoryContent::Nothing => {
                directory.make_database(key)?;
                write_format(path).map_err(unusable)?;
            }
            DirectoryContent::Store if is_unfinished(&directory.database()).map_err(unusable)? => {
                if !is_alone(path).map_err(unusable)? {
                    return Err(StoreOpenError::DatabaseMissing(directory.database()));
                }
                directory.make_database(key)?;
            }
            DirectoryContent::Store => {}
        }
        Ok(directory)
    }

    /// Creates an empty database in a temporary directory and renames it, unless an interrupted first start has done
    /// that.
    fn make_database(&self, key: Option<&StoreKey>) -> Result<(), StoreOpenError> {
        let database = self.database();
        let unusable = |source| StoreOpenError::Unusable { path: self.path.clone(), source };
        if !is_unfinished(&database).map_err(unusable)? {
            return Ok(());
        }
        let new = self.path.join(DATABASE_NEW);
        remove_directory(&new).and_then(|()| remove_directory(&database)).map_err(unusable)?;
        make_directory(&new).map_err(unusable)?;
        let made = Tables::open(&new, &Config { key: key.cloned(), ..Config::default() });
        drop(made.map_err(|error| StoreOpenError::Engine { path: self.path.clone(), source: error.into() })?);
        remove_empty_journals(&new).map_err(unusable)?;
        let put = sync_directory(&new).and_then(|()| fs::rename(&new, &database));
        put.and_then(|()| sync_directory(&self.path)).map_err(unusable)
    }

    /// Locks a directory that contains a store of an older format and returns that format; `None` if the format is
    /// current.
    pub(crate) fn claim_older(path: &Path) -> Result<Option<(Self, u32)>, StoreOpenError> {
        if !path.join(FORMAT_FILE).exists() {
            return Err(StoreOpenError::NotOurs(path.to_owned()));
        }
        let lock = lock(path)?;
        match check_format(path) {
            Err(StoreOpenError::Older { found, .. }) => Ok(Some((Self { path: path.to_owned(), _lock: lock }, found))),
            found => found.map(|_| None),
        }
    }

    /// Locks a directory that contains a store of the current format, and changes nothing in it.
    pub(crate) fn claim_to_read(path: &Path) -> Result<Self, StoreOpenError> {
        match check_format(path)? {
            DirectoryContent::Nothing => Err(StoreOpenError::NotOurs(path.to_owned())),
            DirectoryContent::Store => Ok(Self { path: path.to_owned(), _lock: lock(path)? }),
        }
    }

    /// Creates an empty directory for a store that will replace this one.
    pub(crate) fn workshop(&self) -> io::Result<PathBuf> {
        let workshop = self.path.join(WORKSHOP);
        remove_directory(&workshop)?;
        Ok(workshop)
    }

    /// Replaces the database by the one in the workshop. The write of the format file is the commit point: before it,
    /// the old database is the store; after it, the next claim of the directory completes the replacement.
    pub(crate) fn replace_database(&self) -> io::Result<()> {
        let next = self.path.join(DATABASE_NEXT);
        remove_directory(&next)?;
        fs::rename(self.path.join(WORKSHOP).join(DATABASE), &next)?;
        sync_directory(&self.path)?;
        write_format(&self.path)?;
        self.finish_replacing()
    }

    fn finish_replacing(&self) -> io::Result<()> {
        let next = self.path.join(DATABASE_NEXT);
        if !next.try_exists()? {
            return Ok(());
        }
        remove_directory(&self.database())?;
        fs::rename(next, self.database())?;
        // The new name must be durable before the rest of the old database is removed.
        sync_directory(&self.path)?;
        remove_directory(&self.path.join(WORKSHOP))?;
        sync_directory(&self.path)
    }

    /// The directory of the engine's files.
    pub(crate) fn database(&self) -> PathBuf {
        Self::database_of(&self.path)
    }

    /// The directory of the engine's files for the store in `path`.
    pub(crate) fn database_of(path: &Path) -> PathBuf {
        path.join(DATABASE)
    }

    /// Checks that the disk accepts and syncs as many bytes as a flushed table.
    pub(crate) fn probe(&self) -> io::Result<()> {
        let path = self.path.join(PROBE_FILE);
        let written = (|| {
            let mut file = File::create(&path)?;
            let chunk = vec![1; CHUNK_BYTES];
            for _ in 0..PROBE_BYTES / CHUNK_BYTES {
                file.write_all(&chunk)?;
            }
            file.sync_all()
        })();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => written.and(Err(error)),
            _ => written,
        }
    }

    /// Writes the newest journal of a closed database over itself and syncs it.
    ///
    /// After a failed fsync the kernel may hold pages that it considers clean although the disk does not have them. The
    /// engine would replay these pages and append after them, and a power cut would then cut off the appended commits.
    /// Writing the same bytes makes the pages dirty again. It needs no space, and a crash in the middle changes
    /// nothing. Older journals were synced completely before they were sealed.
    pub(crate) fn renew_journal(&self) -> io::Result<()> {
        let journals = journal::journals(&self.database()).map_err(io::Error::other)?;
        let Some((_, journal)) = journals.last() else { return Ok(()) };
        let mut file = OpenOptions::new().read(true).write(true).open(journal)?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut at = 0;
        loop {
            chunk.clear();
            file.seek(SeekFrom::Start(at))?;
            if Read::by_ref(&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)? == 0 {
                break;
            }
            // The unused end of a journal is a hole; keep it sparse.
            if chunk.iter().any(|byte| *byte != 0) {
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&chunk)?;
            }
            at += chunk.len() as u64;
        }
        file.sync_all()
    }
}

#[derive(PartialEq)]
enum DirectoryContent {
    Nothing,
    Store,
}

fn check_format(path: &Path) -> Result<DirectoryContent, StoreOpenError> {
    let unusable = |source| StoreOpenError::Unusable { path: path.to_owned(), source };
    match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => {
            let found = text.trim_end().strip_prefix(FORMAT_PREFIX).unwrap_or("unknown").to_owned();
            match found.parse() {
                Ok(FORMAT_VERSION) => Ok(DirectoryContent::Store),
                Ok(found @ OLDEST_FORMAT..FORMAT_VERSION) => {
                    Err(StoreOpenError::Older { path: path.to_owned(), found })
                }
                _ => Err(StoreOpenError::Format { path: path.to_owned(), found }),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            for entry in fs::read_dir(path).map_err(unusable)? {
                let name = entry.map_err(unusable)?.file_name();
                // An interrupted first start leaves a Tidings database without a format file.
                let is_ours = OF_FIRST_START.iter().any(|ours| name == *ours)
                    || (name == DATABASE && StoreFile::read(&path.join(DATABASE)).map_err(unusable)?.is_some());
                if !is_ours {
                    return Err(StoreOpenError::NotOurs(path.to_owned()));
                }
            }
            Ok(DirectoryContent::Nothing)
        }
        Err(error) => Err(unusable(error)),
    }
}

fn lock(path: &Path) -> Result<File, StoreOpenError> {
    let unusable = |source| StoreOpenError::Unusable { path: path.to_owned(), source };
    let options = OpenOptions::new().create(true).truncate(false).write(true).to_owned();
    let file = options.open(path.join(LOCK_FILE)).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreOpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

/// Whether a database is missing, or an earlier version, which created it in place, was interrupted. The engine would
/// take such a database for neither old nor new. It contains no data, because it has no keyspace yet.
fn is_unfinished(database: &Path) -> io::Result<bool> {
    if !database.try_exists()? {
        return Ok(true);
    }
    let has_keyspaces = match fs::read_dir(database.join("keyspaces")) {
        Ok(mut keyspaces) => keyspaces.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    // The engine syncs the version before it creates the first keyspace.
    let is_versioned = match fs::read(database.join("version")) {
        Ok(version) => version.iter().any(|byte| *byte != 0),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    Ok(!has_keyspaces && !is_versioned)
}

/// Removes journals without a batch from a closed database.
///
/// The engine preallocates a journal that it creates, and only appends to one that it finds. A sync of an appended journal
/// also writes the length of the file, which costs a sixth of the commits per second of a single sender.
fn remove_empty_journals(database: &Path) -> io::Result<()> {
    for (_, path) in journal::journals(database).map_err(io::Error::other)? {
        let scan = journal::scan(&path, None, &mut ())?;
        if scan.end == 0 && scan.rest.is_empty() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Whether a directory with a format file contains only files of a first start. Keys are written later, so a directory
/// with keys has lost its database.
fn is_alone(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != DATABASE && name != FORMAT_FILE && OF_FIRST_START.iter().all(|ours| name != *ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the format file atomically.
fn write_format(path: &Path) -> io::Result<()> {
    replace_file(&path.join(FORMAT_FILE), format!("{FORMAT_PREFIX}{FORMAT_VERSION}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::tables::Tables;

    fn refusal(path: &Path) -> String {
        Directory::claim(path, None).err().expect("the directory is refused").to_string()
    }

    #[test]
    fn a_new_directory_is_made_and_opens_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("b");
        drop(Directory::claim(&path, None).unwrap());
        assert_eq!(fs::read_to_string(path.join("FORMAT")).unwrap(), "tidings embedded store, format 2\n");
        drop(Directory::claim(&path, None).unwrap());
    }

    #[test]
    fn the_first_journal_of_a_new_store_is_preallocated() {
        let dir = tempfile::tempdir().unwrap();
        let database = Directory::claim(dir.path(), None).unwrap().database();
        assert_eq!(journal::journals(&database).unwrap(), []);
        drop(Tables::open(&database, &Config::default()).unwrap());
        let journals = journal::journals(&database).unwrap();
        let lengths: Vec<_> = journals.iter().map(|(_, path)| fs::metadata(path).unwrap().len()).collect();
        assert_eq!(lengths, [64 << 20]);
    }

    #[test]
    fn a_second_opener_gets_the_name_of_the_directory_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let held = Directory::claim(dir.path(), None).unwrap();
        let expected = format!(
            "the store in `{}` is in use by another process; stop that one or name another directory",
            dir.path().display()
        );
        assert_eq!(refusal(dir.path()), expected);
        drop(held);
        drop(Directory::claim(dir.path(), None).unwrap());
    }

    #[test]
    fn other_formats_are_refused_by_number_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::claim(dir.path(), None).unwrap());
        let path = dir.path().display();
        for (text, found) in [("tidings embedded store, format 3\n", "3"), ("gibberish", "unknown")] {
            fs::write(dir.path().join("FORMAT"), text).unwrap();
            let expected = format!(
                "the store in `{path}` has format {found}, this version of tidings writes format 2; start the version \
                 that wrote it, or a later one"
            );
            assert_eq!(refusal(dir.path()), expected);
        }
        fs::write(dir.path().join("FORMAT"), "tidings embedded store, format 1\n").unwrap();
        let expected = format!(
            "the store in `{path}` has format 1, this version of tidings writes format 2; bring it there with \
             `tidings store migrate --data-dir {path}`, which takes a backup first"
        );
        assert_eq!(refusal(dir.path()), expected);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "words").unwrap();
        let expected =
            format!("`{}` holds other files and no tidings store; name an empty directory", dir.path().display());
        assert_eq!(refusal(dir.path()), expected);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_not_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let expected =
            format!("`{}` is not a directory; name a directory that is empty or was made by tidings", path.display());
        assert_eq!(refusal(&path), expected);
        assert_eq!(refusal(&path.join("below")), expected.replace("file`", "file/below`"));
    }

    #[test]
    fn a_renewed_journal_has_the_same_bytes_and_the_same_length() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::claim(dir.path(), None).unwrap();
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES / 2).map(|n| n as u8).collect();
        for (name, content) in [("9.jnl", "old".as_bytes()), ("10.jnl", &bytes[..])] {
            fs::write(directory.database().join(name), content).unwrap();
        }
        let newest = directory.database().join("10.jnl");
        File::options().write(true).open(&newest).unwrap().set_len(4 * CHUNK_BYTES as u64).unwrap();
        directory.renew_journal().unwrap();
        let renewed = fs::read(newest).unwrap();
        assert_eq!(renewed.len(), 4 * CHUNK_BYTES);
        assert_eq!(renewed[..bytes.len()], bytes);
        assert!(renewed[bytes.len()..].iter().all(|byte| *byte == 0));
    }

    /// Name of an interrupted first start, and the change that turns a finished start into it.
    type Interruption = (&'static str, fn(&Path));

    /// Copies of a new store, as each step of its first start may leave it.
    fn interrupted_first_starts() -> Vec<(&'static str, tempfile::TempDir)> {
        let states: [Interruption; 6] = [
            ("only locked", |path| {
                fs::remove_dir_all(path.join("db")).unwrap();
                fs::remove_file(path.join("FORMAT")).unwrap();
            }),
            ("half of the database aside", |path| {
                fs::rename(path.join("db"), path.join("db.new")).unwrap();
                fs::remove_dir_all(path.join("db.new").join("keyspaces").join("3")).unwrap();
                fs::write(path.join("db.new").join("version"), "").unwrap();
                fs::remove_file(path.join("FORMAT")).unwrap();
            }),
            ("all of the database aside", |path| {
                fs::rename(path.join("db"), path.join("db.new")).unwrap();
                fs::remove_file(path.join("FORMAT")).unwrap();
            }),
            ("no format yet", |path| fs::remove_file(path.join("FORMAT")).unwrap()),
            ("half of the format", |path| {
                fs::rename(path.join("FORMAT"), path.join("FORMAT.new")).unwrap();
                fs::write(path.join("FORMAT.new"), "tid").unwrap();
            }),
            // Earlier versions wrote the format first and created the database in place.
            ("an empty version", |path| {
                fs::remove_dir_all(path.join("db")).unwrap();
                fs::create_dir_all(path.join("db").join("keyspaces")).unwrap();
                fs::write(path.join("db").join("0.jnl"), [0; 100]).unwrap();
                fs::write(path.join("db").join("version"), "").unwrap();
            }),
        ];
        let interrupt = |(name, leave): Interruption| {
            let dir = tempfile::tempdir().unwrap();
            drop(Directory::claim(dir.path(), None).unwrap());
            leave(dir.path());
            (name, dir)
        };
        states.into_iter().map(interrupt).collect()
    }

    #[test]
    fn however_a_first_start_is_interrupted_the_next_one_finishes_it() {
        for (state, dir) in interrupted_first_starts() {
            let directory = Directory::claim(dir.path(), None).unwrap_or_else(|error| panic!("{state}: {error}"));
            let tables = Tables::open(&directory.database(), &Config::default());
            drop(tables.unwrap_or_else(|error| panic!("{state}: {error}")));
            assert!(!dir.path().join("db.new").exists(), "{state}");
            assert!(dir.path().join("FORMAT").exists(), "{state}");
        }
    }

    #[test]
    fn a_volume_with_lost_and_found_is_as_good_as_empty() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lost+found")).unwrap();
        drop(Directory::claim(dir.path(), None).unwrap());
        drop(Directory::claim(dir.path(), None).unwrap());
    }

    #[test]
    fn a_foreign_database_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("db")).unwrap();
        fs::write(dir.path().join("db").join("thesis.txt"), "words").unwrap();
        assert!(refusal(dir.path()).contains("holds other files and no tidings store"));
        assert_eq!(fs::read_to_string(dir.path().join("db").join("thesis.txt")).unwrap(), "words");
    }

    #[test]
    fn a_store_that_has_lost_its_database_is_not_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::claim(dir.path(), None).unwrap());
        fs::write(dir.path().join("keys.json"), "{}").unwrap();
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        let expected = format!(
            "`{}` is missing, and the directory was in use; put it back, or restore a backup into an empty directory",
            dir.path().join("db").display()
        );
        assert_eq!(refusal(dir.path()), expected);
    }

    #[test]
    fn a_keyspace_that_has_lost_its_index_is_refused_before_the_engine_deletes_it() {
        for keyspace in ["0", "10"] {
            let dir = tempfile::tempdir().unwrap();
            let database = Directory::claim(dir.path(), None).unwrap().database();
            let lost = database.join("keyspaces").join(keyspace);
            fs::write(lost.join("tables").join("0"), "rows").unwrap();
            fs::remove_file(lost.join("current")).unwrap();
            let error = Tables::open(&database, &Config::default()).err().expect("it is damaged");
            let cause = std::error::Error::source(&error).expect("it names the keyspace").to_string();
            assert!(cause.contains(&format!("`{}` has lost its file `current`", lost.display())), "{cause}");
            assert!(lost.join("tables").join("0").exists() && database.join("keyspaces").join("12").exists());
        }
    }

    #[test]
    fn a_table_that_is_missing_is_refused_and_not_replaced_by_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let database = Directory::claim(dir.path(), None).unwrap().database();
        fs::remove_dir_all(database.join("keyspaces").join("10")).unwrap();
        let error = Tables::open(&database, &Config::default()).err().expect("it is damaged").to_string();
        assert!(error.starts_with("table `messages` is missing from `"), "{error}");
    }

    #[test]
    fn a_probe_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::claim(dir.path(), None).unwrap();
        directory.probe().unwrap();
        assert!(!dir.path().join("PROBE").exists());
    }
}
