use domain::{
    Body, ChatName, ChatType, ClientMessageId, ConnectionId, ContentType, Edited, EventBody, EventNumber,
    MembershipChange, Message, MessageId, MessageState, MessageUpdate, ReactionCount, Role, Sequence, Ttl, UpdateKind,
    UserId,
};
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
        body: Body::new("Hello, \"world\"!".to_owned().try_into().unwrap(), ContentType::Text),
        created_at: Timestamp::from_millis(1_769_783_400_000),
        expires_at,
        state: MessageState::default(),
    }
}

fn check(body: EventBody, position: Option<u64>, expected: Expect) {
    let (event_id, event_time) = (EventId::from_bytes([5; 16]), Timestamp::from_millis(1_769_783_400_007));
    let event_number = position.map(|_| EventNumber(51));
    let event = Event { event_id, event_time, event_number, body };
    let envelope = EventEnvelope { event: Cow::Borrowed(&event), position };
    let text = envelope.encode();
    expected.assert_eq(std::str::from_utf8(&text).unwrap());
    asyncapi::assert_described("Event", &text);
    assert_eq!(EventEnvelope::parse(&text).unwrap(), envelope, "it round-trips");
}

#[test]
fn a_message_event_has_the_sent_fields_and_the_origin_connection() {
    check(
        EventBody::MessagePersisted {
            message: Message {
                body: message(None).body.with_metadata(Some(r#"{"order":7}"#.to_owned().try_into().unwrap())),
                ..message(Some(Timestamp::from_millis(1_769_783_460_000)))
            },
            origin_connection_id: Some(ConnectionId::from_bytes([6; 16])),
        },
        Some(12),
        expect![[
            r#"{"event_type":"MessagePersisted","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","event_number":51,"payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"Hello, \"world\"!","content_type":"text/plain","metadata":{"order":7},"created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404","expires_at":"2026-01-30T14:31:00.000Z","origin_connection_id":"conn_060R30C1G60R30C1G60R30C1G6"},"position":12}"#
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
fn an_update_event_has_the_message_in_its_new_state_unless_it_is_gone() {
    let update = |kind| MessageUpdate {
        update_id: MessageId::from_bytes([8; 16]),
        chat_id: chat_id(),
        sequence: Sequence(49),
        user_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([9; 16]),
        target: Sequence(47),
        kind,
        created_at: Timestamp::from_millis(1_769_783_400_000),
        expires_at: None,
    };
    let state = MessageState {
        revision: Sequence(49),
        edited: Some(Edited { at: Timestamp::from_millis(1_769_783_400_000), count: 2 }),
        reactions: vec![ReactionCount { reaction: "👍".parse().unwrap(), count: 3 }],
    };
    let reacted = UpdateKind::Reacted("👍".parse().unwrap());
    check(
        EventBody::MessageUpdated { update: update(reacted), message: Some(Message { state, ..message(None) }) },
        Some(12),
        expect![[
            r#"{"event_type":"MessageUpdated","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","event_number":51,"payload":{"update_id":"msg_081040G2081040G2081040G208","chat_id":"chat_02081040G2081040G2081040G2","sequence":49,"target_sequence":47,"user_id":"user_030C1G60R30C1G60R30C1G60R3","kind":"reacted","reaction":"👍","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"09090909-0909-0909-0909-090909090909","message":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"Hello, \"world\"!","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404","state":{"revision":49,"edited_at":"2026-01-30T14:30:00.000Z","edit_count":2,"reactions":[{"reaction":"👍","count":3}]}}},"position":12}"#
        ]],
    );
    check(
        EventBody::MessageUpdated { update: update(UpdateKind::Deleted), message: None },
        None,
        expect![[
            r#"{"event_type":"MessageUpdated","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"update_id":"msg_081040G2081040G2081040G208","chat_id":"chat_02081040G2081040G2081040G2","sequence":49,"target_sequence":47,"user_id":"user_030C1G60R30C1G60R30C1G60R3","kind":"deleted","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"09090909-0909-0909-0909-090909090909"}}"#
        ]],
    );
}

#[test]
fn a_membership_event_names_the_change_and_its_author() {
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
fn chat_events_carry_creation_name_and_ttl() {
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
fn an_invalid_event_is_refused_with_its_reason() {
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
    let name = "[a-zà-ü \u{202E}\"\\\\]{0,20}x".prop_map(|name| ChatName::from_stored(name).unwrap());
    let persisted =
        (chat.clone(), user.clone(), any::<u64>(), "[^\0]{1,40}", times.clone(), proptest::option::of(times)).prop_map(
            |(chat_id, sender_id, sequence, content, created_at, expires_at)| EventBody::MessagePersisted {
                message: Message {
                    chat_id,
                    sender_id,
                    sequence: Sequence(sequence),
                    body: Body::new(content.try_into().unwrap(), ContentType::Encrypted),
                    created_at,
                    ..message(expires_at)
                },
                origin_connection_id: expires_at.map(|_| ConnectionId::from_bytes([9; 16])),
            },
        );
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
    let renamed = (chat.clone(), name, user.clone()).prop_map(|(chat_id, name, changed_by)| EventBody::ChatRenamed {
        chat_id,
        name,
        changed_by,
    });
    let ttl = (chat.clone(), 0u64..100, user).prop_map(|(chat_id, seconds, changed_by)| EventBody::MessageTtlChanged {
        chat_id,
        message_ttl: Ttl::from_secs(seconds),
        changed_by,
    });
    let expired = (chat, proptest::collection::vec(any::<u64>().prop_map(Sequence), 0..9))
        .prop_map(|(chat_id, sequences)| EventBody::MessagesExpired { chat_id, sequences });
    prop_oneof![persisted, changed, created, renamed, ttl, expired]
}

fn envelopes() -> impl Strategy<Value = EventEnvelope<'static>> {
    let times = (0..Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis);
    let numbers = any::<(Option<u64>, Option<u64>)>();
    (any::<[u8; 16]>(), times, bodies(), numbers).prop_map(|(id, event_time, body, (event_number, position))| {
        let event_number = event_number.map(EventNumber);
        let event = Event { event_id: EventId::from_bytes(id), event_time, event_number, body };
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
