use std::borrow::Cow;

use domain::limits::{PRESENCE_USERS_MAX, SYNC_PAGE_DEFAULT, SYNC_PAGE_MAX};
use domain::{
    Body, ChatId, ClientMessageId, Content, ContentError, ContentType, Metadata, Secret, Sequence, Ttl, UserId,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::RequestId;
use super::client_payload::{
    AckPayload, ClientFrameType, HeartbeatPayload, MarkReadPayload, ReauthPayload, SendMessagePayload, SyncPayload,
    TypingPayload, UsersPayload,
};
use super::update::{UpdateMessage, UpdatePayload};
use crate::{ErrorBody, ErrorCode};

/// A parsed client frame. All its values are within the limits of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Present on every frame that has a reply.
    pub request_id: Option<RequestId>,
    /// The frame without its envelope.
    pub frame: ClientFrame,
}

/// The frames of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Sends a message; the reply is `send_message_ack`.
    SendMessage(SendMessage),
    /// Edits or deletes a message, or reacts to it; the reply is `send_message_ack`.
    UpdateMessage(UpdateMessage),
    /// Acknowledges messages that have arrived and are stored.
    Ack {
        /// The chat.
        chat_id: ChatId,
        /// The highest sequence that it covers.
        sequence: Sequence,
    },
    /// Marks messages as read.
    MarkRead {
        /// The chat.
        chat_id: ChatId,
        /// The highest sequence that it covers.
        sequence: Sequence,
    },
    /// Requests missed messages; the reply is `sync_response`.
    SyncRequest(Sync),
    /// Announces that the user is typing, or has stopped.
    Typing {
        /// The chat.
        chat_id: ChatId,
        /// `typing_start` or `typing_stop`.
        is_typing: bool,
    },
    /// Requests the presence of users and subscribes to its changes; the reply is `presence_snapshot`.
    PresenceSubscribe {
        /// The observed users.
        user_ids: Vec<UserId>,
    },
    /// Ends presence subscriptions.
    PresenceUnsubscribe {
        /// The observed users.
        user_ids: Vec<UserId>,
    },
    /// Renews the authentication of the connection; the reply is `reauth_ack`.
    Reauth {
        /// An access token of the same user and session.
        token: Secret,
    },
    /// Proves that the client is alive; the reply is `heartbeat_ack`.
    Heartbeat,
    /// A type of a later version, which the server ignores and counts.
    Unknown,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// The sender's id for the send, the same on every retry.
    pub client_message_id: ClientMessageId,
    /// The chat.
    pub chat_id: ChatId,
    /// The body of the message.
    pub body: Body,
    /// Lifetime of the message; `None` for that of the chat.
    pub ttl: Option<Ttl>,
}

/// A request for messages above a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The chat.
    pub chat_id: ChatId,
    /// The client has all messages up to this sequence; 0 for none.
    pub after: Sequence,
    /// Most messages in the reply.
    pub limit: usize,
}

/// An invalid frame, and the error that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The request id, if it could be read; it is echoed.
    pub request_id: Option<RequestId>,
    /// Code and text of the reply.
    pub error: ErrorBody,
}

#[derive(Deserialize)]
struct ClientFrameIn<'a> {
    #[serde(borrow, rename = "type")]
    frame_type: Cow<'a, str>,
    request_id: Option<RequestId>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ClientFrameOut<'a, P> {
    #[serde(rename = "type")]
    frame_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    payload: P,
}

/// A field of a send that is out of its bounds, and the error that answers a frame with it.
pub(crate) struct InvalidField {
    pub(crate) field: &'static str,
    pub(crate) error: ErrorBody,
}

impl InvalidField {
    pub(super) fn missing(field: &'static str) -> Self {
        Self { field, error: invalid(format!("`{field}` is missing")) }
    }
}

impl Inbound {
    /// Parses the JSON text of a frame. Never panics, not even on arbitrary text.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let envelope: ClientFrameIn<'_> = serde_json::from_str(text).map_err(|error| FrameError {
            request_id: read_request_id(text),
            error: invalid(format!("frame is unreadable: {error}")),
        })?;
        let request_id = envelope.request_id;
        match parse_payload(&envelope.frame_type, envelope.payload, request_id.is_some()) {
            Ok(frame) => Ok(Self { request_id, frame }),
            Err(error) => Err(FrameError { request_id, error }),
        }
    }

    /// The frame as JSON text, as a client sends it.
    pub fn encode(&self) -> String {
        let request_id = self.request_id.as_ref();
        match &self.frame {
            ClientFrame::SendMessage(send) => encode(
                ClientFrameType::SendMessage,
                request_id,
                SendMessagePayload {
                    client_message_id: send.client_message_id,
                    chat_id: send.chat_id,
                    content: send.body.content.as_str().to_owned(),
                    content_type: Some(send.body.content_type.as_str().to_owned()),
                    metadata: send.body.metadata.as_ref().map(Metadata::to_object),
                    ttl_seconds: send.ttl.map(|ttl| ttl.as_duration().as_secs()),
                },
            ),
            ClientFrame::UpdateMessage(update) => {
                encode(ClientFrameType::UpdateMessage, request_id, UpdatePayload::from(update))
            }
            ClientFrame::Ack { chat_id, sequence } => encode(
                ClientFrameType::Ack,
                request_id,
                AckPayload { chat_id: *chat_id, last_acked_sequence: *sequence },
            ),
            ClientFrame::MarkRead { chat_id, sequence } => encode(
                ClientFrameType::MarkRead,
                request_id,
                MarkReadPayload { chat_id: *chat_id, last_read_sequence: *sequence },
            ),
            ClientFrame::SyncRequest(sync) => encode(
                ClientFrameType::SyncRequest,
                request_id,
                SyncPayload {
                    chat_id: sync.chat_id,
                    last_acked_sequence: sync.after,
                    limit: i64::try_from(sync.limit).ok(),
                },
            ),
            ClientFrame::Typing { chat_id, is_typing } => encode(
                if *is_typing { ClientFrameType::TypingStart } else { ClientFrameType::TypingStop },
                request_id,
                TypingPayload { chat_id: *chat_id },
            ),
            ClientFrame::PresenceSubscribe { user_ids } => {
                encode(ClientFrameType::PresenceSubscribe, request_id, UsersPayload { user_ids: user_ids.clone() })
            }
            ClientFrame::PresenceUnsubscribe { user_ids } => {
                encode(ClientFrameType::PresenceUnsubscribe, request_id, UsersPayload { user_ids: user_ids.clone() })
            }
            ClientFrame::Reauth { token } => {
                encode(ClientFrameType::Reauth, request_id, ReauthPayload { token: token.expose().to_owned() })
            }
            ClientFrame::Heartbeat | ClientFrame::Unknown => {
                encode(ClientFrameType::Heartbeat, request_id, HeartbeatPayload {})
            }
        }
    }
}

fn encode(frame_type: ClientFrameType, request_id: Option<&RequestId>, payload: impl Serialize) -> String {
    serde_json::to_string(&ClientFrameOut { frame_type: frame_type.as_str(), request_id, payload })
        .expect("strings, numbers and lists always serialize")
}

fn parse_payload(frame_type: &str, payload: Option<&RawValue>, has_request_id: bool) -> Result<ClientFrame, ErrorBody> {
    let payload = payload.map_or("{}", RawValue::get);
    let Some(frame_type) = ClientFrameType::from_text(frame_type) else { return Ok(ClientFrame::Unknown) };
    if frame_type.needs_request_id() && !has_request_id {
        return Err(invalid(format!("`{}` needs a request_id", frame_type.as_str())));
    }
    Ok(match frame_type {
        ClientFrameType::SendMessage => {
            let send = read::<SendMessagePayload>(payload)?.validate().map_err(|invalid| invalid.error)?;
            ClientFrame::SendMessage(send)
        }
        ClientFrameType::UpdateMessage => {
            let update = read::<UpdatePayload>(payload)?.validate().map_err(|invalid| invalid.error)?;
            ClientFrame::UpdateMessage(update)
        }
        ClientFrameType::Ack => {
            let AckPayload { chat_id, last_acked_sequence } = read(payload)?;
            ClientFrame::Ack { chat_id, sequence: last_acked_sequence }
        }
        ClientFrameType::MarkRead => {
            let MarkReadPayload { chat_id, last_read_sequence } = read(payload)?;
            ClientFrame::MarkRead { chat_id, sequence: last_read_sequence }
        }
        ClientFrameType::SyncRequest => {
            let SyncPayload { chat_id, last_acked_sequence, limit } = read(payload)?;
            let limit = match limit {
                None => SYNC_PAGE_DEFAULT,
                Some(limit @ ..=0) => return Err(invalid(format!("limit is {limit}, it must be 1 or more"))),
                Some(limit) => usize::try_from(limit).unwrap_or(SYNC_PAGE_MAX).min(SYNC_PAGE_MAX),
            };
            ClientFrame::SyncRequest(Sync { chat_id, after: last_acked_sequence, limit })
        }
        ClientFrameType::TypingStart | ClientFrameType::TypingStop => {
            let TypingPayload { chat_id } = read(payload)?;
            ClientFrame::Typing { chat_id, is_typing: frame_type == ClientFrameType::TypingStart }
        }
        ClientFrameType::PresenceSubscribe => ClientFrame::PresenceSubscribe { user_ids: read_users(payload)? },
        ClientFrameType::PresenceUnsubscribe => ClientFrame::PresenceUnsubscribe { user_ids: read_users(payload)? },
        ClientFrameType::Reauth => {
            let ReauthPayload { token } = read(payload)?;
            if token.is_empty() {
                return Err(invalid("token is empty".to_owned()));
            }
            ClientFrame::Reauth { token: token.into() }
        }
        ClientFrameType::Heartbeat => ClientFrame::Heartbeat,
    })
}

/// Validates the parts of a body.
pub(crate) fn read_body(
    content: String,
    content_type: Option<String>,
    metadata: Option<Map<String, Value>>,
) -> Result<Body, InvalidField> {
    let content = Content::try_from(content).map_err(|error| InvalidField {
        field: "content",
        error: match error {
            ContentError::TooLong(_) => ErrorBody::new(ErrorCode::MessageTooLarge, error),
            ContentError::Empty | ContentError::Nul => invalid(error.to_string()),
        },
    })?;
    let content_type = match content_type {
        None => ContentType::default(),
        Some(text) => text.parse().map_err(|error| InvalidField {
            field: "content_type",
            error: ErrorBody::new(ErrorCode::InvalidContentType, error),
        })?,
    };
    if content_type == ContentType::Json
        && let Err(error) = serde_json::from_str::<IgnoredAny>(content.as_str())
    {
        let message = format!("content is not valid JSON, as content_type says: {error}");
        return Err(InvalidField { field: "content", error: invalid(message) });
    }
    let metadata = metadata.map(Metadata::try_from).transpose().map_err(|error| InvalidField {
        field: "metadata",
        error: ErrorBody::new(ErrorCode::MessageTooLarge, error),
    })?;
    Ok(Body { content, content_type, metadata })
}

impl SendMessagePayload {
    pub(crate) fn validate(self) -> Result<SendMessage, InvalidField> {
        let Self { client_message_id, chat_id, content, content_type, metadata, ttl_seconds } = self;
        let body = read_body(content, content_type, metadata)?;
        let ttl = match ttl_seconds {
            None => None,
            Some(seconds) => Some(Ttl::from_secs(seconds).ok_or_else(|| InvalidField {
                field: "ttl_seconds",
                error: invalid(format!("ttl_seconds is {seconds}, it must be 1 to 31536000")),
            })?),
        };
        Ok(SendMessage { client_message_id, chat_id, body, ttl })
    }
}

fn read<'a, P: Deserialize<'a>>(payload: &'a str) -> Result<P, ErrorBody> {
    serde_json::from_str(payload).map_err(|error| invalid(format!("payload is unreadable: {error}")))
}

fn read_users(payload: &str) -> Result<Vec<UserId>, ErrorBody> {
    let UsersPayload { user_ids } = read(payload)?;
    if user_ids.len() > PRESENCE_USERS_MAX {
        return Err(invalid(format!("user_ids has {} entries, limit is {PRESENCE_USERS_MAX}", user_ids.len())));
    }
    Ok(user_ids)
}

/// The request id of a frame with an otherwise invalid envelope.
fn read_request_id(text: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Named {
        request_id: Option<RequestId>,
    }
    serde_json::from_str::<Named>(text).ok()?.request_id
}

pub(super) fn invalid(message: String) -> ErrorBody {
    ErrorBody::new(ErrorCode::InvalidMessage, message)
}

#[cfg(test)]
mod tests {
    use domain::UpdateAction;
    use proptest::prelude::*;

    use super::*;

    const CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

    fn send(extra: &str) -> String {
        format!(
            r#"{{"type":"send_message","request_id":"r1","payload":{{"client_message_id":"2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10","chat_id":"{CHAT}"{extra}}}}}"#
        )
    }

    fn update(extra: &str) -> String {
        send(&format!(r#","sequence":3,{extra}"#)).replace("send_message", "update_message")
    }

    #[test]
    fn a_full_send_is_read_with_its_defaults() {
        let inbound = Inbound::parse(&send(r#","content":"hi","unknown":1"#)).unwrap();
        assert_eq!(inbound.request_id, RequestId::new("r1"));
        let ClientFrame::SendMessage(send) = inbound.frame else { panic!("{inbound:?}") };
        assert_eq!(send.body, Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text));
        assert_eq!(send.ttl, None);
    }

    #[test]
    fn invalid_frames_and_their_error_codes() {
        let long = "x".repeat(4097);
        let cases = [
            ("{".to_owned(), "INVALID_MESSAGE", false),
            ("[]".to_owned(), "INVALID_MESSAGE", false),
            (r#"{"payload":{}}"#.to_owned(), "INVALID_MESSAGE", false),
            (r#"{"type":5}"#.to_owned(), "INVALID_MESSAGE", false),
            (r#"{"type":5,"request_id":"r1"}"#.to_owned(), "INVALID_MESSAGE", true),
            (r#"{"request_id":"r1","payload":{}}"#.to_owned(), "INVALID_MESSAGE", true),
            (send(r#","content":"hi""#).replace(r#""request_id":"r1","#, ""), "INVALID_MESSAGE", false),
            (send(r#","content":"hi""#).replace("r1", &"r".repeat(65)), "INVALID_MESSAGE", false),
            (send(r#","content":"hi""#).replace("2f1e8a04", "zzzz"), "INVALID_MESSAGE", true),
            (send(r#","content":"hi""#).replace("chat_01", "room_01"), "INVALID_MESSAGE", true),
            (send(""), "INVALID_MESSAGE", true),
            (send(r#","content":7"#), "INVALID_MESSAGE", true),
            (send(r#","content":"""#), "INVALID_MESSAGE", true),
            (send(r#","content":"a\u0000b""#), "INVALID_MESSAGE", true),
            (send(r#","content":"hi","ttl_seconds":0"#), "INVALID_MESSAGE", true),
            (send(r#","content":"hi","ttl_seconds":31536001"#), "INVALID_MESSAGE", true),
            (send(r#","content":"hi","ttl_seconds":-1"#), "INVALID_MESSAGE", true),
            (send(r#","content":"hi","ttl_seconds":60.5"#), "INVALID_MESSAGE", true),
            (send(&format!(r#","content":"{long}""#)), "MESSAGE_TOO_LARGE", true),
            (send(r#","content":"hi","content_type":"image/png""#), "INVALID_CONTENT_TYPE", true),
            (send(r#","content":"hi","content_type":"application/json""#), "INVALID_MESSAGE", true),
            (send(r#","content":"{\"a\":1","content_type":"application/json""#), "INVALID_MESSAGE", true),
            (send(r#","content":"{} {}","content_type":"application/json""#), "INVALID_MESSAGE", true),
            (send(r#","content":"hi","metadata":[]"#), "INVALID_MESSAGE", true),
            (send(&format!(r#","content":"hi","metadata":{{"a":"{long}"}}"#)), "MESSAGE_TOO_LARGE", true),
            (send(r#","sequence":3"#).replace("send_message", "update_message"), "INVALID_MESSAGE", true),
            (update(r#""action":"pin""#), "INVALID_MESSAGE", true),
            (update(r#""action":"edit""#), "INVALID_MESSAGE", true),
            (update(r#""action":"edit","content":"""#), "INVALID_MESSAGE", true),
            (update(&format!(r#""action":"edit","content":"{long}""#)), "MESSAGE_TOO_LARGE", true),
            (update(r#""action":"edit","content":"a","content_type":"image/png""#), "INVALID_CONTENT_TYPE", true),
            (update(r#""action":"react""#), "INVALID_MESSAGE", true),
            (update(r#""action":"react","reaction":"""#), "INVALID_MESSAGE", true),
            (update(r#""action":"unreact","reaction":"a b""#), "INVALID_MESSAGE", true),
            (update(r#""action":"delete""#).replace(":3,", ":-3,"), "INVALID_MESSAGE", true),
            (
                format!(
                    r#"{{"type":"sync_request","request_id":"r1","payload":{{"chat_id":"{CHAT}","last_acked_sequence":0,"limit":0}}}}"#
                ),
                "INVALID_MESSAGE",
                true,
            ),
            (
                format!(
                    r#"{{"type":"sync_request","request_id":"r1","payload":{{"chat_id":"{CHAT}","last_acked_sequence":-1}}}}"#
                ),
                "INVALID_MESSAGE",
                true,
            ),
            (r#"{"type":"reauth","request_id":"r1","payload":{}}"#.to_owned(), "INVALID_MESSAGE", true),
            (r#"{"type":"reauth","request_id":"r1","payload":{"token":""}}"#.to_owned(), "INVALID_MESSAGE", true),
            (r#"{"type":"reauth","payload":{"token":"t"}}"#.to_owned(), "INVALID_MESSAGE", false),
        ];
        for (text, code, echoed) in cases {
            let error = Inbound::parse(&text).expect_err(&text);
            assert_eq!(error.error.code.as_str(), code, "{text}");
            assert_eq!(error.request_id.is_some(), echoed, "{text}");
        }
    }

    #[test]
    fn integers_with_a_fraction_of_zero_are_integers() {
        let frame = |frame_type: &str, fields: &str| {
            let payload = format!(r#"{{"chat_id":"{CHAT}",{fields}}}"#);
            let text = format!(r#"{{"type":"{frame_type}","request_id":"r1","payload":{payload}}}"#);
            Inbound::parse(&text).expect(&text).frame
        };
        for (frame_type, whole) in [
            ("ack", r#""last_acked_sequence":7"#),
            ("mark_read", r#""last_read_sequence":7"#),
            ("sync_request", r#""last_acked_sequence":7,"limit":7"#),
            (
                "update_message",
                r#""client_message_id":"00000000-0000-4000-8000-000000000000","sequence":7,"action":"delete""#,
            ),
        ] {
            assert_eq!(frame(frame_type, &whole.replace(":7", ":7.0")), frame(frame_type, whole));
        }
        let send = |ttl: &str| Inbound::parse(&send(&format!(r#","content":"hi","ttl_seconds":{ttl}"#))).unwrap();
        assert_eq!(send("60.0"), send("60"));
    }

    #[test]
    fn a_limit_above_the_maximum_is_lowered_to_it() {
        let text = format!(
            r#"{{"type":"sync_request","request_id":"r1","payload":{{"chat_id":"{CHAT}","last_acked_sequence":3,"limit":9999}}}}"#
        );
        let ClientFrame::SyncRequest(sync) = Inbound::parse(&text).unwrap().frame else { panic!() };
        assert_eq!((sync.after, sync.limit), (Sequence(3), 500));
    }

    #[test]
    fn unknown_types_and_a_bare_heartbeat_are_taken() {
        assert_eq!(Inbound::parse(r#"{"type":"dance","payload":[1]}"#).unwrap().frame, ClientFrame::Unknown);
        assert_eq!(Inbound::parse(r#"{"type":"heartbeat"}"#).unwrap().frame, ClientFrame::Heartbeat);
    }

    fn frames() -> impl Strategy<Value = Inbound> {
        let chat_id = any::<[u8; 16]>().prop_map(ChatId::from_bytes);
        let send = (any::<[u8; 16]>(), chat_id.clone(), "[^\0]{1,40}", 0u64..3).prop_map(|(id, chat_id, text, ttl)| {
            ClientFrame::SendMessage(SendMessage {
                client_message_id: ClientMessageId::from_bytes(id),
                chat_id,
                body: Body::new(text.try_into().unwrap(), ContentType::Markdown)
                    .with_metadata((ttl == 1).then(|| r#"{"a":[1]}"#.to_owned().try_into().unwrap())),
                ttl: Ttl::from_secs(ttl),
            })
        });
        let sync = (chat_id.clone(), any::<u64>(), 1usize..=500).prop_map(|(chat_id, after, limit)| {
            ClientFrame::SyncRequest(Sync { chat_id, after: Sequence(after), limit })
        });
        let reaction = prop_oneof!["[a-z0-9_+:-]{1,16}", "[👍🎉☕❌🙏]{1,4}", Just("👩\u{200d}🚀".to_owned())];
        let action = ("[^\0]{1,40}", reaction, 0..4).prop_map(|(text, reaction, kind)| match kind {
            0 => UpdateAction::Edit(Body::new(text.try_into().unwrap(), ContentType::Text)),
            1 => UpdateAction::Delete,
            2 => UpdateAction::React(reaction.parse().unwrap()),
            _ => UpdateAction::Unreact(reaction.parse().unwrap()),
        });
        let update =
            (any::<[u8; 16]>(), chat_id.clone(), any::<u64>(), action).prop_map(|(id, chat_id, target, action)| {
                ClientFrame::UpdateMessage(UpdateMessage {
                    client_message_id: ClientMessageId::from_bytes(id),
                    chat_id,
                    target: Sequence(target),
                    action,
                })
            });
        let ack = (chat_id, any::<u64>()).prop_map(|(chat_id, n)| ClientFrame::Ack { chat_id, sequence: Sequence(n) });
        ("[a-z]{1,64}", prop_oneof![send, update, sync, ack])
            .prop_map(|(id, frame)| Inbound { request_id: RequestId::new(id), frame })
    }

    proptest! {
        #[test]
        fn frames_round_trip(inbound in frames()) {
            prop_assert_eq!(Inbound::parse(&inbound.encode()).unwrap(), inbound);
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in ".*") {
            let _ = Inbound::parse(&text);
        }

        #[test]
        fn any_damage_to_a_frame_is_parsed_or_refused_without_a_panic(inbound in frames(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let mut bytes = inbound.encode().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = with;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let _ = Inbound::parse(text);
            }
        }
    }
}
