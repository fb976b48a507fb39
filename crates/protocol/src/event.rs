//! The events of the log, in the envelope that topics and the application's webhook share.
//!
//! `{event_type, event_id, event_time, event_version, partition_key, event_number?, payload, position?}`. The key is the
//! chat id, so the events of a chat are in one partition. Their numbers are the order of their commits. Unknown fields are ignored. An unknown type or version is an error that the
//! consumer has to handle.
//!
//! [`EventContent`] is the one description of the fields of every event. Stores that keep an event until it is
//! published, or as the log itself, encode the same [`ChangePayload`] (`docs/adr/015-one-event-codec.md`).

mod asyncapi;
mod payload;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use domain::{ChatId, ContentError, Event, EventId, EventKind, EventNumber, TextError, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use asyncapi::events_asyncapi;
pub use payload::{ChangePayload, EventContent, event_type};
use payload::{MessagePersisted, MessageUpdated};

/// The version of the payloads.
pub const EVENT_VERSION: u32 = 1;

/// The topic of a kind of events in a fleet, without the prefix of the deployment.
pub const fn topic(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Message => "messages.persisted",
        EventKind::Member => "memberships.changed",
        EventKind::Chat => "chats.created",
    }
}

/// The topic of records that no consumer can read, without the prefix of the deployment.
pub const DEAD_LETTERS_TOPIC: &str = "dead_letters";

/// An event, with its log position if it was read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventEnvelope<'a> {
    /// The event.
    pub event: Cow<'a, Event>,
    /// Its position in the log. The webhook carries it; a topic has offsets of its own.
    pub position: Option<u64>,
}

/// Why an event cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is not the JSON of an envelope, or its payload is not the one of its type.
    #[error("the event is unreadable")]
    Json(#[from] serde_json::Error),
    /// Written by a later version.
    #[error("event version is {0}, {EVENT_VERSION} is known")]
    Version(u32),
    /// Written by a later version.
    #[error("event type `{0}` is unknown")]
    Type(String),
    /// The content of its message is out of bounds.
    #[error("the message of the event is out of bounds")]
    Content(#[from] ContentError),
    /// The name of its chat is out of bounds.
    #[error("the chat name of the event is out of bounds")]
    Name(#[from] TextError),
    /// The kind of an update is unknown, or it lacks its reaction.
    #[error("the update of a message is of unknown kind, or lacks its reaction")]
    Update,
    /// Its lifetime is out of bounds.
    #[error("message_ttl_seconds is {0}, it must be 1 to 31536000")]
    Ttl(u64),
}

impl EventEnvelope<'_> {
    /// The event as JSON text.
    pub fn encode(&self) -> Bytes {
        match EventContent::from(&self.event.body) {
            EventContent::Message { message, origin_connection_id } => {
                self.encode_with(MessagePersisted::new(message, origin_connection_id))
            }
            EventContent::Update { update, message } => self.encode_with(MessageUpdated::new(update, message)),
            EventContent::Change(change) => self.encode_with(change.fields()),
        }
    }

    fn encode_with(&self, payload: impl Serialize) -> Bytes {
        serde_json::to_vec(&EventEnvelopeOut {
            event_type: event_type(&self.event.body),
            event_id: self.event.event_id,
            event_time: self.event.event_time,
            event_version: EVENT_VERSION,
            partition_key: self.event.body.chat_id(),
            event_number: self.event.event_number,
            payload,
            position: self.position,
        })
        .expect("strings, numbers and lists always serialize")
        .into()
    }
}

impl EventEnvelope<'static> {
    /// Parses the JSON text of an event. Never panics, not even on arbitrary bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, EventError> {
        let envelope: EventEnvelopeIn<'_> = serde_json::from_slice(bytes)?;
        if envelope.event_version != EVENT_VERSION {
            return Err(EventError::Version(envelope.event_version));
        }
        let body = match &*envelope.event_type {
            MessagePersisted::TYPE => {
                serde_json::from_str::<MessagePersisted<'_>>(envelope.payload.get())?.try_into()?
            }
            MessageUpdated::TYPE => serde_json::from_str::<MessageUpdated<'_>>(envelope.payload.get())?.try_into()?,
            change => ChangePayload::parse(change, envelope.payload)?.try_into()?,
        };
        let EventEnvelopeIn { event_id, event_time, event_number, .. } = envelope;
        let event = Event { event_id, event_time, event_number, body };
        Ok(Self { event: Cow::Owned(event), position: envelope.position })
    }
}

#[derive(Serialize)]
struct EventEnvelopeOut<P> {
    event_type: &'static str,
    event_id: EventId,
    event_time: Timestamp,
    event_version: u32,
    partition_key: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_number: Option<EventNumber>,
    payload: P,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

#[derive(Deserialize)]
struct EventEnvelopeIn<'a> {
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    event_id: EventId,
    event_time: Timestamp,
    event_version: u32,
    event_number: Option<EventNumber>,
    #[serde(borrow)]
    payload: &'a RawValue,
    position: Option<u64>,
}
