//! The retention of the whole service.

use domain::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{TestDevice, TestServer};

const DAY_SECONDS: u64 = 86_400;

/// The lifetimes of the messages of a chat in seconds, oldest first.
async fn lifetimes(device: &TestDevice, chat_id: &str) -> Vec<Option<u64>> {
    let page = device.get(&format!("/chats/{chat_id}/messages")).await.data(200);
    let time = |time: &Value| time.as_str().map(|text| text.parse::<Timestamp>().unwrap());
    let lifetime = |message: &Value| {
        let created_at = time(&message["created_at"]).unwrap();
        time(&message["expires_at"]).map(|expires_at| expires_at.since(created_at).as_secs())
    };
    page["messages"].as_array().unwrap().iter().rev().map(lifetime).collect()
}

#[tokio::test]
async fn no_message_of_any_chat_outlives_the_retention_of_the_service() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (direct, group) = (ann.direct_chat(&bob).await, ann.group("Sailing", &[&bob]).await);
    let send = |ttl_seconds: Option<u64>| json!({ "client_message_id": Uuid::new_v4(), "content": "hello", "ttl_seconds": ttl_seconds });
    let first = send(Some(30 * DAY_SECONDS));
    let messages = |chat_id: &str| format!("/chats/{chat_id}/messages");
    ann.post(&messages(&direct), first.clone()).await.data(201);
    ann.post(&messages(&direct), send(Some(60_000))).await.data(201);
    bob.post(&messages(&group), send(None)).await.data(201);
    ann.patch(&format!("/chats/{group}"), json!({ "message_ttl_seconds": 7 * DAY_SECONDS })).await.data(200);
    bob.post(&messages(&group), send(None)).await.data(201);
    assert_eq!(lifetimes(&ann, &direct).await, [Some(30 * DAY_SECONDS), Some(60_000)]);
    assert_eq!(lifetimes(&ann, &group).await, [None, Some(7 * DAY_SECONDS)]);

    server.stop().await;
    server.set_env("TIDINGS_RETENTION__MESSAGE_DAYS", "1");
    server.restart().await;
    let day = Some(DAY_SECONDS);
    // New messages at once, whatever their sender or their chat requests; existing ones soon after the start.
    ann.post(&messages(&group), send(Some(30 * DAY_SECONDS))).await.data(201);
    ann.post(&messages(&group), send(None)).await.data(201);
    assert_eq!(lifetimes(&ann, &group).await[2..], [day, day]);
    server.until(async || lifetimes(&bob, &group).await == [day; 4]).await;
    server.until(async || lifetimes(&bob, &direct).await == [day, Some(60_000)]).await;
    let retried = ann.post(&messages(&direct), first.clone()).await.data(200);
    assert_eq!((&retried["sequence"], &retried["deduplicated"]), (&json!(1), &json!(true)));
    let capped = send(Some(30 * DAY_SECONDS));
    ann.post(&messages(&direct), capped.clone()).await.data(201);
    let retried = ann.post(&messages(&direct), capped).await.data(200);
    assert_eq!(retried["deduplicated"], true, "a retry repeats the ttl that it requested");

    server.until(async || server.metrics().await.contains("\ntidings_retention_messages_total 3\n")).await;
    server.verify_store().await;
}
