use domain::{ChatId, ClientMessageId, ConnectionId, Event, EventId, EventNumber, Sequence, Timestamp, UserId};
use ports::BoxError;
use protocol::event::{ChangePayload, EventContent};
use serde::{Deserialize, Serialize};

use super::{MessageLocation, Millis, number_at_end, read_number_at_end, to_bytes};

/// One record of the event log, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogRecord {
    /// A reference to a message: a second copy of its content would double the bytes of a send.
    Message(LoggedMessage),
    /// A reference to an update, whose message has the content.
    Update(LoggedMessage),
    /// Any other event, complete.
    Event(Box<Event>),
}

/// The log record of a message or an update: enough to find it, and to delete its send key when the log is trimmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedMessage {
    pub(crate) location: MessageLocation,
    pub(crate) sender_id: UserId,
    pub(crate) client_message_id: ClientMessageId,
    pub(crate) created_at: Timestamp,
    pub(crate) origin_connection_id: Option<ConnectionId>,
    /// The expiry time of an update. That of a message is in its row alone, because it changes.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) event_number: Option<EventNumber>,
}

impl LogRecord {
    pub(crate) fn time(&self) -> Timestamp {
        match self {
            Self::Message(message) => message.created_at,
            Self::Update(update) => update.created_at,
            Self::Event(event) => event.event_time,
        }
    }
}

/// The records of messages and updates are references. The other events are complete: [`ChangePayload`] describes their
/// fields. The number of the event follows the record, if it has one.
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
    Update {
        chat_id: ChatId,
        sequence: Sequence,
        user_id: UserId,
        client_message_id: ClientMessageId,
        created_at: Millis,
        expires_at: Option<Millis>,
    },
}

/// The row of an event.
pub(crate) fn encode_event(event: &Event) -> Vec<u8> {
    let mut bytes = to_bytes(&match EventContent::from(&event.body) {
        EventContent::Message { message, origin_connection_id } => LogRecordRow::Message {
            chat_id: message.chat_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            client_message_id: message.client_message_id,
            created_at: message.created_at.as_millis(),
            origin_connection_id,
        },
        EventContent::Update { update, .. } => LogRecordRow::Update {
            chat_id: update.chat_id,
            sequence: update.sequence,
            user_id: update.user_id,
            client_message_id: update.client_message_id,
            created_at: update.created_at.as_millis(),
            expires_at: update.expires_at.map(Timestamp::as_millis),
        },
        EventContent::Change(body) => {
            LogRecordRow::Event { event_id: event.event_id, event_time: event.event_time.as_millis(), body }
        }
    });
    bytes.extend(number_at_end(event.event_number.map(|number| number.0)));
    bytes
}

impl LogRecord {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (row, rest) = postcard::take_from_bytes(bytes)?;
        let event_number = read_number_at_end(rest)?.map(EventNumber);
        Ok(match row {
            LogRecordRow::Message {
                chat_id,
                sequence,
                sender_id,
                client_message_id,
                created_at,
                origin_connection_id,
            } => Self::Message(LoggedMessage {
                location: MessageLocation { chat_id, sequence },
                sender_id,
                client_message_id,
                created_at: Timestamp::from_millis(created_at),
                origin_connection_id,
                expires_at: None,
                event_number,
            }),
            LogRecordRow::Update { chat_id, sequence, user_id, client_message_id, created_at, expires_at } => {
                Self::Update(LoggedMessage {
                    location: MessageLocation { chat_id, sequence },
                    sender_id: user_id,
                    client_message_id,
                    created_at: Timestamp::from_millis(created_at),
                    origin_connection_id: None,
                    expires_at: expires_at.map(Timestamp::from_millis),
                    event_number,
                })
            }
            LogRecordRow::Event { event_id, event_time, body } => {
                let event_time = Timestamp::from_millis(event_time);
                Self::Event(Box::new(Event { event_id, event_time, event_number, body: body.try_into()? }))
            }
        })
    }
}
