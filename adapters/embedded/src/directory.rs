use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ports::BoxError;

use crate::migrate::OLDEST_FORMAT;

/// The format that this version writes, and the only one it serves from.
pub(crate) const FORMAT_VERSION: u32 = 2;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_FILE_NEW: &str = "FORMAT.new";
const FORMAT_PREFIX: &str = "tidings embedded store, format ";
const LOCK_FILE: &str = "LOCK";
const PROBE_FILE: &str = "PROBE";
const DATABASE: &str = "db";
/// A database of today's format that is to take the place of an older one.
const DATABASE_NEXT: &str = "db.next";
/// Where it is made.
const WORKSHOP: &str = "migrating";

/// What must fit on the disk before the store takes writes again: about one flushed table.
const PROBE_BYTES: usize = 16 << 20;
const CHUNK_BYTES: usize = 1 << 20;

/// Why a directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Something else has the name.
    #[error("`{}` is not a directory; name a directory that is empty or was made by tidings", .0.display())]
    NotADirectory(PathBuf),
    /// It cannot be made, read or written.
    #[error("cannot use the directory `{}`", .path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It holds something, and not a store of ours.
    #[error("`{}` holds other files and no tidings store; name an empty directory", .0.display())]
    NotOurs(PathBuf),
    /// It was written by an earlier version, and there is a way from there.
    #[error(
        "the store in `{0}` has format {found}, this version of tidings writes format {FORMAT_VERSION}; bring it there \
         with `tidings migrate --data-dir {0}`, which takes a backup first", .path.display()
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// What its format file says.
        found: u32,
    },
    /// It was written in a format that this version does not know.
    #[error(
        "the store in `{}` has format {found}, this version of tidings writes format {FORMAT_VERSION}; start the \
         version that wrote it, or a later one", .path.display()
    )]
    Format {
        /// The directory.
        path: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// Another process has it open.
    #[error("the store in `{}` is in use by another process; stop that one or name another directory", .0.display())]
    InUse(PathBuf),
    /// The engine cannot open it.
    #[error("the store in `{}` cannot be opened", .path.display())]
    Engine {
        /// The directory.
        path: PathBuf,
        /// What the engine said.
        #[source]
        source: BoxError,
    },
}

/// A directory that holds a store of ours, locked against other processes for as long as this lives.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes a directory, making it a store's if it is new or empty.
    pub(crate) fn claim(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
        match make(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists || error.kind() == ErrorKind::NotADirectory => {
                return Err(OpenError::NotADirectory(path.to_owned()));
            }
            made => made.map_err(unusable)?,
        }
        // What is in the directory is looked at before anything is put there, and once more under the lock, because
        // another process may have begun a store in between.
        check_format(path)?;
        let lock = lock(path)?;
        if check_format(path)? == Found::Nothing {
            write_format(path).map_err(unusable)?;
        }
        let directory = Self { path: path.to_owned(), _lock: lock };
        directory.finish_replacing().map_err(unusable)?;
        make(&directory.database()).and_then(|()| clear_unfinished(&directory.database())).map_err(unusable)?;
        Ok(directory)
    }

    /// Takes a directory that holds a store of an older format, and says of which; `None` if it is of today's.
    pub(crate) fn claim_older(path: &Path) -> Result<Option<(Self, u32)>, OpenError> {
        if !path.join(FORMAT_FILE).exists() {
            return Err(OpenError::NotOurs(path.to_owned()));
        }
        let lock = lock(path)?;
        match check_format(path) {
            Err(OpenError::Older { found, .. }) => Ok(Some((Self { path: path.to_owned(), _lock: lock }, found))),
            found => found.map(|_| None),
        }
    }

    /// An empty place for a store that is to replace this one.
    pub(crate) fn workshop(&self) -> io::Result<PathBuf> {
        let workshop = self.path.join(WORKSHOP);
        remove(&workshop)?;
        Ok(workshop)
    }

    /// Has the database of the workshop take the place of this one. What counts is the moment in which the format file
    /// names the other format: before it, the old database is the store; after it, whoever claims the directory next
    /// finishes what is left to do.
    pub(crate) fn replace_database(&self) -> io::Result<()> {
        let next = self.path.join(DATABASE_NEXT);
        remove(&next)?;
        fs::rename(self.path.join(WORKSHOP).join(DATABASE), &next)?;
        File::open(&self.path)?.sync_all()?;
        write_format(&self.path)?;
        self.finish_replacing()
    }

    fn finish_replacing(&self) -> io::Result<()> {
        let next = self.path.join(DATABASE_NEXT);
        if !next.try_exists()? {
            return Ok(());
        }
        remove(&self.database())?;
        fs::rename(next, self.database())?;
        remove(&self.path.join(WORKSHOP))?;
        File::open(&self.path)?.sync_all()
    }

    /// Where the engine keeps its files.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Finds out whether the disk takes and syncs a table's worth of bytes.
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
    /// After a failed fsync the kernel may hold pages that it takes for clean and the disk does not have. The engine
    /// would replay them and append behind them, and a power cut would then cut off what came after. Writing the same
    /// bytes makes the pages dirty again; it needs no space, and a crash in the middle changes nothing. Older journals
    /// were synced whole before they were sealed.
    pub(crate) fn renew_journal(&self) -> io::Result<()> {
        let Some(journal) = newest_journal(&self.database())? else { return Ok(()) };
        let mut file = OpenOptions::new().read(true).write(true).open(journal)?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut at = 0;
        loop {
            chunk.clear();
            file.seek(SeekFrom::Start(at))?;
            if Read::by_ref(&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)? == 0 {
                break;
            }
            // The unused end of a journal is a hole, and stays one.
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
enum Found {
    Nothing,
    Store,
}

fn check_format(path: &Path) -> Result<Found, OpenError> {
    let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
    match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => {
            let found = text.trim_end().strip_prefix(FORMAT_PREFIX).unwrap_or("unknown").to_owned();
            match found.parse() {
                Ok(FORMAT_VERSION) => Ok(Found::Store),
                Ok(found @ OLDEST_FORMAT..FORMAT_VERSION) => Err(OpenError::Older { path: path.to_owned(), found }),
                _ => Err(OpenError::Format { path: path.to_owned(), found }),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            for entry in fs::read_dir(path).map_err(unusable)? {
                let name = entry.map_err(unusable)?.file_name();
                if name != LOCK_FILE && name != FORMAT_FILE_NEW {
                    return Err(OpenError::NotOurs(path.to_owned()));
                }
            }
            Ok(Found::Nothing)
        }
        Err(error) => Err(unusable(error)),
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
    let options = OpenOptions::new().create(true).truncate(false).write(true).to_owned();
    let file = options.open(path.join(LOCK_FILE)).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

/// Makes a directory that is not there, so that a power cut does not unmake it.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    match fs::canonicalize(path)?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a directory that may not be there.
fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a database whose making was interrupted. The engine would take it for neither old nor new; nothing was ever
/// written to it, because it has no keyspace yet.
fn clear_unfinished(database: &Path) -> io::Result<()> {
    let has_keyspaces = match fs::read_dir(database.join("keyspaces")) {
        Ok(mut keyspaces) => keyspaces.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if has_keyspaces || database.join("version").try_exists()? {
        return Ok(());
    }
    for entry in fs::read_dir(database)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// Names the format. The file appears whole or not at all.
fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(FORMAT_FILE_NEW);
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT_PREFIX}{FORMAT_VERSION}")?;
    file.sync_all()?;
    fs::rename(new, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()
}

/// The journal with the highest number, which is the one being written.
fn newest_journal(database: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(database)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(highest, _)| number > *highest)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::tables::Tables;

    fn refusal(path: &Path) -> String {
        Directory::claim(path).err().expect("the directory is refused").to_string()
    }

    #[test]
    fn a_new_directory_is_made_and_opens_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("b");
        drop(Directory::claim(&path).unwrap());
        assert_eq!(fs::read_to_string(path.join("FORMAT")).unwrap(), "tidings embedded store, format 2\n");
        drop(Directory::claim(&path).unwrap());
    }

    #[test]
    fn a_second_opener_is_told_which_directory_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let held = Directory::claim(dir.path()).unwrap();
        let expected = format!(
            "the store in `{}` is in use by another process; stop that one or name another directory",
            dir.path().display()
        );
        assert_eq!(refusal(dir.path()), expected);
        drop(held);
        drop(Directory::claim(dir.path()).unwrap());
    }

    #[test]
    fn other_formats_are_refused_by_number_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::claim(dir.path()).unwrap());
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
             `tidings migrate --data-dir {path}`, which takes a backup first"
        );
        assert_eq!(refusal(dir.path()), expected);
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_and_left_alone() {
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
        let directory = Directory::claim(dir.path()).unwrap();
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

    #[test]
    fn a_database_whose_making_was_interrupted_is_made_anew_and_any_other_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let database = Directory::claim(dir.path()).unwrap().database();
        fs::create_dir(database.join("keyspaces")).unwrap();
        fs::write(database.join("0.jnl"), "").unwrap();
        drop(Directory::claim(dir.path()).unwrap());
        assert_eq!(fs::read_dir(&database).unwrap().count(), 0);

        drop(Tables::open(&database, &Config::default()).unwrap());
        fs::remove_file(database.join("version")).unwrap();
        let files = fs::read_dir(&database).unwrap().count();
        drop(Directory::claim(dir.path()).unwrap());
        assert_eq!(fs::read_dir(&database).unwrap().count(), files);
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::claim(dir.path()).unwrap();
        directory.probe().unwrap();
        assert!(!dir.path().join("PROBE").exists());
    }
}
