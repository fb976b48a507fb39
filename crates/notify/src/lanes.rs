use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, EventKind, Timestamp};
use ports::{Position, Record};

/// An event to deliver to the application.
pub(crate) struct WebhookEvent {
    pub(crate) event: Arc<Event>,
    /// Its position in the log; `None` for a replayed message, which was read from its chat.
    pub(crate) position: Option<Position>,
}

impl WebhookEvent {
    /// Whether it is a message that has expired (G11).
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        matches!(&self.event.body, EventBody::MessagePersisted { message, .. } if message.is_expired(now))
    }
}

/// Groups events of these kinds by chat. Each group keeps the order of the log.
pub(crate) fn lanes(records: Vec<Record>, kinds: &[EventKind]) -> Vec<Vec<WebhookEvent>> {
    let mut lanes: BTreeMap<ChatId, Vec<WebhookEvent>> = BTreeMap::new();
    for Record { position, event } in records {
        if kinds.contains(&event.body.kind()) {
            lanes.entry(event.body.chat_id()).or_default().push(WebhookEvent { event, position: Some(position) });
        }
    }
    lanes.into_values().collect()
}
