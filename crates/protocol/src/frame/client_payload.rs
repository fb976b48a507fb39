use domain::{ChatId, ClientMessageId, Sequence, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Described;
use crate::schema;

macro_rules! client_frames {
    ($($(#[doc = $doc:literal])* $variant:ident($payload:ty) = $name:literal,)*) => {
        /// The types of frames that a client can send.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum ClientFrameType {
            $($(#[doc = $doc])* $variant,)*
        }

        impl ClientFrameType {
            /// Every type, in the order of the contract's table.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The type of that name, if this version knows it.
            pub(crate) fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The type as it stands on the wire.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What may be in a frame of this type.
            pub(crate) fn described(self) -> Described {
                match self {
                    $(Self::$variant => Described::new::<$payload>($name, concat!($($doc),*)),)*
                }
            }
        }
    };
}

client_frames! {
    /// Sends a message.
    SendMessage(SendMessagePayload) = "send_message",
    /// Says what has arrived and is stored.
    Ack(AckPayload) = "ack",
    /// Says what has been read.
    MarkRead(MarkReadPayload) = "mark_read",
    /// Asks for what was missed.
    SyncRequest(SyncPayload) = "sync_request",
    /// Says that the user types; it ends by itself after 10 s.
    TypingStart(TypingPayload) = "typing_start",
    /// Says that the user no longer types.
    TypingStop(TypingPayload) = "typing_stop",
    /// Asks for the presence of users, and for its changes from then on.
    PresenceSubscribe(UsersPayload) = "presence_subscribe",
    /// Ends such a subscription.
    PresenceUnsubscribe(UsersPayload) = "presence_unsubscribe",
    /// Says that the client is there.
    Heartbeat(HeartbeatPayload) = "heartbeat",
}

impl ClientFrameType {
    /// The type of the frame that answers it, if one does.
    pub(crate) fn answer(self) -> Option<&'static str> {
        match self {
            Self::SendMessage => Some("send_message_ack"),
            Self::SyncRequest => Some("sync_response"),
            Self::PresenceSubscribe => Some("presence_snapshot"),
            Self::Heartbeat => Some("heartbeat_ack"),
            Self::Ack | Self::MarkRead | Self::TypingStart | Self::TypingStop | Self::PresenceUnsubscribe => None,
        }
    }

    /// Whether it is refused without a request id.
    pub(crate) fn needs_request_id(self) -> bool {
        self.answer().is_some() && self != Self::Heartbeat
    }
}

/// A send as it stands on the wire, in a frame or in the body of a REST request.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = SendMessage, description = "Payload of `send_message`.")]
pub(crate) struct SendMessagePayload {
    /// The sender's name for the send, the same on every try.
    #[schema(value_type = String, format = "uuid")]
    pub(crate) client_message_id: ClientMessageId,
    #[schema(value_type = schema::ChatId)]
    pub(crate) chat_id: ChatId,
    /// 1 to 4096 bytes of UTF-8 without NUL.
    #[schema(min_length = 1)]
    pub(crate) content: String,
    /// `text/plain` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ContentType>)]
    pub(crate) content_type: Option<String>,
    /// How long the message lives; as long as the chat says unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub(crate) ttl_seconds: Option<u64>,
}

/// Payload of `ack`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Ack)]
pub(super) struct AckPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// Everything up to here has arrived and is stored.
    #[schema(value_type = u64)]
    pub(super) last_acked_sequence: Sequence,
}

/// Payload of `mark_read`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = MarkRead)]
pub(super) struct MarkReadPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// Everything up to here has been read.
    #[schema(value_type = u64)]
    pub(super) last_read_sequence: Sequence,
}

/// Payload of `sync_request`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = SyncRequest)]
pub(super) struct SyncPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// What the client has; 0 for nothing.
    #[schema(value_type = u64)]
    pub(super) last_acked_sequence: Sequence,
    /// Messages in the answer: 100 unless given, 500 at the most.
    #[schema(minimum = 1)]
    pub(super) limit: Option<i64>,
}

/// Payload of `typing_start` and `typing_stop`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Typing)]
pub(super) struct TypingPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
}

/// Payload of `presence_subscribe` and `presence_unsubscribe`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = PresenceUsers)]
pub(super) struct UsersPayload {
    #[schema(value_type = Vec<schema::UserId>, max_items = 100)]
    pub(super) user_ids: Vec<UserId>,
}

/// Payload of `heartbeat`: nothing.
#[derive(Serialize, ToSchema)]
#[schema(as = Heartbeat)]
pub(super) struct HeartbeatPayload {}
