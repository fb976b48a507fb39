use std::borrow::Cow;

use client::{ClientEvent, ClientHandle, Events, SendError};
use domain::{Metadata, Sequence};
use protocol::frame::{ClientFrame, Inbound, MessageBody, SendMessageAck, ServerFrame};
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
    let ClientFrame::SendMessage(message) = &send.frame else { panic!("{send:?}") };
    ServerFrame::SendMessageAck(SendMessageAck {
        client_message_id: message.client_message_id,
        message_id: domain::MessageId::from_bytes([9; 16]),
        chat_id: message.chat_id,
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

#[tokio::test]
async fn dropping_the_events_ends_the_session() {
    let (_server, mut socket, handle, events) = connected(&[]).await;
    drop(events);
    assert_eq!(socket.hear().await, None);
    let sent = handle.send(chat_id(), "hello").await;
    assert!(matches!(sent, Err(SendError::Closed(_))), "{sent:?}");
}
