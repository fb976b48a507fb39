use serde_json::json;

use crate::server::{TestServer, sequences};
use crate::updates::{done, edit, history, react, update};

#[tokio::test]
async fn g1_acknowledged_messages_survive_a_kill() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    for n in 1..=5 {
        ann.connect().await.send_message(&chat_id, &n.to_string()).await;
        server.kill().await;
        server.restart().await;
        let messages = bob.connect().await.sync_all(&chat_id).await;
        let contents: Vec<_> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(contents, (1..=n).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn g1_acknowledged_updates_survive_a_kill() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "zero").await;
    ann.send(&chat_id, "goes").await;
    for n in 1..=3 {
        done(&mut ann.connect().await, edit(&chat_id, 1, &n.to_string())).await;
        server.kill().await;
        server.restart().await;
        let page = history(&bob, &chat_id).await;
        let message = page["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&message["content"], &message["state"]["edit_count"]), (&json!(n.to_string()), &json!(n)));
    }
    done(&mut bob.connect().await, react(&chat_id, 1, "ok")).await;
    done(&mut ann.connect().await, update(&chat_id, 2, "delete")).await;
    server.kill().await;
    server.restart().await;
    let page = history(&bob, &chat_id).await;
    assert_eq!((sequences(&page), &page["head_sequence"]), (vec![1], &json!(7)));
    let expected = json!([{ "reaction": "ok", "count": 1, "mine": true }]);
    assert_eq!(page["messages"][0]["state"]["reactions"], expected);
    server.verify_store().await;
}
