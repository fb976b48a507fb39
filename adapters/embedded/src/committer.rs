use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use domain::Backoff;
use metrics::{counter, histogram};
use ports::{BoxError, Clock, HealthCell, Ids, StoreError, error_chain};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

use crate::Config;
use crate::backup::BackupSource;
use crate::directory::Directory;
use crate::log::{GroupOffsets, LogTail, end_of_log};
use crate::notices::DueFrom;
use crate::tables::{Table, Tables};
use crate::tx::{Heads, LogChanges, Tx};

/// Number of chats for which the committer caches the head sequence.
const HEADS_LEN_MAX: usize = 100_000;
/// Maximum time that committed offsets wait for a commit to be saved with.
const OFFSETS_SAVE_DELAY: Duration = Duration::from_secs(1);
/// Delays between attempts to reopen the database.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
/// Poll interval while the committer waits for a worker, a reader or a command.
const POLL: Duration = Duration::from_millis(2);

/// Commands to the committer.
pub(crate) enum CommitterCommand {
    Run(Box<dyn CommitJob>),
    /// Do the work that no job triggers: save offsets and check the health of the engine.
    Tick,
    /// Take a snapshot of all tables, for a backup.
    Freeze(oneshot::Sender<BackupSource>),
    /// Commit the earlier commands, then stop.
    Close,
}

/// One transaction and its waiting caller.
pub(crate) trait CommitJob: Send {
    /// Runs the transaction. The returned closure answers the caller once the commit is done.
    fn run(self: Box<Self>, tx: &mut Tx<'_>) -> CommitReply;

    /// Answers that the transaction did not run.
    fn refuse(self: Box<Self>, reason: &str);
}

/// Answers a transaction that ran, after its commit has succeeded or failed with a reason.
type CommitReply = Box<dyn FnOnce(Result<(), &str>)>;

/// A transaction, and the receiver of its outcome.
pub(crate) fn job<T, F>(work: F) -> (CommitterCommand, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
{
    let (waiter, outcome) = oneshot::channel();
    (CommitterCommand::Run(Box::new(Transaction { work, waiter })), outcome)
}

struct Transaction<T, F> {
    work: F,
    waiter: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> CommitJob for Transaction<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
{
    fn run(self: Box<Self>, tx: &mut Tx<'_>) -> CommitReply {
        let Self { work, waiter } = *self;
        let result = work(tx).and_then(|outcome| {
            tx.check()?;
            tx.schedule_erasure()?;
            Ok(outcome)
        });
        match result {
            Ok(_) => tx.keep(),
            Err(_) => tx.discard(),
        }
        // If the caller stopped waiting, it learns the outcome by retrying; the same holds below.
        Box::new(|committed| drop(waiter.send(committed.map_err(StoreError::unavailable).and(result))))
    }

    fn refuse(self: Box<Self>, reason: &str) {
        drop(self.waiter.send(Err(StoreError::unavailable(reason))));
    }
}

/// Handles to the committer for the rest of the store.
#[derive(Clone)]
pub(crate) struct CommitterHandle {
    pub(crate) commands: mpsc::Sender<CommitterCommand>,
    /// The open database; `None` while it is being reopened. The sender is dropped when the store closes.
    pub(crate) tables: watch::Receiver<Option<Arc<Tables>>>,
    /// The end offset of the log: one past the last event.
    pub(crate) log_end: watch::Receiver<u64>,
    pub(crate) tail: Arc<LogTail>,
    pub(crate) offsets: Arc<GroupOffsets>,
    pub(crate) due_from: Arc<DueFrom>,
    pub(crate) health: Arc<HealthCell>,
}

/// Opens the database of a directory and starts the committer on it.
pub(crate) fn start(
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<(CommitterHandle, JoinHandle<()>), BoxError> {
    let (link, committer) = open(directory, config, clock, ids)?;
    let thread = thread::Builder::new().name("committer".to_owned()).spawn(|| committer.run())?;
    Ok((link, thread))
}

fn open(
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<(CommitterHandle, Committer), BoxError> {
    let tables = Tables::open(&directory.database(), &config)?;
    let (commands_in, commands) = mpsc::channel(config.queue_len_max);
    let end = end_of_log(&tables)?;
    let (log_end, log_end_out) = watch::channel(end);
    let (tables, tables_out) = watch::channel(Some(Arc::new(tables)));
    let link = CommitterHandle {
        commands: commands_in,
        tables: tables_out,
        log_end: log_end_out,
        tail: Arc::new(LogTail::new(end, config.tail_events_max, config.tail_bytes_max)),
        offsets: Arc::default(),
        due_from: Arc::default(),
        health: Arc::new(HealthCell::new()),
    };
    let committer = Committer {
        commands,
        tables,
        log_end,
        tail: link.tail.clone(),
        offsets: link.offsets.clone(),
        health: link.health.clone(),
        directory,
        config,
        clock,
        ids,
        heads: Heads::new(HEADS_LEN_MAX),
        offsets_saved_at: Instant::now(),
        sealed: true,
        closing: false,
    };
    Ok((link, committer))
}

/// The only thread that writes.
struct Committer {
    commands: mpsc::Receiver<CommitterCommand>,
    tables: watch::Sender<Option<Arc<Tables>>>,
    log_end: watch::Sender<u64>,
    tail: Arc<LogTail>,
    offsets: Arc<GroupOffsets>,
    health: Arc<HealthCell>,
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    heads: Heads,
    offsets_saved_at: Instant,
    /// Whether the last commit in the journal is followed by a commit mark, or predates this process (see
    /// [`journal`](crate::journal)).
    sealed: bool,
    closing: bool,
}

impl Committer {
    /// Commits until a `Close` command arrives or all senders are dropped.
    fn run(mut self) {
        while !self.closing
            && let Some(first) = self.commands.blocking_recv()
        {
            if let Err(reason) = self.commit(first) {
                self.recover(reason);
            }
        }
        self.health.set_failing(self.clock.now(), "the store is closed");
        if let Some(tables) = self.tables.send_replace(None) {
            if !self.sealed
                && let Err(error) = tables.seal()
            {
                error!(error = %error_chain(&error), "could not write the last commit mark");
            }
            close(tables);
        }
    }

    /// Runs the queued jobs, commits them with one fsync, and answers them.
    fn commit(&mut self, first: CommitterCommand) -> Result<(), String> {
        let Some(tables) = self.tables.borrow().clone() else { return Err("the database is closed".to_owned()) };
        let offset = *self.log_end.borrow();
        let mut tx = Tx::new(&tables, &mut self.heads, &*self.ids, self.clock.now(), offset);
        let mut answers = vec![];
        let mut ticked = false;
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                CommitterCommand::Run(job) => answers.push(job.run(&mut tx)),
                CommitterCommand::Tick => ticked = true,
                CommitterCommand::Freeze(waiter) => {
                    // Nothing of this commit is written or acknowledged yet.
                    let (taken_at, snapshot) = (self.clock.now(), tables.snapshot());
                    let source = BackupSource { tables: Arc::downgrade(&tables), snapshot, taken_at, log_end: offset };
                    // The caller may have stopped waiting.
                    drop(waiter.send(source));
                }
                CommitterCommand::Close => {
                    self.closing = true;
                    break;
                }
            }
            if answers.len() < self.config.batch_jobs_max && tx.bytes() < self.config.batch_bytes_max {
                next = self.commands.try_recv().ok();
            }
        }

        let offsets_due = self.closing || self.offsets_saved_at.elapsed() >= OFFSETS_SAVE_DELAY;
        let offsets = if offsets_due { self.offsets.unsaved() } else { vec![] };
        for (group, offset) in &offsets {
            tx.put(Table::Consumers, group.as_bytes(), offset);
        }
        tx.keep();

        let seals = tx.is_empty() && ticked && !self.sealed;
        let committed = match tx.is_empty() {
            true if seals => tables.seal().map(|()| None),
            true => tables.check().map(|()| None),
            false => write(&tables, tx).map(Some),
        };
        match committed {
            Ok(committed) => {
                self.sealed = seals || (self.sealed && committed.is_none());
                let mut end = offset;
                if let Some(LogChanges { events, purged }) = committed {
                    end += events.len() as u64;
                    self.tail.forget(&purged);
                    self.tail.push(end, events);
                }
                for answer in answers {
                    answer(Ok(()));
                }
                self.log_end.send_if_modified(|known| std::mem::replace(known, end) != end);
                if offsets_due {
                    self.offsets_saved_at = Instant::now();
                    self.offsets.saved(offsets);
                }
                Ok(())
            }
            Err(error) => {
                counter!("tidings_store_commit_errors_total").increment(1);
                let reason = error.to_string();
                // Record the failure before answering, so that a caller that then reads the health finds the reason.
                self.health.set_failing(self.clock.now(), &reason);
                for answer in answers {
                    answer(Err(&reason));
                }
                Err(reason)
            }
        }
    }

    /// Refuses writes until the database is reopened. Reads continue except during the switch.
    fn recover(&mut self, mut reason: String) {
        // The outcome of the failed commit is unknown until the journal has been replayed.
        self.heads.clear();
        let mut failures = 0;
        loop {
            failures += 1;
            error!(reason, "the store cannot write");
            self.health.set_failing(self.clock.now(), &reason);
            self.refuse_for(BACKOFF.delay(failures), &reason);
            if self.closing {
                return;
            }
            match self.reopen() {
                Ok(()) => break,
                Err(error) => reason = error.to_string(),
            }
        }
        info!("the store can write again");
        self.health.set_ok();
    }

    /// Refuses all jobs that arrive during `pause`. The channel has no blocking receive with a deadline, so this polls.
    fn refuse_for(&mut self, pause: Duration, reason: &str) {
        let until = Instant::now() + pause;
        while !self.closing && Instant::now() < until {
            match self.commands.try_recv() {
                Ok(CommitterCommand::Run(job)) => job.refuse(reason),
                // Dropping the sender of `Freeze` tells its caller that there is no snapshot.
                Ok(CommitterCommand::Tick | CommitterCommand::Freeze(_)) => {}
                Ok(CommitterCommand::Close) | Err(TryRecvError::Disconnected) => self.closing = true,
                Err(TryRecvError::Empty) => thread::sleep(POLL),
            }
        }
    }

    /// Closes the database if the disk passes a probe, and opens it again with all recovered commits durable.
    fn reopen(&mut self) -> Result<(), BoxError> {
        self.directory.probe()?;
        if let Some(tables) = self.tables.send_replace(None) {
            close(tables);
        }
        self.directory.renew_journal()?;
        let tables = Tables::open(&self.directory.database(), &self.config)?;
        // The journal may contain the failed commit completely; then its events are in the log.
        let end = end_of_log(&tables)?;
        self.tail.push(end, vec![]);
        self.tables.send_replace(Some(Arc::new(tables)));
        self.log_end.send_replace(end);
        Ok(())
    }
}

/// Commits, after the engine's workers have reduced their backlog.
fn write(tables: &Tables, tx: Tx<'_>) -> fjall::Result<LogChanges> {
    if tables.is_congested() {
        let stalled = Instant::now();
        while tables.is_congested() {
            tables.check()?;
            thread::sleep(POLL);
        }
        histogram!("tidings_store_stall_seconds").record(stalled.elapsed());
    }
    let started = Instant::now();
    let committed = tx.commit()?;
    counter!("tidings_store_commits_total").increment(1);
    histogram!("tidings_store_commit_seconds").record(started.elapsed());
    histogram!("tidings_store_commit_batch_messages").record(committed.events.len() as f64);
    Ok(committed)
}

/// Waits for running reads, each of which is bounded, and closes the database. The engine holds its directory lock
/// until the last reference is dropped.
fn close(mut tables: Arc<Tables>) {
    loop {
        match Arc::try_unwrap(tables) {
            Ok(tables) => return drop(tables),
            Err(shared) => tables = shared,
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use ports::{RandomIds, SystemClock};

    use super::*;
    use crate::EngineHealth;

    fn committer(directory: &tempfile::TempDir) -> (CommitterHandle, Committer) {
        let claimed = Directory::claim(directory.path(), None).unwrap();
        open(claimed, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
    }

    fn put(key: &'static [u8], value: u64) -> (CommitterCommand, oneshot::Receiver<Result<(), StoreError>>) {
        job(move |tx| {
            tx.put(Table::Meta, key, &value);
            Ok(())
        })
    }

    fn get(link: &CommitterHandle, key: &[u8]) -> Option<u64> {
        link.tables.borrow().as_ref().expect("the database is open").get(Table::Meta, key).unwrap()
    }

    #[test]
    fn jobs_that_wait_are_committed_together_up_to_the_bound() {
        let directory = tempfile::tempdir().unwrap();
        let (link, mut committer) = committer(&directory);
        committer.config.batch_jobs_max = 2;
        let (first, mut first_outcome) = put(b"first", 1);
        let (second, mut second_outcome) = put(b"second", 2);
        let (third, mut third_outcome) = put(b"third", 3);
        link.commands.try_send(second).ok().unwrap();
        link.commands.try_send(third).ok().unwrap();
        committer.commit(first).unwrap();
        first_outcome.try_recv().unwrap().unwrap();
        second_outcome.try_recv().unwrap().unwrap();
        assert!(third_outcome.try_recv().is_err());
        assert_eq!([get(&link, b"first"), get(&link, b"second"), get(&link, b"third")], [Some(1), Some(2), None]);
    }

    #[test]
    fn recovery_refuses_jobs_meanwhile_and_reopens_with_every_commit() {
        let directory = tempfile::tempdir().unwrap();
        let (link, mut committer) = committer(&directory);
        committer.commit(put(b"before", 1).0).unwrap();
        let before = Arc::downgrade(link.tables.borrow().as_ref().unwrap());
        let (refused, mut outcome) = put(b"refused", 2);
        link.commands.try_send(refused).ok().unwrap();

        committer.recover("the disk is on fire".to_owned());
        match outcome.try_recv().unwrap() {
            Err(StoreError::Unavailable(reason)) => assert_eq!(reason.to_string(), "the disk is on fire"),
            other => panic!("expected a refusal, got {other:?}"),
        }
        assert_eq!(link.health.get(), EngineHealth::Ok);
        assert!(before.upgrade().is_none(), "the old database is closed");
        assert_eq!((get(&link, b"before"), get(&link, b"refused")), (Some(1), None));
        committer.commit(put(b"after", 3).0).unwrap();
        assert_eq!(get(&link, b"after"), Some(3));
    }

    #[test]
    fn a_close_command_stops_recovery() {
        let directory = tempfile::tempdir().unwrap();
        let (link, mut committer) = committer(&directory);
        link.commands.try_send(CommitterCommand::Close).ok().unwrap();
        committer.recover("the disk is on fire".to_owned());
        assert!(committer.closing);
        assert!(matches!(link.health.get(), EngineHealth::Failing { reason, .. } if reason == "the disk is on fire"));
    }
}
