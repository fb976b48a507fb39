//! What other systems are told: the events of the log, in the envelope that topics and the application's webhook share.
//!
//! `{event_type, event_id, event_time, event_version, partition_key, payload, position?}`. The key is the chat, whose
//! events are in order. Unknown fields are ignored; an unknown type or version is an error for whoever reads it to judge.

use std::borrow::Cow;

use bytes::Bytes;
use domain::{
    ChatId, ChatName, ChatType, ClientMessageId, ConnectionId, Content, ContentError, ContentType, Event, EventBody,
    EventId, MembershipChange, Message, MessageId, Role, Sequence, TextError, Timestamp, Ttl, UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the payloads.
pub const EVENT_VERSION: u32 = 1;

/// An event, and where it is in the log if it came from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventEnvelope<'a> {
    /// What happened.
    pub event: Cow<'a, Event>,
    /// Its place in the log: the webhook says it, a topic has offsets of its own.
    pub position: Option<u64>,
}

/// Why a text is no event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is not the JSON of an envelope, or its payload is not the one of its type.
    #[error("the event is unreadable")]
    Json(#[from] serde_json::Error),
    /// A later version of us wrote it.
    #[error("event version is {0}, {EVENT_VERSION} is known")]
    Version(u32),
    /// A later version of us wrote it.
    #[error("event type `{0}` is unknown")]
    Type(String),
    /// The content of its message is out of bounds.
    #[error("the message of the event is out of bounds")]
    Content(#[from] ContentError),
    /// The name of its chat is out of bounds.
    #[error("the chat name of the event is out of bounds")]
    Name(#[from] TextError),
    /// Its lifetime is out of bounds.
    #[error("message_ttl_seconds is {0}, it must be 1 to 31536000")]
    Ttl(u64),
}

impl EventEnvelope<'_> {
    /// The text of the event.
    pub fn encode(&self) -> Bytes {
        match &self.event.body {
            EventBody::MessagePersisted { message, origin_connection_id } => self.encode_as(
                "MessagePersisted",
                MessagePersisted {
                    message_id: message.message_id,
                    chat_id: message.chat_id,
                    sequence: message.sequence,
                    sender_id: message.sender_id,
                    content: Cow::Borrowed(message.content.as_str()),
                    content_type: message.content_type,
                    created_at: message.created_at,
                    client_message_id: message.client_message_id,
                    expires_at: message.expires_at,
                    origin_connection_id: *origin_connection_id,
                },
            ),
            EventBody::MembershipChanged { chat_id, user_id, change, role, changed_by } => self.encode_as(
                "MembershipChanged",
                MembershipChanged {
                    chat_id: *chat_id,
                    user_id: *user_id,
                    change_type: (*change).into(),
                    role: *role,
                    changed_by: *changed_by,
                },
            ),
            EventBody::ChatCreated { chat_id, chat_type, name, created_by, initial_members } => self.encode_as(
                "ChatCreated",
                ChatCreated {
                    chat_id: *chat_id,
                    chat_type: *chat_type,
                    name: name.as_ref().map(|name| Cow::Borrowed(name.as_str())),
                    created_by: *created_by,
                    initial_members: Cow::Borrowed(initial_members),
                },
            ),
            EventBody::ChatRenamed { chat_id, name, changed_by } => self.encode_as(
                "ChatRenamed",
                ChatRenamed { chat_id: *chat_id, name: Cow::Borrowed(name.as_str()), changed_by: *changed_by },
            ),
            EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by } => self.encode_as(
                "MessageTtlChanged",
                MessageTtlChanged {
                    chat_id: *chat_id,
                    message_ttl_seconds: message_ttl.map(|ttl| ttl.as_duration().as_secs()),
                    changed_by: *changed_by,
                },
            ),
            EventBody::MessagesExpired { chat_id, sequences } => self.encode_as(
                "MessagesExpired",
                MessagesExpired { chat_id: *chat_id, sequences: Cow::Borrowed(sequences) },
            ),
        }
    }

    fn encode_as(&self, event_type: &'static str, payload: impl Serialize) -> Bytes {
        serde_json::to_vec(&EnvelopeOut {
            event_type,
            event_id: self.event.event_id,
            event_time: self.event.event_time,
            event_version: EVENT_VERSION,
            partition_key: self.event.body.chat_id(),
            payload,
            position: self.position,
        })
        .expect("strings, numbers and lists always serialize")
        .into()
    }
}

impl EventEnvelope<'static> {
    /// Parses the text of an event. Whatever the bytes, this returns.
    pub fn parse(bytes: &[u8]) -> Result<Self, EventError> {
        let envelope: EnvelopeIn<'_> = serde_json::from_slice(bytes)?;
        if envelope.event_version != EVENT_VERSION {
            return Err(EventError::Version(envelope.event_version));
        }
        let body = parse_payload(&envelope.event_type, envelope.payload.get())?;
        let event = Event { event_id: envelope.event_id, event_time: envelope.event_time, body };
        Ok(Self { event: Cow::Owned(event), position: envelope.position })
    }
}

fn parse_payload(event_type: &str, payload: &str) -> Result<EventBody, EventError> {
    Ok(match event_type {
        "MessagePersisted" => {
            let persisted: MessagePersisted<'_> = serde_json::from_str(payload)?;
            let message = Message {
                message_id: persisted.message_id,
                chat_id: persisted.chat_id,
                sequence: persisted.sequence,
                sender_id: persisted.sender_id,
                client_message_id: persisted.client_message_id,
                content: Content::try_from(persisted.content.into_owned())?,
                content_type: persisted.content_type,
                created_at: persisted.created_at,
                expires_at: persisted.expires_at,
            };
            EventBody::MessagePersisted { message, origin_connection_id: persisted.origin_connection_id }
        }
        "MembershipChanged" => {
            let MembershipChanged { chat_id, user_id, change_type, role, changed_by } = serde_json::from_str(payload)?;
            EventBody::MembershipChanged { chat_id, user_id, change: change_type.into(), role, changed_by }
        }
        "ChatCreated" => {
            let created: ChatCreated<'_> = serde_json::from_str(payload)?;
            EventBody::ChatCreated {
                chat_id: created.chat_id,
                chat_type: created.chat_type,
                name: created.name.map(|name| ChatName::try_from(name.into_owned())).transpose()?,
                created_by: created.created_by,
                initial_members: created.initial_members.into_owned(),
            }
        }
        "ChatRenamed" => {
            let ChatRenamed { chat_id, name, changed_by } = serde_json::from_str(payload)?;
            EventBody::ChatRenamed { chat_id, name: ChatName::try_from(name.into_owned())?, changed_by }
        }
        "MessageTtlChanged" => {
            let MessageTtlChanged { chat_id, message_ttl_seconds, changed_by } = serde_json::from_str(payload)?;
            let ttl = |seconds| Ttl::from_secs(seconds).ok_or(EventError::Ttl(seconds));
            EventBody::MessageTtlChanged { chat_id, message_ttl: message_ttl_seconds.map(ttl).transpose()?, changed_by }
        }
        "MessagesExpired" => {
            let MessagesExpired { chat_id, sequences } = serde_json::from_str(payload)?;
            EventBody::MessagesExpired { chat_id, sequences: sequences.into_owned() }
        }
        unknown => return Err(EventError::Type(unknown.chars().take(64).collect())),
    })
}

#[derive(Serialize)]
struct EnvelopeOut<P> {
    event_type: &'static str,
    event_id: EventId,
    event_time: Timestamp,
    event_version: u32,
    partition_key: ChatId,
    payload: P,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

#[derive(Deserialize)]
struct EnvelopeIn<'a> {
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    event_id: EventId,
    event_time: Timestamp,
    event_version: u32,
    #[serde(borrow)]
    payload: &'a RawValue,
    position: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct MessagePersisted<'a> {
    message_id: MessageId,
    chat_id: ChatId,
    sequence: Sequence,
    sender_id: UserId,
    #[serde(borrow)]
    content: Cow<'a, str>,
    content_type: ContentType,
    created_at: Timestamp,
    client_message_id: ClientMessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin_connection_id: Option<ConnectionId>,
}

#[derive(Serialize, Deserialize)]
struct MembershipChanged {
    chat_id: ChatId,
    user_id: UserId,
    change_type: ChangeType,
    role: Role,
    changed_by: UserId,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChangeType {
    Added,
    Removed,
    RoleChanged,
}

#[derive(Serialize, Deserialize)]
struct ChatCreated<'a> {
    chat_id: ChatId,
    chat_type: ChatType,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    created_by: UserId,
    initial_members: Cow<'a, [UserId]>,
}

#[derive(Serialize, Deserialize)]
struct ChatRenamed<'a> {
    chat_id: ChatId,
    #[serde(borrow)]
    name: Cow<'a, str>,
    changed_by: UserId,
}

#[derive(Serialize, Deserialize)]
struct MessageTtlChanged {
    chat_id: ChatId,
    /// Absent if messages live for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_ttl_seconds: Option<u64>,
    changed_by: UserId,
}

#[derive(Serialize, Deserialize)]
struct MessagesExpired<'a> {
    chat_id: ChatId,
    sequences: Cow<'a, [Sequence]>,
}

impl From<MembershipChange> for ChangeType {
    fn from(change: MembershipChange) -> Self {
        match change {
            MembershipChange::Added => Self::Added,
            MembershipChange::Removed => Self::Removed,
            MembershipChange::RoleChanged => Self::RoleChanged,
        }
    }
}

impl From<ChangeType> for MembershipChange {
    fn from(change_type: ChangeType) -> Self {
        match change_type {
            ChangeType::Added => Self::Added,
            ChangeType::Removed => Self::Removed,
            ChangeType::RoleChanged => Self::RoleChanged,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn chat_id() -> ChatId {
        ChatId::from_bytes([2; 16])
    }

    fn user_id() -> UserId {
        UserId::from_bytes([3; 16])
    }

    fn message(expires_at: Option<Timestamp>) -> Message {
        Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: chat_id(),
            sequence: Sequence(47),
            sender_id: user_id(),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            content: "Hello, \"world\"!".to_owned().try_into().unwrap(),
            content_type: ContentType::Text,
            created_at: Timestamp::from_millis(1_769_783_400_000),
            expires_at,
        }
    }

    fn check(body: EventBody, position: Option<u64>, expected: Expect) {
        let event = Event {
            event_id: EventId::from_bytes([5; 16]),
            event_time: Timestamp::from_millis(1_769_783_400_007),
            body,
        };
        let envelope = EventEnvelope { event: Cow::Borrowed(&event), position };
        let text = envelope.encode();
        expected.assert_eq(std::str::from_utf8(&text).unwrap());
        assert_eq!(EventEnvelope::parse(&text).unwrap(), envelope, "it round-trips");
    }

    #[test]
    fn a_message_has_what_its_sender_gave_it_and_where_it_came_in() {
        check(
            EventBody::MessagePersisted {
                message: message(Some(Timestamp::from_millis(1_769_783_460_000))),
                origin_connection_id: Some(ConnectionId::from_bytes([6; 16])),
            },
            Some(12),
            expect![[
                r#"{"event_type":"MessagePersisted","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"Hello, \"world\"!","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404","expires_at":"2026-01-30T14:31:00.000Z","origin_connection_id":"conn_060R30C1G60R30C1G60R30C1G6"},"position":12}"#
            ]],
        );
        check(
            EventBody::MessagePersisted { message: message(None), origin_connection_id: None },
            None,
            expect![[
                r#"{"event_type":"MessagePersisted","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"Hello, \"world\"!","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404"}}"#
            ]],
        );
    }

    #[test]
    fn a_change_of_members_names_who_changed_what() {
        let changed = |change| EventBody::MembershipChanged {
            chat_id: chat_id(),
            user_id: user_id(),
            change,
            role: Role::Admin,
            changed_by: UserId::from_bytes([7; 16]),
        };
        check(
            changed(MembershipChange::Added),
            None,
            expect![[
                r#"{"event_type":"MembershipChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","user_id":"user_030C1G60R30C1G60R30C1G60R3","change_type":"added","role":"admin","changed_by":"user_070W3GE1R70W3GE1R70W3GE1R7"}}"#
            ]],
        );
        check(
            changed(MembershipChange::Removed),
            None,
            expect![[
                r#"{"event_type":"MembershipChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","user_id":"user_030C1G60R30C1G60R30C1G60R3","change_type":"removed","role":"admin","changed_by":"user_070W3GE1R70W3GE1R70W3GE1R7"}}"#
            ]],
        );
        check(
            changed(MembershipChange::RoleChanged),
            None,
            expect![[
                r#"{"event_type":"MembershipChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","user_id":"user_030C1G60R30C1G60R30C1G60R3","change_type":"role_changed","role":"admin","changed_by":"user_070W3GE1R70W3GE1R70W3GE1R7"}}"#
            ]],
        );
    }

    #[test]
    fn a_chat_tells_of_its_creation_its_name_and_how_long_messages_live() {
        let created = |chat_type, name: Option<&str>| EventBody::ChatCreated {
            chat_id: chat_id(),
            chat_type,
            name: name.map(|name| name.to_owned().try_into().unwrap()),
            created_by: user_id(),
            initial_members: vec![user_id(), UserId::from_bytes([7; 16])],
        };
        check(
            created(ChatType::Group, Some("Project Team")),
            None,
            expect![[
                r#"{"event_type":"ChatCreated","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","chat_type":"group","name":"Project Team","created_by":"user_030C1G60R30C1G60R30C1G60R3","initial_members":["user_030C1G60R30C1G60R30C1G60R3","user_070W3GE1R70W3GE1R70W3GE1R7"]}}"#
            ]],
        );
        check(
            created(ChatType::Direct, None),
            None,
            expect![[
                r#"{"event_type":"ChatCreated","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","chat_type":"direct","created_by":"user_030C1G60R30C1G60R30C1G60R3","initial_members":["user_030C1G60R30C1G60R30C1G60R3","user_070W3GE1R70W3GE1R70W3GE1R7"]}}"#
            ]],
        );
        let name = "Team".to_owned().try_into().unwrap();
        check(
            EventBody::ChatRenamed { chat_id: chat_id(), name, changed_by: user_id() },
            None,
            expect![[
                r#"{"event_type":"ChatRenamed","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","name":"Team","changed_by":"user_030C1G60R30C1G60R30C1G60R3"}}"#
            ]],
        );
        let ttl = |message_ttl| EventBody::MessageTtlChanged { chat_id: chat_id(), message_ttl, changed_by: user_id() };
        check(
            ttl(Ttl::from_secs(3600)),
            None,
            expect![[
                r#"{"event_type":"MessageTtlChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","message_ttl_seconds":3600,"changed_by":"user_030C1G60R30C1G60R30C1G60R3"}}"#
            ]],
        );
        check(
            ttl(None),
            None,
            expect![[
                r#"{"event_type":"MessageTtlChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","changed_by":"user_030C1G60R30C1G60R30C1G60R3"}}"#
            ]],
        );
        let sequences = vec![Sequence(3), Sequence(4)];
        check(
            EventBody::MessagesExpired { chat_id: chat_id(), sequences },
            None,
            expect![[
                r#"{"event_type":"MessagesExpired","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","sequences":[3,4]}}"#
            ]],
        );
    }

    #[test]
    fn what_is_no_event_of_ours_is_refused_and_says_why() {
        let event = Event::message_persisted(message(None), None);
        let text = EventEnvelope { event: Cow::Borrowed(&event), position: None }.encode();
        let text = std::str::from_utf8(&text).unwrap();
        let refusal = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            EventEnvelope::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(refusal("\"event_version\":1", "\"event_version\":2"), "event version is 2, 1 is known");
        assert_eq!(refusal("MessagePersisted", "MessageEdited"), "event type `MessageEdited` is unknown");
        assert_eq!(refusal("\"sequence\":47", "\"sequence\":\"47\""), "the event is unreadable");
        assert_eq!(refusal("\"payload\"", "\"body\""), "the event is unreadable");
        assert_eq!(refusal("Hello, \\\"world\\\"!", ""), "the message of the event is out of bounds");
    }

    #[test]
    fn fields_of_a_later_version_are_ignored() {
        let event = Event::message_persisted(message(None), None);
        let text = EventEnvelope { event: Cow::Borrowed(&event), position: None }.encode();
        let text =
            std::str::from_utf8(&text).unwrap().replace("\"payload\":{", "\"region\":\"eu\",\"payload\":{\"mood\":1,");
        assert_eq!(EventEnvelope::parse(text.as_bytes()).unwrap().event.into_owned(), event);
    }

    fn bodies() -> impl Strategy<Value = EventBody> {
        let chat = any::<[u8; 16]>().prop_map(ChatId::from_bytes);
        let user = any::<[u8; 16]>().prop_map(UserId::from_bytes);
        let times = (0..Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis);
        let name = "[a-zà-ü \"\\\\]{0,20}x".prop_map(|name| ChatName::try_from(name).unwrap());
        let persisted =
            (chat.clone(), user.clone(), any::<u64>(), "[^\0]{1,40}", times.clone(), proptest::option::of(times))
                .prop_map(|(chat_id, sender_id, sequence, content, created_at, expires_at)| {
                    EventBody::MessagePersisted {
                        message: Message {
                            chat_id,
                            sender_id,
                            sequence: Sequence(sequence),
                            content: content.try_into().unwrap(),
                            content_type: ContentType::Encrypted,
                            created_at,
                            ..message(expires_at)
                        },
                        origin_connection_id: expires_at.map(|_| ConnectionId::from_bytes([9; 16])),
                    }
                });
        let changes = prop_oneof![
            Just(MembershipChange::Added),
            Just(MembershipChange::Removed),
            Just(MembershipChange::RoleChanged)
        ];
        let changed =
            (chat.clone(), user.clone(), user.clone(), changes).prop_map(|(chat_id, user_id, changed_by, change)| {
                EventBody::MembershipChanged { chat_id, user_id, change, role: Role::Owner, changed_by }
            });
        let created = (chat.clone(), proptest::option::of(name.clone()), proptest::collection::vec(user.clone(), 1..9))
            .prop_map(|(chat_id, name, initial_members)| EventBody::ChatCreated {
                chat_id,
                chat_type: if name.is_some() { ChatType::Group } else { ChatType::Direct },
                name,
                created_by: initial_members[0],
                initial_members,
            });
        let renamed = (chat.clone(), name, user.clone())
            .prop_map(|(chat_id, name, changed_by)| EventBody::ChatRenamed { chat_id, name, changed_by });
        let ttl = (chat.clone(), 0u64..100, user).prop_map(|(chat_id, seconds, changed_by)| {
            EventBody::MessageTtlChanged { chat_id, message_ttl: Ttl::from_secs(seconds), changed_by }
        });
        let expired = (chat, proptest::collection::vec(any::<u64>().prop_map(Sequence), 0..9))
            .prop_map(|(chat_id, sequences)| EventBody::MessagesExpired { chat_id, sequences });
        prop_oneof![persisted, changed, created, renamed, ttl, expired]
    }

    fn envelopes() -> impl Strategy<Value = EventEnvelope<'static>> {
        let times = (0..Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis);
        (any::<[u8; 16]>(), times, bodies(), any::<Option<u64>>()).prop_map(|(id, event_time, body, position)| {
            let event = Event { event_id: EventId::from_bytes(id), event_time, body };
            EventEnvelope { event: Cow::Owned(event), position }
        })
    }

    proptest! {
        #[test]
        fn events_round_trip(envelope in envelopes()) {
            prop_assert_eq!(EventEnvelope::parse(&envelope.encode()).unwrap(), envelope);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused_without_a_panic(bytes in any::<Vec<u8>>()) {
            let _ = EventEnvelope::parse(&bytes);
        }

        #[test]
        fn any_damage_to_an_event_is_parsed_or_refused_without_a_panic(
            envelope in envelopes(),
            at in any::<prop::sample::Index>(),
            with in any::<u8>(),
        ) {
            let mut bytes = envelope.encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = EventEnvelope::parse(&bytes);
        }
    }
}
