use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::{Backoff, ChatId, EventKind, UserId};
use ports::{EventLog, WebhookPause};
use tidings_notify::{DeadLetters, EventWebhook, EventWebhookConfig, EventWebhookPorts};
use tokio::task::AbortHandle;
use webhook::Webhook;

use crate::receiver::{ReceivedRequest, TIMEOUT, TestReceiver};
use crate::world::World;

pub(crate) const SECRET: &str = "shared with the application";

/// A world with an application that has a webhook.
pub(crate) struct WebhookWorld {
    pub(crate) world: World,
    pub(crate) receiver: TestReceiver,
}

impl Deref for WebhookWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl WebhookWorld {
    pub(crate) async fn new() -> Self {
        Self { world: World::new(), receiver: TestReceiver::start().await }
    }

    /// A webhook with short pauses, not running yet.
    pub(crate) fn webhook(&self) -> EventWebhook {
        self.webhook_with(config())
    }

    pub(crate) fn webhook_with(&self, config: EventWebhookConfig) -> EventWebhook {
        self.webhook_of(self.store.clone(), config, None)
    }

    /// A webhook of one of several processes.
    pub(crate) fn webhook_beside(&self, peers: Arc<dyn WebhookPause>) -> EventWebhook {
        self.webhook_of(self.store.clone(), config(), Some(peers))
    }

    /// A webhook that reads a log beside the store.
    pub(crate) fn webhook_on(&self, log: Arc<dyn EventLog>, config: EventWebhookConfig) -> EventWebhook {
        self.webhook_of(log, config, None)
    }

    fn webhook_of(
        &self,
        log: Arc<dyn EventLog>,
        config: EventWebhookConfig,
        peers: Option<Arc<dyn WebhookPause>>,
    ) -> EventWebhook {
        let ports = EventWebhookPorts {
            log,
            messages: self.store.clone(),
            dead_letters: self.store.clone(),
            peers,
            clock: self.clock.clone(),
        };
        let url = self.receiver.url("/hook?key=kept-to-ourselves").parse().unwrap();
        let webhook = Webhook::new(url, SECRET.as_bytes(), TIMEOUT, self.clock.clone()).unwrap();
        EventWebhook::new(ports, webhook, config)
    }

    pub(crate) fn dead_letters(&self, webhook: &Arc<EventWebhook>) -> DeadLetters {
        DeadLetters { store: self.store.clone(), webhook: Some(webhook.clone()), notifications: None }
    }

    /// A group of two users, with its creation event not delivered by `config`.
    pub(crate) async fn chat(&self) -> (ChatId, UserId) {
        let (ada, bob) = (self.user("ada").await, self.user("bob").await);
        (self.group(ada, &[bob]).await, ada)
    }

    pub(crate) async fn send_numbered(&self, chat_id: ChatId, sender_id: UserId, count: usize) {
        for n in 1..=count {
            self.send(chat_id, sender_id, &format!("message {n}")).await;
        }
    }

    /// The requests up to the accepted one of this sequence in a chat.
    pub(crate) async fn until_taken(&mut self, chat_id: ChatId, sequence: u64) -> Vec<ReceivedRequest> {
        let is_last = |request: &ReceivedRequest| request.was_taken() && message(request) == Some((chat_id, sequence));
        self.receiver.until(is_last).await
    }

    /// Waits until all events are delivered and committed.
    pub(crate) async fn caught_up(&self) {
        while self.store.lag(EventWebhook::GROUP).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Messages only, and short pauses.
pub(crate) fn config() -> EventWebhookConfig {
    let backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(40) };
    EventWebhookConfig { kinds: vec![EventKind::Message], backoff, ..EventWebhookConfig::default() }
}

pub(crate) fn run(webhook: &Arc<EventWebhook>) -> AbortHandle {
    let webhook = webhook.clone();
    tokio::spawn(async move { webhook.run().await }).abort_handle()
}

/// The chat and the sequence of the message in a request.
pub(crate) fn message(request: &ReceivedRequest) -> Option<(ChatId, u64)> {
    let payload = &request.json()["payload"];
    Some((payload["chat_id"].as_str()?.parse().unwrap(), payload["sequence"].as_u64()?))
}

/// The sequences of a chat's accepted messages, in order.
pub(crate) fn taken(requests: &[ReceivedRequest], chat_id: ChatId) -> Vec<u64> {
    let taken = requests.iter().filter(|request| request.was_taken());
    taken.filter_map(message).filter(|(chat, _)| *chat == chat_id).map(|(_, sequence)| sequence).collect()
}
