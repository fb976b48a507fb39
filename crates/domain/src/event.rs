use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    ChatId, ChatName, ChatType, ConnectionId, EventId, Message, MessageUpdate, Role, Sequence, Timestamp, Ttl, UserId,
};

/// The number of an event in its chat: 1 for the first event, then one more for each, across all kinds of events.
///
/// It is the order of the commits. The number of a message is its sequence plus the number of changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventNumber(pub u64);

impl EventNumber {
    /// The number of the event that makes the head of a chat this sequence, and the number of its changes this one.
    pub fn at(sequence: Sequence, changes: u64) -> Self {
        Self(sequence.0.saturating_add(changes))
    }

    /// The number of the event after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for EventNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One record of the event log: a change that the store has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_id: EventId,
    pub event_time: Timestamp,
    /// Absent on purges, on events of an earlier version, and on events that were read without it.
    pub event_number: Option<EventNumber>,
    pub body: EventBody,
}

impl Event {
    /// The event of a committed message. It has the ulid of its message, so a replay produces the same event id.
    pub fn message_persisted(message: Message, origin_connection_id: Option<ConnectionId>) -> Self {
        Self {
            event_id: EventId::from_bytes(message.message_id.to_bytes()),
            event_time: message.created_at,
            event_number: None,
            body: EventBody::MessagePersisted { message, origin_connection_id },
        }
    }

    /// The event of a committed update of a message. It has the ulid of the update, so a replay produces the same event
    /// id.
    pub fn message_updated(update: MessageUpdate, message: Option<Message>) -> Self {
        Self {
            event_id: EventId::from_bytes(update.update_id.to_bytes()),
            event_time: update.created_at,
            event_number: None,
            body: EventBody::MessageUpdated { update, message },
        }
    }

    /// What a read at `now` returns of the event (G11): nothing of an expired entry, and no expired message.
    pub fn read_at(self: Arc<Self>, now: Timestamp) -> Option<Arc<Self>> {
        match &self.body {
            EventBody::MessagePersisted { message, .. } if message.is_expired(now) => None,
            EventBody::MessageUpdated { update, .. } if update.is_expired(now) => None,
            EventBody::MessageUpdated { update, message: Some(message) } if message.is_expired(now) => {
                let body = EventBody::MessageUpdated { update: update.clone(), message: None };
                let Self { event_id, event_time, event_number, .. } = *self;
                Some(Arc::new(Self { event_id, event_time, event_number, body }))
            }
            _ => Some(self),
        }
    }

    /// The event with a number.
    pub fn numbered(self, event_number: Option<EventNumber>) -> Self {
        Self { event_number, ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventBody {
    MessagePersisted {
        message: Message,
        /// The connection that the send came from. It receives the acknowledgement and no push (G8).
        origin_connection_id: Option<ConnectionId>,
    },
    MessageUpdated {
        update: MessageUpdate,
        /// The message as the update left it, or in a later state; absent once it was deleted or has expired.
        message: Option<Message>,
    },
    MembershipChanged {
        chat_id: ChatId,
        user_id: UserId,
        change: MembershipChange,
        /// The role after the change, or the last role of a removed member.
        role: Role,
        changed_by: UserId,
    },
    ChatCreated {
        chat_id: ChatId,
        chat_type: ChatType,
        name: Option<ChatName>,
        created_by: UserId,
        initial_members: Vec<UserId>,
    },
    ChatRenamed {
        chat_id: ChatId,
        name: ChatName,
        changed_by: UserId,
    },
    MessageTtlChanged {
        chat_id: ChatId,
        /// The lifetime of new messages without a ttl of their own.
        message_ttl: Option<Ttl>,
        changed_by: UserId,
    },
    /// Messages were purged. No read has returned them since their expiry time (G11).
    MessagesExpired {
        chat_id: ChatId,
        sequences: Vec<Sequence>,
    },
}

/// A category of events. A log keeps the order of one kind within a chat, and an application subscribes to whole kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Sent, updated and expired messages.
    Message,
    /// Members who were added, removed, or given another role.
    Member,
    /// Created and changed chats.
    Chat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    Added,
    Removed,
    RoleChanged,
}

impl EventBody {
    /// The chat of the event, which defines its order.
    pub fn chat_id(&self) -> ChatId {
        match self {
            Self::MessagePersisted { message, .. } => message.chat_id,
            Self::MessageUpdated { update, .. } => update.chat_id,
            Self::MembershipChanged { chat_id, .. }
            | Self::ChatCreated { chat_id, .. }
            | Self::ChatRenamed { chat_id, .. }
            | Self::MessageTtlChanged { chat_id, .. }
            | Self::MessagesExpired { chat_id, .. } => *chat_id,
        }
    }

    /// The sequence of the entry that the event is about: of a message, or of an update of one.
    pub fn sequence(&self) -> Option<Sequence> {
        match self {
            Self::MessagePersisted { message, .. } => Some(message.sequence),
            Self::MessageUpdated { update, .. } => Some(update.sequence),
            Self::MembershipChanged { .. }
            | Self::ChatCreated { .. }
            | Self::ChatRenamed { .. }
            | Self::MessageTtlChanged { .. }
            | Self::MessagesExpired { .. } => None,
        }
    }

    /// Whether the event is a change of the chat or its members, and so counts among [`EventNumber`]s. Messages and
    /// their updates count by their sequence. A purge follows from the expiry of its messages and has no number.
    pub fn is_change(&self) -> bool {
        match self {
            Self::MembershipChanged { .. }
            | Self::ChatCreated { .. }
            | Self::ChatRenamed { .. }
            | Self::MessageTtlChanged { .. } => true,
            Self::MessagePersisted { .. } | Self::MessageUpdated { .. } | Self::MessagesExpired { .. } => false,
        }
    }

    /// The kind of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::MessagePersisted { .. } | Self::MessageUpdated { .. } | Self::MessagesExpired { .. } => {
                EventKind::Message
            }
            Self::MembershipChanged { .. } => EventKind::Member,
            Self::ChatCreated { .. } | Self::ChatRenamed { .. } | Self::MessageTtlChanged { .. } => EventKind::Chat,
        }
    }
}
