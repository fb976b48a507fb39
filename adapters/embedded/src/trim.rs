//! Forgets, in small steps: old events with their send keys, and rows that have expired. When enough messages are gone, it
//! has the engine give their space back.
//!
//! A thread of its own looks for what is due, so that no commit waits for the search; each step is then a job of the
//! committer like any other, and judges every row again before it deletes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use domain::limits::{REQUEST_KEY_RETENTION, RETENTION};
use domain::{ChatId, EventBody, OneTimeCode, Sequence, Session, Timestamp};
use fjall::Slice;
use metrics::{counter, histogram};
use ports::{Clock, DeadLetter, Head, LastMessage, StoreError};
use tracing::{error, info, warn};

use crate::committer::{Command, Link, job};
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::log::LOG_START;
use crate::meter;
use crate::records::{LogRecord, LoggedMessage, Place, Request, SendKey, Stored, decode_message};
use crate::reports;
use crate::sessions;
use crate::store::closed;
use crate::tables::{Table, Tables};
use crate::tx::Tx;

/// How often to look.
const PERIOD: Duration = Duration::from_secs(1);
/// Rows of the log, or of the expiries, in one step.
const STEP_LEN_MAX: usize = 500;
/// Steps in a period, so that the thread soon sees that it is to end.
const STEPS_MAX: usize = 40;
/// Periods after which the search for what has expired starts over. In between it goes on where it was, because it would
/// have to pass over everything deleted since the engine last merged its files. What was committed behind it by then,
/// by a commit that took long or a clock that stepped back, is found the next time.
const PERIODS_UNTIL_OVER: u32 = 60;

/// Periods after which it is told how the store is.
const PERIODS_UNTIL_TOLD: u32 = 5;

/// The part of the table of messages that must have been purged before its space is asked back: rewriting the other three
/// quarters is the price.
const PURGED_PART: u64 = 4;
/// The key in [`Table::Meta`] of how many bytes were purged since the tables of messages were last compacted. It is kept on
/// disk, or a store that is restarted often would never get there.
const PURGED: &[u8] = b"purged_bytes";

/// How long to wait before space is asked back again, whatever came of it.
const COMPACT_PAUSE: Duration = Duration::from_secs(600);

/// The thread that trims, and ticks for the committer. Dropping this ends it.
pub(crate) struct Trimmer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Trimmer {
    pub(crate) fn start(
        link: Link,
        clock: Arc<dyn Clock>,
        purged_bytes_max: u64,
        forgets: bool,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("trimmer".to_owned()).spawn(move || {
            let mut search = Search::new(link, clock, purged_bytes_max);
            let mut periods = 0;
            meter::tell(&search.link, search.clock.now());
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                periods = (periods + 1) % PERIODS_UNTIL_OVER;
                if periods == 0 {
                    search.expiries_from.clear();
                }
                if periods % PERIODS_UNTIL_TOLD == 0 {
                    meter::tell(&search.link, search.clock.now());
                }
                if search.tick() && forgets {
                    search.period();
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread after what it is at.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("the trimmer did not end well");
        }
    }
}

struct Search {
    link: Link,
    clock: Arc<dyn Clock>,
    /// Every event below this offset is gone.
    log_from: u64,
    /// Where the search for what has expired goes on.
    expiries_from: Vec<u8>,
    purged_bytes_max: u64,
    compacted_at: Option<Instant>,
}

/// Whether a step was full, and another may find more.
#[derive(PartialEq)]
enum Step {
    Full,
    Last,
}

impl Search {
    fn new(link: Link, clock: Arc<dyn Clock>, purged_bytes_max: u64) -> Self {
        Self { link, clock, log_from: 0, expiries_from: vec![], purged_bytes_max, compacted_at: None }
    }

    /// Has the committer save what it has not; `false` if it is gone.
    fn tick(&self) -> bool {
        self.link.commands.blocking_send(Command::Tick).is_ok()
    }

    fn period(&mut self) {
        for step in [Self::trim_log, Self::purge_expired, Self::forget_reports, Self::compact] {
            for _ in 0..STEPS_MAX {
                match step(self) {
                    Ok(Step::Full) => {}
                    Ok(Step::Last) => break,
                    Err(error) => {
                        error!(error = &error as &dyn std::error::Error, "cannot trim");
                        break;
                    }
                }
            }
        }
    }

    /// Forgets the oldest events, if they are past their time, and the send keys of their messages.
    fn trim_log(&mut self) -> Result<Step, StoreError> {
        let before = self.clock.now().minus(RETENTION);
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(Step::Last) };
        let start = tables.get(Table::Meta, LOG_START)?.unwrap_or(0);
        let old = old_events(&tables, start.max(self.log_from), before)?;
        drop(tables);
        let Some((last, _)) = old.last() else { return Ok(Step::Last) };
        let (start, step) = (last + 1, step(old.len()));
        self.write(move |tx| {
            for (offset, message) in old {
                tx.delete(Table::Log, &keys::offset(offset));
                if let Some(message) = message {
                    forget_send(tx, &message)?;
                }
            }
            tx.put(Table::Meta, LOG_START, &start);
            Ok(())
        })?;
        self.log_from = start;
        Ok(step)
    }

    /// Deletes rows whose moment has come.
    fn purge_expired(&mut self) -> Result<Step, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(Step::Last) };
        let range = self.expiries_from.clone()..keys::behind(self.clock.now()).to_vec();
        if range.is_empty() {
            return Ok(Step::Last);
        }
        let due = due_expiries(&tables, range)?;
        drop(tables);
        let Some(last) = due.last() else { return Ok(Step::Last) };
        let (behind, step) = ([last, &[0][..]].concat(), step(due.len()));
        let purged = self.write(move |tx| {
            let mut purged = Purged::default();
            for key in due {
                let what = keys::parse_expiry(&key).map_err(|error| unreadable(Table::Expiries, error))?;
                purge(tx, what, &mut purged)?;
                tx.delete(Table::Expiries, &key);
            }
            purged.log(tx)?;
            Ok(purged)
        })?;
        counter!("tidings_store_purged_messages_total").increment(purged.messages());
        counter!("tidings_store_purged_bytes_total").increment(purged.bytes);
        self.expiries_from = behind;
        Ok(step)
    }

    /// Deletes reports that were resolved long ago.
    fn forget_reports(&mut self) -> Result<Step, StoreError> {
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(Step::Last) };
        let over = reports::over(&tables, self.clock.now(), STEP_LEN_MAX)?;
        drop(tables);
        if over.is_empty() {
            return Ok(Step::Last);
        }
        let step = step(over.len());
        self.write(move |tx| reports::purge(tx, &over))?;
        Ok(step)
    }

    /// Gives the space of purged messages back, once they were many and a good part of all.
    ///
    /// It happens on this thread, so commits go on meanwhile, but nothing is purged and the store is not closed before it
    /// is done.
    fn compact(&mut self) -> Result<Step, StoreError> {
        if self.compacted_at.is_some_and(|at| at.elapsed() < COMPACT_PAUSE) {
            return Ok(Step::Last);
        }
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(Step::Last) };
        let purged: u64 = tables.get(Table::Meta, PURGED)?.unwrap_or(0);
        let before = tables.disk_space(Table::Messages);
        if purged <= self.purged_bytes_max || purged <= before / PURGED_PART {
            return Ok(Step::Last);
        }
        let started = Instant::now();
        self.compacted_at = Some(started);
        // It takes room that commits would then lack.
        let free = tables.free_space().map_err(StoreError::unavailable)?;
        if free < before {
            warn!(free, needed = before, "no room to give the space of purged messages back");
            return Ok(Step::Last);
        }
        for table in [Table::Messages, Table::MessagePlaces] {
            tables.compact(table).map_err(StoreError::unavailable)?;
        }
        histogram!("tidings_store_compaction_seconds").record(started.elapsed());
        let after = tables.disk_space(Table::Messages);
        // A committer that reopens the database waits for everybody to let go of it before it takes jobs again.
        drop(tables);
        self.write(move |tx| {
            let since: u64 = tx.get(Table::Meta, PURGED)?.unwrap_or(0);
            tx.put(Table::Meta, PURGED, &since.saturating_sub(purged));
            Ok(())
        })?;
        let Some(tables) = self.link.tables.borrow().clone() else { return Ok(Step::Last) };
        tables.drop_old_files().map_err(StoreError::unavailable)?;
        info!(before, after, seconds = started.elapsed().as_secs_f64(), "the space of purged messages was given back");
        Ok(Step::Last)
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

fn step(len: usize) -> Step {
    if len == STEP_LEN_MAX { Step::Full } else { Step::Last }
}

/// The events from an offset on that are older than `before`, up to the first that is not.
fn old_events(tables: &Tables, from: u64, before: Timestamp) -> Result<Vec<(u64, Option<LoggedMessage>)>, StoreError> {
    let mut old = vec![];
    for row in tables.view().range(Table::Log, keys::offset(from)..).take(STEP_LEN_MAX) {
        let (key, row) = row?;
        let offset = keys::parse_offset(&key).map_err(|error| unreadable(Table::Log, error))?;
        let message = match LogRecord::decode(&row) {
            Ok(record) if record.time() >= before => break,
            Ok(LogRecord::Message(message)) => Some(message),
            Ok(LogRecord::Event(_)) => None,
            // It says nothing of its age, and whoever reads the log has buried it. It goes with the ones before it.
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

/// Deletes the key of a send, unless a later send has taken it over.
fn forget_send(tx: &mut Tx<'_>, message: &LoggedMessage) -> Result<(), StoreError> {
    let key = keys::send(message.place.chat_id, message.sender_id, message.client_message_id);
    let known: Option<SendKey> = tx.get(Table::SendKeys, &key)?;
    if known.is_some_and(|known| known.receipt.sequence == message.place.sequence) {
        tx.delete(Table::SendKeys, &key);
    }
    Ok(())
}

/// What one step has purged.
#[derive(Default)]
struct Purged {
    messages: BTreeMap<ChatId, BTreeSet<Sequence>>,
    /// Of their rows, keys and all.
    bytes: u64,
}

impl Purged {
    fn message(&mut self, place: Place, bytes: usize) {
        self.messages.entry(place.chat_id).or_default().insert(place.sequence);
        self.bytes += bytes as u64;
    }

    fn messages(&self) -> u64 {
        self.messages.values().map(|sequences| sequences.len() as u64).sum()
    }

    /// Tells of the messages, chat by chat, and notes the space that is not given back yet.
    fn log(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        for (chat_id, sequences) in &self.messages {
            let sequences = sequences.iter().copied().collect();
            tx.log(EventBody::MessagesExpired { chat_id: *chat_id, sequences });
        }
        if self.bytes > 0 {
            let earlier: u64 = tx.get(Table::Meta, PURGED)?.unwrap_or(0);
            tx.put(Table::Meta, PURGED, &earlier.saturating_add(self.bytes));
        }
        Ok(())
    }
}

/// Deletes a row if it has expired. It may be gone, or have been given more time.
fn purge(tx: &mut Tx<'_>, what: Expiring, purged: &mut Purged) -> Result<(), StoreError> {
    let now = tx.now();
    match what {
        Expiring::Message(place) => purge_message(tx, place, purged)?,
        Expiring::Session(session_id) => {
            let session: Option<Session> = tx.get(Table::Sessions, &session_id.to_bytes())?;
            if let Some(session) = session.filter(|session| session.expires_at <= now) {
                sessions::end(tx, session.user_id, session_id)?;
            }
        }
        Expiring::Code(phone) => {
            let code: Option<OneTimeCode> = tx.get(Table::Codes, &phone)?;
            if code.is_some_and(|code| code.forgettable_at() <= now) {
                tx.delete(Table::Codes, &phone);
            }
        }
        Expiring::Request(key) => {
            let request: Option<Request> = tx.get(Table::Requests, &keys::request(key))?;
            if request.is_some_and(|request| now.since(request.begun_at) >= REQUEST_KEY_RETENTION) {
                tx.delete(Table::Requests, &keys::request(key));
            }
        }
        Expiring::SendKey(key) => {
            let send: Option<SendKey> = tx.get(Table::SendKeys, &key)?;
            // A later send may have taken it over.
            if send.is_some_and(|send| now.since(send.receipt.created_at) >= RETENTION) {
                tx.delete(Table::SendKeys, &key);
            }
        }
        Expiring::DeadLetter(id) => {
            let letter: Option<DeadLetter> = tx.get(Table::DeadLetters, &id.to_bytes())?;
            if letter.is_some_and(|letter| now.since(letter.dead_at) >= RETENTION) {
                tx.delete(Table::DeadLetters, &id.to_bytes());
            }
        }
    }
    Ok(())
}

/// Deletes a message and, where an inbox would still show its words, those. The head itself stays.
fn purge_message(tx: &mut Tx<'_>, place: Place, purged: &mut Purged) -> Result<(), StoreError> {
    let key = keys::message(place);
    let Some(row) = tx.get_bytes(Table::Messages, &key)? else { return Ok(()) };
    let message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
    if !message.is_expired(tx.now()) {
        return Ok(());
    }
    let place_key = message.message_id.to_bytes();
    tx.delete(Table::Messages, &key);
    tx.delete(Table::MessagePlaces, &place_key);
    tx.purged(place);
    purged.message(place, key.len() + row.len() + place_key.len() + place.encode().len());
    let head: Option<Head> = tx.get(Table::Heads, &keys::chat(place.chat_id))?;
    if let Some(Head { sequence, last_message: Some(last), message_ttl }) = head
        && sequence == place.sequence
    {
        let last_message = Some(LastMessage { preview: None, ..last });
        tx.put(Table::Heads, &keys::chat(place.chat_id), &Head { sequence, last_message, message_ttl });
    }
    Ok(())
}

/// Does everything that is due.
#[cfg(test)]
pub(crate) async fn purge_all(link: Link, clock: Arc<dyn Clock>) {
    let trimmed = tokio::task::spawn_blocking(move || {
        let mut search = Search::new(link, clock, u64::MAX);
        while search.trim_log().unwrap() == Step::Full {}
        while search.purge_expired().unwrap() == Step::Full {}
        while search.forget_reports().unwrap() == Step::Full {}
    });
    trimmed.await.unwrap();
}

#[cfg(test)]
mod tests {
    use domain::limits::CONTENT_BYTES_MAX;
    use domain::{EventId, MessageId, PendingCode, RefreshAttempt, SessionId, Ttl, UserId};
    use memory::ManualClock;
    use ports::{
        Appended, ChatWriter, CodeStore, DeadLetterId, DeadLetterStore, EventLog, Ids, MessageReader, MessageWriter,
        Moved, MovedSend, NewGroup, NewMessage, Position, RandomIds, Receipt, Record, RequestKey, RequestStore,
        SessionStore, Start, Undelivered,
    };
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::*;
    use crate::{Config, EmbeddedStore};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A store on a clock that stands still, and a search of its own beside the store's.
    struct Subject {
        store: EmbeddedStore,
        clock: Arc<ManualClock>,
        sender_id: UserId,
        chat_id: ChatId,
        _directory: TempDir,
    }

    impl Subject {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
            // What is compacted when is for the tests to say, and consumers see what is on disk.
            let config = Config { purged_bytes_max: u64::MAX, tail_events_max: 0, ..Config::default() };
            let store = EmbeddedStore::open(directory.path(), config, clock.clone(), Arc::new(RandomIds));
            let (store, sender_id) = (store.unwrap(), UserId::from_bytes([1; 16]));
            let group = NewGroup {
                chat_id: ChatId::from_bytes([2; 16]),
                name: "group".to_owned().try_into().unwrap(),
                created_by: sender_id,
                members: vec![],
                created_at: clock.now(),
            };
            let chat_id = store.create_group(group).await.unwrap().chat().chat_id;
            Self { store, clock, sender_id, chat_id, _directory: directory }
        }

        fn message(&self, n: u8, ttl: Option<Ttl>) -> NewMessage {
            NewMessage {
                chat_id: self.chat_id,
                sender_id: self.sender_id,
                client_message_id: Uuid::from_bytes([n; 16]).into(),
                message_id: MessageId::from_bytes([n; 16]),
                content: "words".to_owned().try_into().unwrap(),
                content_type: Default::default(),
                ttl,
                created_at: self.clock.now(),
                origin_connection_id: None,
            }
        }

        async fn send(&self, message: NewMessage) -> Appended {
            self.store.append(vec![message]).await.unwrap()[0]
        }

        /// Trims until nothing is due.
        async fn trim(&self) {
            purge_all(self.store.link().clone(), self.clock.clone()).await;
        }

        /// A message of as many words as it may have, none of which another one has.
        fn long_message(&self, n: u64, ttl: Option<Ttl>) -> NewMessage {
            let words = (0..CONTENT_BYTES_MAX / 64).map(|word| {
                let digest = aws_lc_rs::digest::digest(
                    &aws_lc_rs::digest::SHA256,
                    &[n, word as u64].map(u64::to_be_bytes).concat(),
                );
                digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            });
            NewMessage {
                client_message_id: Uuid::from_u128(n.into()).into(),
                message_id: RandomIds.ulid().into(),
                content: words.collect::<String>().try_into().unwrap(),
                ..self.message(0, ttl)
            }
        }

        /// The bytes that the table of messages takes by the engine's account, and all files of all tables by the disk's.
        async fn space(&self) -> (u64, u64) {
            fn files(path: &std::path::Path) -> u64 {
                let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
                let size = |entry: std::fs::DirEntry| match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => files(&entry.path()),
                    Ok(metadata) => metadata.len(),
                    // The engine has deleted it in between.
                    Err(_) => 0,
                };
                entries.map(size).sum()
            }
            let table = self.store.read(|tables| Ok(tables.disk_space(Table::Messages))).await.unwrap();
            (table, files(&self._directory.path().join("db").join("keyspaces")))
        }

        /// Gives space back, if there is enough to give.
        fn compact(&self, purged_bytes_max: u64) -> impl Future<Output = ()> + use<> {
            let mut search = Search::new(self.store.link().clone(), self.clock.clone(), purged_bytes_max);
            let compacted = tokio::task::spawn_blocking(move || search.compact().map(drop));
            async { compacted.await.unwrap().unwrap() }
        }

        async fn purged_bytes(&self) -> u64 {
            let purged = self.store.read(|tables| tables.get(Table::Meta, PURGED)).await.unwrap();
            purged.unwrap_or(0)
        }

        async fn last_event(&self) -> EventBody {
            let end = self.store.link().tail.end();
            self.store.event(Position(end - 1)).await.unwrap().unwrap().body.clone()
        }

        async fn rows(&self, table: Table) -> usize {
            self.store.read(move |tables| Ok(tables.view().range::<&[u8]>(table, ..).count())).await.unwrap()
        }
    }

    #[tokio::test]
    async fn a_send_key_that_came_without_its_event_is_forgotten_after_seven_days() {
        let subject = Subject::new().await;
        let send = subject.message(1, None);
        let Subject { chat_id, sender_id, .. } = subject;
        let receipt = Receipt { message_id: send.message_id, sequence: Sequence(1), created_at: send.created_at };
        let (client_message_id, fingerprint) = (send.client_message_id, send.fingerprint());
        let moved = Moved::Send(MovedSend { chat_id, sender_id, client_message_id, receipt, fingerprint });
        ports::ImportTarget::write(&subject.store, vec![moved]).await.unwrap();
        let key = keys::send(chat_id, sender_id, client_message_id);
        let is_there =
            async || subject.store.tables().await.unwrap().get_bytes(Table::SendKeys, &key).unwrap().is_some();
        subject.clock.advance(RETENTION - Duration::from_millis(1));
        subject.trim().await;
        assert!(is_there().await);
        assert_eq!(subject.send(send).await, Appended::Duplicate(receipt));
        subject.clock.advance(Duration::from_millis(1));
        subject.trim().await;
        assert!(!is_there().await);
    }

    #[tokio::test]
    async fn events_and_send_keys_are_kept_for_seven_days_and_then_forgotten() {
        let subject = Subject::new().await;
        for n in 0..3 {
            subject.send(subject.message(n, None)).await;
        }
        subject.clock.advance(RETENTION);
        subject.send(subject.message(3, None)).await;
        subject.trim().await;
        assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::SendKeys).await), (5, 4));

        subject.clock.advance(Duration::from_millis(1));
        subject.trim().await;
        assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::SendKeys).await), (1, 1));
        assert_eq!(subject.rows(Table::Messages).await, 4);
        for to in [None, Some(Start::Oldest), Some(Start::Time(Timestamp::default())), Some(Start::At(Position(1)))] {
            if let Some(to) = to {
                subject.store.seek("late", to).await.unwrap();
            }
            assert_eq!(subject.store.lag("late").await.unwrap(), 1);
            let records = subject.store.consumer("late").await.unwrap().next().await.unwrap();
            let [Record { position: Position(4), event }] = &records[..] else { panic!("{records:?}") };
            let EventBody::MessagePersisted { message, .. } = &event.body else { panic!("{event:?}") };
            assert_eq!(message.sequence, Sequence(4));
        }
        assert_eq!(subject.store.event(Position(3)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn offsets_go_on_after_the_whole_log_was_trimmed_and_the_store_was_opened_again() {
        let subject = Subject::new().await;
        subject.send(subject.message(0, None)).await;
        subject.clock.advance(2 * RETENTION);
        subject.trim().await;
        assert_eq!(subject.rows(Table::Log).await, 0);
        let Subject { store, clock, _directory: directory, .. } = subject;
        store.close().await;
        let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
        assert_eq!(*store.link().log_end.borrow(), 2);
        store.close().await;
    }

    #[tokio::test]
    async fn a_key_that_is_past_its_time_is_void_before_it_is_trimmed_and_is_not_trimmed_once_it_was_used_anew() {
        let subject = Subject::new().await;
        subject.send(subject.message(0, None)).await;
        subject.clock.advance(RETENTION + Duration::from_millis(1));
        let again = NewMessage { message_id: MessageId::from_bytes([9; 16]), ..subject.message(0, None) };
        let Appended::New(receipt) = subject.send(again.clone()).await else { panic!("the key is void") };
        subject.trim().await;
        assert_eq!(subject.send(again).await, Appended::Duplicate(receipt));
    }

    #[tokio::test]
    async fn an_expired_message_leaves_no_words_behind_and_its_key_stays() {
        let subject = Subject::new().await;
        subject.send(subject.message(0, None)).await;
        let mortal = subject.message(1, Ttl::from_secs(60));
        let Appended::New(receipt) = subject.send(mortal.clone()).await else { panic!("the send is new") };
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;

        assert_eq!((subject.rows(Table::Messages).await, subject.rows(Table::MessagePlaces).await), (1, 1));
        assert_eq!(subject.rows(Table::Expiries).await, 0);
        let head = subject.store.head(subject.chat_id).await.unwrap().unwrap();
        assert_eq!((head.sequence, head.last_message.unwrap().preview), (Sequence(2), None));
        assert_eq!(subject.send(mortal).await, Appended::Duplicate(receipt));
        let Appended::New(next) = subject.send(subject.message(2, None)).await else { panic!("the send is new") };
        assert_eq!(next.sequence, Sequence(3));
    }

    #[tokio::test]
    async fn sessions_codes_and_requests_are_purged_when_they_expire_and_not_before() {
        let subject = Subject::new().await;
        let now = subject.clock.now();
        let session = Session {
            session_id: SessionId::from_bytes([1; 16]),
            user_id: subject.sender_id,
            device_id: Uuid::from_bytes([1; 16]).into(),
            created_at: now,
            last_active_at: now,
            expires_at: now + DAY,
            current: [0; 32],
            spent: None,
        };
        subject.store.create(session.clone()).await.unwrap();
        let attempt = RefreshAttempt {
            presented: [0; 32],
            device_id: session.device_id,
            successor: [1; 32],
            now,
            expires_at: now + 2 * DAY,
        };
        subject.store.refresh(session.session_id, attempt).await.unwrap();
        let code = PendingCode { digest: [2; 32], expires_at: now + DAY, tries_left: 5 };
        subject.store.issue([1; 32], code).await.unwrap();
        let key = RequestKey { user_id: subject.sender_id, key: Uuid::from_bytes([1; 16]) };
        subject.store.begin(key, [0; 32], ports::Ids::ulid(&RandomIds), now).await.unwrap();

        let tables = [Table::Sessions, Table::Devices, Table::Codes, Table::Requests];
        for (later, rows) in [(Duration::ZERO, [1, 1, 1, 1]), (DAY, [1, 1, 0, 0]), (DAY, [0, 0, 0, 0])] {
            subject.clock.advance(later);
            subject.trim().await;
            for (table, rows) in tables.into_iter().zip(rows) {
                assert_eq!(subject.rows(table).await, rows, "{table:?} at {later:?}");
            }
        }
    }

    #[tokio::test]
    async fn more_than_one_step_of_expiries_is_purged() {
        let subject = Subject::new().await;
        let batch = (0..STEP_LEN_MAX as u128 + 1).map(|n| NewMessage {
            client_message_id: Uuid::from_u128(n).into(),
            message_id: MessageId::from_bytes(n.to_be_bytes()),
            ..subject.message(0, Ttl::from_secs(1))
        });
        subject.store.append(batch.collect()).await.unwrap();
        subject.clock.advance(Duration::from_secs(1));
        subject.trim().await;
        assert_eq!(subject.rows(Table::Messages).await, 0);
    }

    #[tokio::test]
    async fn a_purge_is_logged_once_and_nothing_is_told_of_what_was_gone_already() {
        let subject = Subject::new().await;
        subject.send(subject.message(0, Ttl::from_secs(60))).await;
        subject.send(subject.message(1, None)).await;
        let place = Place { chat_id: subject.chat_id, sequence: Sequence(1) };
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;
        let expired = EventBody::MessagesExpired { chat_id: subject.chat_id, sequences: vec![Sequence(1)] };
        assert_eq!(subject.last_event().await, expired);

        let again = move |tx: &mut Tx<'_>| {
            tx.expire(Timestamp::from_millis(1), Expiring::Message(place));
            Ok(())
        };
        subject.store.write(again).await.unwrap();
        let logged = subject.rows(Table::Log).await;
        subject.trim().await;
        assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::Expiries).await), (logged, 0));
    }

    #[tokio::test]
    async fn what_was_purged_is_counted_in_bytes_and_survives_a_restart() {
        let subject = Subject::new().await;
        subject.send(subject.message(0, Ttl::from_secs(60))).await;
        let rows = |tables: &Tables| {
            let view = tables.view();
            let rows = [Table::Messages, Table::MessagePlaces].map(|table| view.range::<&[u8]>(table, ..).next());
            Ok(rows
                .map(|row| row.unwrap().unwrap())
                .map(|(key, row)| (key.len() + row.len()) as u64)
                .iter()
                .sum::<u64>())
        };
        let bytes = subject.store.read(rows).await.unwrap();
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;
        let Subject { store, clock, _directory: directory, .. } = subject;
        store.close().await;
        let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
        let purged = store.read(|tables| tables.get::<u64>(Table::Meta, PURGED)).await.unwrap();
        assert_eq!(purged, Some(bytes));
        store.close().await;
    }

    #[tokio::test]
    async fn a_dead_letter_is_kept_to_the_millisecond() {
        let subject = Subject::new().await;
        let what = Undelivered::Event {
            position: Position(1),
            event_id: EventId::from_bytes([1; 16]),
            chat_id: subject.chat_id,
        };
        let id = DeadLetterId::from_parts(1, 1);
        let letter = DeadLetter { id, what, attempts: 1, reason: "no".to_owned(), dead_at: subject.clock.now() };
        subject.store.bury(letter).await.unwrap();
        for (later, rows) in [(RETENTION - Duration::from_millis(1), 1), (Duration::from_millis(1), 0)] {
            subject.clock.advance(later);
            subject.trim().await;
            assert_eq!(subject.rows(Table::DeadLetters).await, rows);
        }
    }

    #[tokio::test]
    async fn a_few_purged_messages_are_not_worth_a_compaction() {
        let subject = Subject::new().await;
        for n in 0..20 {
            let ttl = if n < 2 { Ttl::from_secs(60) } else { None };
            subject.send(subject.long_message(n, ttl)).await;
        }
        let flush = |tables: &Tables| tables.compact(Table::Messages).map_err(StoreError::unavailable);
        subject.store.read(flush).await.unwrap();
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;
        let purged = subject.purged_bytes().await;
        assert!(purged > 2 * CONTENT_BYTES_MAX as u64, "{purged}");
        subject.compact(0).await;
        assert_eq!(subject.purged_bytes().await, purged, "less than a quarter");

        for n in 20..30 {
            subject.send(subject.long_message(n, Ttl::from_secs(60))).await;
        }
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;
        let purged = subject.purged_bytes().await;
        subject.compact(purged).await;
        assert_eq!(subject.purged_bytes().await, purged, "no more than the bound");
        subject.compact(purged - 1).await;
        assert_eq!(subject.purged_bytes().await, 0);
    }

    /// Measured rather than believed: deleting rows gives no space back by itself.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_space_of_purged_messages_comes_back_while_commits_go_on() {
        const MESSAGES: u64 = 8_000;
        const KEPT_EACH: u64 = 10;
        let subject = Subject::new().await;
        for batch in 0..MESSAGES / 200 {
            let messages = (batch * 200..(batch + 1) * 200).map(|n| {
                let ttl = if n % KEPT_EACH == 0 { None } else { Ttl::from_secs(60) };
                subject.long_message(n, ttl)
            });
            subject.store.append(messages.collect()).await.unwrap();
        }
        let flush = |tables: &Tables| tables.compact(Table::Messages).map_err(StoreError::unavailable);
        subject.store.read(flush).await.unwrap();
        let nothing_purged = |tx: &mut Tx<'_>| {
            tx.put(Table::Meta, PURGED, &0u64);
            Ok(())
        };
        subject.store.write(nothing_purged).await.unwrap();
        let drop_old_files = |tables: &Tables| tables.drop_old_files().map_err(StoreError::unavailable);
        subject.store.read(drop_old_files).await.unwrap();
        let (table_before, files_before) = subject.space().await;
        subject.clock.advance(Duration::from_secs(60));
        subject.trim().await;
        let (table_purged, files_purged) = subject.space().await;

        let started = Instant::now();
        let compacting = tokio::spawn(subject.compact(1 << 20));
        let (mut sends, mut longest) = (0, Duration::ZERO);
        while !compacting.is_finished() {
            let sent = Instant::now();
            subject.send(subject.long_message(MESSAGES + sends, None)).await;
            longest = longest.max(sent.elapsed());
            sends += 1;
        }
        compacting.await.unwrap();
        let took = started.elapsed();
        let (table_after, files_after) = subject.space().await;
        println!("table: {table_before} bytes, purged {table_purged}, compacted {table_after}");
        println!("files: {files_before} bytes, purged {files_purged}, compacted {files_after}");
        println!("took {took:?}, meanwhile {sends} sends, the longest {longest:?}");

        assert!(table_before > 30 << 20, "{table_before}");
        assert!(table_after < table_before / 5, "{table_after} of {table_before}");
        assert!(files_after < files_before / 4, "{files_after} of {files_before}");
        assert!(sends > 1, "{sends}");
        assert_eq!(subject.rows(Table::Messages).await as u64, MESSAGES / KEPT_EACH + sends);
        assert_eq!(subject.purged_bytes().await, 0);
    }
}
