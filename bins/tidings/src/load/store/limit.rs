//! Measures the throughput of the store alone, as a reference for the throughput of a whole server.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::{Body, ChatId, Content, ContentType, UserId};
use embedded::{Config, EmbeddedStore, StoreOpenError};
use ports::{
    AppendOutcome, ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage, RandomIds, StoreError, SystemClock,
};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Number of chats that receive the sends.
const CHATS: usize = 100;
const CONTENT_BYTES: usize = 128;
/// Journal bytes of a send of that size: five rows with keys and framing.
const JOURNAL_BYTES_PER_SEND: usize = 700;

/// Sends per second that a directory sustains, each durable before its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreLimit {
    /// Concurrent sends.
    pub(crate) in_flight: usize,
    /// Measured through the store's port.
    pub(crate) store_sends_per_second: f64,
    /// The slowest of these sends.
    longest_send: Duration,
    /// Measured by appending the journal bytes of these sends to a growing file, with one sync per `in_flight` sends.
    /// Not an upper bound where syncs dominate: the store's journal is preallocated and does not grow.
    pub(crate) raw_sends_per_second: f64,
}

impl fmt::Display for StoreLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_flight, store_sends_per_second, longest_send, raw_sends_per_second } = self;
        write!(
            f,
            "in flight {in_flight:>5}   store {store_sends_per_second:>8.0}/s   raw {raw_sends_per_second:>8.0}/s   \
             longest {longest_send:?}"
        )
    }
}

/// Measures the store and the raw disk in `directory`, one after the other, for `time` each. The files stay there.
pub(crate) async fn store_limit(directory: &Path, in_flight: usize, time: Duration) -> anyhow::Result<StoreLimit> {
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
    let raw_sends_per_second =
        raw_limit(&directory.join("RAW"), in_flight, time).context("cannot append to a file in the directory")?;
    Ok(StoreLimit { in_flight, store_sends_per_second, longest_send, raw_sends_per_second })
}

pub(super) fn open(directory: &Path) -> Result<EmbeddedStore, StoreOpenError> {
    EmbeddedStore::open(directory, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
}

/// A chat with its owner as the only member.
pub(super) async fn new_chat(store: &EmbeddedStore, owner: UserId) -> Result<ChatId, StoreError> {
    let group = NewGroup {
        chat_id: RandomIds.ulid().into(),
        name: "limit".to_owned().try_into().expect("the name is valid"),
        created_by: owner,
        members: vec![],
        created_at: SystemClock.now(),
    };
    Ok(store.create_group(group).await?.chat().chat_id)
}

/// A message of the length that `tidings load` uses.
pub(super) fn new_message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        body: Body::new(Content::try_from("x".repeat(CONTENT_BYTES)).expect("the content is valid"), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}

/// Sends messages one after the other, each after the answer to the previous one.
async fn send_until(
    store: EmbeddedStore,
    chat_id: ChatId,
    sender_id: UserId,
    end: Instant,
) -> anyhow::Result<(u64, Duration)> {
    let (mut sends, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let started = Instant::now();
        for outcome in store.append(vec![new_message(chat_id, sender_id)]).await? {
            let AppendOutcome::New(_) = outcome else { bail!("a send was answered with {outcome:?}") };
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
