//! Fuzzes the parsers with damaged messages.

use std::time::Duration;

use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, ContentType, DeviceId, Edited, IngestError, Message as ChatMessage,
    MessageId, MessageState, MessageUpdate, PresenceView, ReactionCount, Sequence, SessionId, Timestamp, Ttl,
    UpdateAction, UpdateKind, UpdateRefusal, UserId, WatermarkKind, Watermarks,
};
use ports::{
    AdvanceRequest, Assertion, ConnectionHolder, GatewayId, IdentityError, Page, PresenceLookup, Principal, Push,
    Receipt, Revocation, SendContent, SendRequest, Sent, Signal, StoreError, SyncRequest,
};
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use super::*;

fn chat_id() -> ChatId {
    ChatId::from_bytes([1; 16])
}

fn user_id() -> UserId {
    UserId::from_bytes([2; 16])
}

fn session_id() -> SessionId {
    SessionId::from_bytes([3; 16])
}

fn assertion() -> Assertion {
    let at = Timestamp::from_millis(1_769_783_400_007);
    Assertion { proof: [8; 150].into(), renew_at: at, expires_at: at }
}

fn holder() -> ConnectionHolder {
    let connected_at = Timestamp::from_millis(1_769_783_400_007);
    ConnectionHolder { user_id: user_id(), session_id: Some(session_id()), connected_at }
}

/// A valid request of every kind.
fn requests() -> Vec<Vec<u8>> {
    let body = || Body::new("Grüße".to_owned().try_into().unwrap(), ContentType::Json);
    let send = SendRequest {
        chat_id: chat_id(),
        sender_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([4; 16]),
        content: SendContent::Message { body: body(), ttl: Ttl::from_secs(60) },
        origin_connection_id: Some(ConnectionId::from_bytes([5; 16])),
        assertion: None,
    };
    let update = |action| SendRequest { content: SendContent::Update { target: Sequence(3), action }, ..send.clone() };
    let (edit, react) = (update(UpdateAction::Edit(body())), update(UpdateAction::React("👍".parse().unwrap())));
    let assertion = Some(assertion());
    let sync = SyncRequest {
        user_id: user_id(),
        chat_id: chat_id(),
        after: Sequence(7),
        limit: 100,
        assertion: assertion.clone(),
    };
    let (kind, to) = (WatermarkKind::Read, Sequence(9));
    let advance = AdvanceRequest { user_id: user_id(), chat_id: chat_id(), kind, to, assertion };
    let push = Push { recipients: vec![user_id(); 3], except: None, frame: vec![b'x'; 30].into(), trace: None };
    let look = PresenceLookup { viewer: user_id(), user_id: user_id() };
    let typing = Signal::Typing { chat_id: chat_id(), user_id: user_id(), is_typing: true };
    let receipt = Signal::Receipt { chat_id: chat_id(), user_id: user_id(), watermarks: Watermarks::at(Sequence(3)) };
    vec![
        to_send(7, Duration::from_secs(5), &send, None).encode_to_vec(),
        to_send(7, Duration::from_secs(5), &edit, None).encode_to_vec(),
        to_send(7, Duration::from_secs(5), &react, None).encode_to_vec(),
        to_sync(&sync).encode_to_vec(),
        to_advance(&advance).encode_to_vec(),
        to_deliveries(&GatewayId("a".into()), &[push]).unwrap().remove(0).encode_to_vec(),
        to_signal(&typing).encode_to_vec(),
        to_signal(&receipt).encode_to_vec(),
        look_chunks(&[look; 3]).next().unwrap().1.encode_to_vec(),
        live_chunks(&[holder(); 3]).next().unwrap().1.encode_to_vec(),
        to_revocation(Revocation::Session(session_id())).encode_to_vec(),
        to_revocation(Revocation::Token(user_id())).encode_to_vec(),
    ]
}

/// A valid reply of every kind.
fn replies() -> Vec<Vec<u8>> {
    let message = ChatMessage {
        message_id: MessageId::from_bytes([6; 16]),
        chat_id: chat_id(),
        sequence: Sequence(8),
        sender_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([4; 16]),
        body: Body::new("Grüße".to_owned().try_into().unwrap(), ContentType::Text),
        created_at: Timestamp::from_millis(1_769_783_400_000),
        expires_at: Some(Timestamp::MAX),
        state: MessageState {
            revision: Sequence(9),
            edited: Some(Edited { at: Timestamp::from_millis(1_769_783_400_000), count: 1 }),
            reactions: vec![ReactionCount { reaction: "👍".parse().unwrap(), count: 2 }],
        },
    };
    let update = MessageUpdate {
        update_id: MessageId::from_bytes([7; 16]),
        chat_id: chat_id(),
        sequence: Sequence(9),
        user_id: user_id(),
        client_message_id: ClientMessageId::from_bytes([5; 16]),
        target: Sequence(8),
        kind: UpdateKind::Reacted("👍".parse().unwrap()),
        created_at: Timestamp::from_millis(1_769_783_400_000),
        expires_at: Some(Timestamp::MAX),
    };
    let receipt =
        Receipt { message_id: message.message_id, sequence: message.sequence, created_at: message.created_at };
    let page = Page {
        messages: vec![message.clone(); 2],
        updates: vec![update; 2],
        updated: vec![message],
        examined: Sequence(8),
        head: Sequence(9),
    };
    let principal = Principal {
        user_id: user_id(),
        session_id: Some(session_id()),
        device_id: Some(DeviceId::from_bytes([7; 16])),
        token_expires_at: Timestamp::MAX,
        assertion: Some(assertion()),
    };
    let away = || StoreError::unavailable("away");
    let outcome =
        |outcome| proto::SendOutcome { kind: Some(to_outcome(outcome)), ..Default::default() }.encode_to_vec();
    vec![
        outcome(Ok(Sent { receipt, deduplicated: true })),
        outcome(Err(IngestError::Unavailable { retry_after: Duration::from_secs(1) })),
        to_sync_reply(Ok(page)).encode_to_vec(),
        outcome(Err(IngestError::Update(UpdateRefusal::TooOld(60)))),
        to_sync_reply(Err(IngestError::AboveHead { head: Sequence(4) })).encode_to_vec(),
        to_advance_reply(Ok(Watermarks::at(Sequence(3)))).encode_to_vec(),
        to_identity_reply(Ok(principal)).encode_to_vec(),
        to_identity_reply(Err(IdentityError::InvalidToken("it has expired".into()))).encode_to_vec(),
        to_live_reply(Ok(vec![true, false, true])).encode_to_vec(),
        to_renew_reply(Ok(assertion())).encode_to_vec(),
        to_renew_reply(Err(IdentityError::TokenRevoked)).encode_to_vec(),
        to_look_reply(Ok(vec![PresenceView::Offline { last_seen: Some(Timestamp::MAX) }; 3])).encode_to_vec(),
        to_look_reply(Err(away())).encode_to_vec(),
        to_signal_reply(Ok(true)).encode_to_vec(),
    ]
}

/// Decodes the bytes as a wire message, if possible.
fn as_one<M: prost::Message + Default>(bytes: &[u8]) -> Option<M> {
    M::decode(bytes).ok()
}

/// Formatting the value for a log must not panic.
fn can_be_shown(value: &impl std::fmt::Debug) -> bool {
    !format!("{value:?}").is_empty()
}

proptest! {
    #[test]
    fn a_damaged_request_is_refused_or_one_that_could_have_been_sent(bytes in damage::bytes(select(requests()))) {
        if let Some(Ok(send)) = as_one(&bytes).map(read_send) {
            let again = read_send(to_send(1, Duration::from_secs(1), &send, None)).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{send:?}"));
            prop_assert_eq!(again.content, send.content);
        }
        if let Some(Ok(sync)) = as_one(&bytes).map(|request| read_sync(&request)) {
            prop_assert_eq!(format!("{:?}", read_sync(&to_sync(&sync)).unwrap()), format!("{sync:?}"));
        }
        if let Some(Ok(advance)) = as_one(&bytes).map(|request| read_advance(&request)) {
            prop_assert_eq!(format!("{:?}", read_advance(&to_advance(&advance)).unwrap()), format!("{advance:?}"));
        }
        if let Some(Ok(pushes)) = as_one::<proto::DeliverRequest>(&bytes).map(|request| read_pushes(request.pushes)) {
            let held: usize = pushes.iter().map(|push| 16 * push.recipients.len() + push.frame.len()).sum();
            prop_assert!(held <= bytes.len());
        }
        if let Some(Ok(signal)) = as_one(&bytes).map(read_signal) {
            prop_assert_eq!(read_signal(to_signal(&signal)).unwrap(), signal);
        }
        if let Some(Ok(lookups)) = as_one(&bytes).map(|request| read_looks(&request)) {
            prop_assert!(32 * lookups.len() <= bytes.len());
        }
        if let Some(Ok(sessions)) = as_one(&bytes).map(|request| read_holders(&request)) {
            prop_assert!(16 * sessions.len() <= bytes.len());
        }
        drop(as_one(&bytes).map(|request| read_revocation(&request)));
        drop(read_device(&bytes));
    }

    #[test]
    fn a_damaged_answer_is_refused_or_one_that_could_have_been_given(bytes in damage::bytes(select(replies()))) {
        if let Some(outcome) = as_one::<proto::SendOutcome>(&bytes) {
            prop_assert!(can_be_shown(&read_outcome(outcome.kind)));
        }
        if let Some(Ok(Ok(page))) = as_one(&bytes).map(|reply| read_sync_reply(chat_id(), reply)) {
            prop_assert!(page.messages.iter().all(|message| message.chat_id == chat_id()));
            prop_assert!(page.messages.iter().all(|message| !message.created_at.to_string().is_empty()));
            prop_assert!(page.updates.iter().all(|update| update.chat_id == chat_id()));
            prop_assert!(page.updates.iter().all(|update| !update.created_at.to_string().is_empty()));
            let edited = page.updated.iter().filter_map(|message| message.state.edited);
            prop_assert!(edited.into_iter().all(|edited| !edited.at.to_string().is_empty()));
        }
        if let Some(Ok(Ok(principal))) = as_one(&bytes).map(read_identity) {
            prop_assert!(!principal.token_expires_at.to_string().is_empty());
        }
        if let Some(Ok(Ok(live))) = as_one(&bytes).map(|reply| read_live(&[holder(); 3], reply)) {
            prop_assert_eq!(live.len(), 3);
        }
        if let Some(Ok(Ok(views))) = as_one(&bytes).map(|reply| read_look_reply(3, reply)) {
            prop_assert_eq!(views.len(), 3);
            prop_assert!(can_be_shown(&views));
        }
        if let Some(Ok(Ok(renewed))) = as_one(&bytes).map(read_renew_reply) {
            prop_assert!(can_be_shown(&renewed));
        }
        drop((as_one(&bytes).map(read_advance_reply), as_one(&bytes).map(read_signal_reply)));
    }
}
