use std::borrow::Cow;

use bytes::Bytes;
use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, ContentType, DeviceId, Message, MessageId, Metadata, PresenceView,
    Sequence, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::update::{MessageUpdated, StateBody, UpdateBody};
use super::{Described, RequestId, SendMessage};
use crate::{ErrorBody, schema};

macro_rules! server_frames {
    ($($(#[doc = $doc:literal])* $variant:ident($payload:ty) = $name:literal as $class:ident,)*) => {
        /// The frames of the server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum ServerFrame {
            $($(#[doc = $doc])* $variant($payload),)*
            /// A type of a later version; clients ignore it.
            Unknown,
        }

        impl ServerFrame {
            /// The frame as JSON text.
            pub fn encode(&self, request_id: Option<&RequestId>) -> Bytes {
                match self {
                    $(Self::$variant(payload) => encode($name, request_id, payload),)*
                    Self::Unknown => encode("unknown", request_id, &serde_json::Map::new()),
                }
            }

            /// The class of an encoded frame.
            pub fn class_of(text: &[u8]) -> PushClass {
                match type_of(text) {
                    $(Some($name) => PushClass::$class,)*
                    _ => PushClass::Durable,
                }
            }

            /// The description of every server frame type for the AsyncAPI document.
            pub(crate) fn described() -> Vec<Described> {
                vec![$(Described::new::<$payload>($name, concat!($($doc),*)),)*]
            }

            fn parse(frame_type: &str, payload: &str) -> Result<Self, serde_json::Error> {
                Ok(match frame_type {
                    $($name => Self::$variant(serde_json::from_str(payload)?),)*
                    _ => Self::Unknown,
                })
            }
        }
    };
}

server_frames! {
    /// Always the first frame.
    ConnectionEstablished(ConnectionEstablished) = "connection_established" as Durable,
    /// The message is durable.
    SendMessageAck(SendMessageAck) = "send_message_ack" as Durable,
    /// A member sent a message.
    Message(MessageBody<'static>) = "message" as Durable,
    /// A member edited or deleted a message, or reacted to it.
    MessageUpdated(MessageUpdated<'static>) = "message_updated" as Durable,
    /// A page of missed messages.
    SyncResponse(SyncResponse<'static>) = "sync_response" as Durable,
    /// A member's watermarks have moved.
    Receipt(ReceiptBody) = "receipt" as Ephemeral,
    /// Messages have expired.
    MessageExpired(MessageExpired) = "message_expired" as Durable,
    /// A chat or its members have changed.
    ChatUpdated(ChatUpdated) = "chat_updated" as Durable,
    /// A member is typing, or has stopped.
    TypingIndicator(TypingIndicator) = "typing_indicator" as Ephemeral,
    /// The presence of the requested users.
    PresenceSnapshot(PresenceSnapshot) = "presence_snapshot" as Durable,
    /// The presence of a user has changed.
    PresenceChanged(PresenceChanged) = "presence_changed" as Ephemeral,
    /// Pushes may have been missed; the client syncs every chat.
    Resync(Resync) = "resync" as Durable,
    /// A heartbeat was received.
    HeartbeatAck(HeartbeatAck) = "heartbeat_ack" as Durable,
    /// The authentication of the connection is renewed.
    ReauthAck(ReauthAck) = "reauth_ack" as Durable,
    /// A request failed.
    Error(ErrorBody) = "error" as Durable,
    /// The connection is about to be closed.
    ConnectionClosing(ConnectionClosing) = "connection_closing" as Durable,
}

/// The consequence of a lost push for its recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushClass {
    /// The client has to sync.
    Durable,
    /// A later push supersedes it. For a slow reader it is dropped before durable ones.
    Ephemeral,
}

/// The type of an encoded frame: `encode` writes it first.
fn type_of(text: &[u8]) -> Option<&str> {
    let rest = text.strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// A parsed server frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// The request that it answers; pushes have none.
    pub request_id: Option<RequestId>,
    /// The frame without its envelope.
    pub frame: ServerFrame,
}

impl Outbound {
    /// Parses the JSON text of a frame. Never panics, not even on arbitrary text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let envelope: ServerFrameIn<'_> = serde_json::from_str(text)?;
        let frame = ServerFrame::parse(&envelope.frame_type, envelope.payload.map_or("{}", RawValue::get))?;
        Ok(Self { request_id: envelope.request_id, frame })
    }
}

#[derive(Deserialize)]
struct ServerFrameIn<'a> {
    #[serde(borrow, rename = "type")]
    frame_type: Cow<'a, str>,
    request_id: Option<RequestId>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ServerFrameOut<'a, P> {
    #[serde(rename = "type")]
    frame_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    payload: &'a P,
}

pub(super) fn encode<P: Serialize>(frame_type: &'static str, request_id: Option<&RequestId>, payload: &P) -> Bytes {
    serde_json::to_vec(&ServerFrameOut { frame_type, request_id, payload })
        .expect("strings, numbers and lists always serialize")
        .into()
}

/// Payload of `connection_established`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ConnectionEstablished {
    #[schema(value_type = schema::ConnectionId)]
    pub connection_id: ConnectionId,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
    pub heartbeat_interval_ms: u64,
    pub protocol_version: u32,
}

/// Payload of `send_message_ack`, and the response to a send over REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct SendMessageAck {
    #[schema(value_type = String, format = "uuid")]
    pub client_message_id: ClientMessageId,
    #[schema(value_type = schema::MessageId)]
    pub message_id: MessageId,
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    pub deduplicated: bool,
}

/// A message as every member sees it; borrowed for encoding, owned after parsing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Message, description = "A message as every member sees it.")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MessageBody<'a> {
    #[schema(value_type = schema::MessageId)]
    pub message_id: MessageId,
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    pub sender_id: UserId,
    #[schema(value_type = String, min_length = 1)]
    pub content: Cow<'a, str>,
    #[schema(value_type = schema::ContentType)]
    pub content_type: ContentType,
    /// The JSON object that the sender attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Map<String, Value>, required = false)]
    pub metadata: Option<Cow<'a, Metadata>>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub expires_at: Option<Timestamp>,
    /// Present only on the sender's own devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = false)]
    pub client_message_id: Option<ClientMessageId>,
    /// Present if the message was updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub state: Option<StateBody>,
}

impl<'a> MessageBody<'a> {
    /// The message as `reader` sees it: the sender also sees its `client_message_id`.
    pub fn new(message: &'a Message, reader: Option<UserId>) -> Self {
        Self {
            message_id: message.message_id,
            chat_id: message.chat_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            content: Cow::Borrowed(message.body.content.as_str()),
            content_type: message.body.content_type,
            metadata: message.body.metadata.as_ref().map(Cow::Borrowed),
            created_at: message.created_at,
            expires_at: message.expires_at,
            client_message_id: (reader == Some(message.sender_id)).then_some(message.client_message_id),
            state: StateBody::of(&message.state),
        }
    }
}

impl MessageBody<'_> {
    /// The sequence of the last update; 0 if there is none. Of two copies of a message, the one with the higher revision
    /// is newer.
    pub fn revision(&self) -> Sequence {
        self.state.as_ref().map_or(Sequence::ZERO, |state| state.revision)
    }
}

impl MessageBody<'static> {
    /// The message of an acknowledged send, as its sender sees it. A lifetime that the chat gave it is not known here.
    pub fn acknowledged(send: SendMessage, ack: &SendMessageAck, sender_id: UserId) -> Self {
        let SendMessage { client_message_id, chat_id, body, ttl } = send;
        let Body { content, content_type, metadata } = body;
        Self {
            message_id: ack.message_id,
            chat_id,
            sequence: ack.sequence,
            sender_id,
            content: Cow::Owned(content.into()),
            content_type,
            metadata: metadata.map(Cow::Owned),
            created_at: ack.created_at,
            expires_at: ttl.map(|ttl| ack.created_at + ttl.as_duration()),
            client_message_id: Some(client_message_id),
            state: None,
        }
    }
}

/// The `message` push of a message, encoded for `reader` without copying its content.
pub fn message_body(message: &Message, reader: Option<UserId>) -> Bytes {
    encode("message", None, &MessageBody::new(message, reader))
}

/// Payload of `sync_response`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct SyncResponse<'a> {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = Vec<MessageBody<'static>>)]
    pub messages: Vec<MessageBody<'a>>,
    /// The updates of messages in this range of sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub updates: Vec<UpdateBody>,
    /// The messages of these updates that are not in `messages`, in their current state; deleted ones are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<MessageBody<'static>>, required = false)]
    pub updated_messages: Vec<MessageBody<'a>>,
    pub has_more: bool,
    /// The first sequence that was not examined; present if `has_more`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub next_sequence: Option<Sequence>,
    #[schema(value_type = u64)]
    pub head_sequence: Sequence,
}

impl SyncResponse<'_> {
    /// The reply as JSON text, encoded without copying the content of its messages.
    pub fn encode(&self, request_id: Option<&RequestId>) -> Bytes {
        encode("sync_response", request_id, self)
    }
}

/// Payload of `receipt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Receipt)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ReceiptBody {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = u64)]
    pub delivered_sequence: Sequence,
    #[schema(value_type = u64)]
    pub read_sequence: Sequence,
}

/// Payload of `message_expired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MessageExpired {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = Vec<u64>)]
    pub sequences: Vec<Sequence>,
}

/// Payload of `chat_updated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ChatUpdated {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = schema::ChatChange)]
    pub change: ChatChangeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::UserId, required = false)]
    pub user_id: Option<UserId>,
}

/// The kind of change to a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub enum ChatChangeKind {
    Created,
    Renamed,
    MemberAdded,
    MemberRemoved,
    RoleChanged,
    MessageTtlChanged,
    /// A kind that a later version introduced.
    #[serde(other)]
    Unknown,
}

impl ChatChangeKind {
    /// Every kind that the server announces.
    pub(crate) const ANNOUNCED: [Self; 6] = [
        Self::Created,
        Self::Renamed,
        Self::MemberAdded,
        Self::MemberRemoved,
        Self::RoleChanged,
        Self::MessageTtlChanged,
    ];
}

/// Payload of `typing_indicator`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct TypingIndicator {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    pub is_typing: bool,
}

/// The presence of a user as the reader may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub enum PresenceStatus {
    Online,
    Offline,
    Unknown,
}

/// One user's presence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Presence {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    pub status: PresenceStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_seen: Option<Timestamp>,
}

impl From<(UserId, PresenceView)> for Presence {
    fn from((user_id, view): (UserId, PresenceView)) -> Self {
        let (status, last_seen) = match view {
            PresenceView::Online => (PresenceStatus::Online, None),
            PresenceView::Offline { last_seen } => (PresenceStatus::Offline, last_seen),
            PresenceView::Unknown => (PresenceStatus::Unknown, None),
        };
        Self { user_id, status, last_seen }
    }
}

/// Payload of `presence_snapshot`, and the response to a presence query over REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct PresenceSnapshot {
    pub presences: Vec<Presence>,
}

/// Payload of `presence_changed`.
pub type PresenceChanged = Presence;

/// Payload of `resync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Resync {
    pub reason: String,
}

impl Resync {
    /// The `resync` push for a connection that may have missed pushes.
    pub fn missed_pushes() -> Bytes {
        ServerFrame::Resync(Self { reason: "missed_pushes".to_owned() }).encode(None)
    }
}

/// Payload of `reauth_ack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReauthAck {
    /// When the connection closes now, unless it is renewed again.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// Payload of `heartbeat_ack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct HeartbeatAck {
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
}

/// Payload of `connection_closing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ConnectionClosing {
    #[schema(value_type = schema::CloseReason)]
    pub reason: String,
    pub message: String,
    pub reconnect_delay_ms: u64,
}

#[cfg(test)]
mod tests {
    use domain::{MessageState, MessageUpdate, Reaction, ReactionCount, UpdateKind};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::asyncapi::assert_described;
    use crate::frame::update_body;

    #[test]
    fn the_class_of_an_encoded_frame_is_that_of_its_type() {
        let (chat_id, user_id) = (ChatId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let typing = ServerFrame::TypingIndicator(TypingIndicator { chat_id, user_id, is_typing: true });
        assert_eq!(ServerFrame::class_of(&typing.encode(None)), PushClass::Ephemeral);
        assert_eq!(ServerFrame::class_of(&message_body(&message(), None)), PushClass::Durable);
        for text in ["", "{", r#"{"type":"#, r#"{"type":"receipt"#, r#"{"type":"later"}"#, r#"{"x":"receipt"}"#] {
            assert_eq!(ServerFrame::class_of(text.as_bytes()), PushClass::Durable, "{text}");
        }
    }

    fn message() -> Message {
        Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(47),
            sender_id: UserId::from_bytes([3; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(1_769_783_400_000),
            expires_at: None,
            state: MessageState::default(),
        }
    }

    fn check(text: Bytes, expected: Expect) {
        let text = String::from_utf8(text.to_vec()).unwrap();
        expected.assert_eq(&text);
        assert_described("ServerFrame", &text);
        let parsed = Outbound::parse(&text).unwrap();
        assert_eq!(parsed.frame.encode(parsed.request_id.as_ref()), text, "it round-trips");
    }

    #[test]
    fn a_push_shows_the_client_message_id_to_its_sender_only() {
        check(
            message_body(&message(), None),
            expect![[
                r#"{"type":"message","payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z"}}"#
            ]],
        );
        check(
            message_body(&message(), Some(message().sender_id)),
            expect![[
                r#"{"type":"message","payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404"}}"#
            ]],
        );
    }

    #[test]
    fn answers_echo_the_request_id() {
        let request_id = RequestId::new("r-7").unwrap();
        let error = ErrorBody::new(crate::ErrorCode::InvalidSequence, "sequence is above the head of the chat, 3")
            .with_details(serde_json::json!({ "head_sequence": 3 }));
        check(
            ServerFrame::Error(error).encode(Some(&request_id)),
            expect![[
                r#"{"type":"error","request_id":"r-7","payload":{"code":"INVALID_SEQUENCE","message":"sequence is above the head of the chat, 3","details":{"head_sequence":3}}}"#
            ]],
        );
        let message = message();
        let response = SyncResponse {
            chat_id: message.chat_id,
            messages: vec![MessageBody::new(&message, None)],
            updates: vec![],
            updated_messages: vec![],
            has_more: true,
            next_sequence: Some(Sequence(48)),
            head_sequence: Sequence(50),
        };
        check(
            response.encode(Some(&request_id)),
            expect![[
                r#"{"type":"sync_response","request_id":"r-7","payload":{"chat_id":"chat_02081040G2081040G2081040G2","messages":[{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z"}],"has_more":true,"next_sequence":48,"head_sequence":50}}"#
            ]],
        );
    }

    #[test]
    fn an_update_shows_the_client_message_id_to_its_author_only_and_has_the_message_if_it_is_left() {
        let update = |kind| MessageUpdate {
            update_id: MessageId::from_bytes([8; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(49),
            user_id: UserId::from_bytes([5; 16]),
            client_message_id: ClientMessageId::from_bytes([9; 16]),
            target: Sequence(47),
            kind,
            created_at: Timestamp::from_millis(1_769_783_400_007),
            expires_at: None,
        };
        let reaction: Reaction = "👍".parse().unwrap();
        let reactions = vec![ReactionCount { reaction: reaction.clone(), count: 2 }];
        let state = MessageState { revision: Sequence(49), edited: None, reactions };
        let message = Message { state, ..message() };
        let reacted = update(UpdateKind::Reacted(reaction));
        check(
            update_body(&reacted, Some(&message), None),
            expect![[
                r#"{"type":"message_updated","payload":{"update":{"chat_id":"chat_02081040G2081040G2081040G2","sequence":49,"target_sequence":47,"user_id":"user_050M2GA1850M2GA1850M2GA185","kind":"reacted","reaction":"👍","created_at":"2026-01-30T14:30:00.007Z"},"message":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","state":{"revision":49,"reactions":[{"reaction":"👍","count":2}]}}}}"#
            ]],
        );
        let deleted = update(UpdateKind::Deleted);
        check(
            update_body(&deleted, None, Some(deleted.user_id)),
            expect![[
                r#"{"type":"message_updated","payload":{"update":{"chat_id":"chat_02081040G2081040G2081040G2","sequence":49,"target_sequence":47,"user_id":"user_050M2GA1850M2GA1850M2GA185","kind":"deleted","created_at":"2026-01-30T14:30:00.007Z","client_message_id":"09090909-0909-0909-0909-090909090909"}}}"#
            ]],
        );
    }

    #[test]
    fn last_seen_is_present_only_if_visible_to_the_reader() {
        let (user_id, last_seen) = (UserId::from_bytes([3; 16]), Some(Timestamp::from_millis(1_769_783_400_000)));
        let views = [
            PresenceView::Online,
            PresenceView::Offline { last_seen },
            PresenceView::Offline { last_seen: None },
            PresenceView::Unknown,
        ];
        let presences = views.map(|view| (user_id, view).into()).into();
        check(
            ServerFrame::PresenceSnapshot(PresenceSnapshot { presences }).encode(RequestId::new("r-7").as_ref()),
            expect![[
                r#"{"type":"presence_snapshot","request_id":"r-7","payload":{"presences":[{"user_id":"user_030C1G60R30C1G60R30C1G60R3","status":"online"},{"user_id":"user_030C1G60R30C1G60R30C1G60R3","status":"offline","last_seen":"2026-01-30T14:30:00.000Z"},{"user_id":"user_030C1G60R30C1G60R30C1G60R3","status":"offline"},{"user_id":"user_030C1G60R30C1G60R30C1G60R3","status":"unknown"}]}}"#
            ]],
        );
    }

    #[test]
    fn pushes_have_no_request_id() {
        let updated = ChatUpdated {
            chat_id: ChatId::from_bytes([2; 16]),
            change: ChatChangeKind::MemberAdded,
            user_id: Some(UserId::from_bytes([3; 16])),
        };
        check(
            ServerFrame::ChatUpdated(updated).encode(None),
            expect![[
                r#"{"type":"chat_updated","payload":{"chat_id":"chat_02081040G2081040G2081040G2","change":"member_added","user_id":"user_030C1G60R30C1G60R30C1G60R3"}}"#
            ]],
        );
        check(
            ServerFrame::ConnectionClosing(crate::CloseReason::ServerShutdown.closing_frame()).encode(None),
            expect![[
                r#"{"type":"connection_closing","payload":{"reason":"server_shutdown","message":"the server is going away; reconnect and sync","reconnect_delay_ms":1000}}"#
            ]],
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in ".*") {
            let _ = Outbound::parse(&text);
        }
    }
}
