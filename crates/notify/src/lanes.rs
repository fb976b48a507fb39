use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, EventKind, Timestamp};
use ports::{Position, Record};

/// An event on its way to the application.
pub(crate) struct Outgoing {
    pub(crate) event: Arc<Event>,
    /// Where it is in the log; a message that is read from its chat again has no place there.
    pub(crate) position: Option<Position>,
}

impl Outgoing {
    /// Whether it tells of a message that is gone (G11).
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        matches!(&self.event.body, EventBody::MessagePersisted { message, .. } if message.is_expired(now))
    }
}

/// The events of some kinds, by chat: one lane for each, in the order of the log.
pub(crate) fn lanes(records: Vec<Record>, kinds: &[EventKind]) -> Vec<Vec<Outgoing>> {
    let mut lanes: BTreeMap<ChatId, Vec<Outgoing>> = BTreeMap::new();
    for Record { position, event } in records {
        if kinds.contains(&event.body.kind()) {
            lanes.entry(event.body.chat_id()).or_default().push(Outgoing { event, position: Some(position) });
        }
    }
    lanes.into_values().collect()
}
