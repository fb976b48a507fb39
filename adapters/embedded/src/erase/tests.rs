use std::fs;
use std::path::Path;

use domain::{Body, ChatId, ContentType, GroupInvites, MessageId, PhoneNumber, Ttl, UserId};
use memory::ManualClock;
use ports::{
    AccountStore, AppendOutcome, ChatWriter, MessageDisposition, MessageReader, MessageWriter, NewGroup, NewMessage,
    NewUser, PendingDeletion, RandomIds, UserKey, UserReader, UserWriter,
};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::trim::purge_all;
use crate::{Config, EmbeddedStore};

const HOUR: Duration = Duration::from_secs(3600);
/// The time that the tests configure.
const WITHIN: Duration = Duration::from_secs(8 * 3600);
const PHONE_NUMBER: &str = "+4915735981247";
const CHAT: [u8; 16] = [2; 16];

/// Texts that do not compress: a compressed block has them as they are.
const ERASED: &str = "xQ7vLm2RkT9wZb4NsYc8JhD5gFp3UaEe6VtMrXoB";
const PREVIEWED: &str = "Hn3WqKz8uPy6TcVd2LxRg9JfSb5MaEt7XvBoNwQe";
const KEPT: &str = "aT5mCw9QeJr3XzLk7VbNp2YsHd8GfUo4RxEiMtBv";

/// A store with a manual clock. The tests start its rounds and purges.
struct ErasureFixture {
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    user_id: UserId,
    directory: TempDir,
    sent: u128,
}

fn open(directory: &Path, clock: &Arc<ManualClock>) -> EmbeddedStore {
    let config = Config { forgets: false, tail_events_max: 0, ..Config::default() };
    EmbeddedStore::open(directory, config, clock.clone(), Arc::new(RandomIds)).unwrap()
}

impl ErasureFixture {
    /// A user with a phone number, the only member of a group.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let store = open(directory.path(), &clock);
        let subject = Self { store, clock, user_id: UserId::from_bytes([1; 16]), directory, sent: 0 };
        subject.start().await;
        assert_eq!(subject.pending().await, None, "a new store has nothing to erase");
        let new = NewUser {
            user_id: subject.user_id,
            display_name: "Ann".to_owned().try_into().unwrap(),
            group_invites: GroupInvites::default(),
            created_at: subject.clock.now(),
            proven_at: subject.clock.now(),
        };
        let number: PhoneNumber = PHONE_NUMBER.parse().unwrap();
        subject.store.find_or_create(UserKey::Phone(number), new).await.unwrap();
        let group = NewGroup {
            chat_id: ChatId::from_bytes(CHAT),
            name: "group".to_owned().try_into().unwrap(),
            created_by: subject.user_id,
            members: vec![],
            created_at: subject.clock.now(),
        };
        subject.store.create_group(group).await.unwrap();
        subject
    }

    async fn send(&mut self, content: &str, ttl: Option<Ttl>) {
        self.sent += 1;
        let message = NewMessage {
            chat_id: ChatId::from_bytes(CHAT),
            sender_id: self.user_id,
            client_message_id: Uuid::from_u128(self.sent).into(),
            message_id: MessageId::from_bytes(self.sent.to_be_bytes()),
            body: Body::new(content.to_owned().try_into().unwrap(), ContentType::Text),
            ttl,
            ttl_max: None,
            created_at: self.clock.now(),
            origin_connection_id: None,
        };
        let outcome = self.store.append(vec![message]).await.unwrap()[0];
        assert!(matches!(outcome, AppendOutcome::New(_)), "{outcome:?}");
    }

    /// Sends a message that expires in an hour, then a permanent one; then purges the first.
    async fn expire_a_message(&mut self) {
        self.send(ERASED, Ttl::from_secs(3600)).await;
        self.send(KEPT, None).await;
        self.clock.advance(HOUR);
        purge_all(self.store.link().clone(), self.clock.clone()).await;
    }

    async fn delete(&self, table: Table, key: &'static [u8]) {
        let deleted = self.store.write(move |tx| {
            tx.delete(table, key);
            Ok(())
        });
        deleted.await.unwrap();
    }

    fn rounds(&self) -> (ErasureRounds, Sender<()>) {
        let (stop, stopped) = channel();
        let (link, clock) = (self.store.link().clone(), self.clock.clone());
        let is_new = link.tables.borrow().as_ref().unwrap().rows() == 0;
        let rounds = ErasureRounds {
            link,
            clock,
            within: WITHIN,
            stopped,
            is_new,
            recorded: true,
            retry_at: None,
            readers_patience: PATIENCE,
        };
        (rounds, stop)
    }

    /// Runs a step of the rounds on a thread of its own.
    async fn on_thread<T: Send + 'static>(&self, step: impl FnOnce(&mut ErasureRounds) -> T + Send + 'static) -> T {
        let (mut rounds, stop) = self.rounds();
        let done = tokio::task::spawn_blocking(move || step(&mut rounds)).await.unwrap();
        drop(stop);
        done
    }

    /// Schedules the tables of an earlier version, as a start does.
    async fn start(&self) {
        let started = self.on_thread(|rounds| {
            rounds.recorded = false;
            rounds.check()
        });
        started.await.unwrap();
    }

    /// Runs a round if one is due.
    async fn check(&self) -> Result<(), RoundError> {
        self.on_thread(ErasureRounds::check).await
    }

    async fn pending(&self) -> Option<Pending> {
        self.store.read(pending).await.unwrap()
    }

    /// The files that contain a text, in any version of a row.
    fn files_with(&self, text: &str) -> Vec<String> {
        files_with(self.directory.path(), text.as_bytes())
    }

    /// Writes all memtables to files, and one table to its last level, where blocks are compressed.
    async fn write_to_files(&self, compacted: Table) {
        let flushed = self.store.read(move |tables| {
            tables.flush_all().unwrap();
            tables.compact(compacted).unwrap();
            Ok(())
        });
        flushed.await.unwrap();
    }

    async fn active_journal(&self) -> u64 {
        self.store.read(|tables| Ok(tables.active_journal().unwrap())).await.unwrap()
    }

    async fn reopen(self) -> Self {
        let Self { store, clock, user_id, directory, sent } = self;
        store.close().await;
        let store = open(directory.path(), &clock);
        Self { store, clock, user_id, directory, sent }
    }
}

fn files_with(directory: &Path, text: &[u8]) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn deleted_rows_are_in_no_file_after_a_round_and_others_stay() {
    let mut subject = ErasureFixture::new().await;
    // The message is in the journal and in a compressed table file, and its preview in a version of the head row.
    subject.send(PREVIEWED, Ttl::from_secs(3600)).await;
    subject.write_to_files(Table::Messages).await;
    subject.write_to_files(Table::Heads).await;
    assert!(subject.files_with(PREVIEWED).iter().filter(|path| path.contains("keyspaces")).count() >= 2);
    subject.expire_a_message().await;
    let torn = subject.directory.path().join("db").join("torn");
    fs::create_dir(&torn).unwrap();
    fs::write(torn.join("1-1.torn"), ERASED).unwrap();
    let begun_at = subject.clock.now();
    let deletion =
        PendingDeletion { user_id: subject.user_id, messages: MessageDisposition::Keep, begun_at: subject.clock.now() };
    subject.write_to_files(Table::Users).await;
    assert!(subject.store.begin_deletion(deletion).await.unwrap());
    assert_eq!(subject.pending().await, Some(Pending { since: begun_at, begun: false }));

    let journal = subject.active_journal().await;
    subject.clock.advance(WITHIN / 2 - Duration::from_millis(1));
    subject.check().await.unwrap();
    assert_eq!(subject.active_journal().await, journal, "half of the time is not over");
    for text in [PREVIEWED, ERASED, PHONE_NUMBER, KEPT] {
        assert!(!subject.files_with(text).is_empty(), "{text}");
    }

    subject.clock.advance(Duration::from_millis(1));
    subject.check().await.unwrap();
    for text in [PREVIEWED, ERASED, PHONE_NUMBER] {
        assert_eq!(subject.files_with(text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(subject.pending().await, None);
    assert!(!subject.files_with(KEPT).is_empty());
    let subject = subject.reopen().await;
    let kept = subject.store.by_id(MessageId::from_bytes(3u128.to_be_bytes()), subject.clock.now()).await.unwrap();
    assert_eq!(kept.unwrap().body.content.as_str(), KEPT);
    let users = subject.store.users(&[subject.user_id]).await.unwrap();
    assert!(users[0].as_ref().is_some_and(|user| user.deleted_at.is_some() && user.phone_number.is_none()));
    subject.store.close().await;
}

#[tokio::test]
async fn nothing_is_written_while_nothing_is_deleted() {
    let mut subject = ErasureFixture::new().await;
    subject.send(KEPT, None).await;
    let journal = subject.active_journal().await;
    subject.clock.advance(100 * WITHIN);
    subject.check().await.unwrap();
    assert_eq!((subject.pending().await, subject.active_journal().await), (None, journal));
    subject.store.close().await;
}

#[tokio::test]
async fn a_reader_from_before_holds_the_round_back_until_it_ends() {
    let mut subject = ErasureFixture::new().await;
    subject.send(ERASED, Ttl::from_secs(3600)).await;
    // Such as that of a backup.
    let snapshot = subject.store.read(|tables| Ok(tables.snapshot())).await.unwrap();
    subject.clock.advance(HOUR);
    purge_all(subject.store.link().clone(), subject.clock.clone()).await;
    subject.clock.advance(WITHIN / 2);
    let impatient = |rounds: &mut ErasureRounds| rounds.readers_patience = Duration::from_millis(200);
    let outlasted = subject.on_thread(move |rounds| {
        impatient(rounds);
        rounds.outlast_readers()
    });
    let outlasted = outlasted.await;
    assert!(matches!(outlasted, Err(RoundError::Held(_))), "a compaction would keep what it sees: {outlasted:?}");
    let held = subject.on_thread(move |rounds| {
        impatient(rounds);
        rounds.check()
    });
    let held = held.await;
    assert!(matches!(held, Err(RoundError::Held(_))), "{held:?}");
    assert!(subject.pending().await.is_some_and(|pending| pending.begun));
    drop(snapshot);
    subject.check().await.unwrap();
    assert_eq!((subject.pending().await, subject.files_with(ERASED)), (None, vec![]));
    subject.store.close().await;
}

#[tokio::test]
async fn a_round_that_was_interrupted_is_repeated_after_a_restart() {
    let mut subject = ErasureFixture::new().await;
    subject.expire_a_message().await;
    subject.on_thread(|rounds| rounds.write(pending::begin).map(drop)).await.unwrap();
    // A deletion during the round belongs to the next one.
    subject.clock.advance(HOUR);
    let later = subject.clock.now();
    subject.delete(Table::Codes, &[0; 32]).await;
    let subject = subject.reopen().await;
    assert!(!subject.files_with(ERASED).is_empty());
    let left = subject.on_thread(|rounds| rounds.leave_journal()).await.unwrap();
    subject.on_thread(move |rounds| rounds.remove_journals(left)).await.unwrap();
    let subject = subject.reopen().await;
    assert!(subject.pending().await.is_some_and(|pending| pending.begun && pending.since < later));
    subject.check().await.unwrap();
    assert_eq!((subject.pending().await, subject.files_with(ERASED)), (None, vec![]));
    assert!(!subject.files_with(KEPT).is_empty());
    subject.store.close().await;
}

#[tokio::test]
async fn a_deletion_during_a_round_is_due_after_it() {
    let mut subject = ErasureFixture::new().await;
    subject.expire_a_message().await;
    subject.on_thread(|rounds| rounds.write(pending::begin).map(drop)).await.unwrap();
    subject.clock.advance(HOUR);
    let later = subject.clock.now();
    subject.delete(Table::Messages, &[0; 24]).await;
    let ended = subject.on_thread(|rounds| {
        rounds.write(|tx| {
            Table::ALL.into_iter().for_each(|table| pending::end(tx, table));
            Ok(())
        })
    });
    ended.await.unwrap();
    assert_eq!(subject.pending().await, Some(Pending { since: later, begun: false }));
    subject.store.close().await;
}

/// A compaction before the round has left a table without rows, and without the sequence numbers of its journal.
#[tokio::test]
async fn a_table_without_rows_is_erased_with_its_journal() {
    let mut subject = ErasureFixture::new().await;
    subject.send(ERASED, Ttl::from_secs(3600)).await;
    subject.clock.advance(HOUR);
    purge_all(subject.store.link().clone(), subject.clock.clone()).await;
    subject.write_to_files(Table::Messages).await;
    subject.clock.advance(WITHIN / 2);
    subject.check().await.unwrap();
    assert_eq!((subject.pending().await, subject.files_with(ERASED)), (None, vec![]));
    subject.store.close().await;
}

#[tokio::test]
async fn tables_of_an_earlier_version_are_erased_once() {
    let mut subject = ErasureFixture::new().await;
    subject.expire_a_message().await;
    subject
        .store
        .write(|tx| {
            for key in tx.keys(Table::Meta, b"erase_")? {
                tx.delete(Table::Meta, &key);
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(subject.pending().await, None);
    subject.start().await;
    let upgraded_at = subject.clock.now();
    assert_eq!(subject.pending().await, Some(Pending { since: upgraded_at, begun: false }));
    subject.clock.advance(WITHIN / 2);
    subject.check().await.unwrap();
    assert_eq!((subject.pending().await, subject.files_with(ERASED)), (None, vec![]));
    subject.start().await;
    assert_eq!(subject.pending().await, None, "once");
    subject.store.close().await;
}
