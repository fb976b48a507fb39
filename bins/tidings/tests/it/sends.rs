use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::TestServer;

rules!(
    an_ack_carries_the_stored_message,
    content_is_kept_byte_by_byte_up_to_its_limit,
    g3_sends_pipelined_on_one_connection_are_sequenced_in_the_order_sent,
    g3_sends_of_many_members_make_one_sequence_without_gaps,
    g2_a_retry_on_any_connection_or_over_http_returns_the_first_outcome,
    g2_the_same_id_with_other_content_is_refused,
    an_id_comes_back_as_the_client_wrote_it_and_every_spelling_is_the_same_send,
    g4_only_members_send,
);

fn send(request_id: &str, client_message_id: Uuid, chat_id: &str, content: &str) -> Value {
    let payload = json!({ "client_message_id": client_message_id, "chat_id": chat_id, "content": content });
    json!({ "type": "send_message", "request_id": request_id, "payload": payload })
}

async fn an_ack_carries_the_stored_message(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let client_message_id = Uuid::new_v4();
    let mut socket = ann.connect().await;
    socket.send(send("r1", client_message_id, &chat_id, "hello")).await;
    let mut ack = socket.answer("r1").await;
    let message_id = ack["payload"]["message_id"].take();
    let created_at = ack["payload"]["created_at"].take();
    let payload = json!({
        "client_message_id": client_message_id,
        "message_id": null,
        "chat_id": chat_id,
        "sequence": 1,
        "created_at": null,
        "deduplicated": false,
    });
    assert_eq!(ack, json!({ "type": "send_message_ack", "request_id": "r1", "payload": payload }));

    let stored = bob.get(&format!("/messages/{}", message_id.as_str().unwrap())).await.data(200);
    let expected = json!({
        "message_id": message_id,
        "chat_id": chat_id,
        "sequence": 1,
        "sender_id": ann.user_id,
        "content": "hello",
        "content_type": "text/plain",
        "created_at": created_at,
    });
    assert_eq!(stored, expected);
}

async fn content_is_kept_byte_by_byte_up_to_its_limit(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let (long, wide) = ("x".repeat(4096), "ü".repeat(2048));
    let contents = [" ", "🦊\u{200d}\u{1}\r\n\"\\\u{feff}", &long, &wide];
    for content in contents {
        socket.send_message(&chat_id, content).await;
    }
    let types = ["text/plain", "text/markdown", "application/json", "application/vnd.tidings.encrypted"];
    for content_type in types {
        let payload = json!({
            "client_message_id": Uuid::new_v4(),
            "chat_id": chat_id,
            "content": "{}",
            "content_type": content_type,
        });
        assert_eq!(socket.ask("send_message", payload).await["type"], "send_message_ack", "{content_type}");
    }
    let page = socket.ask("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 0 })).await;
    let messages = page["payload"]["messages"].as_array().unwrap();
    let kept: Vec<_> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(kept[..4], contents);
    let kept: Vec<_> = messages[4..].iter().map(|message| message["content_type"].as_str().unwrap()).collect();
    assert_eq!(kept, types);
}

async fn g3_sends_pipelined_on_one_connection_are_sequenced_in_the_order_sent(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = ann.connect().await;
    let mut receiver = bob.connect().await;
    socket.send_messages(&chat_id, &(1..=200).map(|n| n.to_string()).collect::<Vec<_>>()).await;
    for n in 1..=200 {
        let ack = socket.answer(&n.to_string()).await;
        assert_eq!(ack["payload"]["sequence"], n, "{ack}");
    }
    for n in 1..=200 {
        let push = receiver.next_of("message").await;
        assert_eq!((&push["payload"]["sequence"], &push["payload"]["content"]), (&json!(n), &json!(n.to_string())));
    }
}

async fn g3_sends_of_many_members_make_one_sequence_without_gaps(server: &TestServer) {
    let devices = server.sign_up_all(["Ann", "Bob", "Cy", "Di"]).await;
    let chat_id = devices[0].group("Club", &devices[1..].iter().collect::<Vec<_>>()).await;
    let mut senders = tokio::task::JoinSet::new();
    for device in devices {
        let chat_id = chat_id.clone();
        senders.spawn(async move {
            let mut socket = device.connect().await;
            let mut sequences = Vec::new();
            for n in 0..25 {
                let ack = socket.send_message(&chat_id, &n.to_string()).await;
                sequences.push(ack["sequence"].as_u64().unwrap());
            }
            assert!(sequences.is_sorted(), "one sender's order is kept: {sequences:?}");
            sequences
        });
    }
    let mut all: Vec<u64> = senders.join_all().await.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=100).collect::<Vec<_>>());
}

async fn g2_a_retry_on_any_connection_or_over_http_returns_the_first_outcome(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&ann).await;
    let chat_id = ann.direct_chat(&bob).await;
    let client_message_id = Uuid::new_v4();
    let mut phone_socket = ann.connect().await;
    let mut laptop_socket = laptop.connect().await;
    phone_socket.send(send("first", client_message_id, &chat_id, "hello")).await;
    let mut first = phone_socket.answer("first").await["payload"].take();
    assert_eq!(first["deduplicated"], false);
    first["deduplicated"] = json!(true);

    for (socket, request_id) in [(&mut phone_socket, "again"), (&mut laptop_socket, "elsewhere")] {
        socket.send(send(request_id, client_message_id, &chat_id, "hello")).await;
        assert_eq!(socket.answer(request_id).await["payload"], first, "{request_id}");
    }
    let body = json!({ "client_message_id": client_message_id, "content": "hello" });
    assert_eq!(ann.post(&format!("/chats/{chat_id}/messages"), body).await.data(200), first);

    // The same id from another sender is another send.
    let mut socket = bob.connect().await;
    socket.send(send("bob", client_message_id, &chat_id, "hello")).await;
    let other = socket.answer("bob").await;
    assert_eq!((&other["payload"]["sequence"], &other["payload"]["deduplicated"]), (&json!(2), &json!(false)));
    assert_eq!(ann.get(&format!("/chats/{chat_id}")).await.data(200)["head_sequence"], 2);
}

async fn g2_the_same_id_with_other_content_is_refused(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let original =
        json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "one", "ttl_seconds": 600 });
    assert_eq!(socket.ask("send_message", original.clone()).await["payload"]["sequence"], 1);
    for (field, value) in [
        ("content", json!("two")),
        ("content_type", json!("text/markdown")),
        ("ttl_seconds", json!(601)),
        ("ttl_seconds", Value::Null),
    ] {
        let mut changed = original.clone();
        changed[field] = value;
        let answer = socket.ask("send_message", changed).await;
        assert_eq!(answer["payload"]["code"], "IDEMPOTENCY_KEY_REUSED", "{field}: {answer}");
    }
    let again = socket.ask("send_message", original).await;
    assert_eq!((&again["payload"]["sequence"], &again["payload"]["deduplicated"]), (&json!(1), &json!(true)));
}

async fn an_id_comes_back_as_the_client_wrote_it_and_every_spelling_is_the_same_send(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&ann).await;
    let chat_id = ann.direct_chat(&bob).await;
    let lower = Uuid::new_v4().to_string();
    let upper = lower.to_uppercase();
    let message = |id: &str, content: &str| json!({ "client_message_id": id, "chat_id": chat_id, "content": content });
    let echoed = |payload: &Value| (payload["client_message_id"].clone(), payload["deduplicated"].clone());
    let mut socket = ann.connect().await;
    let mut on_laptop = laptop.connect().await;
    let ack = socket.ask("send_message", message(&upper, "hello")).await["payload"].take();
    assert_eq!(echoed(&ack), (json!(upper), json!(false)));
    assert_eq!(on_laptop.next_of("message").await["payload"]["client_message_id"], upper);

    let retried = socket.ask("send_message", message(&lower, "hello")).await;
    assert_eq!(echoed(&retried["payload"]), (json!(lower), json!(true)));
    let body = json!({ "client_message_id": upper, "content": "hello" });
    let over_http = ann.post(&format!("/chats/{chat_id}/messages"), body).await.data(200);
    assert_eq!(echoed(&over_http), (json!(upper), json!(true)));
    assert_eq!(over_http["message_id"], ack["message_id"]);
    let reused = socket.ask("send_message", message(&lower, "other")).await;
    assert_eq!(reused["payload"]["code"], "IDEMPOTENCY_KEY_REUSED");

    let reaction = |id: &str| format!("/chats/{chat_id}/messages/1/reactions/party?client_message_id={id}");
    ann.put(&reaction(&lower), json!({})).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let own = Uuid::new_v4().to_string().to_uppercase();
    assert_eq!(ann.put(&reaction(&own), json!({})).await.data(200)["client_message_id"], own);

    // The spelling of the first attempt is stored.
    let page = socket.ask("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 0 })).await;
    let page = &page["payload"];
    assert_eq!(page["messages"][0]["client_message_id"], upper, "{page}");
    assert_eq!(page["updates"][0]["client_message_id"], own, "{page}");
}

async fn g4_only_members_send(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let chat_id = ann.group("Club", &[&bob]).await;
    let mut bobs = bob.connect().await;
    let mut cys = cy.connect().await;
    let kept = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "mine" });
    assert_eq!(bobs.ask("send_message", kept.clone()).await["payload"]["sequence"], 1);
    assert_eq!(cys.ask("send_message", kept.clone()).await["payload"]["code"], "NOT_A_MEMBER");

    assert_eq!(ann.delete(&format!("/chats/{chat_id}/members/{}", bob.user_id)).await.status, 204);
    let other = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "late" });
    assert_eq!(bobs.ask("send_message", other).await["payload"]["code"], "NOT_A_MEMBER");
    assert_eq!(bobs.ask("send_message", kept).await["payload"]["code"], "NOT_A_MEMBER", "not even a retry");
    let sync = json!({ "chat_id": chat_id, "last_acked_sequence": 0 });
    assert_eq!(bobs.ask("sync_request", sync).await["payload"]["code"], "NOT_A_MEMBER");
    assert_eq!(ann.get(&format!("/chats/{chat_id}")).await.data(200)["head_sequence"], 1);
}
