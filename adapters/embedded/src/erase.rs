//! Erases deleted rows from the disk, within a configured time.
//!
//! Deleting a row only hides it: its bytes stay in the journal and in table files until the engine happens to rewrite
//! them. Every commit that deletes rows records the time of the first deletion for each table ([`pending`]). When the
//! oldest one is half as old as the configured time, a round rewrites the journal and these tables; the other half is
//! for retries. Between rounds the thread only reads these records.
//!
//! ```text
//! due ─► begun ─► journal padded until the engine starts a new one ─► all tables flushed, older journals removed
//!      ─► no reader is left from before ─► each table: compacted, replaced files removed, directory synced ─► done
//! ```
//!
//! A step has succeeded when the files from before are gone from the directory; a round that cannot show this fails and
//! is repeated. A round that a crash or a failure interrupts is repeated from its start, without the tables that are
//! done. The journal comes first: after a crash the engine writes rows of the journal to tables again.
//! `docs/adr/018-erasure-on-disk.md` has the costs and the limits.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use domain::Timestamp;
use metrics::{counter, gauge, histogram};
use ports::{BoxError, Clock, StoreError, error_chain};
use tracing::{error, info, warn};

use crate::committer::{CommitterHandle, job};
use crate::journal;
use crate::store::closed;
use crate::tables::{Table, Tables, Upkeep};
use crate::trim::PURGED;
use crate::tx::Tx;

mod pending;

pub(crate) use self::pending::schedule;
use self::pending::{Pending, pending};

/// Interval between checks for due erasures.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest pause after a failed round.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Bytes of one commit of padding. Sends of the same commit wait for it as for a large batch.
const PAD_BYTES: usize = 1 << 20;
/// Pause between two commits of padding.
const PAD_PAUSE: Duration = Duration::from_millis(20);
/// Maximum bytes of padding. The engine starts a new journal after at most 64 MB and one flush.
const PADDING_BYTES_MAX: usize = 160 << 20;
/// Bytes of padding where only the commit matters.
const PROBE_BYTES: usize = 16;
/// Attempts to make the engine remove the journal. An attempt can fail if the engine merges a touched table meanwhile.
const FLUSHES_MAX: usize = 3;
/// Longest wait for the engine to remove a journal after a flush.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for the engine's workers or for readers in one step of a round.
const PATIENCE: Duration = Duration::from_secs(60);
/// Poll interval of these waits.
const POLL: Duration = Duration::from_millis(100);
/// Poll interval while the engine is about to remove a journal.
const JOURNAL_POLL: Duration = Duration::from_millis(5);

/// The thread that erases.
pub(crate) struct Eraser {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Eraser {
    pub(crate) fn start(link: CommitterHandle, clock: Arc<dyn Clock>, within: Duration) -> io::Result<Self> {
        let (stop, stopped) = channel();
        // Before anything is written.
        let is_new = link.tables.borrow().as_ref().is_some_and(|tables| tables.rows() == 0);
        let rounds = ErasureRounds {
            link,
            clock,
            within,
            stopped,
            is_new,
            recorded: false,
            retry_at: None,
            readers_patience: PATIENCE,
        };
        let thread = thread::Builder::new().name("eraser".to_owned()).spawn(|| rounds.run())?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread after its current step.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("the eraser thread panicked");
        }
    }
}

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("the store is closing")]
    Stopped,
    #[error("{0}")]
    Held(&'static str),
    #[error("not enough free space to rewrite table `{table}`: {free} bytes are free, {needed} are needed")]
    NoSpace { table: &'static str, free: u64, needed: u64 },
    #[error("the store failed")]
    Failed(#[source] BoxError),
}

impl RoundError {
    fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }
}

impl From<StoreError> for RoundError {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

struct ErasureRounds {
    link: CommitterHandle,
    clock: Arc<dyn Clock>,
    within: Duration,
    stopped: Receiver<()>,
    /// Whether the store had no rows when it was opened.
    is_new: bool,
    /// Whether deletions are known to be recorded.
    recorded: bool,
    /// Time of the next round after a failed one.
    retry_at: Option<Instant>,
    /// Longest wait for readers in one step of a round.
    readers_patience: Duration,
}

impl ErasureRounds {
    fn run(mut self) {
        while self.pause(PERIOD).is_ok() {
            match self.check() {
                Ok(()) | Err(RoundError::Stopped) => {}
                Err(error) => {
                    counter!("tidings_store_erasures_total", "outcome" => "failed").increment(1);
                    warn!(error = %error_chain(&error), "could not erase deleted rows from the disk; retrying later");
                    self.retry_at = Some(Instant::now() + RETRY_PAUSE.min(self.within / 4));
                }
            }
        }
    }

    /// Runs a round if one is due.
    fn check(&mut self) -> Result<(), RoundError> {
        // While the database is being reopened there is nothing to do.
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(()) };
        if !self.recorded {
            let (recorded, is_new) = (pending::are_recorded(&tables)?, self.is_new);
            drop(tables);
            if !recorded {
                self.write(move |tx| pending::schedule_unrecorded(tx, is_new))?;
            }
            self.recorded = true;
            return Ok(());
        }
        let pending = pending(&tables)?;
        drop(tables);
        let Some(Pending { since, begun }) = pending else { return Ok(()) };
        let is_due = begun || self.clock.now().since(since) >= self.within / 2;
        if !is_due || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.retry_at = None;
        self.round()
    }

    fn round(&self) -> Result<(), RoundError> {
        let started = Instant::now();
        let tables = self.write(pending::begin)?;
        info!(tables = tables.len(), "erasing deleted rows from the disk");
        let left = self.leave_journal()?;
        self.remove_journals(left)?;
        journal::remove_torn(self.tables()?.path()).map_err(RoundError::failed)?;
        self.outlast_readers()?;
        let mut by_size = vec![];
        for table in tables {
            by_size.push((self.tables()?.disk_space(table), table));
        }
        // Small tables first: a large one needs free space and time.
        by_size.sort_by_key(|(bytes, _)| *bytes);
        for (bytes, table) in &by_size {
            self.rewrite(*table, *bytes)?;
        }
        let rewritten = self.tables()?;
        gauge!("tidings_store_erasure_lag_seconds").set(lag(&rewritten, self.clock.now())?);
        drop(rewritten);
        counter!("tidings_store_erasures_total", "outcome" => "done").increment(1);
        histogram!("tidings_store_erasure_seconds").record(started.elapsed());
        let bytes: u64 = by_size.iter().map(|(bytes, _)| bytes).sum();
        let seconds = started.elapsed().as_secs_f64();
        info!(tables = by_size.len(), bytes, seconds, "erased deleted rows from the disk");
        Ok(())
    }

    /// Makes the engine start a new journal. Returns the number of the last one before it.
    fn leave_journal(&self) -> Result<u64, RoundError> {
        let left = self.tables()?.active_journal().map_err(RoundError::failed)?;
        // The engine compresses large values; random bytes stay as long as they are.
        let mut padding = vec![0; PAD_BYTES];
        aws_lc_rs::rand::fill(&mut padding).map_err(|_| RoundError::Held("there are no random bytes"))?;
        let (mut padded, mut deadline) = (0, Instant::now() + PATIENCE);
        while self.tables()?.active_journal().map_err(RoundError::failed)? == left {
            if padded > PADDING_BYTES_MAX {
                return Err(RoundError::Held("the engine does not start a new journal"));
            }
            if !self.tables()?.accepts_padding() {
                if Instant::now() > deadline {
                    return Err(RoundError::Held("the engine's workers are busy"));
                }
                self.pause(POLL)?;
                continue;
            }
            let padding = padding.clone();
            self.write(move |tx| {
                tx.upkeep(Upkeep::Pad(padding));
                Ok(())
            })?;
            padded += PAD_BYTES;
            deadline = Instant::now() + PATIENCE;
            self.pause(PAD_PAUSE)?;
        }
        Ok(left)
    }

    /// Writes all tables to files, and waits until the engine has removed the journals up to `left`.
    fn remove_journals(&self, left: u64) -> Result<(), RoundError> {
        for _ in 0..FLUSHES_MAX {
            self.upkeep(Upkeep::Touch)?;
            self.tables()?.flush_all().map_err(RoundError::failed)?;
            let deadline = Instant::now() + JOURNAL_PATIENCE;
            while Instant::now() < deadline {
                let tables = self.tables()?;
                if !tables.has_journal_up_to(left).map_err(RoundError::failed)? {
                    return tables.sync_journals().map_err(RoundError::failed);
                }
                drop(tables);
                self.pause(JOURNAL_POLL)?;
            }
        }
        Err(RoundError::Held("the engine does not remove an older journal"))
    }

    /// Waits until no reader is left that may see a row deleted before the round.
    fn outlast_readers(&self) -> Result<(), RoundError> {
        self.upkeep(Upkeep::Pad(vec![0; PROBE_BYTES]))?;
        let deadline = Instant::now() + self.readers_patience;
        loop {
            self.upkeep(Upkeep::Unpad)?;
            if self.tables()?.compact_padding().map_err(RoundError::failed)? {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(RoundError::Held("a reader from before the round is still running, such as a backup"));
            }
            self.pause(POLL)?;
        }
    }

    /// Replaces all files of a table by files without the rows deleted before the round.
    fn rewrite(&self, table: Table, bytes: u64) -> Result<(), RoundError> {
        let tables = self.tables()?;
        let free = tables.free_space().map_err(RoundError::failed)?;
        if free < bytes {
            return Err(RoundError::NoSpace { table: table.name(), free, needed: bytes });
        }
        let purged: u64 = tables.get(Table::Meta, PURGED)?.unwrap_or(0);
        tables.compact(table).map_err(RoundError::failed)?;
        let mut replaced = tables.replaced_files(table).map_err(RoundError::failed)?;
        drop(tables);
        let deadline = Instant::now() + self.readers_patience;
        loop {
            self.upkeep(Upkeep::Pad(vec![0; PROBE_BYTES]))?;
            let tables = self.tables()?;
            tables.remove_replaced_files().map_err(RoundError::failed)?;
            let still_there = tables.replaced_files(table).map_err(RoundError::failed)?;
            replaced.retain(|path| still_there.contains(path));
            if replaced.is_empty() {
                tables.sync_table_files(table).map_err(RoundError::failed)?;
                break;
            }
            drop(tables);
            if Instant::now() > deadline {
                return Err(RoundError::Held("a reader still uses a replaced table file"));
            }
            self.pause(POLL)?;
        }
        self.write(move |tx| {
            if table == Table::Messages {
                // The space of these messages is freed.
                let since: u64 = tx.get(Table::Meta, PURGED)?.unwrap_or(0);
                tx.put(Table::Meta, PURGED, &since.saturating_sub(purged));
            }
            pending::end(tx, table);
            Ok(())
        })?;
        Ok(())
    }

    /// The open database. Callers drop it before they write: a committer that reopens the database waits until all
    /// references are dropped before it answers.
    fn tables(&self) -> Result<Arc<Tables>, RoundError> {
        self.link.tables.borrow().clone().ok_or(RoundError::Held("the database is being reopened"))
    }

    fn upkeep(&self, upkeep: Upkeep) -> Result<(), RoundError> {
        self.write(move |tx| {
            tx.upkeep(upkeep);
            Ok(())
        })
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RoundError> {
        let (command, outcome) = job(work);
        self.link.commands.blocking_send(command).map_err(closed)?;
        Ok(outcome.blocking_recv().map_err(closed)??)
    }

    fn pause(&self, pause: Duration) -> Result<(), RoundError> {
        match self.stopped.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(RoundError::Stopped),
        }
    }
}

/// Age of the oldest deletion whose bytes may be on the disk; zero if there is none.
pub(crate) fn lag(tables: &Tables, now: Timestamp) -> Result<Duration, StoreError> {
    Ok(pending(tables)?.map_or(Duration::ZERO, |pending| now.since(pending.since)))
}

#[cfg(test)]
mod tests;
