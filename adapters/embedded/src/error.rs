use fjall::{Error, LsmError};
use ports::{BoxError, StoreError};

use crate::tables::Table;

/// What a failed read of the engine means to a caller.
pub(crate) fn read_failed(table: Table, error: Error) -> StoreError {
    match error {
        Error::Io(_) | Error::Storage(LsmError::Io(_)) => StoreError::unavailable(error),
        // Everything else a read can meet is a block that does not check out.
        _ => unreadable(table, error),
    }
}

/// A row or key that does not decode.
pub(crate) fn unreadable(table: Table, source: impl Into<BoxError>) -> StoreError {
    StoreError::Corrupt { table: table.name(), source: source.into() }
}
