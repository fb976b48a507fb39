use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{Body, ChatId, ContentType, Sequence, UpdateAction, UserId};
use memory::{MemoryStore, SequentialIds};
use ports::{
    AppendOutcome, ChatWriter, Clock, Ids, MessageWriter, NewEntry, NewGroup, SendContent, SendRequest, Signal,
    SignalSender, StoreError, SystemClock,
};
use tidings_ingest::{Config, Ingester, Ports};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) writer: Arc<GatedWriter>,
    pub(crate) ingest: Ingester,
    pub(crate) signals: Arc<SignalRecorder>,
    ids: Arc<SequentialIds>,
    pub(crate) commits: JoinSet<()>,
}

/// Records signals.
#[derive(Default)]
pub(crate) struct SignalRecorder(pub(crate) Mutex<Vec<Signal>>);

#[async_trait]
impl SignalSender for SignalRecorder {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        self.0.lock().unwrap().push(signal);
        Ok(true)
    }
}

/// A writer with a gate that blocks commits, chats whose commits never end, and a switch that makes commits fail.
pub(crate) struct GatedWriter {
    store: Arc<MemoryStore>,
    /// Number of commits that may proceed.
    pub(crate) gate: Semaphore,
    pub(crate) stuck: Mutex<Option<ChatId>>,
    pub(crate) broken: AtomicBool,
    /// Size of the largest batch so far.
    pub(crate) batch_len: AtomicUsize,
}

#[async_trait]
impl MessageWriter for GatedWriter {
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
        self.batch_len.fetch_max(batch.len(), Ordering::SeqCst);
        let stuck = *self.stuck.lock().unwrap();
        if batch.iter().any(|entry| Some(entry.chat_id()) == stuck) {
            std::future::pending::<()>().await;
        }
        self.gate.acquire().await.unwrap().forget();
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("the disk is full"));
        }
        self.store.commit(batch).await
    }
}

/// More commits than any test makes.
pub(crate) const OPEN: usize = 10_000;

impl World {
    /// A world in which `commits` commits may proceed before the gate closes.
    pub(crate) fn new(commits: usize, config: Config) -> Self {
        let ids = Arc::new(SequentialIds::default());
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let writer = Arc::new(GatedWriter {
            store: store.clone(),
            gate: Semaphore::new(commits),
            stuck: Mutex::default(),
            broken: AtomicBool::new(false),
            batch_len: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        let signals = Arc::new(SignalRecorder::default());
        let ports = Ports {
            writer: writer.clone(),
            messages: store.clone(),
            chats: store.clone(),
            watermarks: store.clone(),
            signals: signals.clone(),
            clock: Arc::new(SystemClock),
            ids: ids.clone(),
        };
        let ingest = Ingester::start(config, ports, &mut tasks);
        Self { store, writer, ingest, signals, ids, commits: tasks }
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

/// The content of a message.
pub(crate) fn content(text: &str) -> SendContent {
    SendContent::Message { body: Body::new(text.to_owned().try_into().unwrap(), ContentType::Text), ttl: None }
}

/// A new update of a message.
pub(crate) fn update(chat_id: ChatId, user_id: UserId, target: u64, action: UpdateAction) -> SendRequest {
    let content = SendContent::Update { target: Sequence(target), action };
    SendRequest { content, ..request(chat_id, user_id, "-") }
}

/// A new send.
pub(crate) fn request(chat_id: ChatId, sender_id: UserId, text: &str) -> SendRequest {
    SendRequest {
        chat_id,
        sender_id,
        client_message_id: uuid::Uuid::new_v4().into(),
        content: content(text),
        origin_connection_id: None,
        assertion: None,
    }
}
