use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use ports::{BoxError, Clock, HealthCell, Ids, StoreError};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

use crate::Config;
use crate::backup::Source;
use crate::directory::Directory;
use crate::log::{Places, Tail, end_of_log};
use crate::notices::DueFrom;
use crate::tables::{Table, Tables};
use crate::tx::{Committed, Heads, Tx};

/// How many chats the committer knows the counter of without looking.
const HEADS_LEN_MAX: usize = 100_000;
/// How long processed offsets may wait for a commit that they can ride with.
const PLACES_DELAY: Duration = Duration::from_secs(1);
/// How long to wait between tries to reopen.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often to look while something else has to move first.
const POLL: Duration = Duration::from_millis(2);

/// What the committer is told.
pub(crate) enum Command {
    Run(Box<dyn Job>),
    /// Look after what no job brings: offsets that wait, and the health of the engine.
    Tick,
    /// Say how all tables are now, for a backup.
    Freeze(oneshot::Sender<Source>),
    /// Commit what came before, and end.
    Close,
}

/// One transaction and whoever waits for it.
pub(crate) trait Job: Send {
    /// Runs the transaction; its outcome is answered when the commit is done.
    fn run(self: Box<Self>, tx: &mut Tx<'_>) -> Answer;

    /// Answers that the transaction was not run.
    fn refuse(self: Box<Self>, reason: &str);
}

/// Answers a transaction that was run, once the commit that it is part of has succeeded or failed for a reason.
type Answer = Box<dyn FnOnce(Result<(), &str>)>;

/// A transaction, and where its outcome will be.
pub(crate) fn job<T, F>(work: F) -> (Command, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
{
    let (waiter, outcome) = oneshot::channel();
    (Command::Run(Box::new(Transaction { work, waiter })), outcome)
}

struct Transaction<T, F> {
    work: F,
    waiter: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Transaction<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
{
    fn run(self: Box<Self>, tx: &mut Tx<'_>) -> Answer {
        let Self { work, waiter } = *self;
        let result = work(tx).and_then(|outcome| tx.check().map(|()| outcome));
        match result {
            Ok(_) => tx.keep(),
            Err(_) => tx.discard(),
        }
        // A caller that has gone away finds out by retrying, here and below.
        Box::new(|committed| drop(waiter.send(committed.map_err(StoreError::unavailable).and(result))))
    }

    fn refuse(self: Box<Self>, reason: &str) {
        drop(self.waiter.send(Err(StoreError::unavailable(reason))));
    }
}

/// What the rest of the store has of the committer.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) commands: mpsc::Sender<Command>,
    /// The open database; `None` while it is being reopened. The sender is gone once the store is closed.
    pub(crate) tables: watch::Receiver<Option<Arc<Tables>>>,
    /// The offset behind the last event of the log.
    pub(crate) log_end: watch::Receiver<u64>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) places: Arc<Places>,
    pub(crate) due_from: Arc<DueFrom>,
    pub(crate) health: Arc<HealthCell>,
}

/// Opens the database of a directory and starts the committer on it.
pub(crate) fn start(
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<(Link, JoinHandle<()>), BoxError> {
    let (link, committer) = open(directory, config, clock, ids)?;
    let thread = thread::Builder::new().name("committer".to_owned()).spawn(|| committer.run())?;
    Ok((link, thread))
}

fn open(
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<(Link, Committer), BoxError> {
    let tables = Tables::open(&directory.database(), &config)?;
    let (commands_in, commands) = mpsc::channel(config.queue_len_max);
    let end = end_of_log(&tables)?;
    let (log_end, log_end_out) = watch::channel(end);
    let (tables, tables_out) = watch::channel(Some(Arc::new(tables)));
    let link = Link {
        commands: commands_in,
        tables: tables_out,
        log_end: log_end_out,
        tail: Arc::new(Tail::new(end, config.tail_events_max, config.tail_bytes_max)),
        places: Arc::default(),
        due_from: Arc::default(),
        health: Arc::new(HealthCell::new()),
    };
    let committer = Committer {
        commands,
        tables,
        log_end,
        tail: link.tail.clone(),
        places: link.places.clone(),
        health: link.health.clone(),
        directory,
        config,
        clock,
        ids,
        heads: Heads::new(HEADS_LEN_MAX),
        places_saved_at: Instant::now(),
        closing: false,
    };
    Ok((link, committer))
}

/// The one thread that writes.
struct Committer {
    commands: mpsc::Receiver<Command>,
    tables: watch::Sender<Option<Arc<Tables>>>,
    log_end: watch::Sender<u64>,
    tail: Arc<Tail>,
    places: Arc<Places>,
    health: Arc<HealthCell>,
    directory: Directory,
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    heads: Heads,
    places_saved_at: Instant,
    closing: bool,
}

impl Committer {
    /// Commits until it is told to close or everybody who could tell it anything is gone.
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
            close(tables);
        }
    }

    /// Runs what waits, commits it with one fsync, and answers it.
    fn commit(&mut self, first: Command) -> Result<(), String> {
        let Some(tables) = self.tables.borrow().clone() else { return Err("the database is closed".to_owned()) };
        let offset = *self.log_end.borrow();
        let mut tx = Tx::new(&tables, &mut self.heads, &*self.ids, self.clock.now(), offset);
        let mut answers = vec![];
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                Command::Run(job) => answers.push(job.run(&mut tx)),
                Command::Tick => {}
                Command::Freeze(waiter) => {
                    // Nothing of this commit is written yet, and nothing of it is acknowledged.
                    let (taken_at, snapshot) = (self.clock.now(), tables.snapshot());
                    let source = Source { tables: Arc::downgrade(&tables), snapshot, taken_at, log_end: offset };
                    // Whoever asked may have gone away.
                    drop(waiter.send(source));
                }
                Command::Close => {
                    self.closing = true;
                    break;
                }
            }
            if answers.len() < self.config.batch_jobs_max && tx.bytes() < self.config.batch_bytes_max {
                next = self.commands.try_recv().ok();
            }
        }

        let places_due = self.closing || self.places_saved_at.elapsed() >= PLACES_DELAY;
        let places = if places_due { self.places.unsaved() } else { vec![] };
        for (group, offset) in &places {
            tx.put(Table::Consumers, group.as_bytes(), offset);
        }
        tx.keep();

        let committed = if tx.is_empty() { tables.check().map(|()| None) } else { write(&tables, tx).map(Some) };
        match committed {
            Ok(committed) => {
                let mut end = offset;
                if let Some(Committed { events, purged }) = committed {
                    end += events.len() as u64;
                    self.tail.forget(&purged);
                    self.tail.push(end, events);
                }
                for answer in answers {
                    answer(Ok(()));
                }
                self.log_end.send_if_modified(|known| std::mem::replace(known, end) != end);
                if places_due {
                    self.places_saved_at = Instant::now();
                    self.places.saved(places);
                }
                Ok(())
            }
            Err(error) => {
                counter!("tidings_store_commit_errors_total").increment(1);
                let reason = error.to_string();
                // Noted before anybody is told, so that whoever is told and asks for the reason finds it.
                self.health.set_failing(self.clock.now(), &reason);
                for answer in answers {
                    answer(Err(&reason));
                }
                Err(reason)
            }
        }
    }

    /// Refuses writes until the database could be opened anew. Reads go on, but for the moment of the change.
    fn recover(&mut self, mut reason: String) {
        // What the failed commit would have changed is unknown until the journal has been read again.
        self.heads.clear();
        let mut pause = RETRY_MIN;
        loop {
            error!(reason, "the store cannot write");
            self.health.set_failing(self.clock.now(), &reason);
            self.refuse_for(pause, &reason);
            if self.closing {
                return;
            }
            match self.reopen() {
                Ok(()) => break,
                Err(error) => reason = error.to_string(),
            }
            pause = (2 * pause).min(RETRY_MAX);
        }
        info!("the store can write again");
        self.health.set_ok();
    }

    /// Answers what comes in a while with a failure. The channel has no receive with a deadline, so this looks often.
    fn refuse_for(&mut self, pause: Duration, reason: &str) {
        let until = Instant::now() + pause;
        while !self.closing && Instant::now() < until {
            match self.commands.try_recv() {
                Ok(Command::Run(job)) => job.refuse(reason),
                // Whoever waits for a moment of the tables learns that there is none.
                Ok(Command::Tick | Command::Freeze(_)) => {}
                Ok(Command::Close) | Err(TryRecvError::Disconnected) => self.closing = true,
                Err(TryRecvError::Empty) => thread::sleep(POLL),
            }
        }
    }

    /// Closes the database, if the disk looks well, and opens it again with everything it recovers durable.
    fn reopen(&mut self) -> Result<(), BoxError> {
        self.directory.probe()?;
        if let Some(tables) = self.tables.send_replace(None) {
            close(tables);
        }
        self.directory.renew_journal()?;
        let tables = Tables::open(&self.directory.database(), &self.config)?;
        // The commit that failed may be in the journal whole, and then its events are in the log.
        let end = end_of_log(&tables)?;
        self.tail.push(end, vec![]);
        self.tables.send_replace(Some(Arc::new(tables)));
        self.log_end.send_replace(end);
        Ok(())
    }
}

/// Commits, after the engine's workers have caught up far enough.
fn write(tables: &Tables, tx: Tx<'_>) -> fjall::Result<Committed> {
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

/// Waits for the reads that are under way, each of which is bounded, and closes the database: the engine locks its
/// directory for as long as anybody holds it.
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
    use crate::Health;

    fn committer(directory: &tempfile::TempDir) -> (Link, Committer) {
        let claimed = Directory::claim(directory.path()).unwrap();
        open(claimed, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
    }

    fn put(key: &'static [u8], value: u64) -> (Command, oneshot::Receiver<Result<(), StoreError>>) {
        job(move |tx| {
            tx.put(Table::Meta, key, &value);
            Ok(())
        })
    }

    fn get(link: &Link, key: &[u8]) -> Option<u64> {
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
    fn recovery_refuses_what_comes_in_the_meantime_and_reopens_with_everything_committed() {
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
        assert_eq!(link.health.get(), Health::Ok);
        assert!(before.upgrade().is_none(), "the old database is closed");
        assert_eq!((get(&link, b"before"), get(&link, b"refused")), (Some(1), None));
        committer.commit(put(b"after", 3).0).unwrap();
        assert_eq!(get(&link, b"after"), Some(3));
    }

    #[test]
    fn a_store_that_is_told_to_close_gives_up_recovering() {
        let directory = tempfile::tempdir().unwrap();
        let (link, mut committer) = committer(&directory);
        link.commands.try_send(Command::Close).ok().unwrap();
        committer.recover("the disk is on fire".to_owned());
        assert!(committer.closing);
        assert!(matches!(link.health.get(), Health::Failing { reason, .. } if reason == "the disk is on fire"));
    }
}
