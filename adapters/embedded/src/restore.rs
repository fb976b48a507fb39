//! Creates a store from a backup.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fjall::Slice;
use ports::BoxError;

use crate::backup::{BackupContents, BackupPart, BackupReadError, BackupReader, BackupRows};
use crate::directory::{Directory, FORMAT_VERSION, StoreOpenError};
use crate::durable::sync_directory;
use crate::migrate::{self, OLDEST_FORMAT};
use crate::tables::{Table, Tables};
use crate::{Config, KeyId, StoreKey};

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
    /// It is encrypted, and no key is given.
    #[error("it is encrypted with key {0}; name the key with `store.key_file` or `--backup-key-file`")]
    KeyMissing(KeyId),
    /// It is encrypted with another key.
    #[error(
        "it is encrypted with key {backup}, and the given key is {given}; name the right one with `--backup-key-file`"
    )]
    OtherKey {
        /// The key of the backup.
        backup: KeyId,
        /// The given key.
        given: KeyId,
    },
    /// An encrypted part does not decrypt.
    #[error("{part} does not decrypt; look for an undamaged copy or an earlier backup")]
    Encrypted {
        /// The part.
        part: String,
        /// The failure.
        #[source]
        source: BoxError,
    },
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

/// The keys of a restore. If they differ, the restore encrypts a store, decrypts it, or changes its key.
#[derive(Clone, Debug, Default)]
pub struct RestoreKeys {
    /// The key of the backup, if it is encrypted.
    pub backup: Option<StoreKey>,
    /// The key of the new store; `None` for an unencrypted one.
    pub store: Option<StoreKey>,
}

/// Rows written in one batch, where they are not in the order of the new store.
const BATCH_ROWS: usize = 1000;

/// Restores a backup into an empty or missing directory, and converts rows of an older format to the current one.
/// Blocks on the disk.
///
/// `files` are the allowed names of additional files. After an error the directory does not contain a usable store.
/// `progress` is called with the number of bytes read from the backup.
pub fn restore(
    from: impl Read,
    directory: &Path,
    files: &[&str],
    keys: &RestoreKeys,
    mut progress: impl FnMut(u64),
) -> Result<BackupContents, RestoreError> {
    let mut reader = BackupReader::open(from)?;
    let format = reader.header().store_format;
    if !(OLDEST_FORMAT..=FORMAT_VERSION).contains(&format) {
        return Err(RestoreError::Format { found: format });
    }
    let from_key = match (reader.header().key, &keys.backup) {
        (None, _) => None,
        (Some(backup), Some(key)) if key.id() == backup => Some(key),
        (Some(backup), Some(key)) => return Err(RestoreError::OtherKey { backup, given: key.id() }),
        (Some(backup), None) => return Err(RestoreError::KeyMissing(backup)),
    };
    let failed = |source: BoxError| RestoreError::Write { path: directory.to_owned(), source };
    let claimed = Directory::claim(directory, keys.store.as_ref())?;
    let config = Config { key: keys.store.clone(), ..Config::default() };
    let tables = Tables::open(&claimed.database(), &config).map_err(|error| failed(error.into()))?;
    let conversion = Conversion { format, from_key, tables: &tables };
    let mut next = reader.next()?;
    while let Some(part) = next.take() {
        match part {
            BackupPart::File { name, bytes } => {
                if !files.contains(&name.as_str()) {
                    return Err(RestoreError::File(name));
                }
                let bytes = match from_key {
                    Some(key) => key
                        .decrypt_file(&name, &bytes.0)
                        .map_err(|source| RestoreError::Encrypted { part: format!("the file `{name}`"), source })?,
                    None => bytes.0,
                };
                write_file(&directory.join(name), &bytes).map_err(|error| failed(error.into()))?;
                next = reader.next()?;
            }
            BackupPart::Rows { table: name, rows } => {
                let table = Table::ALL.into_iter().find(|table| table.name() == name);
                let table = table.ok_or(RestoreError::Table(name))?;
                let mut rows = RestoredRows { reader: &mut reader, table, rows, next: &mut next };
                // Fused: past its end it would read the next part.
                let mut rows = std::iter::from_fn(|| rows.next(&mut progress)).fuse();
                if table == Table::UserKeys && conversion.changes_key() {
                    // Their stored keys, and so their order, depend on the key.
                    let plain = rows.map(|row| conversion.plain(table, row?));
                    write_rows(&tables, table, plain, failed)?;
                } else {
                    let filled = tables.fill(table, rows.by_ref().map(|row| conversion.stored(table, row?)));
                    filled.map_err(|error| error.unwrap_or_else(|engine| failed(engine.into())))?;
                }
            }
        }
    }
    Ok(reader.into_contents())
}

/// Converts rows of a backup to rows of the new store.
struct Conversion<'a> {
    /// The format of the rows of the backup.
    format: u32,
    /// The key of the backup.
    from_key: Option<&'a StoreKey>,
    /// The new store.
    tables: &'a Tables,
}

impl Conversion<'_> {
    fn changes_key(&self) -> bool {
        self.from_key.map(StoreKey::id) != self.tables.key().map(StoreKey::id)
    }

    /// A decrypted row of the current format.
    fn plain(&self, table: Table, (key, row): (Slice, Slice)) -> Result<(Slice, Slice), RestoreError> {
        let (key, row) = match self.from_key {
            Some(from_key) => from_key
                .decrypt(table, key, &row)
                .map_err(|source| RestoreError::Encrypted { part: format!("a row of `{}`", table.name()), source })?,
            None => (key, row),
        };
        let row = migrate::upgrade(self.format, table, &row);
        let row = row.map_err(|source| RestoreError::Row { table: table.name(), source })?;
        Ok((key, row.into()))
    }

    /// A row as the new store stores it.
    fn stored(&self, table: Table, (key, row): (Slice, Slice)) -> Result<(Slice, Slice), RestoreError> {
        if self.format == FORMAT_VERSION && !self.changes_key() {
            return Ok((key, row));
        }
        let (key, row) = self.plain(table, (key, row))?;
        Ok(self.tables.stored(table, key, row))
    }
}

/// Writes plain rows in any order.
fn write_rows(
    tables: &Tables,
    table: Table,
    mut rows: impl Iterator<Item = Result<(Slice, Slice), RestoreError>>,
    failed: impl Fn(BoxError) -> RestoreError,
) -> Result<(), RestoreError> {
    loop {
        let mut batch = tables.batch(BATCH_ROWS);
        let mut count = 0;
        for row in rows.by_ref().take(BATCH_ROWS) {
            let (key, row) = row?;
            batch.write(table, key, Some(row));
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        batch.commit().map_err(|error| failed(error.into()))?;
    }
}

/// The rows of one table as the backup has them, over all its parts.
struct RestoredRows<'a, R> {
    reader: &'a mut BackupReader<R>,
    table: Table,
    rows: BackupRows,
    /// The first part of another kind or table.
    next: &'a mut Option<BackupPart>,
}

impl<R: Read> RestoredRows<'_, R> {
    fn next(&mut self, progress: &mut impl FnMut(u64)) -> Option<Result<(Slice, Slice), RestoreError>> {
        loop {
            if let Some((key, row)) = self.rows.take() {
                return Some(Ok((key.into(), row.into())));
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
