use fjall::{Error, LsmError};
use ports::{BoxError, StoreError};

use crate::tables::Table;

/// Maps a failed read of the engine to a port error.
pub(crate) fn read_failed(table: Table, error: Error) -> StoreError {
    match error {
        Error::Io(_) | Error::Storage(LsmError::Io(_)) => StoreError::unavailable(error),
        // Every other read error is a block that fails its checksum or does not decode.
        _ => unreadable(table, error),
    }
}

/// A row or key that does not decode.
pub(crate) fn unreadable(table: Table, source: impl Into<BoxError>) -> StoreError {
    StoreError::Corrupt { table: table.name(), source: source.into() }
}
