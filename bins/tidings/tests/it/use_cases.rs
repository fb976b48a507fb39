//! The user flows of the founding document, each as specified there.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::receiver::WebhookReceiver;
use crate::rules::rules;
use crate::server::{TestDevice, TestServer, TestSocket, sequences};

rules!(
    use_case_1_user_a_sends_a_message_to_user_b,
    use_case_3_user_a_loads_chat_history_and_scrolls,
    use_case_4_user_a_sends_a_message_to_a_group_of_five,
    use_case_5_a_user_loads_their_list_of_chats,
    use_case_6_mark_messages_as_read,
    use_case_7_search_for_a_specific_message,
    a_thousand_unread_messages_are_counted_exactly_and_more_are_said_to_be_more,
);

/// The entry of a chat in a user's inbox.
async fn entry(device: &TestDevice, chat_id: &str) -> Value {
    let inbox = device.get("/chats").await.data(200);
    let chats = inbox["chats"].as_array().unwrap();
    chats.iter().find(|chat| chat["chat_id"] == chat_id).unwrap_or_else(|| panic!("{inbox}")).clone()
}

/// Waits for a receipt with these watermarks of a user.
async fn receipt(socket: &mut TestSocket, user_id: &str, delivered: u64, read: u64) {
    loop {
        let receipt = socket.next_of("receipt").await["payload"].take();
        let reached = |mark: &str| receipt[mark].as_u64().unwrap();
        assert!(reached("delivered_sequence") <= delivered && reached("read_sequence") <= read, "{receipt}");
        if receipt["user_id"] == user_id
            && (reached("delivered_sequence"), reached("read_sequence")) == (delivered, read)
        {
            return;
        }
    }
}

async fn status(device: &TestDevice, chat_id: &str) -> Value {
    device.get(&format!("/chats/{chat_id}/messages?limit=1")).await.data(200)["messages"][0]["status"].take()
}

async fn use_case_1_user_a_sends_a_message_to_user_b(server: &TestServer) {
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let chat_id = a.direct_chat(&b).await;
    let (mut as_socket, mut bs_socket) = (a.connect().await, b.connect().await);
    let payload = json!({
        "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "Hello!", "ttl_seconds": 86400,
    });
    let ack = as_socket.ask("send_message", payload).await["payload"].take();
    assert_eq!((&ack["sequence"], &ack["deduplicated"]), (&json!(1), &json!(false)));

    let message = bs_socket.next_of("message").await["payload"].take();
    assert_eq!((&message["message_id"], &message["content"]), (&ack["message_id"], &json!("Hello!")));
    assert!(message["expires_at"].as_str().unwrap() > message["created_at"].as_str().unwrap());
    assert_eq!(status(&a, &chat_id).await, "sent");
    // Both inboxes show the new activity.
    for (device, unread) in [(&a, 0), (&b, 1)] {
        let chat = entry(device, &chat_id).await;
        let last = &chat["last_message"];
        assert_eq!((&last["message_id"], &last["preview"]), (&ack["message_id"], &json!("Hello!")));
        assert_eq!((&chat["last_message_at"], &chat["unread_count"]), (&ack["created_at"], &json!(unread)));
    }
}

#[tokio::test]
async fn use_case_2_user_b_receives_a_message_by_push_when_online_and_by_notification_when_not() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "a secret of both").unwrap();
    let server = TestServer::start_with(&[
        ("TIDINGS_NOTIFY__WEBHOOK__URL", &receiver.url()),
        ("TIDINGS_NOTIFY__WEBHOOK__SECRET_FILE", secret.path().to_str().unwrap()),
        // Longer than three sends take on a busy machine.
        ("TIDINGS_NOTIFY__DELAY_MS", "2000"),
    ])
    .await;
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let chat_id = a.direct_chat(&b).await;
    let registration = json!({ "provider": "webhook", "token": "the-phone-of-B" });
    let path = format!("/devices/{}/push", b.device_id);
    b.put(&path, registration).await.data(204);

    let mut bs_socket = b.connect().await;
    a.send(&chat_id, "while B is there").await;
    assert_eq!(bs_socket.next_of("message").await["payload"]["content"], "while B is there");
    bs_socket.send(json!({ "type": "ack", "payload": { "chat_id": chat_id, "last_acked_sequence": 1 } })).await;
    bs_socket.heard_so_far().await;
    server.until(async || status(&a, &chat_id).await == "delivered").await;
    bs_socket.leave().await;
    server.until(async || server.metrics().await.contains("tidings_gateway_connections 0")).await;

    for content in ["one", "two", "three"] {
        a.send(&chat_id, content).await;
    }
    let call = receiver.next().await;
    assert!(call.header("tidings-signature").starts_with("t="), "{call:?}");
    let notification = call.json();
    assert_eq!(
        (&notification["user_id"], &notification["device_id"], &notification["token"]),
        (&json!(b.user_id), &json!(b.device_id), &json!("the-phone-of-B"))
    );
    assert_eq!((&notification["chat_id"], &notification["sender_name"]), (&json!(chat_id), &json!("A")));
    assert_eq!((&notification["preview"], &notification["unread_count"]), (&json!("three"), &json!(4)));

    // Missed messages are available when B reconnects.
    let mut bs_socket = b.connect().await;
    let missed = json!({ "chat_id": chat_id, "last_acked_sequence": 1 });
    assert_eq!(sequences(&bs_socket.ask("sync_request", missed).await["payload"]), [2, 3, 4]);
    bs_socket.send(json!({ "type": "ack", "payload": { "chat_id": chat_id, "last_acked_sequence": 4 } })).await;
    server.until(async || status(&a, &chat_id).await == "delivered").await;
    assert_eq!(receiver.rest().len(), 0, "a burst is one notification");
}

async fn use_case_3_user_a_loads_chat_history_and_scrolls(server: &TestServer) {
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let chat_id = a.direct_chat(&b).await;
    let mut socket = a.connect().await;
    let contents: Vec<_> = (1..=45).map(|n| n.to_string()).collect();
    socket.send_messages(&chat_id, &contents).await;
    socket.answer("45").await;
    b.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 30 })).await.data(200);

    let mut seen = vec![];
    let mut query = String::new();
    loop {
        let page = a.get(&format!("/chats/{chat_id}/messages{query}")).await;
        let pagination = page.body["pagination"].clone();
        let data = page.data(200);
        let loaded = sequences(&data);
        assert!(loaded.len() <= 20);
        for message in data["messages"].as_array().unwrap() {
            let expected = if message["sequence"].as_u64().unwrap() <= 30 { "read" } else { "sent" };
            assert_eq!(message["status"], expected, "{message}");
        }
        seen.extend(loaded);
        // A message that arrives while A scrolls does not shift the pages.
        b.send(&chat_id, "meanwhile").await;
        let Some(cursor) = pagination["next_cursor"].as_str() else { break };
        query = format!("?cursor={cursor}");
    }
    assert_eq!(seen, (1..=45).rev().collect::<Vec<_>>());

    let up = a.get(&format!("/chats/{chat_id}/messages?after=40&limit=3")).await.data(200);
    assert_eq!(sequences(&up), [41, 42, 43]);
    let around = a.get(&format!("/chats/{chat_id}/messages/around/20?limit=5")).await.data(200);
    assert_eq!(sequences(&around), [18, 19, 20, 21, 22]);
    assert_eq!((&around["has_more_before"], &around["has_more_after"]), (&json!(true), &json!(true)));
}

async fn use_case_4_user_a_sends_a_message_to_a_group_of_five(server: &TestServer) {
    let people = server.sign_up_all(["A", "B", "C", "D", "E"]).await;
    let [a, others @ ..] = &people;
    let chat_id = a.group("five", &others.iter().collect::<Vec<_>>()).await;
    let mut sockets = vec![];
    for other in others {
        sockets.push(other.connect().await);
    }
    let ack = a.connect().await.send_message(&chat_id, "Hey everyone!").await;
    for (socket, other) in sockets.iter_mut().zip(others) {
        assert_eq!(socket.next_of("message").await["payload"]["message_id"], ack["message_id"]);
        let chat = entry(other, &chat_id).await;
        assert_eq!((&chat["unread_count"], &chat["last_message"]["preview"]), (&json!(1), &json!("Hey everyone!")));
    }
    assert_eq!(entry(a, &chat_id).await["unread_count"], 0);

    // Two of four have read it: counted, but not yet the status of the group.
    for other in &others[..2] {
        other.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 1 })).await.data(200);
    }
    assert_eq!(status(a, &chat_id).await, "sent");
    let receipts = a.get(&format!("/chats/{chat_id}/receipts?sequence=1")).await.data(200);
    let counts = (&receipts["member_count"], &receipts["delivered_count"], &receipts["read_count"]);
    assert_eq!(counts, (&json!(5), &json!(2), &json!(2)));
    for other in &others[2..] {
        other.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 1 })).await.data(200);
    }
    assert_eq!(status(a, &chat_id).await, "read");
}

async fn use_case_5_a_user_loads_their_list_of_chats(server: &TestServer) {
    let [a, b, c] = server.sign_up_all(["A", "B", "C"]).await;
    let direct = a.direct_chat(&b).await;
    let group = a.group("friends", &[&b, &c]).await;
    b.send(&direct, "Hello!").await;
    a.post(&format!("/chats/{direct}/read"), json!({ "last_read_sequence": 1 })).await.data(200);
    for content in ["one", "two", "Hey everyone!"] {
        c.send(&group, content).await;
    }
    a.post(&format!("/chats/{group}/mute"), json!({})).await.data(200);

    let inbox = a.get("/chats").await.data(200);
    let shown: Vec<_> = inbox["chats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chat| {
            let names = chat["other_participants"].as_array().unwrap().iter().map(|user| user["display_name"].clone());
            json!([
                chat["chat_id"],
                chat["type"],
                chat["last_message"]["preview"],
                chat["unread_count"],
                names.collect::<Vec<_>>(),
                chat["my_membership"]["role"],
                chat["my_membership"]["muted_until"].is_string(),
            ])
        })
        .collect();
    let expected = [
        json!([group, "group", "Hey everyone!", 3, ["B", "C"], "owner", true]),
        json!([direct, "direct", "Hello!", 0, ["B"], "member", false]),
    ];
    assert_eq!(shown, expected);

    // New activity after the first page does not shift the second one.
    let first = a.get("/chats?limit=1").await;
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap().to_owned();
    b.send(&direct, "to the front").await;
    let second = a.get(&format!("/chats?limit=1&cursor={cursor}")).await.data(200);
    assert_eq!((&second["chats"][0]["chat_id"], &second["chats"][0]["unread_count"]), (&json!(direct), &json!(1)));
}

async fn use_case_6_mark_messages_as_read(server: &TestServer) {
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let bs_laptop = server.another_device(&b).await;
    let chat_id = a.direct_chat(&b).await;
    for content in ["one", "two", "three"] {
        a.send(&chat_id, content).await;
    }
    b.send(&chat_id, "four, which is B's own").await;
    let (mut as_socket, mut phone, mut laptop) = (a.connect().await, b.connect().await, bs_laptop.connect().await);
    assert_eq!(entry(&b, &chat_id).await["unread_count"], 3);

    let mark = |to: u64| json!({ "type": "mark_read", "payload": { "chat_id": chat_id, "last_read_sequence": to } });
    phone.send(mark(2)).await;
    receipt(&mut as_socket, &b.user_id, 2, 2).await;
    // The other device is notified, and its unread count follows.
    receipt(&mut laptop, &b.user_id, 2, 2).await;
    assert_eq!(entry(&bs_laptop, &chat_id).await["unread_count"], 1);

    // A lower watermark changes nothing, one above the head is refused, and HTTP behaves the same.
    phone.send(mark(1)).await;
    phone.send(mark(5)).await;
    let refused = phone.next_of("error").await;
    assert_eq!((&refused["payload"]["code"], &refused["request_id"]), (&json!("INVALID_SEQUENCE"), &Value::Null));
    let read = bs_laptop.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 4 })).await.data(200);
    assert_eq!((&read["delivered_sequence"], &read["read_sequence"]), (&json!(4), &json!(4)));
    receipt(&mut as_socket, &b.user_id, 4, 4).await;
    receipt(&mut phone, &b.user_id, 4, 4).await;
    assert_eq!(entry(&b, &chat_id).await["unread_count"], 0);
    let read_ahead = b.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 5 })).await;
    read_ahead.refused(422, "INVALID_SEQUENCE");
    let history = a.get(&format!("/chats/{chat_id}/messages")).await.data(200);
    let statuses: Vec<_> = history["messages"].as_array().unwrap().iter().map(|message| &message["status"]).collect();
    assert_eq!(statuses, [&Value::Null, &json!("read"), &json!("read"), &json!("read")]);
}

async fn use_case_7_search_for_a_specific_message(server: &TestServer) {
    let [a, b, outsider] = server.sign_up_all(["A", "B", "O"]).await;
    let group = a.group("pair", &[&b]).await;
    a.send(&group, "before").await;
    let ack = a.send(&group, "the one").await;
    let path = format!("/messages/{}", ack["message_id"].as_str().unwrap());
    let found = b.get(&path).await.data(200);
    assert_eq!(
        (&found["content"], &found["chat_id"], &found["sequence"]),
        (&json!("the one"), &json!(group), &json!(2))
    );
    outsider.get(&path).await.refused(403, "NOT_A_MEMBER");
    b.get("/messages/msg_7ZZZZZZZZZZZZZZZZZZZZZZZZZ").await.refused(404, "NOT_FOUND");
    // A former member has no access.
    b.post(&format!("/chats/{group}/leave"), json!({})).await.data(204);
    b.get(&path).await.refused(403, "NOT_A_MEMBER");
    b.get(&format!("/chats/{group}/messages")).await.refused(403, "NOT_A_MEMBER");
    b.get(&format!("/chats/{group}/receipts")).await.refused(403, "NOT_A_MEMBER");
}

#[tokio::test]
async fn use_case_8_expired_messages_are_deleted() {
    let server = TestServer::start().await;
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let chat_id = a.direct_chat(&b).await;
    let mut bs_socket = b.connect().await;
    a.send(&chat_id, "stays").await;
    b.patch(&format!("/chats/{chat_id}"), json!({ "message_ttl_seconds": 5 })).await.data(200);
    // The chat creation event may arrive late, on a connection that is younger than the chat.
    while bs_socket.next_of("chat_updated").await["payload"]["change"] != "message_ttl_changed" {}
    let secret = a.send(&chat_id, "soon gone").await;
    assert_eq!(entry(&b, &chat_id).await["unread_count"], 2);

    // Members are notified; by then the message is in no read and in no count.
    let expired = bs_socket.next_of("message_expired").await["payload"].take();
    assert_eq!(expired, json!({ "chat_id": chat_id, "sequences": [2] }));
    let chat = entry(&b, &chat_id).await;
    assert_eq!((&chat["unread_count"], &chat["last_message"]["preview"]), (&json!(1), &json!("stays")));
    b.get(&format!("/messages/{}", secret["message_id"].as_str().unwrap())).await.refused(404, "NOT_FOUND");
    let page = bs_socket.ask("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 0 })).await;
    assert_eq!((sequences(&page["payload"]), &page["payload"]["head_sequence"]), (vec![1], &json!(2)));
    // The purge is counted after its commit.
    server.until(async || server.metrics().await.contains("tidings_store_purged_messages_total 1")).await;

    b.patch(&format!("/chats/{chat_id}"), json!({ "message_ttl_seconds": null })).await.data(200);
    assert_eq!(a.send(&chat_id, "stays too").await["sequence"], 3);
    assert_eq!(entry(&b, &chat_id).await["last_message"]["preview"], "stays too");
}

async fn a_thousand_unread_messages_are_counted_exactly_and_more_are_said_to_be_more(server: &TestServer) {
    let [a, b] = server.sign_up_all(["A", "B"]).await;
    let chat_id = a.direct_chat(&b).await;
    for (sender, count) in [(&b, 600), (&a, 50), (&b, 500)] {
        let mut socket = sender.connect().await;
        let contents: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        socket.send_messages(&chat_id, &contents).await;
        let last = socket.answer(&count.to_string()).await;
        assert_eq!(last["type"], "send_message_ack", "{last}");
    }
    let unread = async || {
        let chat = entry(&a, &chat_id).await;
        (chat["unread_count"].clone(), chat.get("unread_count_exact").cloned())
    };
    assert_eq!(unread().await, (json!(1000), Some(json!(false))), "1,100 of the other, and 50 own");
    for (read, left) in [(100, 1000), (101, 999), (600, 500), (650, 500), (1150, 0)] {
        a.post(&format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": read })).await.data(200);
        assert_eq!(unread().await, (json!(left), None), "read up to {read}");
    }
    assert_eq!(entry(&b, &chat_id).await["unread_count"], 50);
}
