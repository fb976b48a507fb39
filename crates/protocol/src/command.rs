use domain::{ChatId, Secret, UserId, WatermarkKind};

use crate::advances::Move;
use crate::frame::{RequestId, SendMessage, Sync, UpdateMessage};
use crate::frame_limits::FrameKind;

/// A client's request, to be executed by the services that the gateway calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names and meanings of the frames they come from")]
pub enum Command {
    /// Send a message.
    Send { request_id: RequestId, message: SendMessage },
    /// Update a message.
    Update { request_id: RequestId, update: UpdateMessage },
    /// Read missed messages.
    Sync { request_id: RequestId, sync: Sync },
    /// Move a watermark. Only a failure is answered, without a request id. It ends in [`crate::Connection::handle_advanced`].
    Advance(Move),
    /// Push a typing indicator to the other members. A start ends in [`crate::Connection::handle_typing`].
    Typing { chat_id: ChatId, is_typing: bool },
    /// Push the presence of these users, now and on every change.
    PresenceSubscribe { request_id: RequestId, user_ids: Vec<UserId> },
    /// End such a subscription.
    PresenceUnsubscribe { user_ids: Vec<UserId> },
    /// Renew the authentication of the connection. A success ends in [`crate::Connection::handle_reauthenticated`].
    Reauth { request_id: RequestId, token: Secret },
    /// A frame type that this version does not know.
    CountUnknown,
}

impl Command {
    /// The kind of the frame that it comes from.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Send { .. } => FrameKind::SendMessage,
            Self::Update { .. } => FrameKind::UpdateMessage,
            Self::Sync { .. } => FrameKind::SyncRequest,
            Self::Advance(Move { kind: WatermarkKind::Delivered, .. }) => FrameKind::Ack,
            Self::Advance(Move { kind: WatermarkKind::Read, .. }) => FrameKind::MarkRead,
            Self::Typing { is_typing: true, .. } => FrameKind::TypingStart,
            Self::Typing { is_typing: false, .. } => FrameKind::TypingStop,
            Self::PresenceSubscribe { .. } => FrameKind::PresenceSubscribe,
            Self::PresenceUnsubscribe { .. } => FrameKind::PresenceUnsubscribe,
            Self::Reauth { .. } => FrameKind::Reauth,
            Self::CountUnknown => FrameKind::Unknown,
        }
    }

    /// The request id to answer with, if the frame had one.
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Send { request_id, .. }
            | Self::Update { request_id, .. }
            | Self::Sync { request_id, .. }
            | Self::PresenceSubscribe { request_id, .. }
            | Self::Reauth { request_id, .. } => Some(request_id),
            Self::Advance(_) | Self::Typing { .. } | Self::PresenceUnsubscribe { .. } | Self::CountUnknown => None,
        }
    }

    /// The chat that it is about, if it is about one.
    pub fn chat_id(&self) -> Option<ChatId> {
        match self {
            Self::Send { message, .. } => Some(message.chat_id),
            Self::Update { update, .. } => Some(update.chat_id),
            Self::Sync { sync, .. } => Some(sync.chat_id),
            Self::Advance(moved) => Some(moved.chat_id),
            Self::Typing { chat_id, .. } => Some(*chat_id),
            Self::PresenceSubscribe { .. }
            | Self::PresenceUnsubscribe { .. }
            | Self::Reauth { .. }
            | Self::CountUnknown => None,
        }
    }
}
