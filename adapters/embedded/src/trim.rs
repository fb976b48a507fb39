//! Forgets, in small steps: old events with their send keys, and rows that have expired.
//!
//! A thread of its own looks for what is due, so that no commit waits for the search; each step is then a job of the
//! committer like any other, and judges every row again before it deletes it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::limits::{REQUEST_KEY_RETENTION, RETENTION};
use domain::{OneTimeCode, Session, Timestamp};
use fjall::Slice;
use ports::{Clock, Head, LastMessage, StoreError};
use tracing::error;

use crate::committer::{Command, Link, job};
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::log::LOG_START;
use crate::records::{LogRecord, LoggedMessage, Place, Request, SendKey, decode_message};
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

/// The thread that trims, and ticks for the committer. Dropping this ends it.
pub(crate) struct Trimmer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Trimmer {
    pub(crate) fn start(link: Link, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("trimmer".to_owned()).spawn(move || {
            let mut search = Search { link, clock, log_from: 0, expiries_from: vec![] };
            let mut periods = 0;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                periods = (periods + 1) % PERIODS_UNTIL_OVER;
                if periods == 0 {
                    search.expiries_from.clear();
                }
                search.period();
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
}

/// Whether a step was full, and another may find more.
#[derive(PartialEq)]
enum Step {
    Full,
    Last,
}

impl Search {
    fn period(&mut self) {
        if self.link.commands.blocking_send(Command::Tick).is_err() {
            return;
        }
        for step in [Self::trim_log, Self::purge_expired] {
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
        let range = self.expiries_from.clone()..keys::expiries_end(self.clock.now()).to_vec();
        if range.is_empty() {
            return Ok(Step::Last);
        }
        let due = due_expiries(&tables, range)?;
        drop(tables);
        let Some(last) = due.last() else { return Ok(Step::Last) };
        let (behind, step) = ([last, &[0][..]].concat(), step(due.len()));
        self.write(move |tx| {
            for key in due {
                let what = keys::parse_expiry(&key).map_err(|error| unreadable(Table::Expiries, error))?;
                purge(tx, what)?;
                tx.delete(Table::Expiries, &key);
            }
            Ok(())
        })?;
        self.expiries_from = behind;
        Ok(step)
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
        let record = LogRecord::decode(&row).map_err(|error| unreadable(Table::Log, error))?;
        if record.time() >= before {
            break;
        }
        old.push((
            offset,
            match record {
                LogRecord::Message(message) => Some(message),
                LogRecord::Event(_) => None,
            },
        ));
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

/// Deletes a row if it has expired. It may be gone, or have been given more time.
fn purge(tx: &mut Tx<'_>, what: Expiring) -> Result<(), StoreError> {
    let now = tx.now();
    match what {
        Expiring::Message(place) => purge_message(tx, place)?,
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
    }
    Ok(())
}

/// Deletes a message and, where an inbox would still show its words, those. The head itself stays.
fn purge_message(tx: &mut Tx<'_>, place: Place) -> Result<(), StoreError> {
    let key = keys::message(place);
    let Some(row) = tx.get_bytes(Table::Messages, &key)? else { return Ok(()) };
    let message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
    if !message.is_expired(tx.now()) {
        return Ok(());
    }
    tx.delete(Table::Messages, &key);
    tx.delete(Table::MessagePlaces, &message.message_id.to_bytes());
    let head: Option<Head> = tx.get(Table::Heads, &keys::chat(place.chat_id))?;
    if let Some(Head { sequence, last_message: Some(last) }) = head
        && sequence == place.sequence
    {
        let last_message = Some(LastMessage { preview: None, ..last });
        tx.put(Table::Heads, &keys::chat(place.chat_id), &Head { sequence, last_message });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, EventBody, MessageId, PendingCode, RefreshAttempt, Sequence, SessionId, Ttl, UserId};
    use memory::ManualClock;
    use ports::{
        Appended, ChatWriter, CodeStore, EventLog, MessageReader, MessageWriter, NewGroup, NewMessage, RandomIds,
        RequestKey, RequestStore, SessionStore,
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
            let store = EmbeddedStore::open(directory.path(), Config::default(), clock.clone(), Arc::new(RandomIds));
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
            let (link, clock) = (self.store.link().clone(), self.clock.clone());
            let trimmed = tokio::task::spawn_blocking(move || {
                let mut search = Search { link, clock, log_from: 0, expiries_from: vec![] };
                while search.trim_log().unwrap() == Step::Full {}
                while search.purge_expired().unwrap() == Step::Full {}
            });
            trimmed.await.unwrap();
        }

        async fn rows(&self, table: Table) -> usize {
            self.store.read(move |tables| Ok(tables.view().range::<&[u8]>(table, ..).count())).await.unwrap()
        }
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
        let events = subject.store.consumer("late").await.unwrap().next().await.unwrap();
        let EventBody::MessagePersisted { message, .. } = &events.last().unwrap().body else { panic!("{events:?}") };
        assert_eq!(message.sequence, Sequence(4));
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
}
