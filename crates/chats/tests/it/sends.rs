use serde_json::json;

use crate::world::World;

const CLIENT_ID: &str = "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10";

#[tokio::test]
async fn g2_a_repeated_send_is_200_with_the_first_outcome() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let path = format!("/chats/{}/messages", world.direct(&ann, &bob).await);
    let body = json!({ "client_message_id": CLIENT_ID, "content": "hi" });
    let first = world.post(&ann, &path, body.clone()).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.data()["client_message_id"], CLIENT_ID);
    assert_eq!((&first.data()["sequence"], &first.data()["deduplicated"]), (&1.into(), &false.into()));

    let again = world.post(&ann, &path, body).await;
    assert_eq!((again.status, &again.data()["deduplicated"]), (200, &true.into()));
    for key in ["message_id", "chat_id", "sequence", "created_at"] {
        assert_eq!(again.data()[key], first.data()[key], "{key}");
    }
    let other = world.post(&ann, &path, json!({ "client_message_id": CLIENT_ID, "content": "ho" })).await;
    assert_eq!(other.failure(), (409, "IDEMPOTENCY_KEY_REUSED"));
}

#[tokio::test]
async fn every_refused_send_has_its_error_code() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let path = format!("/chats/{}/messages", world.direct(&ann, &bob).await);
    let send = |field: &str, value: serde_json::Value| {
        let mut body = json!({ "client_message_id": CLIENT_ID, "content": "hi" });
        body[field] = value;
        body
    };
    let cases = [
        (json!({ "content": "hi" }), 400, "VALIDATION_ERROR", "client_message_id"),
        (json!({ "client_message_id": CLIENT_ID }), 400, "VALIDATION_ERROR", "content"),
        (send("client_message_id", json!("first")), 400, "VALIDATION_ERROR", "client_message_id"),
        (send("content", json!("")), 400, "VALIDATION_ERROR", "content"),
        (send("content", json!(7)), 400, "VALIDATION_ERROR", "content"),
        (send("content", json!("a\0b")), 400, "VALIDATION_ERROR", "content"),
        (send("content", json!("é".repeat(2049))), 413, "MESSAGE_TOO_LARGE", "no field"),
        (send("content_type", json!("image/png")), 415, "INVALID_CONTENT_TYPE", "no field"),
        (send("ttl_seconds", json!(0)), 400, "VALIDATION_ERROR", "ttl_seconds"),
        (send("ttl_seconds", json!(31_536_001)), 400, "VALIDATION_ERROR", "ttl_seconds"),
        (send("ttl_seconds", json!(-1)), 400, "VALIDATION_ERROR", "ttl_seconds"),
    ];
    for (body, status, code, field) in cases {
        let answer = world.post(&ann, &path, body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((status, code), field), "{:.150}", body.to_string());
    }
    let history = world.get(&ann, &path).await;
    assert_eq!(history.data(), &json!({ "messages": [], "head_sequence": 0 }), "no sequence was used");
}

#[tokio::test]
async fn one_message_is_found_by_its_id() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let body = json!({
        "client_message_id": CLIENT_ID, "content": "*hi*", "content_type": "text/markdown", "ttl_seconds": 60,
    });
    let sent = world.post(&ann, &format!("/chats/{chat}/messages"), body).await;
    let path = format!("/messages/{}", sent.text("/message_id"));
    let common = json!({
        "message_id": sent.text("/message_id"),
        "chat_id": chat,
        "sequence": 1,
        "sender_id": ann.user_id,
        "content": "*hi*",
        "content_type": "text/markdown",
        "created_at": "2026-01-30T14:30:00.000Z",
        "expires_at": "2026-01-30T14:31:00.000Z",
    });
    assert_eq!(world.get(&bob, &path).await.data(), &common, "the sender's own words for it are the sender's");
    let mut own = common;
    own["client_message_id"] = CLIENT_ID.into();
    own["status"] = "sent".into();
    assert_eq!(world.get(&ann, &path).await.data(), &own);

    world.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(world.get(&ann, &path).await.failure(), (404, "NOT_FOUND"), "expired is gone (G11)");
    assert_eq!(world.get(&ann, "/messages/msg_1").await.failure(), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn a_chat_without_its_counter_refuses_sends_and_is_still_readable() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    world.say(&ann, &chat, "hi").await;
    world.store.drop_head(chat.parse().unwrap());
    let body = json!({ "client_message_id": CLIENT_ID, "content": "hi" });
    let answer = world.post(&ann, &format!("/chats/{chat}/messages"), body).await;
    assert_eq!(answer.failure(), (503, "COUNTER_MISSING"));
    assert_eq!(answer.header("retry-after"), None, "a retry does not help");
    assert_eq!(world.get(&ann, &format!("/chats/{chat}/messages")).await.each("messages", "content"), ["hi"]);
}
