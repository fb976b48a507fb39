use domain::{Body, ChatId, ClientMessageId, Reaction, Sequence, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{FieldError, Sensitive};
use crate::frame::{InvalidField, MessageBody, SendMessagePayload, read_body};
use crate::integer::{integer, optional_integer};
use crate::{ErrorBody, ErrorCode, frame, schema};

/// Body of POST `/chats/{chat_id}/messages`: a `send_message` frame with the chat in the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct SendMessage {
    /// The sender's id for the send, the same on every retry.
    #[schema(value_type = String, format = "uuid")]
    pub client_message_id: ClientMessageId,
    /// 1 to 4096 bytes of UTF-8 without NUL.
    #[schema(value_type = String, min_length = 1)]
    pub content: Sensitive,
    /// Defaults to `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ContentType>)]
    pub content_type: Option<String>,
    /// A JSON object of the application, of at most 1024 bytes as compact JSON. The server stores it and passes it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "optional_integer", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub ttl_seconds: Option<u64>,
}

impl SendMessage {
    /// The requested send, validated like the frame.
    pub fn into_send(self, chat_id: ChatId) -> Result<frame::SendMessage, ErrorBody> {
        let Self { client_message_id, content, content_type, metadata, ttl_seconds } = self;
        let content = content.0;
        let payload = SendMessagePayload { client_message_id, chat_id, content, content_type, metadata, ttl_seconds };
        payload.validate().map_err(validation_error)
    }
}

/// The error of an invalid field. REST reports `VALIDATION_ERROR` where a frame reports `INVALID_MESSAGE`.
fn validation_error(invalid: InvalidField) -> ErrorBody {
    match invalid.error.code {
        ErrorCode::InvalidMessage => {
            let message = invalid.error.message;
            let details = FieldError { field: invalid.field.to_owned(), message: message.clone() }.into_details();
            ErrorBody::new(ErrorCode::ValidationError, message).with_details(details)
        }
        _ => invalid.error,
    }
}

/// Body of PATCH `/chats/{chat_id}/messages/{sequence}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EditMessage {
    /// The author's id for the edit, the same on every retry.
    #[schema(value_type = String, format = "uuid")]
    pub client_message_id: ClientMessageId,
    /// 1 to 4096 bytes of UTF-8 without NUL.
    #[schema(value_type = String, min_length = 1)]
    pub content: Sensitive,
    /// Defaults to `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ContentType>)]
    pub content_type: Option<String>,
    /// A JSON object of at most 1024 bytes. It replaces the one of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl EditMessage {
    /// The new body, validated like that of a send.
    pub fn into_body(self) -> Result<Body, ErrorBody> {
        read_body(self.content.0, self.content_type, self.metadata).map_err(validation_error)
    }
}

/// The members who reacted to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Reactions {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    pub members: Vec<Reactor>,
}

/// A member who reacted, with their reactions in the order in which they added them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Reactor {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = Vec<String>)]
    pub reactions: Vec<Reaction>,
}

/// A message as one member sees it: the `message` payload, with a status on the member's own messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Message<'a> {
    #[serde(flatten)]
    #[schema(inline, value_type = MessageBody<'static>)]
    pub message: MessageBody<'a>,
    /// Present only on the caller's own messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MessageStatus, required = false)]
    pub status: Option<MessageStatus>,
}

/// The delivery status of a message, derived from the watermarks of the other members (G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// It is durable.
    Sent,
    /// Every other member has received it.
    Delivered,
    /// Every other member has read it.
    Read,
}

/// A page of a chat's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct History<'a> {
    #[schema(value_type = Vec<Message<'static>>)]
    pub messages: Vec<Message<'a>>,
    #[schema(value_type = u64)]
    pub head_sequence: Sequence,
}

/// The messages around a given one, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Around<'a> {
    #[schema(value_type = Vec<Message<'static>>)]
    pub messages: Vec<Message<'a>>,
    #[schema(value_type = u64)]
    pub head_sequence: Sequence,
    #[schema(value_type = u64)]
    pub target_sequence: Sequence,
    pub has_more_before: bool,
    pub has_more_after: bool,
}

/// Body of POST `/chats/{chat_id}/delivered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MarkDelivered {
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub last_acked_sequence: Sequence,
}

/// Body of POST `/chats/{chat_id}/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MarkRead {
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub last_read_sequence: Sequence,
}

/// The caller's watermarks after a `MarkDelivered` or a `MarkRead`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MarkedRead {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub delivered_sequence: Sequence,
    #[schema(value_type = u64)]
    pub read_sequence: Sequence,
}

/// The number of members that have received and read a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Receipts {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    /// All members, including the sender.
    pub member_count: usize,
    /// Excluding the sender.
    pub delivered_count: usize,
    /// Excluding the sender.
    pub read_count: usize,
    pub members: Vec<MemberWatermarks>,
}

/// The watermarks of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MemberWatermarks {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = u64)]
    pub delivered_sequence: Sequence,
    /// When `delivered_sequence` was reached; lower sequences were delivered then or earlier. Absent if the watermark has
    /// not moved since the member joined, or last moved under a release without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub delivered_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    pub read_sequence: Sequence,
    /// When `read_sequence` was reached; as `delivered_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub read_at: Option<Timestamp>,
}
