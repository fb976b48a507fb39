use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, EventKind, UserId};
use ports::EventLog;
use tidings_notify::{Backoff, DeadLetters, EventWebhook, EventWebhookConfig, EventWebhookPorts};
use tokio::task::AbortHandle;
use webhook::Webhook;

use crate::receiver::{Receiver, Request, TIMEOUT};
use crate::world::World;

pub(crate) const SECRET: &str = "shared with the application";

/// A world whose application has a webhook.
pub(crate) struct WebhookWorld {
    pub(crate) world: World,
    pub(crate) receiver: Receiver,
}

impl Deref for WebhookWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl WebhookWorld {
    pub(crate) async fn new() -> Self {
        Self { world: World::new(), receiver: Receiver::start().await }
    }

    /// A webhook that is impatient enough for tests; it does not run yet.
    pub(crate) fn webhook(&self) -> EventWebhook {
        self.webhook_with(config())
    }

    pub(crate) fn webhook_with(&self, config: EventWebhookConfig) -> EventWebhook {
        let ports = EventWebhookPorts {
            log: self.store.clone(),
            messages: self.store.clone(),
            dead_letters: self.store.clone(),
            clock: self.clock.clone(),
        };
        let url = self.receiver.url("/hook?key=kept-to-ourselves").parse().unwrap();
        let webhook = Webhook::new(url, SECRET.as_bytes(), TIMEOUT, self.clock.clone()).unwrap();
        EventWebhook::new(ports, webhook, config)
    }

    pub(crate) fn dead_letters(&self, webhook: &Arc<EventWebhook>) -> DeadLetters {
        DeadLetters { store: self.store.clone(), webhook: Some(webhook.clone()), notifications: None }
    }

    /// Two people and a chat of theirs, whose own events nobody waits for.
    pub(crate) async fn chat(&self) -> (ChatId, UserId) {
        let (ada, bob) = (self.user("ada").await, self.user("bob").await);
        (self.group(ada, &[bob]).await, ada)
    }

    pub(crate) async fn send_numbered(&self, chat_id: ChatId, sender_id: UserId, count: usize) {
        for n in 1..=count {
            self.send(chat_id, sender_id, &format!("message {n}")).await;
        }
    }

    /// The events up to the taken one of this sequence in a chat.
    pub(crate) async fn until_taken(&mut self, chat_id: ChatId, sequence: u64) -> Vec<Request> {
        let is_last = |request: &Request| request.was_taken() && message(request) == Some((chat_id, sequence));
        self.receiver.until(is_last).await
    }

    /// Waits until everything is delivered and committed.
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

/// The chat and the sequence of the message that a request tells of.
pub(crate) fn message(request: &Request) -> Option<(ChatId, u64)> {
    let payload = &request.json()["payload"];
    Some((payload["chat_id"].as_str()?.parse().unwrap(), payload["sequence"].as_u64()?))
}

/// The sequences of a chat's messages that were taken, in their order.
pub(crate) fn taken(requests: &[Request], chat_id: ChatId) -> Vec<u64> {
    let taken = requests.iter().filter(|request| request.was_taken());
    taken.filter_map(message).filter(|(chat, _)| *chat == chat_id).map(|(_, sequence)| sequence).collect()
}
