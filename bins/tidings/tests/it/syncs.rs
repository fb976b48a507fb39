use domain::limits::MESSAGE_FIELDS_BYTES;
use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::{TestServer, TestSocket, sequences};

rules!(
    g6_pages_bring_every_message_above_the_cursor_in_order,
    a_synced_message_is_the_pushed_one_and_shows_the_client_message_id_to_its_sender_only,
    a_page_has_100_messages_unless_asked_for_more_and_never_over_500,
    a_page_of_long_messages_is_cut_by_its_bytes,
    a_page_of_escaped_messages_has_less_than_1_mib_on_the_wire,
    a_cursor_above_the_head_is_refused_with_the_head,
);

async fn sync(socket: &mut TestSocket, payload: Value) -> Value {
    let mut answer = socket.ask("sync_request", payload).await;
    assert_eq!(answer["type"], "sync_response", "{answer}");
    answer["payload"].take()
}

async fn g6_pages_bring_every_message_above_the_cursor_in_order(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut sender = ann.connect().await;
    for n in 1..=7 {
        sender.send_message(&chat_id, &n.to_string()).await;
    }
    let mut socket = bob.connect().await;
    let mut after = 0;
    let mut pages = Vec::new();
    loop {
        let page = sync(&mut socket, json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": 3 })).await;
        assert_eq!((&page["chat_id"], &page["head_sequence"]), (&json!(chat_id), &json!(7)));
        pages.push((sequences(&page), page["has_more"].as_bool().unwrap(), page.get("next_sequence").cloned()));
        match page["next_sequence"].as_u64() {
            Some(next) => after = next - 1,
            None => break,
        }
    }
    let expected =
        [(vec![1, 2, 3], true, Some(json!(4))), (vec![4, 5, 6], true, Some(json!(7))), (vec![7], false, None)];
    assert_eq!(pages, expected);
}

async fn a_synced_message_is_the_pushed_one_and_shows_the_client_message_id_to_its_sender_only(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut anns = ann.connect().await;
    let mut bobs = bob.connect().await;
    let ack = anns.send_message(&chat_id, "hello").await;
    let pushed = bobs.next_of("message").await["payload"].take();
    let mut message = json!({
        "message_id": ack["message_id"],
        "chat_id": chat_id,
        "sequence": 1,
        "sender_id": ann.user_id,
        "content": "hello",
        "content_type": "text/plain",
        "created_at": ack["created_at"],
    });
    assert_eq!(pushed, message);
    let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": 0 });
    assert_eq!(sync(&mut bobs, cursor.clone()).await["messages"], json!([message]));
    message["client_message_id"] = ack["client_message_id"].clone();
    assert_eq!(sync(&mut anns, cursor).await["messages"], json!([message]));
}

async fn a_page_has_100_messages_unless_asked_for_more_and_never_over_500(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    socket.send_messages(&chat_id, &vec!["x".to_owned(); 510]).await;
    assert_eq!(socket.answer("510").await["payload"]["sequence"], 510);
    for (limit, length) in [(None, 100), (Some(200), 200), (Some(500), 500), (Some(501), 500), (Some(i64::MAX), 500)] {
        let mut cursor = json!({ "chat_id": chat_id, "last_acked_sequence": 0 });
        if let Some(limit) = limit {
            cursor["limit"] = json!(limit);
        }
        let page = sync(&mut socket, cursor).await;
        assert_eq!(sequences(&page).len(), length, "{limit:?}");
        assert_eq!((&page["has_more"], &page["next_sequence"]), (&json!(true), &json!(length + 1)));
    }
}

async fn a_page_of_long_messages_is_cut_by_its_bytes(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    socket.send_messages(&chat_id, &vec!["x".repeat(4096); 150]).await;
    socket.answer("150").await;
    let page = sync(&mut socket, json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": 500 })).await;
    let first = sequences(&page);
    assert_eq!(first.len(), 512 * 1024 / (4096 + MESSAGE_FIELDS_BYTES), "a page has at most 512 KiB of messages");
    let page = sync(&mut socket, json!({ "chat_id": chat_id, "last_acked_sequence": first.len(), "limit": 500 })).await;
    assert_eq!(sequences(&page).len(), 150 - first.len());
    assert_eq!(page["has_more"], false);
}

/// In JSON, a control character has six bytes. Default WebSocket clients of some languages accept frames of 1 MiB.
async fn a_page_of_escaped_messages_has_less_than_1_mib_on_the_wire(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    socket.send_messages(&chat_id, &vec!["\u{1}".repeat(1024); 500]).await;
    socket.answer("500").await;
    let (mut known, mut pages) = (0, 0);
    while known < 500 {
        let page = sync(&mut socket, json!({ "chat_id": chat_id, "last_acked_sequence": known, "limit": 500 })).await;
        let (len, expected) = (page.to_string().len(), sequences(&page));
        assert!(len < 1 << 20, "{len} bytes");
        assert_eq!(expected.first(), Some(&(known + 1)));
        known = *expected.last().unwrap();
        pages += 1;
    }
    assert_eq!(pages, 500_usize.div_ceil(512 * 1024 / (6 * 1024 + MESSAGE_FIELDS_BYTES)));

    let mut path = format!("/chats/{chat_id}/messages?limit=100");
    let mut read = 0;
    while read < 500 {
        let answer = ann.get(&path).await;
        let messages = answer.body["data"]["messages"].as_array().unwrap();
        let (len, count) = (answer.body.to_string().len(), messages.len());
        assert!(len < 1 << 20, "{len} bytes");
        read += count;
        let cursor = answer.body["pagination"]["next_cursor"].as_str().unwrap_or_default();
        path = format!("/chats/{chat_id}/messages?limit=100&cursor={cursor}");
    }
    assert_eq!(read, 500);
    let around = ann.get(&format!("/chats/{chat_id}/messages/around/250?limit=100")).await;
    let len = around.body.to_string().len();
    assert!(len < 1 << 20, "{len} bytes");
}

async fn a_cursor_above_the_head_is_refused_with_the_head(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    ann.send(&chat_id, "one").await;
    let mut socket = ann.connect().await;
    let at_head = sync(&mut socket, json!({ "chat_id": chat_id, "last_acked_sequence": 1 })).await;
    assert_eq!(at_head, json!({ "chat_id": chat_id, "messages": [], "has_more": false, "head_sequence": 1 }));
    let above = socket.ask("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 2 })).await;
    assert_eq!(above["payload"]["code"], "INVALID_SEQUENCE");
    assert_eq!(above["payload"]["details"], json!({ "head_sequence": 1 }));
}
