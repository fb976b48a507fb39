use std::borrow::Cow;

use domain::{
    ChatId, ChatName, ClientMessageId, ConnectionId, Event, EventBody, EventId, MembershipChange, Sequence, Timestamp,
    UserId,
};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::chat::{ChatTypeRow, RoleRow};
use super::{IdBytes, Millis, Place, Seconds, from_bytes, row_enum, to_bytes, ttl_from_row, ttl_to_row};

/// One record of the event log, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogRecord {
    /// A message, by its place: writing its content a second time would double the bytes of a send.
    Message(LoggedMessage),
    /// Any other event, whole.
    Event(Event),
}

/// What the log says of a message; enough to find it, and to forget its send key even when it has been purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedMessage {
    pub(crate) place: Place,
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

row_enum!(MembershipChangeRow for MembershipChange { Added, Removed, RoleChanged });

#[derive(Serialize, Deserialize)]
enum LogRow<'a> {
    Message {
        chat_id: IdBytes,
        sequence: u64,
        sender_id: IdBytes,
        client_message_id: IdBytes,
        created_at: Millis,
        origin_connection_id: Option<IdBytes>,
    },
    Event {
        event_id: IdBytes,
        event_time: Millis,
        body: EventBodyRow<'a>,
    },
}

#[derive(Serialize, Deserialize)]
enum EventBodyRow<'a> {
    MembershipChanged {
        chat_id: IdBytes,
        user_id: IdBytes,
        change: MembershipChangeRow,
        role: RoleRow,
        changed_by: IdBytes,
    },
    ChatCreated {
        chat_id: IdBytes,
        chat_type: ChatTypeRow,
        name: Option<Cow<'a, str>>,
        created_by: IdBytes,
        initial_members: Vec<IdBytes>,
    },
    ChatRenamed {
        chat_id: IdBytes,
        name: Cow<'a, str>,
        changed_by: IdBytes,
    },
    MessageTtlChanged {
        chat_id: IdBytes,
        message_ttl: Option<Seconds>,
        changed_by: IdBytes,
    },
    MessagesExpired {
        chat_id: IdBytes,
        sequences: Vec<u64>,
    },
}

/// The row of an event.
pub(crate) fn encode_event(event: &Event) -> Vec<u8> {
    let body = match &event.body {
        EventBody::MessagePersisted { message, origin_connection_id } => {
            return to_bytes(&LogRow::Message {
                chat_id: message.chat_id.to_bytes(),
                sequence: message.sequence.0,
                sender_id: message.sender_id.to_bytes(),
                client_message_id: message.client_message_id.to_bytes(),
                created_at: message.created_at.as_millis(),
                origin_connection_id: origin_connection_id.map(ConnectionId::to_bytes),
            });
        }
        EventBody::MembershipChanged { chat_id, user_id, change, role, changed_by } => {
            EventBodyRow::MembershipChanged {
                chat_id: chat_id.to_bytes(),
                user_id: user_id.to_bytes(),
                change: (*change).into(),
                role: (*role).into(),
                changed_by: changed_by.to_bytes(),
            }
        }
        EventBody::ChatCreated { chat_id, chat_type, name, created_by, initial_members } => EventBodyRow::ChatCreated {
            chat_id: chat_id.to_bytes(),
            chat_type: (*chat_type).into(),
            name: name.as_ref().map(|name| Cow::Borrowed(name.as_str())),
            created_by: created_by.to_bytes(),
            initial_members: initial_members.iter().map(|member| member.to_bytes()).collect(),
        },
        EventBody::ChatRenamed { chat_id, name, changed_by } => EventBodyRow::ChatRenamed {
            chat_id: chat_id.to_bytes(),
            name: Cow::Borrowed(name.as_str()),
            changed_by: changed_by.to_bytes(),
        },
        EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by } => EventBodyRow::MessageTtlChanged {
            chat_id: chat_id.to_bytes(),
            message_ttl: ttl_to_row(*message_ttl),
            changed_by: changed_by.to_bytes(),
        },
        EventBody::MessagesExpired { chat_id, sequences } => EventBodyRow::MessagesExpired {
            chat_id: chat_id.to_bytes(),
            sequences: sequences.iter().map(|sequence| sequence.0).collect(),
        },
    };
    to_bytes(&LogRow::Event { event_id: event.event_id.to_bytes(), event_time: event.event_time.as_millis(), body })
}

impl LogRecord {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        Ok(match from_bytes::<LogRow<'static>>(bytes)? {
            LogRow::Message { chat_id, sequence, sender_id, client_message_id, created_at, origin_connection_id } => {
                Self::Message(LoggedMessage {
                    place: Place { chat_id: ChatId::from_bytes(chat_id), sequence: Sequence(sequence) },
                    sender_id: UserId::from_bytes(sender_id),
                    client_message_id: ClientMessageId::from_bytes(client_message_id),
                    created_at: Timestamp::from_millis(created_at),
                    origin_connection_id: origin_connection_id.map(ConnectionId::from_bytes),
                })
            }
            LogRow::Event { event_id, event_time, body } => Self::Event(Event {
                event_id: EventId::from_bytes(event_id),
                event_time: Timestamp::from_millis(event_time),
                body: body.try_into()?,
            }),
        })
    }
}

impl TryFrom<EventBodyRow<'static>> for EventBody {
    type Error = BoxError;

    fn try_from(row: EventBodyRow<'static>) -> Result<Self, BoxError> {
        Ok(match row {
            EventBodyRow::MembershipChanged { chat_id, user_id, change, role, changed_by } => Self::MembershipChanged {
                chat_id: ChatId::from_bytes(chat_id),
                user_id: UserId::from_bytes(user_id),
                change: change.into(),
                role: role.into(),
                changed_by: UserId::from_bytes(changed_by),
            },
            EventBodyRow::ChatCreated { chat_id, chat_type, name, created_by, initial_members } => Self::ChatCreated {
                chat_id: ChatId::from_bytes(chat_id),
                chat_type: chat_type.into(),
                name: name.map(|name| ChatName::try_from(name.into_owned())).transpose()?,
                created_by: UserId::from_bytes(created_by),
                initial_members: initial_members.into_iter().map(UserId::from_bytes).collect(),
            },
            EventBodyRow::ChatRenamed { chat_id, name, changed_by } => Self::ChatRenamed {
                chat_id: ChatId::from_bytes(chat_id),
                name: ChatName::try_from(name.into_owned())?,
                changed_by: UserId::from_bytes(changed_by),
            },
            EventBodyRow::MessageTtlChanged { chat_id, message_ttl, changed_by } => Self::MessageTtlChanged {
                chat_id: ChatId::from_bytes(chat_id),
                message_ttl: ttl_from_row(message_ttl)?,
                changed_by: UserId::from_bytes(changed_by),
            },
            EventBodyRow::MessagesExpired { chat_id, sequences } => Self::MessagesExpired {
                chat_id: ChatId::from_bytes(chat_id),
                sequences: sequences.into_iter().map(Sequence).collect(),
            },
        })
    }
}
