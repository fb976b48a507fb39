//! Creates a store from a backup.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fjall::Slice;
use ports::BoxError;

use crate::Config;
use crate::backup::{BackupContents, BackupPart, BackupReadError, BackupReader, BackupRows};
use crate::directory::{Directory, FORMAT_VERSION, StoreOpenError};
use crate::durable::sync_directory;
use crate::migrate::{self, OLDEST_FORMAT};
use crate::tables::{Table, Tables};

/// Why a backup could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is damaged, or is not a backup.
    #[error(transparent)]
    Read(#[from] BackupReadError),
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// The format of its rows is not supported.
    #[error(
        "its rows have format {found}, this version of tidings reads formats {OLDEST_FORMAT} to {FORMAT_VERSION}; \
         restore it with the tidings that took it"
    )]
    Format {
        /// The format of the rows.
        found: u32,
    },
    /// A later version took it, with tables that this one does not have.
    #[error(
        "it has a table `{0}`, which this version of tidings does not know; restore it with the tidings that took it"
    )]
    Table(String),
    /// A later version took it, with files that this one does not have.
    #[error(
        "it has a file `{0}`, which this version of tidings does not know; restore it with the tidings that took it"
    )]
    File(String),
    /// A row of an older format cannot be converted.
    #[error("a row of `{table}` cannot be brought into format {FORMAT_VERSION}")]
    Row {
        /// The table.
        table: &'static str,
        /// The conversion error.
        #[source]
        source: BoxError,
    },
    /// Writing to the disk failed.
    #[error("cannot write into `{}`", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system or the engine.
        #[source]
        source: BoxError,
    },
}

/// Restores a backup into an empty or missing directory, and converts rows of an older format to the current one.
/// Blocks on the disk.
///
/// `files` are the allowed names of additional files. After an error the directory does not contain a usable store.
/// `progress` is called with the number of bytes read from the backup.
pub fn restore(
    from: impl Read,
    directory: &Path,
    files: &[&str],
    mut progress: impl FnMut(u64),
) -> Result<BackupContents, RestoreError> {
    let mut reader = BackupReader::open(from)?;
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
            BackupPart::File { name, bytes } => {
                if !files.contains(&name.as_str()) {
                    return Err(RestoreError::File(name));
                }
                write_file(&directory.join(name), &bytes.0).map_err(|error| failed(error.into()))?;
                next = reader.next()?;
            }
            BackupPart::Rows { table: name, rows } => {
                let table = Table::ALL.into_iter().find(|table| table.name() == name);
                let table = table.ok_or(RestoreError::Table(name))?;
                let mut rows = RestoredRows { reader: &mut reader, table, format, rows, next: &mut next };
                let filled = tables.fill(table, std::iter::from_fn(|| rows.next(&mut progress)));
                filled.map_err(|error| error.unwrap_or_else(|engine| failed(engine.into())))?;
            }
        }
    }
    Ok(reader.into_contents())
}

/// The rows of one table, over all its parts.
struct RestoredRows<'a, R> {
    reader: &'a mut BackupReader<R>,
    table: Table,
    format: u32,
    rows: BackupRows,
    /// The first part of another kind or table.
    next: &'a mut Option<BackupPart>,
}

impl<R: Read> RestoredRows<'_, R> {
    fn next(&mut self, progress: &mut impl FnMut(u64)) -> Option<Result<(Slice, Slice), RestoreError>> {
        loop {
            if let Some((key, row)) = self.rows.take() {
                let row = migrate::upgrade(self.format, self.table, row);
                let row = row.map_err(|source| RestoreError::Row { table: self.table.name(), source });
                return Some(row.map(|row| (key.into(), row.into())));
            }
            progress(self.reader.position());
            match self.reader.next() {
                Ok(Some(BackupPart::Rows { table, rows })) if table == self.table.name() => self.rows = rows,
                Ok(part) => {
                    *self.next = part;
                    return None;
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Writes a new file that only the owner can read, and makes it and its name durable.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}
