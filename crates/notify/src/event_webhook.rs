use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_DEFAULT};
use domain::{Backoff, ChatId, Event, EventKind, Sequence};
use futures_util::StreamExt;
use futures_util::stream;
use metrics::gauge;
use ports::{
    Clock, DeadLetter, DeadLetterStore, EventConsumer, EventLog, MessageReader, PageBounds, Position, Record, Start,
    StoreError, UndeliveredItem, error_chain, lock,
};
use protocol::event::EventEnvelope;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, warn};
use ulid::Ulid;
use webhook::{HttpCallError, Webhook};

use crate::WebhookStatus;
use crate::dead_letters::{Redelivery, bury};
use crate::delivery_attempts::{DeliveryAttempts, DeliveryFailureAction};
use crate::lanes::{WebhookEvent, lanes};
use crate::status::WebhookTally;
use crate::wait::{consumer, wait_out};

/// Most chats with concurrent deliveries.
const LANES_MAX: usize = 16;
/// Most queued replays of chats. Further ones are rejected.
const CHAT_REPLAYS_MAX: usize = 16;
/// Messages of a chat that a replay reads at a time.
const PAGE: PageBounds = PageBounds { count: SYNC_PAGE_DEFAULT, bytes: SYNC_PAGE_BYTES_MAX };
/// How often the lag metric is updated.
const LAG_INTERVAL: Duration = Duration::from_secs(10);

/// Posts every event to the application's server, at least once and in order per chat.
///
/// It delivers one batch of the log at a time: chats concurrently, events of one chat sequentially. The log is the buffer
/// while the receiver is unavailable. An event that the receiver keeps rejecting becomes a dead letter, and its chat
/// continues.
pub struct EventWebhook {
    ports: EventWebhookPorts,
    webhook: Webhook,
    config: EventWebhookConfig,
    /// Channels to the running loop; `None` before `run`.
    channels: Mutex<Option<ReplayChannels>>,
    outcomes: Mutex<WebhookTally>,
}

/// Dependencies of the webhook.
pub struct EventWebhookPorts {
    pub log: Arc<dyn EventLog>,
    pub messages: Arc<dyn MessageReader>,
    pub dead_letters: Arc<dyn DeadLetterStore>,
    pub clock: Arc<dyn Clock>,
}

/// Configuration of the webhook.
#[derive(Clone, Debug)]
pub struct EventWebhookConfig {
    /// The kinds of events to deliver.
    pub kinds: Vec<EventKind>,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// Rejections after which an event is given up.
    pub refusals_max: u32,
    /// How long an unavailable receiver is retried before an event is given up.
    pub patience: Duration,
}

impl Default for EventWebhookConfig {
    fn default() -> Self {
        Self {
            kinds: vec![EventKind::Message, EventKind::Member, EventKind::Chat],
            backoff: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            refusals_max: 5,
            patience: Duration::from_secs(24 * 3600),
        }
    }
}

/// A range of events to deliver again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// All events from a log offset on. It replaces the batch in progress.
    From(Start),
    /// The messages of a chat from a sequence on, delivered between two batches of the log. A restart discards it.
    Chat {
        /// The chat.
        chat_id: ChatId,
        /// The first message to deliver again.
        from: Sequence,
    },
}

/// Reason to reject a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// This process does not deliver events.
    #[error("the webhook does not run in this process")]
    NotRunning,
    /// Too many replays are queued.
    #[error("{CHAT_REPLAYS_MAX} chat replays are already queued; try again when one is done")]
    TooMany,
    /// The webhook is not configured for messages.
    #[error("messages are not among the events that the webhook delivers")]
    NoMessages,
    /// The offset could not be changed.
    #[error("the offset in the log could not be changed")]
    Store(#[from] StoreError),
}

#[derive(Clone)]
struct ReplayChannels {
    seeks: mpsc::Sender<Seek>,
    chats: mpsc::Sender<ChatReplay>,
}

/// Request to move the offset, answered when it is done.
struct Seek {
    to: Start,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Replay of a chat's messages above a sequence.
struct ChatReplay {
    chat_id: ChatId,
    after: Sequence,
}

impl EventWebhook {
    /// The consumer group of all processes that deliver events.
    pub const GROUP: &'static str = "webhook";

    pub fn new(ports: EventWebhookPorts, webhook: Webhook, config: EventWebhookConfig) -> Self {
        Self { ports, webhook, config, channels: Mutex::default(), outcomes: Mutex::default() }
    }

    /// Consumes the log until the task is aborted. It retries while the log, the store or the receiver is unavailable.
    /// Dropping the future is safe: the next run repeats the batch in progress.
    pub async fn run(&self) {
        let (seeks, mut seek_requests) = mpsc::channel(1);
        let (chats, mut replays) = mpsc::channel(CHAT_REPLAYS_MAX);
        *lock(&self.channels) = Some(ReplayChannels { seeks, chats });
        tokio::join!(self.watch_lag(), async {
            let mut replay = None;
            loop {
                let mut consumer = consumer(&*self.ports.log, Self::GROUP).await;
                // A seek cancels the work in progress. The batch is not committed, and the
                // consumer is dropped before the offset of its group changes.
                let Seek { to, done } = tokio::select! {
                    biased;
                    Some(seek) = seek_requests.recv() => seek,
                    never = self.consume(&mut *consumer, &mut replays, &mut replay) => match never {},
                };
                drop(consumer);
                // The seek takes effect even if the caller no longer waits for the result.
                let _ = done.send(self.ports.log.seek(Self::GROUP, to).await);
            }
        });
    }

    /// Replays events. A new log offset is durable when this returns; the replay of a chat is queued.
    pub async fn replay(&self, replay: Replay) -> Result<(), ReplayError> {
        let channels = lock(&self.channels).clone();
        let ReplayChannels { seeks, chats } = channels.ok_or(ReplayError::NotRunning)?;
        match replay {
            Replay::From(to) => {
                let (done, sought) = oneshot::channel();
                seeks.send(Seek { to, done }).await.map_err(|_| ReplayError::NotRunning)?;
                Ok(sought.await.map_err(|_| ReplayError::NotRunning)??)
            }
            Replay::Chat { .. } if !self.config.kinds.contains(&EventKind::Message) => Err(ReplayError::NoMessages),
            Replay::Chat { chat_id, from } => {
                let replay = ChatReplay { chat_id, after: Sequence(from.0.saturating_sub(1)) };
                chats.try_send(replay).map_err(|error| match error {
                    TrySendError::Full(_) => ReplayError::TooMany,
                    TrySendError::Closed(_) => ReplayError::NotRunning,
                })
            }
        }
    }

    /// Current state of the deliveries.
    pub async fn status(&self) -> Result<WebhookStatus, StoreError> {
        let lag = self.ports.log.lag(Self::GROUP).await?;
        Ok(lock(&self.outcomes).status(lag))
    }

    /// Makes one attempt to deliver the event at a log position.
    pub(crate) async fn redeliver(&self, position: Position, attempt: u32) -> Result<Redelivery, StoreError> {
        let Some(event) = self.ports.log.event(position).await? else { return Ok(Redelivery::NoLongerKept) };
        let webhook_event = WebhookEvent { event, position: Some(position) };
        if webhook_event.is_expired(self.ports.clock.now()) {
            return Ok(Redelivery::NoLongerKept);
        }
        Ok(match self.post(&webhook_event, attempt).await {
            Ok(()) => Redelivery::Done,
            Err(error) => Redelivery::Failed(error.to_string()),
        })
    }

    /// Delivers events of the log and of queued replays. If this is dropped during a replay, the replay stays in `replay` and
    /// resumes at its last page.
    async fn consume(
        &self,
        consumer: &mut dyn EventConsumer,
        replays: &mut mpsc::Receiver<ChatReplay>,
        replay: &mut Option<ChatReplay>,
    ) -> Infallible {
        loop {
            if let Some(under_way) = replay {
                self.deliver_chat(under_way).await;
                *replay = None;
            }
            tokio::select! {
                biased;
                Some(next) = replays.recv() => *replay = Some(next),
                records = consumer.next() => match records {
                    Ok(records) => self.deliver_batch(records, consumer).await,
                    Err(failure) => wait_out(failure).await,
                },
            }
        }
    }

    async fn deliver_batch(&self, records: Vec<Record>, consumer: &mut dyn EventConsumer) {
        let lanes = lanes(records, &self.config.kinds);
        stream::iter(lanes).for_each_concurrent(LANES_MAX, |lane| self.deliver_in_order(lane)).await;
        // Commit after the deliveries: a crash before this point repeats them.
        if let Err(failure) = consumer.commit().await {
            warn!(
                error = %error_chain(&failure),
                "offset commit failed; the batch is delivered again after a restart"
            );
        }
    }

    /// Delivers the messages of a chat again, page by page.
    async fn deliver_chat(&self, replay: &mut ChatReplay) {
        loop {
            let now = self.ports.clock.now();
            let page = match self.ports.messages.after(replay.chat_id, replay.after, PAGE, now).await {
                Ok(page) => page,
                Err(failure) => {
                    wait_out(failure).await;
                    continue;
                }
            };
            let again =
                |message| WebhookEvent { event: Arc::new(Event::message_persisted(message, None)), position: None };
            self.deliver_in_order(page.messages.into_iter().map(again).collect()).await;
            replay.after = page.examined;
            if page.examined >= page.head {
                return;
            }
        }
    }

    async fn deliver_in_order(&self, lane: Vec<WebhookEvent>) {
        for webhook_event in lane {
            self.deliver(&webhook_event).await;
        }
    }

    /// Delivers an event with retries, until it is accepted, expires or is given up.
    async fn deliver(&self, webhook_event: &WebhookEvent) {
        let mut tries = DeliveryAttempts::default();
        while !webhook_event.is_expired(self.ports.clock.now()) {
            let Err(failure) = self.post(webhook_event, tries.failures + 1).await else { return };
            let action = tries.fail(&failure, &self.config, Instant::now(), rand::random());
            let event_id = webhook_event.event.event_id;
            warn!(error = %error_chain(&failure), %event_id, tries = tries.failures, "webhook delivery of an event failed");
            match action {
                DeliveryFailureAction::Retry(pause) => tokio::time::sleep(pause).await,
                DeliveryFailureAction::GiveUp => return self.give_up(webhook_event, tries.failures, &failure).await,
            }
        }
    }

    /// Makes one attempt.
    async fn post(&self, webhook_event: &WebhookEvent, attempt: u32) -> Result<(), HttpCallError> {
        let position = webhook_event.position.map(|position| position.0);
        let body = EventEnvelope { event: Cow::Borrowed(&webhook_event.event), position }.encode();
        let headers =
            [("Tidings-Event-Id", webhook_event.event.event_id.to_string()), ("Tidings-Attempt", attempt.to_string())];
        let outcome = self.webhook.post(body, &headers).await;
        lock(&self.outcomes).note(&outcome, self.ports.clock.now());
        outcome
    }

    async fn give_up(&self, webhook_event: &WebhookEvent, attempts: u32, failure: &HttpCallError) {
        let WebhookEvent { event, position } = webhook_event;
        // A replayed message was delivered or became a dead letter before, so it needs no letter.
        let Some(position) = *position else {
            error!(event_id = %event.event_id, attempts, "replayed event was given up; no dead letter is stored for replays");
            return;
        };
        let letter = DeadLetter {
            // Derived from the event id, so that a repeat after a crash stores the same letter.
            id: Ulid::from_bytes(event.event_id.to_bytes()),
            what: UndeliveredItem::Event { position, event_id: event.event_id, chat_id: event.body.chat_id() },
            attempts,
            reason: failure.to_string(),
            dead_at: self.ports.clock.now(),
        };
        while let Err(failure) = bury(&*self.ports.dead_letters, letter.clone()).await {
            wait_out(failure).await;
        }
    }

    /// Updates the lag metrics until the task is aborted.
    async fn watch_lag(&self) {
        loop {
            match self.ports.log.lag(Self::GROUP).await {
                Ok(lag) => gauge!("tidings_webhook_lag_events").set(lag as f64),
                Err(failure) => warn!(
                    error = %error_chain(&failure),
                    "lookup of the webhook's lag failed; retrying at next interval"
                ),
            }
            let failing = lock(&self.outcomes).failing_for(self.ports.clock.now());
            gauge!("tidings_webhook_failing_seconds").set(failing);
            tokio::time::sleep(LAG_INTERVAL).await;
        }
    }
}
