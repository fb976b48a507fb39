//! Custom metadata of messages.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::receiver::WebhookReceiver;
use crate::rules::rules;
use crate::server::TestServer;
use crate::webhook::{secret_file, server};

rules!(
    metadata_is_in_every_read_of_its_message,
    a_retry_matches_if_its_metadata_is_the_same_object,
    metadata_is_an_object_of_at_most_one_kibibyte,
);

fn metadata() -> Value {
    json!({ "order": { "id": 7, "paid": true }, "tags": ["é", null, 1.5], "note": "\u{0}\"\n" })
}

fn send(chat_id: &str, metadata: &Value) -> Value {
    json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "hello", "metadata": metadata })
}

async fn metadata_is_in_every_read_of_its_message(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut socket, mut receiver) = (ann.connect().await, bob.connect().await);
    let ack = socket.ask("send_message", send(&chat_id, &metadata())).await;
    let path = format!("/chats/{chat_id}/messages");
    let over_rest = json!({ "client_message_id": Uuid::new_v4(), "content": "hi", "metadata": {} });
    ann.post(&path, over_rest).await.data(201);
    ann.send(&chat_id, "plain").await;

    for expected in [Some(metadata()), Some(json!({})), None] {
        assert_eq!(receiver.next_of("message").await["payload"].get("metadata"), expected.as_ref());
    }
    let all = [Some(metadata()), Some(json!({})), None];
    let page = receiver.ask("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 0 })).await;
    let history = bob.get(&path).await.data(200);
    let export = ann.get("/users/me/export").await.data(200);
    let newest_first: Vec<_> = history["messages"].as_array().unwrap().iter().rev().cloned().collect();
    for messages in [&page["payload"]["messages"], &json!(newest_first), &export["chats"][0]["messages"]] {
        let found: Vec<_> =
            messages.as_array().unwrap().iter().map(|message| message.get("metadata").cloned()).collect();
        assert_eq!(found, all);
    }
    let message_id = ack["payload"]["message_id"].as_str().unwrap();
    assert_eq!(bob.get(&format!("/messages/{message_id}")).await.data(200)["metadata"], metadata());
}

async fn a_retry_matches_if_its_metadata_is_the_same_object(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let original = send(&chat_id, &json!({ "a": 1, "b": { "c": [], "d": 2 } }));
    assert_eq!(socket.ask("send_message", original.clone()).await["payload"]["sequence"], 1);
    for other in [json!({ "a": 1 }), json!({}), Value::Null] {
        let mut changed = original.clone();
        changed["metadata"] = other;
        assert_eq!(socket.ask("send_message", changed).await["payload"]["code"], "IDEMPOTENCY_KEY_REUSED");
    }
    let reordered = r#"{ "b" : {"d":2, "c":[ ]} , "a":1 }"#;
    let frame = json!({ "type": "send_message", "request_id": "again", "payload": original }).to_string();
    let text = frame.replace(&original["metadata"].to_string(), reordered);
    socket.send_raw(Message::text(text)).await;
    let again = socket.answer("again").await;
    assert_eq!(
        (&again["payload"]["sequence"], &again["payload"]["deduplicated"]),
        (&json!(1), &json!(true)),
        "{again}"
    );
}

async fn metadata_is_an_object_of_at_most_one_kibibyte(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let sized = |bytes: usize| json!({ "a": "x".repeat(bytes - 8) });
    let path = format!("/chats/{chat_id}/messages");
    for (metadata, over_socket, over_rest) in [
        (sized(1025), "MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE"),
        (json!([]), "INVALID_MESSAGE", "VALIDATION_ERROR"),
        (json!("text"), "INVALID_MESSAGE", "VALIDATION_ERROR"),
    ] {
        let payload = send(&chat_id, &metadata);
        assert_eq!(ann.post(&path, payload.clone()).await.body["error"]["code"], over_rest, "{metadata}");
        assert_eq!(socket.ask("send_message", payload).await["payload"]["code"], over_socket, "{metadata}");
    }
    let ack = socket.ask("send_message", send(&chat_id, &sized(1024))).await;
    assert_eq!(ack["payload"]["sequence"], 1, "the refused sends left nothing: {ack}");
    assert_eq!(ann.get("").await.data(200)["limits"]["metadata_bytes_max"], 1024);
}

#[tokio::test]
async fn the_webhook_receives_metadata() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    ann.connect().await.ask("send_message", send(&chat_id, &metadata())).await;
    let event = loop {
        let event = receiver.next().await.json();
        if event["event_type"] == "MessagePersisted" {
            break event;
        }
    };
    assert_eq!(event["payload"]["metadata"], metadata());
}
