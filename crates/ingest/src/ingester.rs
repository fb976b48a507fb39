use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Advance, ChatId, Sequence, UserId, WatermarkKind, Watermarks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::{Gauge, Histogram, counter, gauge, histogram};
use ports::{
    ChatReader, Clock, Ids, Ingest, IngestError, MessageReader, MessageWriter, NewMessage, Page, PageBounds,
    SendRequest, Sent, Signal, Signals, StoreError, SyncRequest, WatermarkStore, trace,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::checks;
use crate::lane::{self, RETRY_AFTER, Waiting};

#[derive(Clone, Debug)]
pub struct Config {
    /// Lanes that commit side by side; the chats are spread over them. One, where the store has one committer.
    pub lanes: usize,
    /// Sends that may wait in a lane; the next one is told that the service is busy.
    pub queue_len_max: usize,
    /// Sends in one commit, at the most.
    pub batch_len_max: usize,
    /// By when every call is answered (G5).
    pub deadline: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { lanes: 1, queue_len_max: 8192, batch_len_max: 1024, deadline: Duration::from_secs(5) }
    }
}

/// What the plane needs from the world.
pub struct Ports {
    pub writer: Arc<dyn MessageWriter>,
    pub messages: Arc<dyn MessageReader>,
    pub chats: Arc<dyn ChatReader>,
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Hears of every watermark that has moved.
    pub signals: Arc<dyn Signals>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// The durability plane in this process.
pub struct Ingester {
    config: Config,
    ports: Ports,
    lanes: Vec<mpsc::Sender<Waiting>>,
    /// What every send touches, looked up once.
    waiting: Gauge,
    answer_seconds: Histogram,
}

impl Ingester {
    /// Starts the lanes as tasks of `tasks`. They end when the ingester is dropped and what waits is committed.
    pub fn start(config: Config, ports: Ports, tasks: &mut JoinSet<()>) -> Self {
        let waiting = gauge!("tidings_ingest_queue_sends");
        waiting.set(0);
        gauge!("tidings_ingest_queue_sends_max").set((config.lanes.max(1) * config.queue_len_max) as f64);
        let lanes = (0..config.lanes.max(1))
            .map(|_| {
                let (sender, queue) = mpsc::channel(config.queue_len_max);
                tasks.spawn(lane::run(queue, ports.writer.clone(), config.batch_len_max));
                sender
            })
            .collect();
        Self { config, ports, lanes, waiting, answer_seconds: histogram!("tidings_ingest_answer_seconds") }
    }

    /// Sends that wait in the lanes.
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.max_capacity() - lane.capacity()).sum()
    }

    fn lane(&self, chat_id: ChatId) -> &mpsc::Sender<Waiting> {
        // The end of an id is as good as random.
        let [.., high, low] = chat_id.to_bytes();
        &self.lanes[usize::from(u16::from_be_bytes([high, low])) % self.lanes.len()]
    }

    async fn sync_now(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let SyncRequest { user_id, chat_id, after, limit } = request;
        if self.ports.chats.member(chat_id, user_id).await.map_err(unavailable)?.is_none() {
            let chat = self.ports.chats.chat(chat_id).await.map_err(unavailable)?;
            return Err(if chat.is_some() { IngestError::NotAMember } else { IngestError::ChatNotFound });
        }
        let bounds = PageBounds { count: limit, bytes: domain::limits::SYNC_PAGE_BYTES_MAX };
        let now = self.ports.clock.now();
        let page = self.ports.messages.after(chat_id, after, bounds, now).await.map_err(unavailable)?;
        if after > page.head {
            return Err(IngestError::AboveHead { head: page.head });
        }
        if !checks::page_may_be_shown(&request, now, &page) {
            return Err(IngestError::Unavailable { retry_after: RETRY_AFTER });
        }
        Ok(page)
    }

    /// Waits for `work` as long as an answer may take.
    async fn within_deadline<T>(&self, work: impl Future<Output = Result<T, IngestError>>) -> Result<T, IngestError> {
        tokio::time::timeout(self.config.deadline, work)
            .await
            .unwrap_or(Err(IngestError::Unavailable { retry_after: RETRY_AFTER }))
    }
}

#[async_trait]
impl Ingest for Ingester {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        let (reply, outcome) = oneshot::channel();
        let message = NewMessage {
            chat_id: request.chat_id,
            sender_id: request.sender_id,
            client_message_id: request.client_message_id,
            message_id: self.ports.ids.ulid().into(),
            content: request.content,
            content_type: request.content_type,
            ttl: request.ttl,
            created_at: self.ports.clock.now(),
            origin_connection_id: request.origin_connection_id,
        };
        let begun = Instant::now();
        let span = trace::current_span();
        let waiting = Waiting { message, deadline: begun + self.config.deadline, reply, span };
        match self.lane(request.chat_id).try_send(waiting) {
            Ok(()) => self.waiting.increment(1),
            Err(mpsc::error::TrySendError::Full(refused)) => lane::answer(refused.reply, Err(IngestError::Busy)),
            Err(mpsc::error::TrySendError::Closed(refused)) => {
                lane::answer(refused.reply, Err(IngestError::Unavailable { retry_after: RETRY_AFTER }));
            }
        }
        let answer_seconds = self.answer_seconds.clone();
        // A reply that is dropped unanswered means that the lane has died with the send: its outcome is unknown.
        outcome
            .map(move |outcome| {
                answer_seconds.record(begun.elapsed());
                outcome.unwrap_or(Err(IngestError::Unavailable { retry_after: RETRY_AFTER }))
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

    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Watermarks, IngestError> {
        let advanced = async { self.ports.watermarks.advance(user_id, chat_id, kind, to).await.map_err(unavailable) };
        let advance = self.within_deadline(advanced).await?;
        if let Advance::Moved(watermarks) | Advance::Unchanged(watermarks) = advance
            && !checks::watermarks_may_be_told(kind, to, matches!(advance, Advance::Moved(_)), watermarks)
        {
            return Err(IngestError::Unavailable { retry_after: RETRY_AFTER });
        }
        match advance {
            Advance::Moved(watermarks) => {
                let receipt = Signal::Receipt { chat_id, user_id, watermarks };
                if let Err(failure) = self.ports.signals.signal(receipt).await {
                    warn!(
                        error = &failure as &dyn std::error::Error,
                        "a receipt was lost; members find it in the chat"
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

fn unavailable(failure: StoreError) -> IngestError {
    error!(error = &failure as &dyn std::error::Error, "the store did not answer");
    match failure {
        StoreError::Unavailable(_) => IngestError::Unavailable { retry_after: RETRY_AFTER },
        StoreError::Corrupt { .. } => IngestError::Unreadable,
    }
}
