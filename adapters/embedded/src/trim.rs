//! Purges in small steps: old events with their send keys, and expired rows. When enough messages are purged, it
//! compacts the table to free their space.
//!
//! A separate thread searches for due rows, so that no commit waits for the search. Each step then runs as a job of the
//! committer. The job checks every row again before deleting it, against the time of its commit, which may be earlier
//! than the time of the search.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::limits::RETENTION;
use fjall::Slice;
use metrics::histogram;
use ports::{Clock, StoreError, error_chain};
use tracing::{error, info, warn};

pub(crate) use self::purge::PURGED;
use self::purge::{ExpiryOutcome, Purged};
use self::walk::{OverdueRows, Walk};
use crate::committer::{CommitterCommand, CommitterHandle, job};
use crate::error::unreadable;
use crate::invitations;
use crate::keys;
use crate::log::LOG_START;
use crate::meter;
use crate::records::{LogRecord, LoggedMessage};
use crate::reports;
use crate::space::Space;
use crate::store::closed;
use crate::tables::{Table, Tables};
use crate::tx::Tx;

mod purge;
mod walk;

/// Interval between searches.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of log or expiry rows per step.
const STEP_LEN_MAX: usize = 500;
/// Maximum number of steps per period, so that the thread soon notices a stop request.
const STEPS_MAX: usize = 40;
/// Number of periods after which the search for expired rows restarts at the beginning. In between it continues where
/// it stopped; otherwise it would skip all rows deleted since the engine last merged its files. A slow commit or a
/// clock that stepped back may add rows before that point; the restarted search finds them.
const PERIODS_UNTIL_OVER: u32 = 60;

/// Number of periods between updates of the metrics.
const PERIODS_UNTIL_TOLD: u32 = 5;

/// Inverse of the share of the message table that must be purged before a compaction: it rewrites the other three
/// quarters.
const PURGED_PART: u64 = 4;

/// Minimum time between two compactions, successful or not.
const COMPACT_PAUSE: Duration = Duration::from_secs(600);

/// The thread that trims, and that sends ticks to the committer. Dropping this stops it.
pub(crate) struct Trimmer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Trimmer {
    pub(crate) fn start(
        link: CommitterHandle,
        clock: Arc<dyn Clock>,
        space: Arc<Space>,
        purged_bytes_max: u64,
        forgets: bool,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        if let Some(tables) = &*link.tables.borrow() {
            space.measure(tables);
        }
        let thread = thread::Builder::new().name("trimmer".to_owned()).spawn(move || {
            let mut search = Search::new(link, clock, purged_bytes_max);
            let mut periods = 0;
            meter::record(&search.link, search.clock.now());
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                periods = (periods + 1) % PERIODS_UNTIL_OVER;
                if let Some(tables) = search.link.tables.borrow().clone() {
                    space.measure(&tables);
                }
                if periods == 0 {
                    search.expiries_from.clear();
                }
                if periods % PERIODS_UNTIL_TOLD == 0 {
                    meter::record(&search.link, search.clock.now());
                }
                if search.tick() && forgets {
                    search.period();
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread after its current step.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("the trimmer thread panicked");
        }
    }
}

struct Search {
    link: CommitterHandle,
    clock: Arc<dyn Clock>,
    /// All events below this offset have been trimmed.
    log_from: u64,
    /// Start of the next search for expired rows.
    expiries_from: Vec<u8>,
    walk: Walk,
    purged_bytes_max: u64,
    compacted_at: Option<Instant>,
}

/// Whether a step was full, so that another one may find more.
#[derive(PartialEq)]
enum TrimStep {
    Full,
    Last,
}

impl Search {
    fn new(link: CommitterHandle, clock: Arc<dyn Clock>, purged_bytes_max: u64) -> Self {
        let (log_from, expiries_from, walk) = (0, vec![], Walk::new());
        Self { link, clock, log_from, expiries_from, walk, purged_bytes_max, compacted_at: None }
    }

    /// Makes the committer save pending offsets; `false` if it has stopped.
    fn tick(&self) -> bool {
        self.link.commands.blocking_send(CommitterCommand::Tick).is_ok()
    }

    fn period(&mut self) {
        let steps = [
            Self::trim_log,
            Self::purge_expired,
            Self::purge_overdue,
            Self::forget_reports,
            Self::forget_invitations,
            Self::compact,
        ];
        for step in steps {
            for _ in 0..STEPS_MAX {
                match step(self) {
                    Ok(TrimStep::Full) => {}
                    Ok(TrimStep::Last) => break,
                    Err(error) => {
                        error!(error = %error_chain(&error), "cannot trim");
                        break;
                    }
                }
            }
        }
    }

    /// Trims the oldest events past their retention, and the send keys of their messages.
    fn trim_log(&mut self) -> Result<TrimStep, StoreError> {
        let before = self.clock.now().minus(RETENTION);
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let start = tables.get(Table::Meta, LOG_START)?.unwrap_or(0);
        let old = old_events(&tables, start.max(self.log_from), before)?;
        drop(tables);
        let Some((last, _)) = old.last() else { return Ok(TrimStep::Last) };
        let (start, step) = (last + 1, step(old.len()));
        self.write(move |tx| {
            for (offset, message) in old {
                tx.delete(Table::Log, &keys::offset(offset));
                if let Some(message) = message {
                    purge::forget_send(tx, message.location, message.sender_id, message.client_message_id)?;
                }
            }
            tx.put(Table::Meta, LOG_START, &start);
            Ok(())
        })?;
        self.log_from = start;
        Ok(step)
    }

    /// Deletes rows at their expiry time.
    fn purge_expired(&mut self) -> Result<TrimStep, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let range = self.expiries_from.clone()..keys::just_after(self.clock.now()).to_vec();
        if range.is_empty() {
            return Ok(TrimStep::Last);
        }
        let due = due_expiries(&tables, range)?;
        drop(tables);
        let Some(last) = due.last() else { return Ok(TrimStep::Last) };
        let (behind, step) = ([last, &[0][..]].concat(), step(due.len()));
        let (purged, early) = self.write(move |tx| {
            let mut purged = Purged::default();
            let mut early = None;
            for key in due {
                match purge::expiry(tx, &key, &mut purged)? {
                    ExpiryOutcome::Settled => tx.delete(Table::Expiries, &key),
                    ExpiryOutcome::Early => drop(early.get_or_insert(key)),
                    ExpiryOutcome::Unreadable => {}
                }
            }
            purged.log(tx)?;
            Ok((purged, early))
        })?;
        purged.count();
        // Rows are ordered by time: everything after an early row is early too, and the next period finds it.
        let (from, step) = early.map_or((behind, step), |early| (early.to_vec(), TrimStep::Last));
        self.expiries_from = from;
        Ok(step)
    }

    /// Deletes rows that expired a while ago and still exist, a part of all rows at a time.
    fn purge_overdue(&mut self) -> Result<TrimStep, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let Some(found) = self.walk.step(&tables, self.clock.now())? else { return Ok(TrimStep::Last) };
        drop(tables);
        let OverdueRows { overdue, next } = found;
        if !overdue.is_empty() {
            let rows = overdue.len();
            let purged = self.write(move |tx| {
                let mut purged = Purged::default();
                for (end, what) in overdue {
                    purge::row(tx, end, what, &mut purged)?;
                }
                purged.log(tx)?;
                Ok(purged)
            })?;
            purged.count();
            warn!(rows, "purged rows that had expired more than an hour ago");
        }
        self.walk.advance(next);
        Ok(TrimStep::Last)
    }

    /// Deletes reports that were resolved long ago.
    fn forget_reports(&mut self) -> Result<TrimStep, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let over = reports::over(&tables, self.clock.now(), STEP_LEN_MAX)?;
        drop(tables);
        if over.is_empty() {
            return Ok(TrimStep::Last);
        }
        let found = over.len();
        let purged = self.write(move |tx| reports::purge(tx, &over))?;
        Ok(if purged == found { step(found) } else { TrimStep::Last })
    }

    /// Deletes expired invitations, and declined ones that no longer prevent new ones.
    fn forget_invitations(&mut self) -> Result<TrimStep, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let over = invitations::over(&tables, self.clock.now(), STEP_LEN_MAX)?;
        drop(tables);
        if over.is_empty() {
            return Ok(TrimStep::Last);
        }
        let found = over.len();
        let purged = self.write(move |tx| invitations::purge(tx, &over))?;
        Ok(if purged == found { step(found) } else { TrimStep::Last })
    }

    /// Frees the space of purged messages, once they exceed the configured bytes and a quarter of the table.
    ///
    /// It runs on this thread, so commits continue. But until it is done nothing is purged, and closing the store
    /// waits.
    fn compact(&mut self) -> Result<TrimStep, StoreError> {
        if self.compacted_at.is_some_and(|at| at.elapsed() < COMPACT_PAUSE) {
            return Ok(TrimStep::Last);
        }
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        let purged: u64 = tables.get(Table::Meta, PURGED)?.unwrap_or(0);
        let before = tables.disk_space(Table::Messages);
        if purged <= self.purged_bytes_max || purged <= before / PURGED_PART {
            return Ok(TrimStep::Last);
        }
        let started = Instant::now();
        self.compacted_at = Some(started);
        // Compaction needs space that commits would then lack.
        let free = tables.free_space().map_err(StoreError::unavailable)?;
        if free < before {
            warn!(free, needed = before, "not enough free space to compact the messages table");
            return Ok(TrimStep::Last);
        }
        for table in [Table::Messages, Table::MessagePlaces] {
            tables.compact(table).map_err(StoreError::unavailable)?;
        }
        histogram!("tidings_store_compaction_seconds").record(started.elapsed());
        let after = tables.disk_space(Table::Messages);
        // A committer that reopens the database waits until all references are dropped before it accepts jobs again.
        drop(tables);
        self.write(move |tx| {
            let since: u64 = tx.get(Table::Meta, PURGED)?.unwrap_or(0);
            tx.put(Table::Meta, PURGED, &since.saturating_sub(purged));
            Ok(())
        })?;
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(TrimStep::Last) };
        tables.drop_old_files().map_err(StoreError::unavailable)?;
        info!(before, after, seconds = started.elapsed().as_secs_f64(), "compacted the messages table");
        Ok(TrimStep::Last)
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (command, outcome) = job(work);
        self.link.commands.blocking_send(command).map_err(closed)?;
        outcome.blocking_recv().map_err(closed)?
    }
}

fn step(len: usize) -> TrimStep {
    if len == STEP_LEN_MAX { TrimStep::Full } else { TrimStep::Last }
}

/// Events from an offset on that are older than `before`, up to the first newer one.
fn old_events(tables: &Tables, from: u64, before: Timestamp) -> Result<Vec<(u64, Option<LoggedMessage>)>, StoreError> {
    let mut old = vec![];
    for row in tables.view().range(Table::Log, keys::offset(from)..).take(STEP_LEN_MAX) {
        let (key, row) = row?;
        let offset = keys::parse_offset(&key).map_err(|error| unreadable(Table::Log, error))?;
        let message = match LogRecord::decode(&row) {
            Ok(record) if record.time() >= before => break,
            Ok(LogRecord::Message(entry) | LogRecord::Update(entry)) => Some(entry),
            Ok(LogRecord::Event(_)) => None,
            // An unreadable record has no age, and consumers have buried it. It is trimmed with the events before it.
            Err(_) => None,
        };
        old.push((offset, message));
    }
    Ok(old)
}

fn due_expiries(tables: &Tables, range: Range<Vec<u8>>) -> Result<Vec<Slice>, StoreError> {
    let view = tables.view();
    view.range(Table::Expiries, range).take(STEP_LEN_MAX).map(|row| Ok(row?.0)).collect()
}

/// Purges everything that is due.
#[cfg(test)]
pub(crate) async fn purge_all(link: CommitterHandle, clock: Arc<dyn Clock>) {
    let trimmed = tokio::task::spawn_blocking(move || {
        let mut search = Search::new(link, clock, u64::MAX);
        while search.trim_log().unwrap() == TrimStep::Full {}
        while search.purge_expired().unwrap() == TrimStep::Full {}
        while search.forget_reports().unwrap() == TrimStep::Full {}
        while search.forget_invitations().unwrap() == TrimStep::Full {}
    });
    trimmed.await.unwrap();
}

#[cfg(test)]
mod tests;
