use bytes::Bytes;
use domain::{ConnectionId, Event, EventBody, MembershipChange, Message, MessageUpdate, UserId};
use protocol::frame::{ChatChangeKind, ChatUpdated, MessageExpired, ServerFrame};

/// The pushes that an event causes.
pub(crate) struct PushPlan<'a> {
    /// A recipient besides the members: the member that was just removed.
    pub(crate) also: Option<UserId>,
    pub(crate) content: PushContent<'a>,
}

pub(crate) enum PushContent<'a> {
    /// A message. The sender's devices see its client message id, and the originating connection receives nothing (G8).
    Message { message: &'a Message, origin: Option<ConnectionId> },
    /// An update of a message. Its author's devices see its client message id. All connections receive it, because the
    /// acknowledgement does not say what became of the message.
    Update { update: &'a MessageUpdate, message: Option<&'a Message> },
    /// The same frame for all recipients.
    Frame(Bytes),
}

impl<'a> PushPlan<'a> {
    pub(crate) fn of(event: &'a Event) -> Self {
        let updated = |change, user_id| {
            let chat_id = event.body.chat_id();
            PushContent::Frame(ServerFrame::ChatUpdated(ChatUpdated { chat_id, change, user_id }).encode(None))
        };
        let (also, content) = match &event.body {
            EventBody::MessagePersisted { message, origin_connection_id } => {
                (None, PushContent::Message { message, origin: *origin_connection_id })
            }
            EventBody::MessageUpdated { update, message } => {
                (None, PushContent::Update { update, message: message.as_ref() })
            }
            EventBody::ChatCreated { .. } => (None, updated(ChatChangeKind::Created, None)),
            EventBody::ChatRenamed { .. } => (None, updated(ChatChangeKind::Renamed, None)),
            EventBody::MessageTtlChanged { .. } => (None, updated(ChatChangeKind::MessageTtlChanged, None)),
            EventBody::MessagesExpired { chat_id, sequences } => {
                let expired = MessageExpired { chat_id: *chat_id, sequences: sequences.clone() };
                (None, PushContent::Frame(ServerFrame::MessageExpired(expired).encode(None)))
            }
            EventBody::MembershipChanged { user_id, change, .. } => match change {
                MembershipChange::Added => (None, updated(ChatChangeKind::MemberAdded, Some(*user_id))),
                MembershipChange::Removed => (Some(*user_id), updated(ChatChangeKind::MemberRemoved, Some(*user_id))),
                MembershipChange::RoleChanged => (None, updated(ChatChangeKind::RoleChanged, Some(*user_id))),
            },
        };
        Self { also, content }
    }
}

/// Whether the event changes the members, so that the cached list is invalid.
pub(crate) fn members_changed(event: &Event) -> bool {
    use MembershipChange::{Added, Removed};
    matches!(event.body, EventBody::ChatCreated { .. } | EventBody::MembershipChanged { change: Added | Removed, .. })
}

/// The user whose connections an event needs besides the members' gateways: the author of an entry, or the member
/// that was just removed.
pub(crate) fn named(event: &Event) -> Option<UserId> {
    match &event.body {
        EventBody::MessagePersisted { message, .. } => Some(message.sender_id),
        EventBody::MessageUpdated { update, .. } => Some(update.user_id),
        EventBody::MembershipChanged { user_id, change: MembershipChange::Removed, .. } => Some(*user_id),
        _ => None,
    }
}
