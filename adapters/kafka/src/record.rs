//! Record format of events: the key is the chat, the value the event envelope, the timestamp the event's time.

use std::borrow::Cow;

use bytes::Bytes;
use domain::{Event, EventKind, TraceContext};
use ports::trace;
use protocol::event::{EventEnvelope, EventError, event_type};
use rdkafka::Message;
use rdkafka::message::Headers;

use crate::client::RECORD_BYTES_MAX;
use crate::location::RecordLocation;

/// A record to publish.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingRecord {
    pub(crate) topic: String,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Bytes,
    /// Milliseconds since 1970; the time of sending, if absent.
    pub(crate) time: Option<i64>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl OutgoingRecord {
    /// The record of an event.
    pub(crate) fn event(topic: String, event: &Event) -> Self {
        let value = EventEnvelope { event: Cow::Borrowed(event), position: None }.encode();
        Self {
            topic,
            key: Some(event.body.chat_id().to_string().into_bytes()),
            value,
            // Seeking by time refers to event times.
            time: i64::try_from(event.event_time.as_millis()).ok(),
            headers: [("event_type", event_type(&event.body).to_owned()), ("event_id", event.event_id.to_string())]
                .into_iter()
                .chain(trace::of(event.event_id).map(|context| (TraceContext::HEADER, context.to_string())))
                .collect(),
        }
    }

    /// Approximate memory use.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.key.as_ref().map_or(0, Vec::len) + self.value.len() + headers
    }
}

/// Why a record cannot be read as an event. The texts are logged, so they include no content of the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableReason {
    #[error("the record has {0} bytes, {RECORD_BYTES_MAX} is the limit")]
    TooLong(usize),
    #[error("the record is empty")]
    Empty,
    #[error("the record has no key, or one that is not its chat")]
    Key,
    #[error("the record belongs into another topic")]
    Topic,
    #[error("{0}")]
    Event(String),
}

/// A record that cannot be read as an event, with its raw bytes.
#[derive(Clone, Debug)]
pub(crate) struct DamagedRecord {
    pub(crate) location: RecordLocation,
    pub(crate) reason: UnreadableReason,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Bytes,
}

/// Parses the event of a record. It must not panic on any input.
pub(crate) fn read(kind: EventKind, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Event, UnreadableReason> {
    let value = value.ok_or(UnreadableReason::Empty)?;
    if value.len() > RECORD_BYTES_MAX {
        return Err(UnreadableReason::TooLong(value.len()));
    }
    let event =
        EventEnvelope::parse(value).map_err(|error| UnreadableReason::Event(describe(&error)))?.event.into_owned();
    if event.body.kind() != kind {
        return Err(UnreadableReason::Topic);
    }
    if key != Some(event.body.chat_id().to_string().as_bytes()) {
        return Err(UnreadableReason::Key);
    }
    Ok(event)
}

/// Registers the trace context of a record's header for the event.
pub(crate) fn remember_trace(event: &Event, message: &impl Message) {
    if !trace::is_on() {
        return;
    }
    let header = message.headers().and_then(|headers| headers.iter().find(|header| header.key == TraceContext::HEADER));
    let context = header.and_then(|header| std::str::from_utf8(header.value?).ok()?.parse().ok());
    if let Some(context) = context {
        trace::remember(event.event_id, context);
    }
}

/// Builds the [`DamagedRecord`] record. A key or value above the size limit is left out.
pub(crate) fn damaged(location: RecordLocation, message: &impl Message, reason: UnreadableReason) -> DamagedRecord {
    let bounded = |bytes: &&[u8]| bytes.len() <= RECORD_BYTES_MAX;
    let key = message.key().filter(bounded).map(<[u8]>::to_vec);
    let value = message.payload().filter(bounded).map(Bytes::copy_from_slice).unwrap_or_default();
    DamagedRecord { location, reason, key, value }
}

/// Describes a parse error. The JSON parser may quote its input, so the text gives only the line and column.
fn describe(error: &EventError) -> String {
    match error {
        EventError::Json(json) => format!("{error} at line {} column {}", json.line(), json.column()),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, EventBody, EventId, MembershipChange, Role, Sequence, Timestamp, UserId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_header_says_the_type_that_the_envelope_says() {
        let (chat_id, user_id) = (ChatId::from_bytes([1; 16]), UserId::from_bytes([2; 16]));
        let bodies = [
            EventBody::MembershipChanged {
                chat_id,
                user_id,
                change: MembershipChange::Added,
                role: Role::Member,
                changed_by: user_id,
            },
            EventBody::ChatRenamed { chat_id, name: "new".to_owned().try_into().unwrap(), changed_by: user_id },
            EventBody::MessageTtlChanged { chat_id, message_ttl: None, changed_by: user_id },
            EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1)] },
        ];
        for body in bodies {
            let event = Event {
                event_id: EventId::from_bytes([3; 16]),
                event_time: Timestamp::from_millis(7),
                event_number: None,
                body,
            };
            let record = OutgoingRecord::event("topic".to_owned(), &event);
            let value: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
            assert_eq!(value["event_type"], record.headers[0].1);
            assert_eq!(value["event_id"], record.headers[1].1);
            assert_eq!(value["partition_key"].as_str().map(str::as_bytes), record.key.as_deref());
            assert_eq!(record.time, Some(7));
            assert_eq!(read(event.body.kind(), record.key.as_deref(), Some(&record.value)), Ok(event));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(key in any::<Option<Vec<u8>>>(), value in any::<Vec<u8>>()) {
            prop_assert!(read(EventKind::Message, key.as_deref(), Some(&value)).is_err());
        }
    }
}

#[cfg(test)]
mod fuzz {
    use domain::{Body, ChatId, ContentType, Message, MessageId, Sequence, Timestamp, UserId};
    use proptest::prelude::*;

    use super::*;

    /// A valid record.
    fn sound() -> OutgoingRecord {
        let message = Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(47),
            sender_id: UserId::from_bytes([3; 16]),
            client_message_id: domain::ClientMessageId::from_bytes([4; 16]),
            body: Body::new("Grüße \"du\"".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(1_769_783_400_000),
            expires_at: None,
            state: domain::MessageState::default(),
        };
        OutgoingRecord::event("topic".to_owned(), &Event::message_persisted(message, None))
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_refused_or_an_event_of_its_key_that_is_the_same_when_it_is_published_again(
            value in damage::bytes(Just(sound().value.to_vec())),
        ) {
            let key = sound().key;
            if let Ok(event) = read(EventKind::Message, key.as_deref(), Some(&value)) {
                let again = OutgoingRecord::event("topic".to_owned(), &event);
                prop_assert_eq!(&again.key, &key);
                prop_assert_eq!(read(EventKind::Message, key.as_deref(), Some(&again.value)).unwrap(), event);
            }
        }

        #[test]
        fn a_record_with_a_damaged_key_is_refused(key in damage::bytes(Just(sound().key.unwrap()))) {
            let OutgoingRecord { key: own, value, .. } = sound();
            prop_assume!(own.as_ref() != Some(&key));
            prop_assert_eq!(read(EventKind::Message, Some(&key), Some(&value)), Err(UnreadableReason::Key));
        }
    }
}
