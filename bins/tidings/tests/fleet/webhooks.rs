use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::receiver::WebhookReceiver;
use crate::webhook::{group_with, heard, said, secret_file, server, tidings, words};

/// The events of each kind, in arrival order.
fn by_kind(events: &[Value]) -> BTreeMap<&str, Vec<Value>> {
    let mut kinds = BTreeMap::<_, Vec<Value>>::new();
    for event in events {
        let kind = match event["event_type"].as_str().unwrap() {
            "MessagePersisted" => "message",
            "MembershipChanged" => "member",
            _ => "chat",
        };
        kinds.entry(kind).or_default().push(words(event));
    }
    kinds
}

#[tokio::test]
async fn every_event_is_posted_in_the_order_of_its_chat_and_kind() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let bob = server.sign_up("Bob").await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two"]).await;
    ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": bob.user_id })).await.data(201);
    ann.patch(&format!("/chats/{chat_id}"), json!({ "name": "crew", "message_ttl_seconds": 60 })).await.data(200);
    ann.send(&chat_id, "three").await;
    let expected = BTreeMap::from([
        ("chat", vec![json!("ChatCreated"), json!("ChatRenamed"), json!("MessageTtlChanged")]),
        ("member", vec![json!("MembershipChanged")]),
        ("message", vec![json!([1, "one"]), json!([2, "two"]), json!([3, "three"])]),
    ]);
    assert_eq!(by_kind(&heard(&mut receiver, 7).await), expected);

    said(&tidings(&server, &["log", "webhook", "replay", "--oldest"]).await);
    assert_eq!(by_kind(&heard(&mut receiver, 7).await), expected);
    said(&tidings(&server, &["log", "webhook", "replay", "--chat", &chat_id, "--sequence", "2"]).await);
    assert_eq!(by_kind(&heard(&mut receiver, 2).await)["message"], expected["message"][1..]);
}

#[tokio::test]
async fn a_receiver_that_is_away_misses_nothing_also_when_the_whole_fleet_dies_meanwhile() {
    // The socket keeps its port from other tests, and refuses connections until it listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let secret = secret_file();
    let mut server = server(&format!("http://{address}/hook"), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two"]).await;
    let failed = "tidings_webhook_deliveries_total{outcome=\"unavailable\"}";
    server.until(async || server.metrics().await.contains(failed)).await;
    server.kill().await;
    server.restart().await;
    ann.send(&chat_id, "three").await;

    let mut receiver = WebhookReceiver::start_on(socket.listen(128).unwrap());
    let (mut events, mut ids) = (vec![], BTreeSet::new());
    while events.len() < 4 {
        let event = receiver.next().await.json();
        // After a crash an event may be repeated.
        if ids.insert(event["event_id"].as_str().unwrap().to_owned()) {
            events.push(event);
        }
    }
    let messages = vec![json!([1, "one"]), json!([2, "two"]), json!([3, "three"])];
    assert_eq!(by_kind(&events), BTreeMap::from([("chat", vec![json!("ChatCreated")]), ("message", messages)]));
}
