//! The pending erasures of a store, as rows of [`Table::Meta`].
//!
//! A table with deleted rows has a row with the time of the first deletion. A round begins by renaming these rows, so a
//! deletion during the round gets a row of its own, and ends by deleting them. After a crash the renamed rows are the
//! unfinished part of the round.

use domain::Timestamp;
use ports::StoreError;

use crate::tables::{Table, Tables};
use crate::tx::Tx;

/// Prefix of the rows of deletions that no round has taken up.
const DUE: &str = "erase_due:";
/// Prefix of the rows of a round.
const BEGUN: &str = "erase_begun:";
/// Exists once deletions are recorded.
const RECORDED: &[u8] = b"erase_recorded";

/// The erasures that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Time of the oldest deletion.
    pub(crate) since: Timestamp,
    /// Whether a round has begun and did not end.
    pub(crate) begun: bool,
}

fn key(prefix: &str, table: Table) -> Vec<u8> {
    [prefix.as_bytes(), table.name().as_bytes()].concat()
}

fn erased_tables() -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(|table| table.is_erased())
}

/// Records that rows of a table were deleted.
pub(crate) fn schedule(tx: &mut Tx<'_>, table: Table) -> Result<(), StoreError> {
    let key = key(DUE, table);
    if table.is_erased() && tx.get_bytes(Table::Meta, &key)?.is_none() {
        tx.put(Table::Meta, &key, &tx.now().as_millis());
    }
    Ok(())
}

/// Schedules all tables of a store whose deletions were not recorded: an earlier version wrote it.
pub(super) fn schedule_unrecorded(tx: &mut Tx<'_>, is_new: bool) -> Result<(), StoreError> {
    if tx.get_bytes(Table::Meta, RECORDED)?.is_some() {
        return Ok(());
    }
    if !is_new {
        for table in erased_tables() {
            schedule(tx, table)?;
        }
    }
    tx.put(Table::Meta, RECORDED, &1);
    Ok(())
}

/// Whether the deletions of the store are recorded.
pub(super) fn are_recorded(tables: &Tables) -> Result<bool, StoreError> {
    Ok(tables.get_bytes(Table::Meta, RECORDED)?.is_some())
}

/// The erasures that are left; `None` if nothing was deleted.
pub(crate) fn pending(tables: &Tables) -> Result<Option<Pending>, StoreError> {
    let mut pending: Option<Pending> = None;
    for (prefix, begun) in [(DUE, false), (BEGUN, true)] {
        for table in erased_tables() {
            let Some(since) = tables.get::<u64>(Table::Meta, &key(prefix, table))? else { continue };
            let since = Timestamp::from_millis(since);
            let before = pending.unwrap_or(Pending { since, begun });
            pending = Some(Pending { since: before.since.min(since), begun: before.begun || begun });
        }
    }
    Ok(pending)
}

/// Begins a round, or takes up an unfinished one. Returns its tables.
pub(super) fn begin(tx: &mut Tx<'_>) -> Result<Vec<Table>, StoreError> {
    let mut tables = vec![];
    for table in erased_tables() {
        let (due, begun) = (key(DUE, table), key(BEGUN, table));
        let times = [tx.get::<u64>(Table::Meta, &due)?, tx.get(Table::Meta, &begun)?];
        let Some(since) = times.into_iter().flatten().min() else { continue };
        tx.put(Table::Meta, &begun, &since);
        tx.delete(Table::Meta, &due);
        tables.push(table);
    }
    Ok(tables)
}

/// Ends the round for a table: the rows that were deleted before the round are in no file.
pub(super) fn end(tx: &mut Tx<'_>, table: Table) {
    tx.delete(Table::Meta, &key(BEGUN, table));
}
