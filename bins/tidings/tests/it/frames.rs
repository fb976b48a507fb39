use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::rules::rules;
use crate::server::TestServer;

rules!(
    a_frame_that_cannot_be_taken_is_answered_by_its_code_and_echoes_its_request_id,
    a_frame_with_an_unreadable_request_id_is_answered_without_one,
    ten_frames_that_cannot_be_taken_end_the_connection,
    a_connection_that_is_closed_amid_a_burst_ends_in_order,
    a_frame_of_64_kib_is_read_and_a_longer_one_ends_the_connection,
    frames_and_fields_of_later_versions_are_ignored,
    a_heartbeat_is_answered_with_the_time_with_or_without_a_request_id,
    g7_a_watermark_above_the_head_is_refused_and_an_older_one_is_ignored,
    coalesced_acks_count_when_the_connection_closes_after_them,
    typing_is_shown_to_the_other_members_only,
    a_presence_subscription_returns_every_requested_user,
);

const NOBODY: &str = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const NOWHERE: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn code(frame: &Value) -> &str {
    assert_eq!(frame["type"], "error", "{frame}");
    assert!(frame["payload"]["message"].is_string(), "{frame}");
    frame["payload"]["code"].as_str().unwrap()
}

async fn a_frame_that_cannot_be_taken_is_answered_by_its_code_and_echoes_its_request_id(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Club", &[]).await;
    let id = Uuid::new_v4();
    let send = |payload: Value| json!({ "type": "send_message", "request_id": "r1", "payload": payload });
    let sync = |payload: Value| json!({ "type": "sync_request", "request_id": "r1", "payload": payload });
    let many = vec![NOBODY; 101];
    let cases: Vec<(Value, &str)> = vec![
        (send(json!({ "client_message_id": id, "chat_id": chat_id })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "content": "x" })), "INVALID_MESSAGE"),
        (send(json!({ "chat_id": chat_id, "content": "x" })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": "7", "chat_id": chat_id, "content": "x" })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "chat_id": "chat_7", "content": "x" })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "chat_id": NOBODY, "content": "x" })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "chat_id": chat_id, "content": 7 })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "" })), "INVALID_MESSAGE"),
        (send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "a\0b" })), "INVALID_MESSAGE"),
        (
            send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "x", "ttl_seconds": 0 })),
            "INVALID_MESSAGE",
        ),
        (
            send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "x", "ttl_seconds": 31_536_001 })),
            "INVALID_MESSAGE",
        ),
        (
            send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "x", "ttl_seconds": "1" })),
            "INVALID_MESSAGE",
        ),
        (
            send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "x".repeat(4097) })),
            "MESSAGE_TOO_LARGE",
        ),
        (
            send(json!({ "client_message_id": id, "chat_id": chat_id, "content": "x", "content_type": "text/html" })),
            "INVALID_CONTENT_TYPE",
        ),
        (send(json!({ "client_message_id": id, "chat_id": NOWHERE, "content": "x" })), "NOT_FOUND"),
        (send(json!([])), "INVALID_MESSAGE"),
        (json!({ "type": "send_message", "request_id": "r1" }), "INVALID_MESSAGE"),
        (sync(json!({ "chat_id": chat_id })), "INVALID_MESSAGE"),
        (sync(json!({ "chat_id": chat_id, "last_acked_sequence": -1 })), "INVALID_MESSAGE"),
        (sync(json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": 0 })), "INVALID_MESSAGE"),
        (sync(json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": -5 })), "INVALID_MESSAGE"),
        (sync(json!({ "chat_id": NOWHERE, "last_acked_sequence": 0 })), "NOT_FOUND"),
        (sync(json!({ "chat_id": chat_id, "last_acked_sequence": 1 })), "INVALID_SEQUENCE"),
        (
            json!({ "type": "presence_subscribe", "request_id": "r1", "payload": { "user_ids": many } }),
            "INVALID_MESSAGE",
        ),
        (
            json!({ "type": "presence_subscribe", "request_id": "r1", "payload": { "user_ids": ["ann"] } }),
            "INVALID_MESSAGE",
        ),
        (json!({ "type": "ack", "request_id": "r1", "payload": { "chat_id": chat_id } }), "INVALID_MESSAGE"),
        (json!({ "type": "mark_read", "request_id": "r1", "payload": { "last_read_sequence": 0 } }), "INVALID_MESSAGE"),
        (json!({ "type": "typing_start", "request_id": "r1", "payload": {} }), "INVALID_MESSAGE"),
    ];
    for nine in cases.chunks(9) {
        let mut socket = ann.connect().await;
        for (frame, expected) in nine {
            socket.send(frame.clone()).await;
            let answer = socket.answer("r1").await;
            assert_eq!(code(&answer), *expected, "{frame} {answer}");
        }
    }
    assert_eq!(ann.get(&format!("/chats/{chat_id}")).await.data(200)["head_sequence"], 0);
}

async fn a_frame_with_an_unreadable_request_id_is_answered_without_one(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let too_long = json!({ "type": "sync_request", "request_id": "x".repeat(65), "payload": {} }).to_string();
    let missing =
        json!({ "type": "sync_request", "payload": { "chat_id": NOWHERE, "last_acked_sequence": 0 } }).to_string();
    for text in ["{", "", "[]", "7", r#"{"type":7}"#, r#"{"type":"heartbeat","request_id":7}"#, &too_long, &missing] {
        socket.send_raw(Message::text(text.to_owned())).await;
        let answer = socket.next().await;
        assert_eq!((code(&answer), answer.get("request_id")), ("INVALID_MESSAGE", None), "{text}");
    }
    socket.send_raw(Message::binary(vec![0_u8, 159])).await;
    let answer = socket.next().await;
    assert_eq!((code(&answer), answer.get("request_id")), ("INVALID_MESSAGE", None));
}

async fn ten_frames_that_cannot_be_taken_end_the_connection(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    for _ in 0..9 {
        socket.send(json!({})).await;
        assert_eq!(code(&socket.next().await), "INVALID_MESSAGE");
    }
    assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "nine are borne");
    socket.send(json!({})).await;
    let (frames, closed) = socket.rest().await;
    assert_eq!((closed.code, &*closed.reason), (1002, "protocol_error"));
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!(code(&frames[0]), "INVALID_MESSAGE");
    assert_eq!(frames[1]["payload"]["reconnect_delay_ms"], 5000);
}

async fn a_connection_that_is_closed_amid_a_burst_ends_in_order(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    socket.send_all(vec![json!({ "padding": "x".repeat(500) }); 200]).await;
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (1002, "protocol_error"));
    assert!(socket.ends_in_order().await);
}

async fn a_frame_of_64_kib_is_read_and_a_longer_one_ends_the_connection(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let padded = |length: usize| {
        let frame = json!({ "type": "heartbeat", "request_id": "r1", "padding": "" }).to_string();
        let padding = "x".repeat(length - frame.len());
        frame.replace(r#""padding":"""#, &format!(r#""padding":"{padding}""#))
    };
    let mut socket = ann.connect().await;
    socket.send_raw(Message::text(padded(64 * 1024))).await;
    assert_eq!(socket.next().await["type"], "heartbeat_ack");

    for length in [64 * 1024 + 1, 1 << 20] {
        let mut socket = ann.connect().await;
        // The server need not read it to the end.
        socket.try_send_raw(Message::text(padded(length))).await;
        let closed = socket.closed().await;
        assert_eq!((closed.code, &*closed.reason), (4013, "frame_too_large"), "{length}");
    }
}

async fn frames_and_fields_of_later_versions_are_ignored(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    for n in 0..20 {
        socket.send(json!({ "type": "teleport", "request_id": n.to_string(), "payload": { "to": 7 } })).await;
    }
    let beat = json!({ "type": "heartbeat", "request_id": "r1", "timestamp": "now", "mood": 1, "payload": { "x": 1 } });
    socket.send(beat).await;
    let answer = socket.next().await;
    assert_eq!((&answer["type"], &answer["request_id"]), (&json!("heartbeat_ack"), &json!("r1")));
    // No other rule sends such a frame.
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"tidings_gateway_commands_total{command="unknown"} 20"#), "{metrics}");
}

async fn a_heartbeat_is_answered_with_the_time_with_or_without_a_request_id(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    for frame in [json!({ "type": "heartbeat" }), json!({ "type": "heartbeat", "request_id": "r1", "payload": {} })] {
        socket.send(frame.clone()).await;
        let answer = socket.next().await;
        assert_eq!((&answer["type"], answer.get("request_id")), (&json!("heartbeat_ack"), frame.get("request_id")));
        assert!(answer["payload"]["server_time"].as_str().is_some_and(|time| time.ends_with('Z')), "{answer}");
    }
}

async fn g7_a_watermark_above_the_head_is_refused_and_an_older_one_is_ignored(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    for content in ["one", "two", "three"] {
        ann.send(&chat_id, content).await;
    }
    let mut socket = bob.connect().await;
    let watermarks = async || {
        let chat = bob.get(&format!("/chats/{chat_id}")).await.data(200);
        (chat["my_delivered_sequence"].clone(), chat["my_read_sequence"].clone())
    };
    let mark = |frame_type: &str, field: &str, sequence: u64| {
        let payload = json!({ "chat_id": chat_id, field: sequence });
        json!({ "type": frame_type, "payload": payload })
    };
    let ack = |sequence| mark("ack", "last_acked_sequence", sequence);
    let read = |sequence| mark("mark_read", "last_read_sequence", sequence);

    for frame in [ack(4), read(4)] {
        socket.send(frame).await;
        let refused = socket.next_of("error").await;
        assert_eq!((code(&refused), refused.get("request_id")), ("INVALID_SEQUENCE", None));
        assert_eq!(refused["payload"]["details"]["head_sequence"], 3);
    }
    assert_eq!(watermarks().await, (json!(0), json!(0)));

    for (frame, delivered, read) in [(ack(2), 2, 0), (ack(1), 2, 0), (read(1), 2, 1), (read(3), 3, 3), (ack(1), 3, 3)] {
        socket.send(frame.clone()).await;
        // Commands may run concurrently, so wait for the watermark; a refusal would be an error frame.
        assert!(socket.heard_so_far().await.iter().all(|frame| frame["type"] != "error"));
        server.until(async || watermarks().await == (json!(delivered), json!(read))).await;
    }

    let outsider = server.sign_up("Cy").await;
    let mut socket = outsider.connect().await;
    socket.send(ack(1)).await;
    assert_eq!(code(&socket.next().await), "NOT_A_MEMBER");
}

/// Acks are coalesced: the second one waits for the next commit, unless the connection ends first.
async fn coalesced_acks_count_when_the_connection_closes_after_them(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    for content in ["one", "two", "three"] {
        ann.send(&chat_id, content).await;
    }
    let mut socket = bob.connect().await;
    let ack = |sequence| json!({ "type": "ack", "payload": { "chat_id": chat_id, "last_acked_sequence": sequence } });
    socket.send_all([ack(1), ack(2), ack(3)]).await;
    socket.send_raw(Message::Close(None)).await;
    while socket.read().await.is_ok() {}
    let chat = bob.get(&format!("/chats/{chat_id}")).await.data(200);
    assert_eq!(chat["my_delivered_sequence"], 3);
}

async fn typing_is_shown_to_the_other_members_only(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut sockets = [ann.connect().await, bob.connect().await, cy.connect().await];
    for (frame_type, is_typing) in [("typing_start", true), ("typing_stop", false)] {
        sockets[0].send(json!({ "type": frame_type, "payload": { "chat_id": chat_id } })).await;
        let shown = sockets[1].next_of("typing_indicator").await;
        let payload = json!({ "chat_id": chat_id, "user_id": ann.user_id, "is_typing": is_typing });
        assert_eq!(shown, json!({ "type": "typing_indicator", "payload": payload }));
    }
    assert_eq!(sockets[0].heard_so_far().await, [Value::Null; 0]);
    assert_eq!(sockets[2].heard_so_far().await, [Value::Null; 0]);

    sockets[2].send(json!({ "type": "typing_start", "payload": { "chat_id": chat_id } })).await;
    assert_eq!(code(&sockets[2].next().await), "NOT_A_MEMBER");
}

async fn a_presence_subscription_returns_every_requested_user(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut socket = ann.connect().await;
    let answer = socket.ask("presence_subscribe", json!({ "user_ids": [bob.user_id, NOBODY] })).await;
    assert_eq!(answer["type"], "presence_snapshot");
    let presences = answer["payload"]["presences"].as_array().unwrap();
    let asked: Vec<_> = presences.iter().map(|presence| &presence["user_id"]).collect();
    assert_eq!(asked, [&json!(bob.user_id), &json!(NOBODY)]);
    assert!(presences.iter().all(|presence| presence["status"].is_string()), "{answer}");

    socket.send(json!({ "type": "presence_unsubscribe", "payload": { "user_ids": [bob.user_id] } })).await;
    assert_eq!(socket.heard_so_far().await, [Value::Null; 0]);
}
