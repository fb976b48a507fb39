//! The webhook delivers the events of a chat in one order, each once without failures, and a replay starts at a log
//! position.

use aws_lc_rs::hmac;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::receiver::{ReceivedCall, WebhookReceiver};
use crate::webhook::{SECRET, group_with, heard, said, secret_file, server, tidings, words};

/// The checks that an application must make before it trusts a call.
fn assert_signed(call: &ReceivedCall) {
    let signature = call.header("tidings-signature");
    let (time, tag) = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).expect(signature);
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [time.as_bytes(), b".", &call.body].concat();
    let expected: String = hmac::sign(&key, &signed).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(tag, expected);
}

#[tokio::test]
async fn every_event_is_posted_signed_and_in_the_order_of_its_chat() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.group("team", &[]).await;
    let ack = ann.send(&chat_id, "hello").await;
    ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": bob.user_id })).await.data(201);
    ann.patch(&format!("/chats/{chat_id}"), json!({ "name": "crew", "message_ttl_seconds": 60 })).await.data(200);

    let mut calls = vec![];
    for _ in 0..5 {
        let call = receiver.next().await;
        assert_signed(&call);
        assert_eq!(call.header("content-type"), "application/json");
        let event = call.json();
        assert_eq!(call.header("tidings-event-id"), event["event_id"].as_str().unwrap());
        assert_eq!((&event["event_version"], &event["partition_key"]), (&json!(1), &json!(chat_id)));
        calls.push(event);
    }
    let types: Vec<_> = calls.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["ChatCreated", "MessagePersisted", "MembershipChanged", "ChatRenamed", "MessageTtlChanged"]);
    assert!(calls.is_sorted_by_key(|event| event["position"].as_u64().unwrap()));
    assert_eq!(calls.iter().map(|event| &event["event_number"]).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let message = &calls[1]["payload"];
    assert_eq!((&message["message_id"], &message["content"]), (&ack["message_id"], &json!("hello")));
    assert_eq!(message["client_message_id"], ack["client_message_id"]);
    let added = &calls[2]["payload"];
    assert_eq!((&added["user_id"], &added["change_type"]), (&json!(bob.user_id), &json!("added")));
}

#[tokio::test]
async fn events_are_delivered_again_from_a_position_a_time_the_start_and_a_sequence() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two", "three"]).await;
    let first = heard(&mut receiver, 4).await;
    let place = first[2]["position"].to_string();
    let time = first[0]["event_time"].as_str().unwrap().to_owned();
    for (from, expected) in
        [(vec!["--position", &place], &first[2..]), (vec!["--time", &time], &first[..]), (vec!["--oldest"], &first[..])]
    {
        let replayed = tidings(&server, &[&["log", "webhook", "replay"][..], &from].concat()).await;
        assert_eq!(said(&replayed), "the events will be delivered to the application again\n");
        assert_eq!(heard(&mut receiver, expected.len()).await, expected, "{from:?}");
    }
    let replayed = tidings(&server, &["log", "webhook", "replay", "--chat", &chat_id, "--sequence", "2"]).await;
    said(&replayed);
    let again: Vec<_> = heard(&mut receiver, 2).await.iter().map(words).collect();
    assert_eq!(again, [json!([2, "two"]), json!([3, "three"])]);
    assert_eq!(receiver.rest().len(), 0);
}

#[tokio::test]
async fn an_unavailable_receiver_misses_nothing_even_if_the_server_is_killed() {
    // The socket keeps its port from other tests, and refuses connections until it listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let secret = secret_file();
    let mut server = server(&format!("http://{address}/hook"), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two"]).await;
    server
        .until(async || server.metrics().await.contains("tidings_webhook_deliveries_total{outcome=\"unavailable\"}"))
        .await;
    let status = tidings(&server, &["log", "webhook", "status"]).await;
    assert!(said(&status).starts_with("failing since "), "{status:?}");
    server.kill().await;
    server.restart().await;
    ann.send(&chat_id, "three").await;

    let mut receiver = WebhookReceiver::start_on(socket.listen(128).unwrap());
    let events = heard(&mut receiver, 4).await;
    let expected = [json!("ChatCreated"), json!([1, "one"]), json!([2, "two"]), json!([3, "three"])];
    assert_eq!(events.iter().map(words).collect::<Vec<_>>(), expected);
    server
        .until(async || {
            said(&tidings(&server, &["log", "webhook", "status"]).await).starts_with("delivering, 0 events behind")
        })
        .await;
}
