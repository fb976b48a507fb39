use domain::{ChatId, ClientMessageId, ConnectionId, Event, EventId, Sequence, Timestamp, UserId};
use ports::BoxError;
use protocol::event::{ChangePayload, EventContent};
use serde::{Deserialize, Serialize};

use super::{MessageLocation, Millis, from_bytes, to_bytes};

/// One record of the event log, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogRecord {
    /// A reference to a message: a second copy of its content would double the bytes of a send.
    Message(LoggedMessage),
    /// Any other event, complete.
    Event(Event),
}

/// The log record of a message: enough to find the message, and to delete its send key after the message was purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedMessage {
    pub(crate) place: MessageLocation,
    pub(crate) sender_id: UserId,
    pub(crate) client_message_id: ClientMessageId,
    pub(crate) created_at: Timestamp,
    pub(crate) origin_connection_id: Option<ConnectionId>,
}

impl LogRecord {
    pub(crate) fn time(&self) -> Timestamp {
        match self {
            Self::Message(message) => message.created_at,
            Self::Event(event) => event.event_time,
        }
    }
}

/// The record of a message is a reference. The other events are complete: [`ChangePayload`] describes their fields.
#[derive(Serialize, Deserialize)]
enum LogRecordRow {
    Message {
        chat_id: ChatId,
        sequence: Sequence,
        sender_id: UserId,
        client_message_id: ClientMessageId,
        created_at: Millis,
        origin_connection_id: Option<ConnectionId>,
    },
    Event {
        event_id: EventId,
        event_time: Millis,
        body: ChangePayload,
    },
}

/// The row of an event.
pub(crate) fn encode_event(event: &Event) -> Vec<u8> {
    to_bytes(&match EventContent::from(&event.body) {
        EventContent::Message { message, origin_connection_id } => LogRecordRow::Message {
            chat_id: message.chat_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            client_message_id: message.client_message_id,
            created_at: message.created_at.as_millis(),
            origin_connection_id,
        },
        EventContent::Change(body) => {
            LogRecordRow::Event { event_id: event.event_id, event_time: event.event_time.as_millis(), body }
        }
    })
}

impl LogRecord {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        Ok(match from_bytes(bytes)? {
            LogRecordRow::Message {
                chat_id,
                sequence,
                sender_id,
                client_message_id,
                created_at,
                origin_connection_id,
            } => Self::Message(LoggedMessage {
                place: MessageLocation { chat_id, sequence },
                sender_id,
                client_message_id,
                created_at: Timestamp::from_millis(created_at),
                origin_connection_id,
            }),
            LogRecordRow::Event { event_id, event_time, body } => {
                Self::Event(Event { event_id, event_time: Timestamp::from_millis(event_time), body: body.try_into()? })
            }
        })
    }
}
