use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, Timestamp};
use ports::{Position, Record};

/// Events that an application takes or leaves together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFamily {
    /// Messages that were sent, and that expired.
    Message,
    /// Members who came, went, or got another role.
    Member,
    /// Chats that were opened or changed.
    Chat,
}

impl EventFamily {
    pub(crate) fn of(body: &EventBody) -> Self {
        match body {
            EventBody::MessagePersisted { .. } | EventBody::MessagesExpired { .. } => Self::Message,
            EventBody::MembershipChanged { .. } => Self::Member,
            EventBody::ChatCreated { .. } | EventBody::ChatRenamed { .. } | EventBody::MessageTtlChanged { .. } => {
                Self::Chat
            }
        }
    }
}

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

/// The events of some families, by chat: one lane for each, in the order of the log.
pub(crate) fn lanes(records: Vec<Record>, families: &[EventFamily]) -> Vec<Vec<Outgoing>> {
    let mut lanes: BTreeMap<ChatId, Vec<Outgoing>> = BTreeMap::new();
    for Record { position, event } in records {
        if families.contains(&EventFamily::of(&event.body)) {
            lanes.entry(event.body.chat_id()).or_default().push(Outgoing { event, position: Some(position) });
        }
    }
    lanes.into_values().collect()
}
