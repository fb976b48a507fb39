use domain::{ChatId, ClientMessageId, Sequence, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Described;
use super::update::UpdatePayload;
use crate::integer::{integer, optional_integer};
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

            /// The type on the wire.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The description of this type for the AsyncAPI document.
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
    /// Edits or deletes a message, or reacts to it.
    UpdateMessage(UpdatePayload) = "update_message",
    /// Acknowledges messages that have arrived and are stored.
    Ack(AckPayload) = "ack",
    /// Marks messages as read.
    MarkRead(MarkReadPayload) = "mark_read",
    /// Requests missed messages.
    SyncRequest(SyncPayload) = "sync_request",
    /// Announces that the user is typing; it ends automatically after 10 s.
    TypingStart(TypingPayload) = "typing_start",
    /// Announces that the user has stopped typing.
    TypingStop(TypingPayload) = "typing_stop",
    /// Requests the presence of users, and subscribes to its changes.
    PresenceSubscribe(UsersPayload) = "presence_subscribe",
    /// Ends presence subscriptions.
    PresenceUnsubscribe(UsersPayload) = "presence_unsubscribe",
    /// Renews the authentication of the connection with a new access token of its session.
    Reauth(ReauthPayload) = "reauth",
    /// Proves that the client is alive.
    Heartbeat(HeartbeatPayload) = "heartbeat",
}

impl ClientFrameType {
    /// The type of the reply, if there is one.
    pub(crate) fn answer(self) -> Option<&'static str> {
        match self {
            Self::SendMessage | Self::UpdateMessage => Some("send_message_ack"),
            Self::SyncRequest => Some("sync_response"),
            Self::PresenceSubscribe => Some("presence_snapshot"),
            Self::Reauth => Some("reauth_ack"),
            Self::Heartbeat => Some("heartbeat_ack"),
            Self::Ack | Self::MarkRead | Self::TypingStart | Self::TypingStop | Self::PresenceUnsubscribe => None,
        }
    }

    /// Whether a frame without a request id is refused.
    pub(crate) fn needs_request_id(self) -> bool {
        self.answer().is_some() && self != Self::Heartbeat
    }
}

/// A send on the wire, in a frame or in the body of a REST request.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = SendMessage, description = "Payload of `send_message`.")]
pub(crate) struct SendMessagePayload {
    /// The sender's id for the send, the same on every retry.
    #[schema(value_type = String, format = "uuid")]
    pub(crate) client_message_id: ClientMessageId,
    #[schema(value_type = schema::ChatId)]
    pub(crate) chat_id: ChatId,
    /// 1 to 4096 bytes of UTF-8 without NUL.
    #[schema(min_length = 1)]
    pub(crate) content: String,
    /// Defaults to `text/plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ContentType>)]
    pub(crate) content_type: Option<String>,
    /// A JSON object of the application, of at most 1024 bytes as compact JSON. The server stores it and passes it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Lifetime of the message; defaults to that of the chat.
    #[serde(default, deserialize_with = "optional_integer", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub(crate) ttl_seconds: Option<u64>,
}

/// Payload of `ack`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Ack)]
pub(super) struct AckPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// All messages up to this sequence have arrived and are stored.
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub(super) last_acked_sequence: Sequence,
}

/// Payload of `mark_read`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = MarkRead)]
pub(super) struct MarkReadPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// All messages up to this sequence have been read.
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub(super) last_read_sequence: Sequence,
}

/// Payload of `sync_request`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = SyncRequest)]
pub(super) struct SyncPayload {
    #[schema(value_type = schema::ChatId)]
    pub(super) chat_id: ChatId,
    /// The client has all messages up to this sequence; 0 for none.
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub(super) last_acked_sequence: Sequence,
    /// Most messages in the reply: 100 by default, at most 500.
    #[serde(default, deserialize_with = "optional_integer")]
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

/// Payload of `reauth`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Reauth)]
pub(super) struct ReauthPayload {
    /// An access token of the same user and session. The connection closes when it expires.
    #[schema(min_length = 1)]
    pub(super) token: String,
}

/// Payload of `presence_subscribe` and `presence_unsubscribe`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = PresenceUsers)]
pub(super) struct UsersPayload {
    #[schema(value_type = Vec<schema::UserId>, max_items = 100)]
    pub(super) user_ids: Vec<UserId>,
}

/// Payload of `heartbeat`: empty.
#[derive(Serialize, ToSchema)]
#[schema(as = Heartbeat)]
pub(super) struct HeartbeatPayload {}
