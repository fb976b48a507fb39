//! A store made of a backup.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fjall::Slice;
use ports::BoxError;

use crate::Config;
use crate::backup::{Contents, Part, ReadError, Reader, Rows};
use crate::directory::{Directory, FORMAT_VERSION, OpenError};
use crate::migrate::{self, OLDEST_FORMAT};
use crate::tables::{Table, Tables};

/// Why a backup did not become a store.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is damaged, or is none.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its rows are of another time.
    #[error(
        "its rows have format {found}, this version of tidings reads formats {OLDEST_FORMAT} to {FORMAT_VERSION}; \
         restore it with the tidings that took it"
    )]
    Format {
        /// The format of the rows.
        found: u32,
    },
    /// A later program took it, with tables that this one does not have.
    #[error(
        "it has a table `{0}`, which this version of tidings does not know; restore it with the tidings that took it"
    )]
    Table(String),
    /// A later program took it, with files that this one does not have.
    #[error(
        "it has a file `{0}`, which this version of tidings does not know; restore it with the tidings that took it"
    )]
    File(String),
    /// A row of an older format is none.
    #[error("a row of `{table}` cannot be brought into format {FORMAT_VERSION}")]
    Row {
        /// The table.
        table: &'static str,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The disk did not take it.
    #[error("cannot write into `{}`", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// What the system or the engine said.
        #[source]
        source: BoxError,
    },
}

/// Makes a store of a backup in a directory that is empty or not there, and brings rows of an older format into that of
/// today. Blocks on the disk.
///
/// `files` are the names of those that may go with a store. When this fails, whatever is in the directory is no store.
/// `progress` is told how many bytes of the backup were read.
pub fn restore(
    from: impl Read,
    directory: &Path,
    files: &[&str],
    mut progress: impl FnMut(u64),
) -> Result<Contents, RestoreError> {
    let mut reader = Reader::open(from)?;
    let format = reader.header().store_format;
    if !(OLDEST_FORMAT..=FORMAT_VERSION).contains(&format) {
        return Err(RestoreError::Format { found: format });
    }
    let failed = |source: BoxError| RestoreError::Write { path: directory.to_owned(), source };
    let claimed = Directory::claim(directory)?;
    let tables = Tables::open(&claimed.database(), &Config::default()).map_err(|error| failed(error.into()))?;
    let mut next = reader.next()?;
    while let Some(part) = next.take() {
        match part {
            Part::File { name, bytes } => {
                if !files.contains(&name.as_str()) {
                    return Err(RestoreError::File(name));
                }
                write_file(&directory.join(name), &bytes.0).map_err(|error| failed(error.into()))?;
                next = reader.next()?;
            }
            Part::Rows { table: name, rows } => {
                let table = Table::ALL.into_iter().find(|table| table.name() == name);
                let table = table.ok_or(RestoreError::Table(name))?;
                let mut rows = TableRows { reader: &mut reader, table, format, rows, next: &mut next };
                let filled = tables.fill(table, std::iter::from_fn(|| rows.next(&mut progress)));
                filled.map_err(|error| error.unwrap_or_else(|engine| failed(engine.into())))?;
            }
        }
    }
    Ok(reader.into_contents())
}

/// The rows of one table, over all parts that have some.
struct TableRows<'a, R> {
    reader: &'a mut Reader<R>,
    table: Table,
    format: u32,
    rows: Rows,
    /// The first part that has none.
    next: &'a mut Option<Part>,
}

impl<R: Read> TableRows<'_, R> {
    fn next(&mut self, progress: &mut impl FnMut(u64)) -> Option<Result<(Slice, Slice), RestoreError>> {
        loop {
            if let Some((key, row)) = self.rows.take() {
                let row = migrate::upgrade(self.format, self.table, row);
                let row = row.map_err(|source| RestoreError::Row { table: self.table.name(), source });
                return Some(row.map(|row| (key.into(), row.into())));
            }
            progress(self.reader.position());
            match self.reader.next() {
                Ok(Some(Part::Rows { table, rows })) if table == self.table.name() => self.rows = rows,
                Ok(part) => {
                    *self.next = part;
                    return None;
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// A file of its own, for the owner's eyes.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
