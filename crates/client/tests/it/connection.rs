use std::borrow::Cow;

use client::{ClientEvent, ClientHandle, Events, SendError};
use domain::{ClientMessageId, Metadata, Sequence, UpdateAction};
use protocol::frame::{
    ClientFrame, Inbound, MessageBody, MessageUpdated, SendMessageAck, ServerFrame, UpdateBody, UpdateMessage,
    UpdateName,
};
use protocol::{ErrorBody, ErrorCode};

use crate::scripted_server::{ScriptedServer, ScriptedSocket, chat_id, message};

/// A session with an established connection, in a chat that holds `sequences`.
async fn connected(sequences: &[u64]) -> (ScriptedServer, ScriptedSocket, ClientHandle, Events) {
    let mut server = ScriptedServer::start().await;
    let (handle, mut events) = server.client("token-1").connect().unwrap();
    let mut socket = server.establish().await;
    socket.serve_sync(sequences, sequences.len() as u64).await;
    let first = events.next().await;
    assert!(matches!(first, Some(ClientEvent::Connected { .. })), "{first:?}");
    (server, socket, handle, events)
}

async fn next_sequence(events: &mut Events) -> Sequence {
    match events.next().await {
        Some(ClientEvent::Message(message)) => message.sequence,
        other => panic!("{other:?}"),
    }
}

fn ack_of(send: &Inbound, sequence: u64) -> ServerFrame {
    let client_message_id = match &send.frame {
        ClientFrame::SendMessage(message) => message.client_message_id,
        ClientFrame::UpdateMessage(update) => update.client_message_id,
        other => panic!("{other:?}"),
    };
    ServerFrame::SendMessageAck(SendMessageAck {
        client_message_id,
        message_id: domain::MessageId::from_bytes([9; 16]),
        chat_id: chat_id(),
        sequence: Sequence(sequence),
        created_at: domain::Timestamp::default(),
        deduplicated: false,
    })
}

#[tokio::test]
async fn missed_and_pushed_messages_arrive_in_order() {
    let (_server, mut socket, _handle, mut events) = connected(&[1, 2]).await;
    socket.push(4).await;
    socket.push(3).await;
    for n in 1..=4 {
        assert_eq!(next_sequence(&mut events).await, Sequence(n));
    }
}

#[tokio::test]
async fn a_message_has_the_metadata_of_its_push() {
    let (_server, mut socket, _handle, mut events) = connected(&[]).await;
    let metadata: Metadata = r#"{"order":{"id":7},"tags":["a",null]}"#.to_owned().try_into().unwrap();
    let pushed = MessageBody { metadata: Some(Cow::Owned(metadata.clone())), ..message(1) };
    socket.say(None, ServerFrame::Message(pushed)).await;
    socket.push(2).await;
    for expected in [Some(&metadata), None] {
        let event = events.next().await;
        let Some(ClientEvent::Message(message)) = event else { panic!("{event:?}") };
        assert_eq!(message.metadata.as_deref().map(Metadata::as_str), expected.map(Metadata::as_str));
    }
}

#[tokio::test]
async fn a_close_acknowledges_only_processed_messages() {
    let (_server, mut socket, handle, mut events) = connected(&[1, 2, 3]).await;
    for n in 1..=3 {
        assert_eq!(next_sequence(&mut events).await, Sequence(n));
    }
    handle.close().await.unwrap();
    let ack = socket.hear().await.unwrap().frame;
    assert_eq!(
        ack,
        ClientFrame::Ack { chat_id: chat_id(), sequence: Sequence(2) },
        "the third is still being processed"
    );
    assert_eq!(socket.hear().await, None);
    assert!(matches!(events.next().await, Some(ClientEvent::Stopped(client::StopReason::Closed))));
    assert_eq!(events.next().await, None);
    assert!(handle.mark_read(chat_id(), Sequence(1)).await.is_err());
}

#[tokio::test]
async fn ten_processed_messages_are_acknowledged_at_once() {
    let (_server, mut socket, _handle, mut events) = connected(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).await;
    for n in 1..=11 {
        assert_eq!(next_sequence(&mut events).await, Sequence(n));
    }
    let ack = socket.hear().await.unwrap().frame;
    assert_eq!(ack, ClientFrame::Ack { chat_id: chat_id(), sequence: Sequence(10) });
}

#[tokio::test]
async fn a_send_resolves_with_its_ack_and_is_an_event_in_order() {
    let (_server, mut socket, handle, mut events) = connected(&[]).await;
    let sender = handle.clone();
    let sent = tokio::spawn(async move { sender.send(chat_id(), "hello").await });
    let send = socket.hear().await.unwrap();
    socket.say(send.request_id.clone(), ack_of(&send, 1)).await;
    assert_eq!(sent.await.unwrap().unwrap().sequence, Sequence(1));
    assert_eq!(next_sequence(&mut events).await, Sequence(1));
}

#[tokio::test]
async fn a_refused_send_resolves_with_the_reason() {
    let (_server, mut socket, handle, _events) = connected(&[]).await;
    let sent = tokio::spawn(async move { handle.send(chat_id(), "hello").await });
    let send = socket.hear().await.unwrap();
    let error = ErrorBody::new(ErrorCode::NotAMember, "you are not");
    socket.say(send.request_id, ServerFrame::Error(error.clone())).await;
    assert!(matches!(sent.await.unwrap(), Err(SendError::Refused(refused)) if refused == error));
}

#[tokio::test]
async fn a_lost_connection_is_replaced_and_the_send_repeated_under_its_id() {
    let (mut server, mut socket, handle, mut events) = connected(&[]).await;
    let sent = tokio::spawn(async move { handle.send(chat_id(), "hello").await });
    let first_try = socket.hear().await.unwrap();
    drop(socket);
    assert!(matches!(events.next().await, Some(ClientEvent::Disconnected { .. })));
    let mut socket = server.establish().await;
    socket.serve_sync(&[], 0).await;
    let second_try = socket.hear().await.unwrap();
    assert_eq!(second_try.frame, first_try.frame);
    socket.say(second_try.request_id.clone(), ack_of(&second_try, 1)).await;
    assert_eq!(sent.await.unwrap().unwrap().sequence, Sequence(1));
}

/// The push of an edit of message 1.
fn edited(sequence: u64) -> ServerFrame {
    let update = UpdateBody {
        chat_id: chat_id(),
        sequence: Sequence(sequence),
        target_sequence: Sequence(1),
        user_id: message(1).sender_id,
        kind: UpdateName::Edited,
        reaction: None,
        created_at: domain::Timestamp::default(),
        client_message_id: None,
    };
    ServerFrame::MessageUpdated(MessageUpdated { update, message: Some(message(1)) })
}

#[tokio::test]
async fn each_update_resolves_with_its_ack() {
    let (_server, mut socket, handle, _events) = connected(&[1]).await;
    let updates = tokio::spawn(async move {
        let first = Sequence(1);
        vec![
            handle.edit(chat_id(), first, "second").await,
            handle.react(chat_id(), first, "☕\u{fe0f}").await,
            handle.unreact(chat_id(), first, "ok").await,
            handle.delete(chat_id(), first).await,
        ]
    });
    let mut actions = Vec::new();
    for sequence in 2..=5 {
        let sent = socket.hear().await.unwrap();
        let ClientFrame::UpdateMessage(update) = &sent.frame else { panic!("{sent:?}") };
        assert_eq!((update.chat_id, update.target), (chat_id(), Sequence(1)));
        actions.push(update.action.clone());
        socket.say(sent.request_id.clone(), ack_of(&sent, sequence)).await;
    }
    let body = client::Body::new("second".to_owned().try_into().unwrap(), client::ContentType::Text);
    let [coffee, ok] = ["☕", "ok"].map(|reaction| reaction.parse().unwrap());
    let expected =
        [UpdateAction::Edit(body), UpdateAction::React(coffee), UpdateAction::Unreact(ok), UpdateAction::Delete];
    assert_eq!(actions, expected);
    let sequences: Vec<u64> = updates.await.unwrap().into_iter().map(|ack| ack.unwrap().sequence.0).collect();
    assert_eq!(sequences, [2, 3, 4, 5]);
}

#[tokio::test]
async fn what_is_no_reaction_or_content_is_refused_without_a_request() {
    let (_server, mut socket, handle, _events) = connected(&[]).await;
    let spaced = handle.react(chat_id(), Sequence(1), "a b").await;
    assert!(matches!(spaced, Err(SendError::Reaction(_))), "{spaced:?}");
    let empty = handle.edit(chat_id(), Sequence(1), "").await;
    assert!(matches!(empty, Err(SendError::Content(_))), "{empty:?}");
    handle.typing(chat_id(), true).await.unwrap();
    assert!(matches!(socket.hear().await.unwrap().frame, ClientFrame::Typing { .. }));
}

#[tokio::test]
async fn a_refused_update_resolves_with_the_reason() {
    let (_server, mut socket, handle, _events) = connected(&[1]).await;
    let deleted = tokio::spawn(async move { handle.delete(chat_id(), Sequence(1)).await });
    let sent = socket.hear().await.unwrap();
    let error = ErrorBody::new(ErrorCode::Forbidden, "no").with_details(serde_json::json!({ "reason": "too_old" }));
    socket.say(sent.request_id, ServerFrame::Error(error.clone())).await;
    assert!(matches!(deleted.await.unwrap(), Err(SendError::Refused(refused)) if refused == error));
}

#[tokio::test]
async fn updates_queued_offline_go_out_under_their_ids_and_in_order_with_sends() {
    let (mut server, socket, handle, mut events) = connected(&[1]).await;
    assert_eq!(next_sequence(&mut events).await, Sequence(1));
    drop(socket);
    assert!(matches!(events.next().await, Some(ClientEvent::Disconnected { .. })));
    let update = UpdateMessage {
        client_message_id: ClientMessageId::from_bytes([7; 16]),
        chat_id: chat_id(),
        target: Sequence(1),
        action: UpdateAction::Delete,
    };
    let ack = handle.submit_update(update.clone()).await.unwrap();
    let sender = handle.clone();
    let sent = tokio::spawn(async move { sender.send(chat_id(), "later").await });

    let mut socket = server.establish().await;
    assert!(matches!(socket.hear().await.unwrap().frame, ClientFrame::SyncRequest(_)));
    let first_try = socket.hear().await.unwrap();
    assert_eq!(first_try.frame, ClientFrame::UpdateMessage(update.clone()));
    let later = socket.hear().await.unwrap();
    assert!(matches!(later.frame, ClientFrame::SendMessage(_)), "{later:?}");
    drop(socket);

    let mut socket = server.establish().await;
    assert!(matches!(socket.hear().await.unwrap().frame, ClientFrame::SyncRequest(_)));
    let second_try = socket.hear().await.unwrap();
    assert_eq!(second_try.frame, ClientFrame::UpdateMessage(update));
    socket.say(second_try.request_id.clone(), ack_of(&second_try, 2)).await;
    assert_eq!(ack.await.unwrap().sequence, Sequence(2));
    let later = socket.hear().await.unwrap();
    socket.say(later.request_id.clone(), ack_of(&later, 3)).await;
    assert_eq!(sent.await.unwrap().unwrap().sequence, Sequence(3));
}

#[tokio::test]
async fn processed_updates_are_acknowledged_like_messages() {
    let (_server, mut socket, handle, mut events) = connected(&[1]).await;
    socket.say(None, edited(2)).await;
    socket.say(None, edited(3)).await;
    assert_eq!(next_sequence(&mut events).await, Sequence(1));
    for sequence in [2, 3] {
        let event = events.next().await;
        let Some(ClientEvent::Updated(updated)) = event else { panic!("{event:?}") };
        assert_eq!(updated.update.sequence, Sequence(sequence));
    }
    handle.close().await.unwrap();
    let ack = ClientFrame::Ack { chat_id: chat_id(), sequence: Sequence(2) };
    assert_eq!(socket.hear().await.unwrap().frame, ack, "the third entry is still being processed");
}

#[tokio::test]
async fn dropping_the_events_ends_the_session() {
    let (_server, mut socket, handle, events) = connected(&[]).await;
    drop(events);
    assert_eq!(socket.hear().await, None);
    let sent = handle.send(chat_id(), "hello").await;
    assert!(matches!(sent, Err(SendError::Closed(_))), "{sent:?}");
}
