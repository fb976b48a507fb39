//! Periodic metrics of the store that no commit and no read reports.

use std::time::Duration;

use domain::Timestamp;
use metrics::gauge;
use ports::{StoreError, error_chain};
use tracing::warn;

use crate::committer::CommitterHandle;
use crate::erase;
use crate::error::unreadable;
use crate::keys;
use crate::log::LOG_START;
use crate::records::LogRecord;
use crate::space;
use crate::tables::{Table, Tables};

/// Publishes the metrics, unless the database is being reopened.
pub(crate) fn record(link: &CommitterHandle, now: Timestamp) {
    gauge!("tidings_store_queue_jobs").set((link.commands.max_capacity() - link.commands.capacity()) as f64);
    let Some(tables) = link.tables.borrow().clone() else { return };
    gauge!("tidings_store_rows").set(tables.rows() as f64);
    gauge!("tidings_store_disk_bytes").set(space::used(&tables) as f64);
    // A table that cannot be read is reported by those who need its rows.
    if let Ok(lag) = erase::lag(&tables, now) {
        gauge!("tidings_store_erasure_lag_seconds").set(lag);
    }
    match tables.free_space() {
        Ok(bytes) => gauge!("tidings_store_free_bytes").set(bytes as f64),
        Err(error) => warn!(error = %error_chain(&error), "could not read the free disk space"),
    }
    // Log consumers report unreadable log records.
    if let Ok((start, age)) = oldest(&tables, now) {
        gauge!("tidings_store_log_events").set(link.log_end.borrow().saturating_sub(start) as f64);
        gauge!("tidings_store_log_age_seconds").set(age);
    }
}

/// The offset of the oldest event, and its age.
fn oldest(tables: &Tables, now: Timestamp) -> Result<(u64, Duration), StoreError> {
    let start: u64 = tables.get(Table::Meta, LOG_START)?.unwrap_or(0);
    let Some(row) = tables.view().range(Table::Log, keys::offset(start)..).next() else {
        return Ok((start, Duration::ZERO));
    };
    let record = LogRecord::decode(&row?.1).map_err(|error| unreadable(Table::Log, error))?;
    Ok((start, now.since(record.time())))
}
