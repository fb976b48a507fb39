use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Advance, IngestError, Sequence, Ttl, UpdateKind, Watermarks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::{Histogram, counter, histogram};
use ports::{
    AdvanceRequest, ChatReader, Clock, Ids, Ingest, MessageReader, MessageWriter, NewEntry, NewMessage, NewUpdate,
    Page, PageBounds, SendContent, SendRequest, Sent, Signal, SignalSender, StoreError, SyncRequest, WatermarkStore,
    error_chain, trace,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::outcome::unavailable;
use crate::queue::{BatchBounds, SendQueue, UncommittedSend};
use crate::{checks, commits};

#[derive(Clone, Debug)]
pub struct Config {
    /// How sends are grouped into commits.
    pub grouping: Grouping,
    /// Most queued sends. Further sends fail as busy.
    pub queue_len_max: usize,
    /// Most sends in one commit.
    pub batch_len_max: usize,
    /// Deadline of every call (G5).
    pub deadline: Duration,
    /// Longest lifetime of a message, whatever its sender or its chat requests; unlimited if absent.
    pub ttl_max: Option<Ttl>,
    /// The age up to which authors edit and delete their messages; unlimited if absent.
    pub update_window: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        let (grouping, deadline) = (Grouping::AllChats, Duration::from_secs(5));
        Self { grouping, queue_len_max: 8192, batch_len_max: 1024, deadline, ttl_max: None, update_window: None }
    }
}

/// How sends are grouped into commits. Sends that arrive during a commit of their chat wait for the next one.
#[derive(Clone, Copy, Debug)]
pub enum Grouping {
    /// One commit at a time, with sends of all chats: for a store that makes all of them durable with one sync.
    AllChats,
    /// A commit for each chat, up to `commits_max` at a time: for a store with a transaction for each chat.
    ByChat { commits_max: usize },
}

/// Dependencies of the durability plane.
pub struct Ports {
    pub writer: Arc<dyn MessageWriter>,
    pub messages: Arc<dyn MessageReader>,
    pub chats: Arc<dyn ChatReader>,
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Receives every moved watermark.
    pub signals: Arc<dyn SignalSender>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// The durability plane in this process.
pub struct Ingester {
    config: Config,
    ports: Ports,
    queue: Arc<SendQueue>,
    /// Looked up once.
    answer_seconds: Histogram,
}

impl Ingester {
    /// Starts the commits as a task of `tasks`. It ends after the ingester is dropped and all queued sends are committed.
    pub fn start(config: Config, ports: Ports, tasks: &mut JoinSet<()>) -> Self {
        let queue = Arc::new(SendQueue::new(config.queue_len_max));
        let (commits_max, chats_max) = match config.grouping {
            Grouping::AllChats => (1, usize::MAX),
            Grouping::ByChat { commits_max } => (commits_max, 1),
        };
        let bounds = BatchBounds { sends_max: config.batch_len_max, chats_max };
        tasks.spawn(commits::run(queue.clone(), ports.writer.clone(), commits_max, bounds));
        Self { config, ports, queue, answer_seconds: histogram!("tidings_ingest_answer_seconds") }
    }

    /// Number of queued sends.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    async fn sync_now(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let SyncRequest { user_id, chat_id, after, limit, .. } = request;
        if self.ports.chats.member(chat_id, user_id).await.map_err(store_failed)?.is_none() {
            let chat = self.ports.chats.chat(chat_id).await.map_err(store_failed)?;
            return Err(if chat.is_some() { IngestError::NotAMember } else { IngestError::ChatNotFound });
        }
        let bounds = PageBounds { count: limit, bytes: domain::limits::SYNC_PAGE_BYTES_MAX };
        let now = self.ports.clock.now();
        let mut page = self.ports.messages.after(chat_id, after, bounds, now).await.map_err(store_failed)?;
        if after > page.head {
            return Err(IngestError::AboveHead { head: page.head });
        }
        if !checks::page_may_be_returned(&request, now, &page) {
            return Err(unavailable());
        }
        leave_out_deleted(&mut page);
        Ok(page)
    }

    /// The entry of a request, with the id and the time that it gets if it is new.
    fn new_entry(&self, request: SendRequest) -> NewEntry {
        let SendRequest { chat_id, sender_id, client_message_id, content, origin_connection_id, .. } = request;
        let Config { ttl_max, update_window, .. } = self.config;
        let (id, created_at) = (self.ports.ids.ulid().into(), self.ports.clock.now());
        match content {
            SendContent::Message { body, ttl } => NewEntry::Message(NewMessage {
                chat_id,
                sender_id,
                client_message_id,
                message_id: id,
                body,
                ttl,
                ttl_max,
                created_at,
                origin_connection_id,
            }),
            SendContent::Update { target, action } => NewEntry::Update(NewUpdate {
                chat_id,
                user_id: sender_id,
                client_message_id,
                update_id: id,
                target,
                action,
                window: update_window,
                ttl_max,
                created_at,
            }),
        }
    }

    /// Runs `work` with the configured deadline.
    async fn within_deadline<T>(&self, work: impl Future<Output = Result<T, IngestError>>) -> Result<T, IngestError> {
        tokio::time::timeout(self.config.deadline, work).await.unwrap_or(Err(unavailable()))
    }
}

/// Removes the messages whose deletion is in the same page. The read compares expiries with the start of the request, so
/// it returns a message that was deleted in between, together with its deletion. A client that has applied the deletion
/// would then show the message until its expiry is pushed, or permanently if it misses that push.
fn leave_out_deleted(page: &mut Page) {
    let deletions = page.updates.iter().filter(|update| update.kind == UpdateKind::Deleted);
    let deleted: BTreeSet<Sequence> = deletions.map(|update| update.target).collect();
    page.messages.retain(|message| !deleted.contains(&message.sequence));
    page.updated.retain(|message| !deleted.contains(&message.sequence));
}

impl Drop for Ingester {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Ingest for Ingester {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        let (reply, outcome) = oneshot::channel();
        let entry = self.new_entry(request);
        let begun = Instant::now();
        let span = trace::current_span();
        self.queue.push(UncommittedSend { entry, deadline: begun + self.config.deadline, reply, span });
        let answer_seconds = self.answer_seconds.clone();
        // A dropped reply means that the commit has died with the send, so the outcome is unknown.
        outcome
            .map(move |outcome| {
                answer_seconds.record(begun.elapsed());
                outcome.unwrap_or(Err(unavailable()))
            })
            .boxed()
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let begun = Instant::now();
        let page = self.within_deadline(self.sync_now(request)).await;
        histogram!("tidings_ingest_sync_seconds").record(begun.elapsed());
        let outcome = match &page {
            Ok(_) => "page",
            Err(IngestError::Unavailable { .. } | IngestError::Busy) => "unavailable",
            Err(_) => "refused",
        };
        counter!("tidings_ingest_syncs_total", "outcome" => outcome).increment(1);
        page
    }

    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError> {
        let AdvanceRequest { user_id, chat_id, kind, to, .. } = request;
        let at = self.ports.clock.now();
        let advanced =
            async { self.ports.watermarks.advance(user_id, chat_id, kind, to, at).await.map_err(store_failed) };
        let advance = self.within_deadline(advanced).await?;
        if let Advance::Moved(watermarks) | Advance::Unchanged(watermarks) = advance
            && !checks::watermarks_may_be_returned(kind, to, matches!(advance, Advance::Moved(_)), watermarks)
        {
            return Err(unavailable());
        }
        match advance {
            Advance::Moved(watermarks) => {
                let receipt = Signal::Receipt { chat_id, user_id, watermarks };
                if let Err(failure) = self.ports.signals.signal(receipt).await {
                    warn!(
                        error = %error_chain(&failure),
                        "receipt could not be sent; members see it when they load the chat"
                    );
                }
                Ok(watermarks)
            }
            Advance::Unchanged(watermarks) => Ok(watermarks),
            Advance::AboveHead(head) => Err(IngestError::AboveHead { head }),
            Advance::NotAMember => Err(IngestError::NotAMember),
            Advance::ChatNotFound => Err(IngestError::ChatNotFound),
        }
    }
}

fn store_failed(failure: StoreError) -> IngestError {
    error!(error = %error_chain(&failure), "store call failed");
    match failure {
        StoreError::Unavailable(_) => unavailable(),
        StoreError::Corrupt { .. } => IngestError::Unreadable,
    }
}
