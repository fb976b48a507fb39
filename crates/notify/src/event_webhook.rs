use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_DEFAULT};
use domain::{Backoff, ChatId, Event, EventBody, EventKind, MessageUpdate, Sequence};
use futures_util::StreamExt;
use futures_util::stream;
use metrics::gauge;
use ports::{
    Clock, DeadLetter, DeadLetterStore, EventConsumer, EventLog, MessageReader, Page, PageBounds, Position, Start,
    StoreError, UndeliveredItem, WebhookPause, error_chain, lock,
};
use protocol::event::EventEnvelope;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, info, warn};
use ulid::Ulid;
use webhook::{HttpCallError, Webhook};

use crate::WebhookStatus;
use crate::chat_order::ChatOrder;
use crate::dead_letters::{Redelivery, add_dead_letter};
use crate::delivery_attempts::{DeliveryAttempts, DeliveryFailureAction};
use crate::lanes::{WebhookEvent, lanes};
use crate::status::WebhookTally;
use crate::wait::{consumer, jitter, wait_out};

/// Most chats with concurrent deliveries.
const LANES_MAX: usize = 16;
/// Most queued replays of chats. Further ones are rejected.
const CHAT_REPLAYS_MAX: usize = 16;
/// Messages and updates of a chat that a replay reads at a time.
const PAGE: PageBounds = PageBounds { count: SYNC_PAGE_DEFAULT, bytes: SYNC_PAGE_BYTES_MAX };
/// How long the other processes of a fleet are paused for a replay, unless it ends earlier: longer than the log may take
/// to move a group.
const REPLAY_PAUSE: Duration = Duration::from_secs(15);
/// Longest pause that this process accepts.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often the lag metric is updated.
const LAG_INTERVAL: Duration = Duration::from_secs(10);

/// Posts every event to the application's server, at least once and in order per chat.
///
/// It delivers one batch of the log at a time: chats concurrently, events of one chat sequentially. If the log keeps the
/// order for each kind of event only, `ChatOrder` puts the kinds together. The log is the buffer while the receiver is
/// unavailable. An event that the receiver keeps rejecting becomes a dead letter, and its chat
/// continues.
pub struct EventWebhook {
    ports: EventWebhookPorts,
    webhook: Webhook,
    config: EventWebhookConfig,
    /// Channels to the running loop; `None` before `run`.
    channels: Mutex<Option<LoopChannels>>,
    outcomes: Mutex<WebhookTally>,
}

/// Dependencies of the webhook.
pub struct EventWebhookPorts {
    pub log: Arc<dyn EventLog>,
    pub messages: Arc<dyn MessageReader>,
    pub dead_letters: Arc<dyn DeadLetterStore>,
    /// The other processes that deliver events; `None` on one machine.
    pub peers: Option<Arc<dyn WebhookPause>>,
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
struct LoopChannels {
    group_requests: mpsc::Sender<GroupRequest>,
    chats: mpsc::Sender<ChatReplay>,
}

/// A request for which the running loop drops its consumer, answered when that is done.
enum GroupRequest {
    /// Move the offsets of the group.
    Seek { to: Start, done: oneshot::Sender<Result<(), StoreError>> },
    /// Stay out of the group for a while.
    Pause { time: Duration, done: oneshot::Sender<()> },
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
        let (group_requests, mut requests) = mpsc::channel(1);
        let (chats, mut replays) = mpsc::channel(CHAT_REPLAYS_MAX);
        *lock(&self.channels) = Some(LoopChannels { group_requests, chats });
        tokio::join!(self.watch_lag(), async {
            let mut replay = None;
            loop {
                let mut consumer = consumer(&*self.ports.log, Self::GROUP).await;
                // A request cancels the work in progress. The batch is not committed, and the
                // consumer is dropped before the offset of its group changes.
                let request = tokio::select! {
                    biased;
                    Some(request) = requests.recv() => request,
                    never = self.consume(&mut *consumer, &mut replays, &mut replay) => match never {},
                };
                drop(consumer);
                self.stay_out(request, &mut requests).await;
            }
        });
    }

    /// Replays events. A new log offset is durable when this returns; the replay of a chat is queued.
    pub async fn replay(&self, replay: Replay) -> Result<(), ReplayError> {
        let channels = lock(&self.channels).clone();
        let LoopChannels { group_requests, chats } = channels.ok_or(ReplayError::NotRunning)?;
        match replay {
            Replay::From(to) => {
                let (done, sought) = oneshot::channel();
                let request = GroupRequest::Seek { to, done };
                group_requests.send(request).await.map_err(|_| ReplayError::NotRunning)?;
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
        let event = self.ports.log.event(position).await?.and_then(|event| event.read_at(self.ports.clock.now()));
        let Some(event) = event else { return Ok(Redelivery::NoLongerKept) };
        Ok(match self.post(&event, Some(position), attempt).await {
            Ok(()) => Redelivery::Done,
            Err(error) => Redelivery::Failed(error.to_string()),
        })
    }

    /// Handles a request without a consumer, and the requests that arrive during a pause. Returns when the group may be
    /// joined again.
    async fn stay_out(&self, mut request: GroupRequest, requests: &mut mpsc::Receiver<GroupRequest>) {
        let mut paused_until = Instant::now();
        loop {
            // A request takes effect even if its caller no longer waits for the result.
            match request {
                GroupRequest::Seek { to, done } => {
                    let _ = done.send(self.seek(to).await);
                }
                GroupRequest::Pause { time, done } => {
                    paused_until = Instant::now() + time;
                    if !time.is_zero() {
                        info!(?time, "webhook paused: another process moves its consumer group");
                    }
                    let _ = done.send(());
                }
            }
            request = tokio::select! {
                biased;
                Some(next) = requests.recv() => next,
                () = tokio::time::sleep_until(paused_until) => break,
            };
        }
        info!("webhook resumed");
    }

    /// Moves the group, with the other processes out of it. If one of them cannot be paused, nothing is moved: the log
    /// would refuse it, or that consumer would commit its own offsets again.
    async fn seek(&self, to: Start) -> Result<(), StoreError> {
        let Some(peers) = &self.ports.peers else { return self.ports.log.seek(Self::GROUP, to).await };
        let outcome = match peers.pause(REPLAY_PAUSE).await {
            Ok(()) => self.ports.log.seek(Self::GROUP, to).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = peers.pause(Duration::ZERO).await {
            let error = error_chain(&failure);
            warn!(%error, "could not end the webhook pause of other processes; it ends by itself");
        }
        outcome
    }

    /// Delivers events of the log and of queued replays. If this is dropped during a replay, the replay stays in `replay` and
    /// resumes at its last page.
    async fn consume(
        &self,
        consumer: &mut dyn EventConsumer,
        replays: &mut mpsc::Receiver<ChatReplay>,
        replay: &mut Option<ChatReplay>,
    ) -> Infallible {
        let mut order = ChatOrder::new(self.ports.log.order());
        loop {
            if let Some(under_way) = replay {
                self.deliver_chat(under_way).await;
                *replay = None;
            }
            let deadline = order.deadline();
            let released = tokio::select! {
                biased;
                Some(next) = replays.recv() => {
                    *replay = Some(next);
                    continue;
                }
                records = consumer.next() => match records {
                    Ok(records) => order.add(records.into_iter().map(WebhookEvent::from).collect(), Instant::now()),
                    Err(failure) => {
                        wait_out(failure).await;
                        continue;
                    }
                },
                // Only after the log: the missing event may be there, after a long delivery.
                () = until(deadline) => order.expire(Instant::now()),
            };
            self.deliver_batch(released).await;
            // A commit covers everything read so far, so it waits until nothing is held.
            if order.deadline().is_none() {
                self.commit(consumer).await;
            }
        }
    }

    async fn deliver_batch(&self, events: Vec<WebhookEvent>) {
        let lanes = lanes(events, &self.config.kinds);
        stream::iter(lanes).for_each_concurrent(LANES_MAX, |lane| self.deliver_in_order(lane)).await;
    }

    /// Commits after the deliveries: a crash before this point repeats them.
    async fn commit(&self, consumer: &mut dyn EventConsumer) {
        if let Err(failure) = consumer.commit().await {
            warn!(
                error = %error_chain(&failure),
                "offset commit failed; the batch is delivered again after a restart"
            );
        }
    }

    /// Delivers the messages and updates of a chat again, page by page.
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
            let (examined, head) = (page.examined, page.head);
            let again = |event| WebhookEvent { event: Arc::new(event), position: None };
            self.deliver_in_order(events(page).into_iter().map(again).collect()).await;
            replay.after = examined;
            if examined >= head {
                return;
            }
        }
    }

    async fn deliver_in_order(&self, lane: Vec<WebhookEvent>) {
        for webhook_event in lane {
            self.deliver(webhook_event).await;
        }
    }

    /// Delivers an event with retries, until it is accepted, expires or is given up.
    async fn deliver(&self, mut webhook_event: WebhookEvent) {
        let mut tries = DeliveryAttempts::default();
        while let Some(event) = webhook_event.read_at(self.ports.clock.now()) {
            let Err(failure) = self.post(&event, webhook_event.position, tries.failures + 1).await else { return };
            let event_id = event.event_id;
            let action = tries.fail(&failure, &self.config, Instant::now(), jitter((event_id, tries.failures)));
            warn!(error = %error_chain(&failure), %event_id, tries = tries.failures, "webhook delivery of an event failed");
            match action {
                DeliveryFailureAction::Retry(pause) => tokio::time::sleep(pause).await,
                DeliveryFailureAction::GiveUp => return self.give_up(&webhook_event, tries.failures, &failure).await,
            }
            match self.current(&webhook_event).await {
                Ok(Some(event)) => webhook_event.event = event,
                Ok(None) => return,
                Err(failure) => warn!(
                    error = %error_chain(&failure), %event_id,
                    "event could not be read again; it is delivered as it was read before"
                ),
            }
        }
    }

    /// The event as it is stored now: its message may have been edited or deleted since it was read.
    async fn current(&self, webhook_event: &WebhookEvent) -> Result<Option<Arc<Event>>, StoreError> {
        match (webhook_event.position, &webhook_event.event.body) {
            (Some(position), _) => self.ports.log.event(position).await,
            (None, EventBody::MessagePersisted { message, .. }) => {
                let message = self.ports.messages.by_id(message.message_id, self.ports.clock.now()).await?;
                Ok(message.map(|message| Arc::new(Event::message_persisted(message, None))))
            }
            (None, EventBody::MessageUpdated { update, message: Some(message) }) => {
                let message = self.ports.messages.by_id(message.message_id, self.ports.clock.now()).await?;
                Ok(Some(Arc::new(Event::message_updated(update.clone(), message))))
            }
            (None, _) => Ok(Some(webhook_event.event.clone())),
        }
    }

    /// Makes one attempt.
    async fn post(&self, event: &Event, position: Option<Position>, attempt: u32) -> Result<(), HttpCallError> {
        let position = position.map(|position| position.0);
        let body = EventEnvelope { event: Cow::Borrowed(event), position }.encode();
        let headers = [("Tidings-Event-Id", event.event_id.to_string()), ("Tidings-Attempt", attempt.to_string())];
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
        while let Err(failure) = add_dead_letter(&*self.ports.dead_letters, letter.clone()).await {
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

#[async_trait]
impl WebhookPause for EventWebhook {
    async fn pause(&self, time: Duration) -> Result<(), StoreError> {
        let channels = lock(&self.channels).clone();
        // A webhook that does not run yet joins the group later, and the log refuses to move a group with a consumer.
        let Some(LoopChannels { group_requests, .. }) = channels else { return Ok(()) };
        let (done, paused) = oneshot::channel();
        let request = GroupRequest::Pause { time: time.min(PAUSE_MAX), done };
        group_requests.send(request).await.map_err(StoreError::unavailable)?;
        paused.await.map_err(StoreError::unavailable)
    }
}

/// The events of the entries of a page, in the order of their sequences. Messages are in their current state.
fn events(page: Page) -> Vec<Event> {
    let Page { messages, updates, updated, .. } = page;
    let of_update = |update: MessageUpdate| {
        let mut known = updated.iter().chain(&messages);
        let message = known.find(|message| message.sequence == update.target).cloned();
        Event::message_updated(update, message)
    };
    let mut events: Vec<Event> = updates.into_iter().map(of_update).collect();
    events.extend(messages.into_iter().map(|message| Event::message_persisted(message, None)));
    events.sort_by_key(|event| event.body.sequence());
    events
}

/// Waits until a deadline, or forever without one.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
