//! What the store alone can do, measured: the figures that a whole server is held against.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, Content, ContentType, UserId};
use ports::{
    Appended, ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage, RandomIds, StoreError, SystemClock,
};
use tokio::task::{JoinError, JoinSet};
use uuid::Uuid;

use crate::{Config, EmbeddedStore, OpenError};

/// Chats that the sends are spread over.
const CHATS: usize = 100;
const CONTENT_BYTES: usize = 128;
/// What a send of that size leaves in the journal: five rows, their keys and their framing.
const JOURNAL_BYTES_PER_SEND: usize = 700;

/// How many sends a second a directory takes, each durable before its answer.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimit {
    /// Sends waiting at any moment.
    pub in_flight: usize,
    /// Through the store's port.
    pub store_sends_per_second: f64,
    /// The longest that a send of those took.
    pub longest_send: Duration,
    /// As many bytes as those sends leave in the journal, appended to a growing file and synced `in_flight` sends at a
    /// time. Not an upper bound where syncs dominate: the store's journal is laid out in advance and does not grow.
    pub raw_sends_per_second: f64,
}

/// Why a limit could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed under way.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The raw file failed.
    #[error("cannot append to a file in the directory")]
    Raw(#[from] io::Error),
    /// A sender came to no end.
    #[error("a sender did not finish")]
    Sender(#[from] JoinError),
    /// The store refused a send that is as good as any.
    #[error("a send was answered with {0:?}")]
    Refused(Appended),
}

/// Measures the store and the raw disk in `directory`, one after the other, for `time` each, and leaves the files there.
pub async fn store_limit(directory: &Path, in_flight: usize, time: Duration) -> Result<StoreLimit, LimitError> {
    let store = open(directory)?;
    let sender_id = RandomIds.ulid().into();
    let mut chats = vec![];
    for _ in 0..CHATS {
        chats.push(new_chat(&store, sender_id).await?);
    }
    let started = Instant::now();
    let mut senders = JoinSet::new();
    for n in 0..in_flight {
        senders.spawn(send_until(store.clone(), chats[n % CHATS], sender_id, started + time));
    }
    let (mut sends, mut longest_send) = (0, Duration::ZERO);
    while let Some(sender) = senders.join_next().await {
        let (count, longest) = sender??;
        sends += count;
        longest_send = longest_send.max(longest);
    }
    let store_sends_per_second = sends as f64 / started.elapsed().as_secs_f64();
    store.close().await;
    let raw_sends_per_second = raw_limit(&directory.join("RAW"), in_flight, time)?;
    Ok(StoreLimit { in_flight, store_sends_per_second, longest_send, raw_sends_per_second })
}

pub(crate) fn open(directory: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(directory, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
}

/// A chat that its owner is alone in.
pub(crate) async fn new_chat(store: &EmbeddedStore, owner: UserId) -> Result<ChatId, StoreError> {
    let group = NewGroup {
        chat_id: RandomIds.ulid().into(),
        name: "limit".to_owned().try_into().expect("the name is valid"),
        created_by: owner,
        members: vec![],
        created_at: SystemClock.now(),
    };
    Ok(store.create_group(group).await?.chat().chat_id)
}

/// A message as long as those of `tidings load`.
pub(crate) fn new_message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        content: Content::try_from("x".repeat(CONTENT_BYTES)).expect("the content is valid"),
        content_type: ContentType::Text,
        ttl: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}

/// Sends one message after the other, each after the answer to the one before.
async fn send_until(
    store: EmbeddedStore,
    chat_id: ChatId,
    sender_id: UserId,
    end: Instant,
) -> Result<(u64, Duration), LimitError> {
    let (mut sends, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let started = Instant::now();
        for outcome in store.append(vec![new_message(chat_id, sender_id)]).await? {
            let Appended::New(_) = outcome else { return Err(LimitError::Refused(outcome)) };
            sends += 1;
        }
        longest = longest.max(started.elapsed());
    }
    Ok((sends, longest))
}

fn raw_limit(path: &Path, in_flight: usize, time: Duration) -> io::Result<f64> {
    let batch = vec![1; in_flight * JOURNAL_BYTES_PER_SEND];
    let mut file = File::create(path)?;
    let started = Instant::now();
    let mut sends = 0;
    while started.elapsed() < time {
        file.write_all(&batch)?;
        file.sync_data()?;
        sends += in_flight;
    }
    Ok(sends as f64 / started.elapsed().as_secs_f64())
}
