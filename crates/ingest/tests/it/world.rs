use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{ChatId, ContentType, UserId};
use memory::{MemoryStore, SequentialIds};
use ports::{
    Appended, ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage, SendRequest, Signal, Signals, StoreError,
    SystemClock,
};
use tidings_ingest::{Config, Ingester, Ports};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) ingest: Ingester,
    pub(crate) signals: Arc<Heard>,
    ids: Arc<SequentialIds>,
    _lanes: JoinSet<()>,
}

/// Remembers the signals that were given.
#[derive(Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<Signal>>);

#[async_trait]
impl Signals for Heard {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        self.0.lock().unwrap().push(signal);
        Ok(true)
    }
}

/// The store's writer behind a gate that a test opens, and a switch that breaks it.
pub(crate) struct Writer {
    store: Arc<MemoryStore>,
    /// Commits that may pass.
    pub(crate) gate: Semaphore,
    pub(crate) broken: AtomicBool,
    /// Sends in the largest batch seen.
    pub(crate) batch_len: AtomicUsize,
}

#[async_trait]
impl MessageWriter for Writer {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        self.batch_len.fetch_max(batch.len(), Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("the disk is full"));
        }
        self.store.append(batch).await
    }
}

/// More commits than any test makes.
pub(crate) const OPEN: usize = 10_000;

impl World {
    /// A world in which `commits` commits may pass before the gate closes.
    pub(crate) fn new(commits: usize, config: Config) -> Self {
        let ids = Arc::new(SequentialIds::default());
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let writer = Arc::new(Writer {
            store: store.clone(),
            gate: Semaphore::new(commits),
            broken: AtomicBool::new(false),
            batch_len: AtomicUsize::new(0),
        });
        let mut lanes = JoinSet::new();
        let signals = Arc::new(Heard::default());
        let ports = Ports {
            writer: writer.clone(),
            messages: store.clone(),
            chats: store.clone(),
            watermarks: store.clone(),
            signals: signals.clone(),
            clock: Arc::new(SystemClock),
            ids: ids.clone(),
        };
        let ingest = Ingester::start(config, ports, &mut lanes);
        Self { store, writer, ingest, signals, ids, _lanes: lanes }
    }

    pub(crate) fn user(&self) -> UserId {
        self.ids.ulid().into()
    }

    pub(crate) async fn group(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = NewGroup {
            chat_id: self.ids.ulid().into(),
            name: "group".to_owned().try_into().unwrap(),
            created_by: owner,
            members: members.to_vec(),
            created_at: SystemClock.now(),
        };
        self.store.create_group(group).await.unwrap().chat().chat_id
    }
}

/// A send that nobody has tried before.
pub(crate) fn request(chat_id: ChatId, sender_id: UserId, text: &str) -> SendRequest {
    SendRequest {
        chat_id,
        sender_id,
        client_message_id: uuid::Uuid::new_v4().into(),
        content: text.to_owned().try_into().unwrap(),
        content_type: ContentType::Text,
        ttl: None,
        origin_connection_id: None,
    }
}
