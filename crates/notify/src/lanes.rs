use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventKind, Timestamp};
use ports::{Position, Record};

/// An event to deliver to the application.
pub(crate) struct WebhookEvent {
    pub(crate) event: Arc<Event>,
    /// Its position in the log; `None` for a replayed message, which was read from its chat.
    pub(crate) position: Option<Position>,
}

impl WebhookEvent {
    /// The event as it may be delivered at `now`; `None` if it is of an entry that has expired (G11).
    pub(crate) fn read_at(&self, now: Timestamp) -> Option<Arc<Event>> {
        self.event.clone().read_at(now)
    }
}

impl From<Record> for WebhookEvent {
    fn from(Record { position, event }: Record) -> Self {
        Self { event, position: Some(position) }
    }
}

/// Groups events of these kinds by chat. Each group keeps their order.
pub(crate) fn lanes(events: Vec<WebhookEvent>, kinds: &[EventKind]) -> Vec<Vec<WebhookEvent>> {
    let mut lanes: BTreeMap<ChatId, Vec<WebhookEvent>> = BTreeMap::new();
    for webhook_event in events {
        if kinds.contains(&webhook_event.event.body.kind()) {
            lanes.entry(webhook_event.event.body.chat_id()).or_default().push(webhook_event);
        }
    }
    lanes.into_values().collect()
}
