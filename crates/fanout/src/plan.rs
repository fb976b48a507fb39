use bytes::Bytes;
use domain::{ConnectionId, Event, EventBody, MembershipChange, Message, UserId};
use protocol::frame::{ChatChangeKind, ChatUpdated, MessageExpired, ServerFrame};

/// What an event means for those who are online.
pub(crate) struct Plan<'a> {
    /// Who gets it besides the members: somebody who was one until now.
    pub(crate) also: Option<UserId>,
    pub(crate) what: What<'a>,
}

pub(crate) enum What<'a> {
    /// A message: its sender's devices see the id they gave it, the connection it came from sees nothing (G8).
    Message { message: &'a Message, origin: Option<ConnectionId> },
    /// The same frame for everybody.
    Frame(Bytes),
}

impl<'a> Plan<'a> {
    pub(crate) fn of(event: &'a Event) -> Self {
        let updated = |change, user_id| {
            let chat_id = event.body.chat_id();
            What::Frame(ServerFrame::ChatUpdated(ChatUpdated { chat_id, change, user_id }).encode(None))
        };
        let (also, what) = match &event.body {
            EventBody::MessagePersisted { message, origin_connection_id } => {
                (None, What::Message { message, origin: *origin_connection_id })
            }
            EventBody::ChatCreated { .. } => (None, updated(ChatChangeKind::Created, None)),
            EventBody::ChatRenamed { .. } => (None, updated(ChatChangeKind::Renamed, None)),
            EventBody::MessageTtlChanged { .. } => (None, updated(ChatChangeKind::MessageTtlChanged, None)),
            EventBody::MessagesExpired { chat_id, sequences } => {
                let expired = MessageExpired { chat_id: *chat_id, sequences: sequences.clone() };
                (None, What::Frame(ServerFrame::MessageExpired(expired).encode(None)))
            }
            EventBody::MembershipChanged { user_id, change, .. } => match change {
                MembershipChange::Added => (None, updated(ChatChangeKind::MemberAdded, Some(*user_id))),
                MembershipChange::Removed => (Some(*user_id), updated(ChatChangeKind::MemberRemoved, Some(*user_id))),
                MembershipChange::RoleChanged => (None, updated(ChatChangeKind::RoleChanged, Some(*user_id))),
            },
        };
        Self { also, what }
    }
}

/// Whether the members of the chat have changed, so that what is remembered of them is wrong.
pub(crate) fn members_changed(event: &Event) -> bool {
    use MembershipChange::{Added, Removed};
    matches!(event.body, EventBody::ChatCreated { .. } | EventBody::MembershipChanged { change: Added | Removed, .. })
}
