use crate::{ChatId, ChatName, ChatType, ConnectionId, EventId, Message, Role, Sequence, Timestamp, Ttl, UserId};

/// One record of the event log: something that the store has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_id: EventId,
    pub event_time: Timestamp,
    pub body: EventBody,
}

impl Event {
    /// The event of a committed message. It bears the ulid of its message, so a replay tells the same event again.
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
        /// The connection the send came in on; it has the acknowledgement and gets no push (G8).
        origin_connection_id: Option<ConnectionId>,
    },
    MembershipChanged {
        chat_id: ChatId,
        user_id: UserId,
        change: MembershipChange,
        /// The role after the change, or the last role of a member who is gone.
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
        /// How long messages live from now on that do not say it themselves.
        message_ttl: Option<Ttl>,
        changed_by: UserId,
    },
    /// Messages were purged. They had been gone from every read since their moment came (G11).
    MessagesExpired {
        chat_id: ChatId,
        sequences: Vec<Sequence>,
    },
}

/// Events that belong together: a log keeps their order in a chat, and an application takes or leaves all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Messages that were sent, and that expired.
    Message,
    /// Members who came, went, or got another role.
    Member,
    /// Chats that were opened or changed.
    Chat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    Added,
    Removed,
    RoleChanged,
}

impl EventBody {
    /// The chat whose order the event keeps.
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

    /// What sort of event it is.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::MessagePersisted { .. } | Self::MessagesExpired { .. } => EventKind::Message,
            Self::MembershipChanged { .. } => EventKind::Member,
            Self::ChatCreated { .. } | Self::ChatRenamed { .. } | Self::MessageTtlChanged { .. } => EventKind::Chat,
        }
    }
}
