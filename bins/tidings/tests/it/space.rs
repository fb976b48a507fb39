//! A store that has no space for new messages.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

/// More messages than fit below the bound of the store.
const LONG_SENDS_MAX: usize = 20_000;

#[tokio::test]
async fn sends_are_refused_before_the_disk_is_full_and_reads_continue() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let path = format!("/chats/{chat_id}/messages");
    let first = json!({ "client_message_id": Uuid::new_v4(), "content": "hello" });
    ann.post(&path, first.clone()).await.data(201);

    server.stop().await;
    // More than any disk of a test has.
    server.set_env("TIDINGS_STORE__MIN_FREE_MIB", "1000000000");
    server.restart().await;
    let more = json!({ "client_message_id": Uuid::new_v4(), "content": "more" });
    let answer = ann.post(&path, more.clone()).await;
    assert_eq!(answer.header("retry-after"), "30");
    let error = answer.refused(503, "SERVICE_UNAVAILABLE");
    assert_eq!(error["details"], json!({ "limit": "store.min_free_mib", "retry_after_seconds": 30 }));
    let mut socket = bob.connect().await;
    let send = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "more" });
    let error = socket.ask("send_message", send).await;
    assert_eq!((&error["type"], &error["payload"]["code"]), (&json!("error"), &json!("SERVICE_UNAVAILABLE")));
    assert_eq!(error["payload"]["details"]["limit"], "store.min_free_mib");
    // Everything else works: a retry of a committed send, reads, read marks.
    assert_eq!(ann.post(&path, first).await.data(200)["deduplicated"], true);
    assert_eq!(bob.get(&path).await.data(200)["messages"].as_array().unwrap().len(), 1);
    bob.patch("/users/me", json!({ "display_name": "Bo" })).await.data(200);
    // So do deletions of messages, which free space. Edits may need more.
    let long = json!({ "client_message_id": Uuid::new_v4(), "content": "hello, hello" });
    let message = format!("{path}/1");
    ann.patch(&message, long).await.refused(503, "SERVICE_UNAVAILABLE");
    assert_eq!(ann.delete(&message).await.data(200)["sequence"], 2);
    let refusals = "\ntidings_ingest_sends_total{outcome=\"storage_full\"} 3\n";
    assert!(server.metrics().await.contains(refusals));
    assert!(server.last_log().contains("no space for new messages"), "{}", server.last_log());

    server.stop().await;
    server.set_env("TIDINGS_STORE__MIN_FREE_MIB", "0");
    server.restart().await;
    assert_eq!(ann.post(&path, more).await.data(201)["sequence"], 3);
}

/// Sends long messages, many at a time, until one is refused, and returns the refusal.
async fn send_until_refused(socket: &mut TestSocket, chat_id: &str) -> Value {
    for _ in 0..LONG_SENDS_MAX / 100 {
        let ids: Vec<Uuid> = (0..100).map(|_| Uuid::new_v4()).collect();
        let frame = |id: &Uuid| {
            // Random, so that the store cannot compress it.
            let content: String = (0..110).map(|_| Uuid::new_v4().to_string()).collect();
            let payload = json!({ "client_message_id": id, "chat_id": chat_id, "content": content });
            json!({ "type": "send_message", "request_id": id, "payload": payload })
        };
        socket.send_all(ids.iter().map(frame)).await;
        for id in ids {
            let answer = socket.answer(&id.to_string()).await;
            if answer["type"] == "error" {
                return answer["payload"].clone();
            }
        }
    }
    panic!("{LONG_SENDS_MAX} long messages fit below the bound");
}

async fn assert_refused_at_the_bound(by: &TestDevice, chat_id: &str) {
    let message = json!({ "client_message_id": Uuid::new_v4(), "content": "more" });
    let answer = by.post(&format!("/chats/{chat_id}/messages"), message).await;
    assert_eq!(answer.header("retry-after"), "30");
    let error = answer.refused(503, "SERVICE_UNAVAILABLE");
    assert_eq!(error["details"], json!({ "limit": "store.max_gib", "retry_after_seconds": 30 }));
}

#[tokio::test]
async fn sends_are_refused_at_the_bound_of_the_store_and_accepted_when_an_account_is_erased() {
    let server = TestServer::start_with(&[
        ("TIDINGS_STORE__MAX_GIB", "0.01"),
        ("TIDINGS_STORE__MIN_FREE_MIB", "0"),
        ("TIDINGS_STORE__ERASE_WITHIN_SECONDS", "4"),
    ])
    .await;
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let (kept, filled) = (ann.direct_chat(&bob).await, cem.direct_chat(&bob).await);
    let first = json!({ "client_message_id": Uuid::new_v4(), "content": "kept" });
    let path = format!("/chats/{kept}/messages");
    ann.post(&path, first.clone()).await.data(201);

    let mut socket = cem.connect().await;
    let refusal = send_until_refused(&mut socket, &filled).await;
    assert_eq!(refusal["code"], "SERVICE_UNAVAILABLE", "{refusal}");
    assert_eq!(refusal["details"], json!({ "limit": "store.max_gib", "retry_after_seconds": 30 }));
    assert_refused_at_the_bound(&ann, &kept).await;
    // Everything else works: a retry of a committed send, reads, settings.
    assert_eq!(ann.post(&path, first).await.data(200)["deduplicated"], true);
    assert_eq!(bob.get(&path).await.data(200)["messages"].as_array().unwrap().len(), 1);
    bob.patch("/users/me", json!({ "display_name": "Bo" })).await.data(200);
    assert_eq!(server.call(Method::GET, "/readyz", None).await.status, 200);
    let metrics = server.metrics().await;
    assert!(metrics.contains("\ntidings_store_limit_bytes 10737418\n"), "{metrics}");

    let delete = json!({ "confirm": cem.user_id, "erase_messages": true });
    RestResponse::of(cem.request(Method::DELETE, "/users/me").json(&delete)).await.data(202);
    let more = json!({ "client_message_id": Uuid::new_v4(), "content": "more" });
    server.until(async || ann.post(&path, more.clone()).await.status == 201).await;
    assert_eq!(ann.post(&path, more).await.data(200)["sequence"], 2);
    assert!(server.log().contains("there is space again; accepting sends"), "{}", server.log());
    server.verify_store().await;
}
