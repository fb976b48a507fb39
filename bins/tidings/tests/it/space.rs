//! A store that has no space for new messages.

use serde_json::json;
use uuid::Uuid;

use crate::server::TestServer;

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
    let refusals = "\ntidings_ingest_sends_total{outcome=\"storage_full\"} 2\n";
    assert!(server.metrics().await.contains(refusals));
    assert!(server.last_log().contains("no space for new messages"), "{}", server.last_log());

    server.stop().await;
    server.set_env("TIDINGS_STORE__MIN_FREE_MIB", "0");
    server.restart().await;
    assert_eq!(ann.post(&path, more).await.data(201)["sequence"], 2);
}
