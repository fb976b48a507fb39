use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_DEFAULT};
use domain::{ChatId, Event, EventKind, Sequence};
use futures_util::StreamExt;
use futures_util::stream;
use metrics::gauge;
use ports::{
    Clock, DeadLetter, DeadLetterStore, EventConsumer, EventLog, MessageReader, PageBounds, Position, Record, Start,
    StoreError, Undelivered,
};
use protocol::event::EventEnvelope;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, warn};
use ulid::Ulid;
use webhook::{CallError, Webhook};

use crate::dead_letters::{Redelivery, bury};
use crate::lanes::{Outgoing, lanes};
use crate::status::Outcomes;
use crate::tries::{Tries, Verdict};
use crate::wait::{consumer, wait_out};
use crate::{Backoff, WebhookStatus};

/// Chats whose events are delivered at the same time, at the most.
const LANES_MAX: usize = 16;
/// Replays of chats that wait for their turn, at the most; then one more is refused.
const CHAT_REPLAYS_MAX: usize = 16;
/// Messages of a chat that are read at a time to be delivered again.
const PAGE: PageBounds = PageBounds { count: SYNC_PAGE_DEFAULT, bytes: SYNC_PAGE_BYTES_MAX };
/// How often the lag is looked up for whoever watches it.
const LAG_INTERVAL: Duration = Duration::from_secs(10);

/// Tells the application's own server of every event: at least once, and in order per chat.
///
/// A batch of the log is delivered before the next is taken, different chats side by side, events of one chat one after
/// the other. The log is the buffer: while the receiver sleeps, everything waits there. An event that the receiver keeps
/// refusing becomes a dead letter, and its chat goes on.
pub struct EventWebhook {
    ports: EventWebhookPorts,
    webhook: Webhook,
    config: EventWebhookConfig,
    /// Reaches the loop, once it runs.
    inbox: Mutex<Option<Inbox>>,
    outcomes: Mutex<Outcomes>,
}

/// What the webhook needs from the world.
pub struct EventWebhookPorts {
    pub log: Arc<dyn EventLog>,
    pub messages: Arc<dyn MessageReader>,
    pub dead_letters: Arc<dyn DeadLetterStore>,
    pub clock: Arc<dyn Clock>,
}

/// What the operator decides about the webhook.
#[derive(Clone, Debug)]
pub struct EventWebhookConfig {
    /// What is told.
    pub kinds: Vec<EventKind>,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// How often a receiver may say no to an event before it is given up.
    pub refusals_max: u32,
    /// How long a receiver that does not answer is waited for before an event is given up.
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

/// What is to be delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Everything from a place of the log on. Whatever is being delivered is left for it.
    From(Start),
    /// The messages of a chat from a sequence on, between two batches of the log. A restart forgets it.
    Chat {
        /// Which chat.
        chat_id: ChatId,
        /// Its first message to deliver again.
        from: Sequence,
    },
}

/// Why nothing is delivered again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Nothing is delivered in this process.
    #[error("the webhook does not run in this process")]
    NotRunning,
    /// Too many chats wait already.
    #[error("{CHAT_REPLAYS_MAX} replays of chats are waiting; try again when one is done")]
    TooMany,
    /// The application does not take messages.
    #[error("messages are not among the events that the webhook delivers")]
    NoMessages,
    /// The place in the log could not be changed.
    #[error("the place in the log was not changed")]
    Store(#[from] StoreError),
}

#[derive(Clone)]
struct Inbox {
    seeks: mpsc::Sender<Seek>,
    chats: mpsc::Sender<ChatReplay>,
}

/// A wish to begin elsewhere, answered when it is done.
struct Seek {
    to: Start,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// A chat whose messages above a sequence are to be delivered again.
struct ChatReplay {
    chat_id: ChatId,
    after: Sequence,
}

impl EventWebhook {
    /// The name under which all who deliver events share the log.
    pub const GROUP: &'static str = "webhook";

    pub fn new(ports: EventWebhookPorts, webhook: Webhook, config: EventWebhookConfig) -> Self {
        Self { ports, webhook, config, inbox: Mutex::default(), outcomes: Mutex::default() }
    }

    /// Consumes the log, for ever. Failures of the log and of the store are waited out, and so is a receiver that sleeps.
    /// It may be dropped at any moment; the next run repeats the batch that was not done.
    pub async fn run(&self) {
        let (seeks, mut wishes) = mpsc::channel(1);
        let (chats, mut replays) = mpsc::channel(CHAT_REPLAYS_MAX);
        *self.inbox.lock().expect("no holder of this lock panics") = Some(Inbox { seeks, chats });
        tokio::join!(self.watch_lag(), async {
            let mut replay = None;
            loop {
                let mut consumer = consumer(&*self.ports.log, Self::GROUP).await;
                // Whatever is being waited for, a wish to begin elsewhere ends it: the batch is not committed, and the
                // consumer is gone before the place of its group is changed.
                let Seek { to, done } = tokio::select! {
                    biased;
                    Some(seek) = wishes.recv() => seek,
                    never = self.consume(&mut *consumer, &mut replays, &mut replay) => match never {},
                };
                drop(consumer);
                // Whoever asked may have gone, and it is done all the same.
                let _ = done.send(self.ports.log.seek(Self::GROUP, to).await);
            }
        });
    }

    /// Has events delivered again. Beginning elsewhere is durable when this returns; a chat then waits for its turn.
    pub async fn replay(&self, replay: Replay) -> Result<(), ReplayError> {
        let inbox = self.inbox.lock().expect("no holder of this lock panics").clone();
        let Inbox { seeks, chats } = inbox.ok_or(ReplayError::NotRunning)?;
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

    /// How it is doing.
    pub async fn status(&self) -> Result<WebhookStatus, StoreError> {
        let lag = self.ports.log.lag(Self::GROUP).await?;
        Ok(self.outcomes.lock().expect("no holder of this lock panics").status(lag))
    }

    /// Tries once to deliver the event at a place of the log.
    pub(crate) async fn redeliver(&self, position: Position, attempt: u32) -> Result<Redelivery, StoreError> {
        let Some(event) = self.ports.log.event(position).await? else { return Ok(Redelivery::NoLongerKept) };
        let outgoing = Outgoing { event, position: Some(position) };
        if outgoing.is_expired(self.ports.clock.now()) {
            return Ok(Redelivery::NoLongerKept);
        }
        Ok(match self.post(&outgoing, attempt).await {
            Ok(()) => Redelivery::Done,
            Err(error) => Redelivery::Failed(error.to_string()),
        })
    }

    /// Delivers what the log and the replays of chats bring. A replay that is under way when this is dropped stays in
    /// `replay` and goes on at its last page.
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
        // The place is kept only now, behind the deliveries: a crash before this repeats them.
        if let Err(failure) = consumer.commit().await {
            warn!(error = &failure as &dyn std::error::Error, "the place in the log was not kept");
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
            let again = |message| Outgoing { event: Arc::new(Event::message_persisted(message, None)), position: None };
            self.deliver_in_order(page.messages.into_iter().map(again).collect()).await;
            replay.after = page.examined;
            if page.examined >= page.head {
                return;
            }
        }
    }

    async fn deliver_in_order(&self, lane: Vec<Outgoing>) {
        for outgoing in lane {
            self.deliver(&outgoing).await;
        }
    }

    /// Tries until an event is taken, expires or is given up.
    async fn deliver(&self, outgoing: &Outgoing) {
        let mut tries = Tries::default();
        while !outgoing.is_expired(self.ports.clock.now()) {
            let Err(failure) = self.post(outgoing, tries.failures + 1).await else { return };
            let verdict = tries.fail(&failure, &self.config, Instant::now(), rand::random());
            let event_id = outgoing.event.event_id;
            warn!(error = &failure as &dyn std::error::Error, %event_id, tries = tries.failures, "an event was not taken");
            match verdict {
                Verdict::Again(pause) => tokio::time::sleep(pause).await,
                Verdict::GiveUp => return self.give_up(outgoing, tries.failures, &failure).await,
            }
        }
    }

    /// One try.
    async fn post(&self, outgoing: &Outgoing, attempt: u32) -> Result<(), CallError> {
        let position = outgoing.position.map(|position| position.0);
        let body = EventEnvelope { event: Cow::Borrowed(&outgoing.event), position }.encode();
        let headers =
            [("Tidings-Event-Id", outgoing.event.event_id.to_string()), ("Tidings-Attempt", attempt.to_string())];
        let outcome = self.webhook.post(body, &headers).await;
        self.outcomes.lock().expect("no holder of this lock panics").note(&outcome, self.ports.clock.now());
        outcome
    }

    async fn give_up(&self, outgoing: &Outgoing, attempts: u32, failure: &CallError) {
        let Outgoing { event, position } = outgoing;
        // A message that was to be delivered again has been delivered or buried before.
        let Some(position) = *position else {
            error!(event_id = %event.event_id, attempts, "an event of a replay was given up");
            return;
        };
        let letter = DeadLetter {
            // The event's own: should the burial be repeated after a crash, it is the same letter.
            id: Ulid::from_bytes(event.event_id.to_bytes()),
            what: Undelivered::Event { position, event_id: event.event_id, chat_id: event.body.chat_id() },
            attempts,
            reason: failure.to_string(),
            dead_at: self.ports.clock.now(),
        };
        while let Err(failure) = bury(&*self.ports.dead_letters, letter.clone()).await {
            wait_out(failure).await;
        }
    }

    /// Shows the lag, for ever.
    async fn watch_lag(&self) {
        loop {
            match self.ports.log.lag(Self::GROUP).await {
                Ok(lag) => gauge!("tidings_webhook_lag_events").set(lag as f64),
                Err(failure) => warn!(error = &failure as &dyn std::error::Error, "the lag of the webhook is unknown"),
            }
            let failing =
                self.outcomes.lock().expect("no holder of this lock panics").failing_for(self.ports.clock.now());
            gauge!("tidings_webhook_failing_seconds").set(failing);
            tokio::time::sleep(LAG_INTERVAL).await;
        }
    }
}
