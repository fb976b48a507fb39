use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ports::{Clock, Ids, StoreError, lock};

use crate::committer::{self, CommitterCommand, CommitterHandle};
use crate::directory::{Directory, StoreOpenError};
use crate::erase::Eraser;
use crate::space::Space;
use crate::tables::Tables;
use crate::trim::Trimmer;
use crate::tx::Tx;
use crate::{Config, EngineHealth};

/// Maximum time that a read waits for a database that is being reopened.
const REOPEN_PATIENCE: Duration = Duration::from_secs(5);

/// A store in a directory. Clones are the same store.
#[derive(Clone)]
pub struct EmbeddedStore {
    shared: Arc<StoreInner>,
}

struct StoreInner {
    path: PathBuf,
    link: CommitterHandle,
    space: Arc<Space>,
    threads: Mutex<Option<Threads>>,
}

/// The threads of a store. Dropping this stops them after their queued work is done.
struct Threads {
    trimmer: Trimmer,
    eraser: Option<Eraser>,
    committer: JoinHandle<()>,
}

impl EmbeddedStore {
    /// Opens the store of a directory, or creates one in an empty or missing directory.
    pub fn open(
        path: impl AsRef<Path>,
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, StoreOpenError> {
        let path = path.as_ref();
        let engine = |source| StoreOpenError::Engine { path: path.to_owned(), source };
        let directory = Directory::claim(path, config.key.as_ref())?;
        let (purged_bytes_max, forgets) = (config.purged_bytes_max, config.forgets);
        let erase_within = config.erase_within.filter(|_| forgets);
        let space = Arc::new(Space::new(&config));
        let (link, committer) = committer::start(directory, config, clock.clone(), ids).map_err(engine)?;
        let trimmer = Trimmer::start(link.clone(), clock.clone(), space.clone(), purged_bytes_max, forgets);
        let trimmer = trimmer.map_err(|error| engine(error.into()))?;
        let eraser = erase_within.map(|within| Eraser::start(link.clone(), clock, within)).transpose();
        let eraser = eraser.map_err(|error| engine(error.into()))?;
        let threads = Mutex::new(Some(Threads { trimmer, eraser, committer }));
        Ok(Self { shared: Arc::new(StoreInner { path: path.to_owned(), link, space, threads }) })
    }

    /// Commits the queued jobs, closes the files and stops the threads. Later calls on other clones fail with "the
    /// store is closed".
    pub async fn close(self) {
        let threads = lock(&self.shared.threads).take();
        let Some(Threads { trimmer, eraser, committer }) = threads else { return };
        let commands = self.shared.link.commands.clone();
        drop(self);
        let closed = tokio::task::spawn_blocking(move || {
            trimmer.stop();
            if let Some(eraser) = eraser {
                eraser.stop();
            }
            // If the committer has already stopped, its files are closed.
            drop(commands.blocking_send(CommitterCommand::Close));
            committer.join()
        });
        if !matches!(closed.await, Ok(Ok(()))) {
            tracing::error!("the committer thread panicked");
        }
    }

    /// Waits until nothing writes any more: the store was closed, or its committer has died.
    pub async fn closed(&self) {
        let mut tables = self.shared.link.tables.clone();
        while tables.changed().await.is_ok() {}
    }

    /// Whether the store accepts writes. A closed store does not.
    pub fn health(&self) -> EngineHealth {
        self.shared.link.health.get()
    }

    /// Waits until the committer has processed all jobs queued so far. The committer also answers while the disk fails;
    /// if it does not, it is stuck.
    pub async fn beat(&self) {
        // A liveness probe ignores the outcome of the commit.
        drop(self.write(|_| Ok(())).await);
    }

    /// The directory of the store.
    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The space for new messages.
    pub(crate) fn space(&self) -> &Space {
        &self.shared.space
    }

    pub(crate) fn link(&self) -> &CommitterHandle {
        &self.shared.link
    }

    /// The open database. Waits a moment if it is being reopened.
    pub(crate) async fn tables(&self) -> Result<Arc<Tables>, StoreError> {
        if let Some(tables) = &*self.shared.link.tables.borrow() {
            return Ok(tables.clone());
        }
        let mut tables = self.shared.link.tables.clone();
        let opened = tokio::time::timeout(REOPEN_PATIENCE, tables.wait_for(Option::is_some)).await;
        match opened.map_err(StoreError::unavailable)?.map_err(closed)?.clone() {
            Some(tables) => Ok(tables),
            None => Err(StoreError::unavailable("the database is being reopened")),
        }
    }

    /// Runs a longer read on a blocking thread: pages and lists may read many blocks from disk and would block the
    /// other tasks of the thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Tables) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let tables = self.tables().await?;
        tokio::task::spawn_blocking(move || read(&tables)).await.map_err(StoreError::unavailable)?
    }

    /// Runs a transaction and waits until it is durable. When the queue is full, the call waits for room first.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (command, outcome) = committer::job(work);
        self.shared.link.commands.send(command).await.map_err(closed)?;
        outcome.await.map_err(closed)?
    }
}

/// The error of every call after the other end of a channel was dropped.
pub(crate) fn closed<E>(_: E) -> StoreError {
    StoreError::unavailable("the store is closed")
}

#[cfg(test)]
mod tests {
    use contract::Violations;
    use domain::{Body, ChatId, ClientMessageId, ContentType, GroupInvites, MessageId, Sequence, UserId};
    use ports::{
        AppendOutcome, ChatReader, ChatWriter, DeadLetterStore, EventLog, MessageReader, MessageWriter, NewGroup,
        NewMessage, Position, RandomIds, SendRefusal, SystemClock, UndeliveredItem, UserReader,
    };

    use super::*;
    use crate::records::MessageLocation;
    use crate::tables::Table;
    use crate::{StoreKey, keys};

    #[tokio::test]
    async fn a_row_that_does_not_decode_is_an_error_that_names_its_table() {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let (user_id, chat_id) = (UserId::from_bytes([1; 16]), ChatId::from_bytes([2; 16]));
        let spoil = store.write(move |tx| {
            tx.put_new(Table::Users, &keys::user(user_id), vec![0xff; 3]);
            tx.put_new(Table::Members, &keys::member(chat_id, user_id), vec![0xff; 3]);
            tx.put_new(Table::Heads, &keys::chat(chat_id), vec![]);
            Ok(())
        });
        spoil.await.unwrap();

        let table = |error: Option<StoreError>| match error {
            Some(StoreError::Corrupt { table, .. }) => table,
            other => panic!("expected a corrupt row, got {other:?}"),
        };
        assert_eq!(table(store.users(&[user_id]).await.err()), "users");
        assert_eq!(table(store.members(chat_id).await.err()), "members");
        assert_eq!(table(store.head(chat_id).await.err()), "heads");
        store.close().await;
    }

    /// All bytes of the files below a directory.
    fn bytes_below(directory: &Path) -> Vec<u8> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { bytes_below(&path) } else { std::fs::read(path).unwrap() }).collect()
    }

    #[tokio::test]
    async fn an_encrypted_store_shows_neither_texts_nor_phone_numbers_and_opens_with_its_key_only() {
        let open = |path: &Path, key: Option<&StoreKey>| {
            let config = Config { key: key.cloned(), ..Config::default() };
            EmbeddedStore::open(path, config, Arc::new(SystemClock), Arc::new(RandomIds))
        };
        let refused = |path: &Path, key: Option<&StoreKey>| {
            ports::error_chain(&open(path, key).err().expect("it is refused")).to_string()
        };
        let (key, other) = (StoreKey::derive(&[1; 32]).unwrap(), StoreKey::derive(&[2; 32]).unwrap());
        for key in [None, Some(&key)] {
            let directory = tempfile::tempdir().unwrap();
            let store = open(directory.path(), key).unwrap();
            let phone_number: domain::PhoneNumber = "+14155550100".parse().unwrap();
            let new = ports::NewUser {
                user_id: UserId::from_bytes([1; 16]),
                display_name: "Recognizable".to_owned().try_into().unwrap(),
                group_invites: GroupInvites::default(),
                created_at: SystemClock.now(),
                proven_at: SystemClock.now(),
            };
            ports::UserWriter::find_or_create(&store, ports::UserKey::Phone(phone_number.clone()), new).await.unwrap();
            // Into the tables too, not only into the journal.
            store.tables().await.unwrap().compact(Table::Users).unwrap();
            store.close().await;
            let bytes = bytes_below(directory.path());
            let shows = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert_eq!((shows("Recognizable"), shows("4155550100")), (key.is_none(), key.is_none()));

            let store = open(directory.path(), key).unwrap();
            assert!(store.by_phone(&[phone_number]).await.unwrap()[0].is_some());
            store.close().await;
            match key {
                Some(key) => {
                    let refusal = refused(directory.path(), None);
                    assert!(refusal.contains(&format!("encrypted with key {}; name it", key.id())), "{refusal}");
                    let refusal = refused(directory.path(), Some(&other));
                    assert!(refusal.contains(&format!("the given key is {}", other.id())), "{refusal}");
                }
                None => {
                    let refusal = refused(directory.path(), Some(&other));
                    assert!(refusal.contains("the store is not encrypted"), "{refusal}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_place_that_holds_another_message_is_refused_and_counted() {
        let violations = Violations::default();
        let _watched = violations.watch();
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let user_id = UserId::from_bytes([1; 16]);
        let group = NewGroup {
            chat_id: ChatId::from_bytes([2; 16]),
            name: "group".to_owned().try_into().unwrap(),
            created_by: user_id,
            members: vec![],
            created_at: SystemClock.now(),
        };
        let chat_id = store.create_group(group).await.unwrap().chat().chat_id;
        let (sent, never_sent) = (MessageId::from_bytes([4; 16]), MessageId::from_bytes([5; 16]));
        let message = NewMessage {
            chat_id,
            sender_id: user_id,
            client_message_id: ClientMessageId::from_bytes([3; 16]),
            message_id: sent,
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: SystemClock.now(),
            origin_connection_id: None,
        };
        store.append(vec![message]).await.unwrap();
        let spoil = store.write(move |tx| {
            tx.put(Table::MessagePlaces, &never_sent.to_bytes(), &MessageLocation { chat_id, sequence: Sequence(1) });
            Ok(())
        });
        spoil.await.unwrap();
        let found = store.by_id(sent, SystemClock.now()).await.unwrap();
        assert_eq!(found.map(|message| message.message_id), Some(sent));
        assert_eq!(violations.seen(), []);
        let failure = store.by_id(never_sent, SystemClock.now()).await.unwrap_err();
        assert_eq!(failure.to_string(), "a stored record of `message_places` is unreadable");
        assert_eq!(violations.seen(), [("dynamodb_is_authoritative".to_owned(), 1)]);
        store.close().await;
    }

    #[tokio::test]
    async fn a_store_without_its_committer_refuses_writes_as_closed() {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let died = store.write(|_| -> Result<(), _> { panic!("a defect") }).await;
        assert_eq!(died.unwrap_err().to_string(), "the store is unavailable");
        tokio::time::timeout(Duration::from_secs(10), store.closed()).await.unwrap();
        assert!(store.write(|_| Ok(())).await.is_err());
    }

    #[tokio::test]
    async fn a_damaged_chat_refuses_its_own_sends_and_no_others_of_the_batch() {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let user_id = UserId::from_bytes([1; 16]);
        let group = |n| NewGroup {
            chat_id: ChatId::from_bytes([n; 16]),
            name: "group".to_owned().try_into().unwrap(),
            created_by: user_id,
            members: vec![],
            created_at: SystemClock.now(),
        };
        let damaged = store.create_group(group(1)).await.unwrap().chat().chat_id;
        let sound = store.create_group(group(2)).await.unwrap().chat().chat_id;
        store
            .write(move |tx| {
                tx.put_new(Table::Heads, &keys::chat(damaged), vec![]);
                Ok(())
            })
            .await
            .unwrap();
        // Restart, because the committer caches the heads that it has written.
        store.close().await;
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let message = |chat_id| NewMessage {
            chat_id,
            sender_id: user_id,
            client_message_id: ClientMessageId::from_bytes([3; 16]),
            message_id: RandomIds.ulid().into(),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: SystemClock.now(),
            origin_connection_id: None,
        };
        let outcomes = store.append(vec![message(damaged), message(sound)]).await.unwrap();
        assert_eq!(outcomes[0], AppendOutcome::Refused(SendRefusal::Unreadable));
        assert!(matches!(outcomes[1], AppendOutcome::New(receipt) if receipt.sequence == Sequence(1)), "{outcomes:?}");
        store.close().await;
    }

    #[tokio::test]
    async fn a_damaged_record_of_the_log_is_passed_over_and_buried_once() {
        let directory = tempfile::tempdir().unwrap();
        // The tail is empty, so consumers read the log from disk.
        let config = Config { tail_events_max: 0, ..Config::default() };
        let store = EmbeddedStore::open(directory.path(), config, Arc::new(SystemClock), Arc::new(RandomIds)).unwrap();
        for n in 1..=3 {
            let group = NewGroup {
                chat_id: ChatId::from_bytes([n; 16]),
                name: "group".to_owned().try_into().unwrap(),
                created_by: UserId::from_bytes([1; 16]),
                members: vec![],
                created_at: SystemClock.now(),
            };
            store.create_group(group).await.unwrap();
        }
        let spoil = store.write(move |tx| {
            tx.put_new(Table::Log, &keys::offset(1), vec![0xff; 3]);
            Ok(())
        });
        spoil.await.unwrap();
        for group in ["one", "other"] {
            let mut consumer = store.consumer(group).await.unwrap();
            let records = consumer.next().await.unwrap();
            assert_eq!(records.iter().map(|record| record.position.0).collect::<Vec<_>>(), [0, 2]);
        }
        let letters = store.dead_letters(None, 10).await.unwrap();
        let [letter] = letters.as_slice() else { panic!("{letters:?}") };
        assert_eq!(letter.what, UndeliveredItem::Unreadable { position: Position(1) });
        assert!(letter.reason.starts_with("a row of `log` does not decode: "), "{}", letter.reason);
        store.close().await;
    }

    #[tokio::test]
    async fn a_failed_transaction_leaves_nothing_and_does_not_affect_others() {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
                .unwrap();
        let put = |key: &'static [u8], fail: bool| {
            store.write(move |tx| {
                tx.put(Table::Meta, key, &1u64);
                if fail { Err(StoreError::unavailable("half-way")) } else { Ok(()) }
            })
        };
        let (first, failed, last) = tokio::join!(put(b"first", false), put(b"failed", true), put(b"last", false));
        assert!(first.is_ok() && last.is_ok());
        assert_eq!(failed.unwrap_err().to_string(), "the store is unavailable");
        let tables = store.tables().await.unwrap();
        let kept = [&b"first"[..], b"failed", b"last"].map(|key| tables.get::<u64>(Table::Meta, key).unwrap());
        assert_eq!(kept, [Some(1), None, Some(1)]);
        drop(tables);
        store.close().await;
    }
}
