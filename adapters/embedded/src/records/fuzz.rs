//! Fuzzes decoders with rows and keys that were never written.

use std::fmt::Debug;

use domain::{
    Body, Chat, ChatType, ClientMessageId, ConnectionId, ContentType, DeliveryState, DeviceId, Edited, Event,
    EventBody, EventId, EventNumber, GroupInvites, Invitation, Member, Message, MessageId, MessageState, MessageUpdate,
    OneTimeCode, Passkey, PasskeyId, PendingCode, PresenceVisibility, PushDevice, PushTarget, Reaction, ReactionCount,
    Report, ReportId, ReportReason, Resolution, Role, Sequence, Session, SessionId, SpentToken, Timestamp, TokenChain,
    Ttl, UpdateKind, User, UserId, Watermarks, WebPushSubscription,
};
use ports::{
    DeadLetter, DeadLetterId, Head, MessageDisposition, PendingDeletion, Position, Receipt, RequestKey, StoredResponse,
    UndeliveredItem,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use ulid::Ulid;
use uuid::Uuid;

use super::*;
use crate::keys::{self, Expiring, NoticeKey};

fn chat_id() -> ChatId {
    ChatId::from_bytes([2; 16])
}

fn user_id() -> UserId {
    UserId::from_bytes([3; 16])
}

fn device_id() -> DeviceId {
    DeviceId::from_bytes([7; 16])
}

fn location() -> MessageLocation {
    MessageLocation { chat_id: chat_id(), sequence: Sequence(300) }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn message() -> Message {
    Message {
        message_id: MessageId::from_bytes([1; 16]),
        chat_id: chat_id(),
        sequence: location().sequence,
        sender_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([4; 16]),
        body: Body::new("Grüße".to_owned().try_into().unwrap(), ContentType::Json)
            .with_metadata(Some(r#"{"a":1}"#.to_owned().try_into().unwrap())),
        created_at: at(1_769_783_400_000),
        expires_at: Some(at(1_769_783_460_000)),
        state: MessageState::default(),
    }
}

/// The same message, edited and with a reaction.
fn updated_message() -> Message {
    let reactions = vec![ReactionCount { reaction: reaction(), count: 300 }];
    let edited = Some(Edited { at: at(1_769_783_430_000), count: 2 });
    Message { state: MessageState { revision: Sequence(301), edited, reactions }, ..message() }
}

fn reaction() -> Reaction {
    "👍".parse().unwrap()
}

fn update() -> MessageUpdate {
    MessageUpdate {
        update_id: MessageId::from_bytes([1; 16]),
        chat_id: chat_id(),
        sequence: location().sequence,
        user_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([4; 16]),
        target: Sequence(299),
        kind: UpdateKind::Reacted(reaction()),
        created_at: at(1_769_783_400_000),
        expires_at: Some(at(1_769_783_460_000)),
    }
}

/// A head at its last message, and one at an update after it.
fn heads() -> Vec<Vec<u8>> {
    let head = Head::at(&message(), Ttl::from_secs(60), 300);
    vec![head.encode(), Head { sequence: Sequence(301), ..head }.encode()]
}

fn report() -> Report {
    Report {
        report_id: ReportId::from_bytes([1; 16]),
        reporter_id: user_id(),
        created_at: at(1_769_783_400_000),
        reason: ReportReason::Abuse,
        comment: Some("unkind".to_owned().try_into().unwrap()),
        user_id: Some(user_id()),
        chat_id: Some(chat_id()),
        message_id: Some(message().message_id),
        evidence: Some(message().into()),
        resolution: Some(Resolution { resolved_at: at(9), note: "warned".to_owned().try_into().unwrap() }),
    }
}

/// A valid row of every table.
fn rows() -> Vec<Vec<u8>> {
    let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[5; 16]).unwrap();
    let device = |target| PushDevice { user_id: user_id(), device_id: device_id(), target, registered_at: at(300) };
    let receipt = Receipt { message_id: message().message_id, sequence: Sequence(9), created_at: at(7) };
    let watermarks = Watermarks { delivered: Sequence(500), read: Sequence(2) };
    let dead = |what| DeadLetter {
        id: DeadLetterId::from_parts(1, 2),
        what,
        attempts: 9,
        reason: "answered 500".to_owned(),
        dead_at: at(8),
    };
    let event = |body| {
        let (event_id, event_number) = (EventId::from_bytes([6; 16]), Some(EventNumber(300)));
        encode_event(&Event { event_id, event_time: at(8), event_number, body })
    };
    let mut rows = vec![
        user_id().encode(),
        7u64.encode(),
        location().encode(),
        encode_message(&message()),
        encode_message(&updated_message()),
        encode_update(&update()),
        vec![reaction(), "+1".parse().unwrap()].encode(),
        DeliveryState { watermarks, delivered_at: Some(at(8)), read_at: Some(at(9)) }.encode(),
        Member { muted_until: Some(Timestamp::MAX), ..Member::new(user_id(), Role::Admin, at(5)) }.encode(),
        SendKey { receipt, fingerprint: [5; 16] }.encode(),
        Chat {
            chat_id: chat_id(),
            chat_type: ChatType::Group,
            name: Some("team".to_owned().try_into().unwrap()),
            created_by: user_id(),
            created_at: at(1),
            updated_at: at(2),
            member_count: 1000,
            message_ttl: Ttl::from_secs(31_536_000),
        }
        .encode(),
        User {
            user_id: user_id(),
            phone_number: Some("+15551234567".parse().unwrap()),
            external_id: Some("ada@shop.example".parse().unwrap()),
            display_name: "Ada".to_owned().try_into().unwrap(),
            presence_visibility: PresenceVisibility::Nobody,
            group_invites: GroupInvites::Nobody,
            created_at: at(1),
            updated_at: at(2),
            last_seen_at: Some(at(1_000_000)),
            deleted_at: Some(at(2_000_000)),
        }
        .encode(),
        Passkey {
            passkey_id: PasskeyId::from_bytes([1; 16]),
            user_id: user_id(),
            credential_id: vec![7; 32].try_into().unwrap(),
            public_key: vec![8; 77],
            sign_count: 300,
            is_backup_eligible: true,
            is_backed_up: true,
            name: "Phone".to_owned().try_into().unwrap(),
            created_at: at(1),
            last_used_at: Some(at(300)),
        }
        .encode(),
        PendingDeletion { user_id: user_id(), messages: MessageDisposition::Erase, begun_at: at(3) }.encode(),
        Session {
            session_id: SessionId::from_bytes([6; 16]),
            user_id: user_id(),
            device_id: device_id(),
            created_at: at(1),
            last_active_at: at(2),
            expires_at: at(3),
            current: [8; 32],
            spent: Some(SpentToken { digest: [9; 32], spent_at: at(4), forgiven: true }),
            overtaken: vec![
                TokenChain {
                    current: [10; 32],
                    spent: Some(SpentToken { digest: [9; 32], spent_at: at(4), forgiven: true }),
                },
                TokenChain { current: [11; 32], spent: None },
            ],
        }
        .encode(),
        OneTimeCode {
            pending: Some(PendingCode { digest: [1; 32], expires_at: at(9), tries_left: 4 }),
            locked_until: Some(at(10)),
        }
        .encode(),
        IdempotentRequest {
            fingerprint: [1; 32],
            reserved: Ulid::from_parts(1, 2),
            begun_at: at(3),
            response: Some(StoredResponse { status: 201, body: vec![1, 2, 3] }),
        }
        .encode(),
        device(PushTarget::Webhook("token".to_owned().try_into().unwrap())).encode(),
        device(PushTarget::WebPush(subscription)).encode(),
        StoredNotice::Pending { from: Sequence(300), due_at: at(1_000_000), attempts: 9 }.encode(),
        StoredNotice::Told { silent_until: at(1_000_000) }.encode(),
        dead(UndeliveredItem::Unreadable { position: Position(300) }).encode(),
        dead(UndeliveredItem::Notification {
            user_id: user_id(),
            device_id: device_id(),
            chat_id: chat_id(),
            from: Sequence(300),
        })
        .encode(),
        BlockedBy(vec![user_id(), UserId::from_bytes([4; 16])]).encode(),
        report().encode(),
        Invitation { declined_at: Some(at(2)), ..Invitation::new(chat_id(), user_id(), user_id(), at(1)) }.encode(),
        encode_event(&Event::message_persisted(message(), Some(ConnectionId::from_bytes([5; 16])))),
        event(EventBody::ChatCreated {
            chat_id: chat_id(),
            chat_type: ChatType::Direct,
            name: None,
            created_by: user_id(),
            initial_members: vec![user_id(); 2],
        }),
        event(EventBody::ChatRenamed {
            chat_id: chat_id(),
            name: "new".to_owned().try_into().unwrap(),
            changed_by: user_id(),
        }),
        event(EventBody::MessagesExpired { chat_id: chat_id(), sequences: vec![Sequence(1), Sequence(300)] }),
        encode_event(&Event::message_updated(update(), None).numbered(Some(EventNumber(300)))),
    ];
    rows.extend(heads());
    rows
}

/// Decodes arbitrary bytes as a row. A decoded value must encode to the same value again and format with `Debug`.
fn check<V: Stored + PartialEq + Debug>(row: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = V::decode(row) {
        prop_assert!(can_be_shown(&value));
        prop_assert_eq!(V::decode(&value.encode()).unwrap(), value);
    }
    Ok(())
}

/// Log lines format the value with `Debug`.
fn can_be_shown(value: &impl std::fmt::Debug) -> bool {
    !format!("{value:?}").is_empty()
}

proptest! {
    #[test]
    fn a_damaged_row_is_refused_or_decodes_in_every_table(row in damage::bytes(select(rows()))) {
        check::<User>(&row)?;
        check::<Chat>(&row)?;
        check::<Member>(&row)?;
        check::<Head>(&row)?;
        check::<Session>(&row)?;
        check::<PendingDeletion>(&row)?;
        check::<OneTimeCode>(&row)?;
        check::<IdempotentRequest>(&row)?;
        check::<SendKey>(&row)?;
        check::<MessageLocation>(&row)?;
        check::<DeliveryState>(&row)?;
        check::<PushDevice>(&row)?;
        check::<StoredNotice>(&row)?;
        check::<DeadLetter>(&row)?;
        check::<BlockedBy>(&row)?;
        check::<Report>(&row)?;
        check::<Vec<Reaction>>(&row)?;
        check::<UserId>(&row)?;
        check::<u64>(&row)?;
        check::<()>(&row)?;
    }

    #[test]
    fn a_damaged_message_and_its_glance_decode_alike_or_are_refused(
        row in damage::bytes(select(vec![encode_message(&message()), encode_message(&updated_message())])),
    ) {
        if let Ok(message) = decode_message(location(), &row) {
            prop_assert!(!message.created_at.to_string().is_empty());
            let glance = Glance::decode(&row).unwrap();
            prop_assert_eq!((glance.sender_id, glance.expires_at), (message.sender_id, message.expires_at));
            prop_assert_eq!(decode_message(location(), &encode_message(&message)).unwrap(), message);
        }
    }

    #[test]
    fn a_damaged_head_and_its_summary_decode_alike_or_are_refused(
        row in damage::bytes(select(heads())),
    ) {
        let counter = HeadSummary::decode(&row).ok();
        if let Some(counter) = counter {
            prop_assert!(counter.sequence < counter.sequence.next(), "another message can follow");
        }
        if let Ok(head) = Head::decode(&row) {
            let expected = HeadSummary { sequence: head.sequence, message_ttl: head.message_ttl, changes: head.changes };
            prop_assert_eq!(counter, Some(expected));
        }
    }

    #[test]
    fn a_damaged_update_is_refused_or_decodes(row in damage::bytes(Just(encode_update(&update())))) {
        if let Ok(update) = decode_update(location(), &row) {
            prop_assert!(can_be_shown(&update));
            prop_assert_eq!(decode_update(location(), &encode_update(&update)).unwrap(), update);
        }
    }

    #[test]
    fn a_damaged_log_record_is_refused_or_decodes(row in damage::bytes(select(rows()))) {
        if let Ok(record) = LogRecord::decode(&row) {
            prop_assert!(!record.time().to_string().is_empty());
            if let LogRecord::Event(event) = &record {
                prop_assert_eq!(LogRecord::decode(&encode_event(event)).unwrap(), record);
            }
        }
    }

    #[test]
    fn a_damaged_key_is_refused_or_names_something_that_has_this_key(key in damage::bytes(select(keys()))) {
        if let Ok(location) = keys::parse_message(&key) {
            prop_assert_eq!(&keys::message(location)[..], &key);
        }
        if let Ok((location, user_id)) = keys::parse_reactions(&key) {
            prop_assert_eq!(&keys::reactions(location, user_id)[..], &key);
        }
        if let Ok(offset) = keys::parse_offset(&key) {
            prop_assert_eq!(&keys::offset(offset)[..], &key);
        }
        if let Ok((chat_id, user_id)) = keys::parse_member(&key) {
            prop_assert_eq!(&keys::member(chat_id, user_id)[..], &key);
        }
        if let Ok((user_id, chat_id)) = keys::parse_listing(&key) {
            prop_assert_eq!(&keys::membership(user_id, chat_id)[..], &key);
        }
        if let Ok((chat_id, sender_id, client_message_id)) = keys::parse_send(&key) {
            prop_assert_eq!(&keys::send(chat_id, sender_id, client_message_id)[..], &key);
        }
        if let Ok(request) = keys::parse_request(&key) {
            prop_assert_eq!(&keys::request(request)[..], &key);
        }
        if let Ok((at, notice)) = keys::parse_notice_due(&key) {
            // No time follows the last one, so nothing can be due after it.
            prop_assert!(at == Timestamp::MAX || keys::notice_due(at, notice)[..] == key);
        }
        if let Ok(report_id) = keys::parse_report(&key) {
            prop_assert!(key.ends_with(&report_id.to_bytes()));
        }
        drop((keys::parse_membership(&key), keys::parse_contact(&key), keys::parse_direct(&key), keys::parse_expiry(&key)));
    }
}

/// A key of every kind that has a parser.
fn keys() -> Vec<Vec<u8>> {
    let request = RequestKey { user_id: user_id(), key: Uuid::from_bytes([8; 16]) };
    let notice = NoticeKey { user_id: user_id(), chat_id: chat_id(), device_id: device_id() };
    vec![
        keys::message(location()).to_vec(),
        keys::offset(7).to_vec(),
        keys::membership(user_id(), chat_id()).to_vec(),
        keys::contact(user_id(), user_id()).to_vec(),
        keys::member(chat_id(), user_id()).to_vec(),
        keys::send(chat_id(), user_id(), ClientMessageId::from_bytes([4; 16])).to_vec(),
        keys::request(request).to_vec(),
        keys::notice_due(at(9), notice).to_vec(),
        keys::report_end(at(9), report().report_id).to_vec(),
        keys::invitation_to(chat_id(), user_id()).to_vec(),
        keys::invitation_end(at(9), user_id(), chat_id()).to_vec(),
        keys::expiry(at(9), Expiring::Message(location())).to_vec(),
        keys::expiry(at(9), Expiring::Session(SessionId::from_bytes([3; 16]))).to_vec(),
        keys::expiry(at(9), Expiring::Code([4; 32])).to_vec(),
        keys::expiry(at(9), Expiring::Request(request)).to_vec(),
        keys::expiry(at(9), Expiring::DeadLetter(DeadLetterId::from_bytes([5; 16]))).to_vec(),
        keys::expiry(at(9), Expiring::SendKey([6; 48])).to_vec(),
        keys::expiry(at(9), Expiring::Update(location())).to_vec(),
        keys::reactions(location(), user_id()).to_vec(),
    ]
}
