use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{TestDevice, TestServer};

/// The responses of all read endpoints of a chat.
async fn everything(device: &TestDevice, chat_id: &str) -> Vec<Value> {
    let mut answers = Vec::new();
    for path in [
        "/users/me",
        "/chats",
        &format!("/chats/{chat_id}"),
        &format!("/chats/{chat_id}/messages"),
        &format!("/chats/{chat_id}/receipts"),
    ] {
        answers.push(device.get(path).await.data(200));
    }
    answers
}

#[tokio::test]
async fn a_restart_changes_nothing_that_a_client_can_see() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let sent = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "before" });
    let mut ack = ann.connect().await.ask("send_message", sent.clone()).await["payload"].take();
    ann.send(&chat_id, "second").await;
    bob.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 1 })).await.data(200);
    let jwks = server.call(Method::GET, "/.well-known/jwks.json", None).await.body;
    let (anns, bobs) = (everything(&ann, &chat_id).await, everything(&bob, &chat_id).await);

    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    server.restart().await;

    assert_eq!(server.call(Method::GET, "/.well-known/jwks.json", None).await.body, jwks);
    assert_eq!((everything(&ann, &chat_id).await, everything(&bob, &chat_id).await), (anns, bobs));
    let mut socket = ann.connect().await;
    ack["deduplicated"] = json!(true);
    assert_eq!(socket.ask("send_message", sent).await["payload"], ack);
    assert_eq!(socket.send_message(&chat_id, "after").await["sequence"], 3);
    let refresh = json!({ "refresh_token": bob.refresh_token, "device_id": bob.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.data(200);
}
