use crate::{ChatId, ChatName, ChatType, ConnectionId, EventId, Message, Role, Sequence, Timestamp, Ttl, UserId};

/// One record of the event log: a change that the store has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_id: EventId,
    pub event_time: Timestamp,
    pub body: EventBody,
}

impl Event {
    /// The event of a committed message. It has the ulid of its message, so a replay produces the same event id.
    pub fn message_persisted(message: Message, origin_connection_id: Option<ConnectionId>) -> Self {
        Self {
            event_id: EventId::from_bytes(message.message_id.to_bytes()),
            event_time: message.created_at,
            body: EventBody::MessagePersisted { message, origin_connection_id },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventBody {
    MessagePersisted {
        message: Message,
        /// The connection that the send came from. It receives the acknowledgement and no push (G8).
        origin_connection_id: Option<ConnectionId>,
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
    /// Sent and expired messages.
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
            Self::MembershipChanged { chat_id, .. }
            | Self::ChatCreated { chat_id, .. }
            | Self::ChatRenamed { chat_id, .. }
            | Self::MessageTtlChanged { chat_id, .. }
            | Self::MessagesExpired { chat_id, .. } => *chat_id,
        }
    }

    /// The kind of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::MessagePersisted { .. } | Self::MessagesExpired { .. } => EventKind::Message,
            Self::MembershipChanged { .. } => EventKind::Member,
            Self::ChatCreated { .. } | Self::ChatRenamed { .. } | Self::MessageTtlChanged { .. } => EventKind::Chat,
        }
    }
}
