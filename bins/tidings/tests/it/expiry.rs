use serde_json::json;
use uuid::Uuid;

use crate::server::{TestServer, sequences};

const SECRET: &str = "soon gone";

#[tokio::test]
async fn g11_an_expired_message_is_in_no_read_and_sync_still_proves_the_range() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut anns = ann.connect().await;
    let mut bobs = bob.connect().await;
    anns.send_message(&chat_id, "stays").await;
    let secret = || {
        let client_message_id = Uuid::new_v4();
        json!({ "client_message_id": client_message_id, "chat_id": chat_id, "content": SECRET, "ttl_seconds": 5 })
    };
    let ack = anns.ask("send_message", secret()).await;
    let message_id = ack["payload"]["message_id"].as_str().unwrap().to_owned();
    anns.ask("send_message", secret()).await;

    let pushed = loop {
        let push = bobs.next_of("message").await;
        if push["payload"]["sequence"] == 2 {
            break push;
        }
    };
    assert!(pushed["payload"]["expires_at"].is_string(), "{pushed}");
    let sync = |after: u64, limit: u64| json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": limit });
    assert_eq!(sequences(&bobs.ask("sync_request", sync(0, 10)).await["payload"]), [1, 2, 3], "they live five seconds");

    let history = async || bob.get(&format!("/chats/{chat_id}/messages")).await.data(200);
    server.until(async || sequences(&history().await) == [1]).await;
    let page = bobs.ask("sync_request", sync(0, 10)).await;
    assert_eq!(sequences(&page["payload"]), [1]);
    assert_eq!((&page["payload"]["has_more"], &page["payload"]["head_sequence"]), (&json!(false), &json!(3)));
    // A sync reaches the head across expired messages, however small its pages.
    let mut after = 1;
    let mut pages = 0;
    loop {
        let page = bobs.ask("sync_request", sync(after, 1)).await;
        assert_eq!(sequences(&page["payload"]), [0; 0]);
        pages += 1;
        match page["payload"]["next_sequence"].as_u64() {
            Some(next) => after = next - 1,
            None => break,
        }
    }
    assert!(pages <= 3, "{pages}");

    let history = history().await;
    assert_eq!((sequences(&history), &history["head_sequence"]), (vec![1], &json!(3)));
    bob.get(&format!("/messages/{message_id}")).await.refused(404, "NOT_FOUND");
    let around = bob.get(&format!("/chats/{chat_id}/messages/around/2")).await.data(200);
    assert_eq!(sequences(&around), [1]);
    for body in [bob.get("/chats").await.body, bob.get(&format!("/chats/{chat_id}")).await.body] {
        assert!(!body.to_string().contains(SECRET), "{body}");
    }
    // The sequences of expired messages are never reused.
    assert_eq!(anns.send_message(&chat_id, "next").await["sequence"], 4);
}
