//! Effects of blocking a user.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

rules!(
    messages_of_a_blocked_user_are_refused_and_earlier_ones_stay,
    the_blocked_one_reaches_the_blocker_in_no_new_chat,
    a_blocked_user_sees_the_blocker_go_offline_and_nothing_more,
);

async fn block(by: &TestDevice, other: &TestDevice) {
    RestResponse::of(by.request(Method::PUT, &format!("/blocks/{}", other.user_id))).await.data(204);
}

async fn unblock(by: &TestDevice, other: &TestDevice) {
    by.delete(&format!("/blocks/{}", other.user_id)).await.data(204);
}

fn message(chat_id: &str, content: &str) -> Value {
    json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content })
}

/// The error code of a refused send.
async fn refused(socket: &mut TestSocket, chat_id: &str) -> Value {
    let answer = socket.ask("send_message", message(chat_id, "hello?")).await;
    assert_eq!(answer["type"], "error", "{answer}");
    answer["payload"]["code"].clone()
}

async fn messages_of_a_blocked_user_are_refused_and_earlier_ones_stay(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (direct, group) = (ann.direct_chat(&bob).await, bob.group("both", &[&ann]).await);
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let before = message(&direct, "before");
    let ack = bobs.ask("send_message", before.clone()).await;
    assert_eq!((&ack["type"], &ack["payload"]["sequence"]), (&json!("send_message_ack"), &json!(1)));
    anns.next_of("message").await;

    block(&ann, &bob).await;
    assert_eq!(refused(&mut bobs, &direct).await, "FORBIDDEN");
    assert_eq!(refused(&mut anns, &direct).await, "INVALID_OPERATION");
    let over_rest = message(&direct, "over REST");
    bob.post(&format!("/chats/{direct}/messages"), over_rest).await.refused(403, "FORBIDDEN");
    // A retry after a lost response returns the original result.
    let again = bobs.ask("send_message", before).await;
    assert_eq!((&again["payload"]["sequence"], &again["payload"]["deduplicated"]), (&json!(1), &json!(true)));
    bobs.send_message(&group, "in the group").await;
    assert_eq!(anns.next_of("message").await["payload"]["content"], "in the group");
    assert_eq!(anns.sync_all(&direct).await.len(), 1, "nothing else was stored");

    unblock(&ann, &bob).await;
    let after = bobs.send_message(&direct, "after").await;
    assert_eq!(after["sequence"], 2, "what was refused has used no sequence");
    assert_eq!(anns.next_of("message").await["payload"]["content"], "after");
}

#[tokio::test]
async fn a_block_outlives_a_restart() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let direct = ann.direct_chat(&bob).await;
    block(&ann, &bob).await;
    server.stop().await;
    server.restart().await;
    let mut bobs = bob.connect_eventually().await;
    assert_eq!(refused(&mut bobs, &direct).await, "FORBIDDEN");
    assert_eq!(ann.get("/blocks").await.data(200)["blocks"][0]["user_id"], bob.user_id);
}

async fn the_blocked_one_reaches_the_blocker_in_no_new_chat(server: &TestServer) {
    let [ann, bob, eve] = server.sign_up_all(["Ann", "Bob", "Eve"]).await;
    let group = bob.group("Bob's", &[&eve]).await;
    block(&ann, &bob).await;
    let direct = json!({ "type": "direct", "member_ids": [ann.user_id] });
    bob.post("/chats", direct.clone()).await.refused(403, "FORBIDDEN");
    bob.post(&format!("/chats/{group}/members"), json!({ "user_id": ann.user_id })).await.refused(403, "FORBIDDEN");
    assert_eq!(bob.get(&format!("/users/{}", ann.user_id)).await.data(200)["display_name"], "Ann");
    unblock(&ann, &bob).await;
    bob.post("/chats", direct).await.data(201);
}

async fn a_blocked_user_sees_the_blocker_go_offline_and_nothing_more(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    ann.patch("/users/me", json!({ "presence_visibility": "everyone" })).await.data(200);
    let direct = ann.direct_chat(&bob).await;
    let mut bobs = bob.connect().await;
    bobs.send_message(&direct, "an active chat").await;
    let of_ann = |status: &str| {
        let (ann, status) = (ann.user_id.clone(), status.to_owned());
        move |frame: &Value| {
            let payload = &frame["payload"];
            frame["type"] == "presence_changed" && payload["user_id"] == ann && payload["status"] == status
        }
    };
    let first = ann.connect().await;
    bobs.find(of_ann("online")).await;
    block(&ann, &bob).await;
    let gone = bobs.find(of_ann("offline")).await;
    assert_eq!(gone["payload"].get("last_seen"), None);
    let seen = async || bob.get(&format!("/users/{}/presence", ann.user_id)).await.data(200);
    assert_eq!(seen().await, json!({ "user_id": ann.user_id, "status": "unknown" }));

    // Bob receives no presence changes of Ann until he is unblocked.
    first.leave().await;
    let _second = ann.connect().await;
    assert_eq!(seen().await["status"], "unknown");
    unblock(&ann, &bob).await;
    bobs.find(of_ann("online")).await;
    assert_eq!(seen().await["status"], "online");
}

/// Asserts that the other sees the user's typing and receipts in the group, and not in the direct chat.
async fn is_hidden(one: &mut TestSocket, other: &mut TestSocket, user_id: &str, direct: &str, group: &str) {
    // Those in the group come last.
    for chat_id in [direct, group] {
        one.send(json!({ "type": "typing_start", "payload": { "chat_id": chat_id } })).await;
        one.send(json!({ "type": "mark_read", "payload": { "chat_id": chat_id, "last_read_sequence": 2 } })).await;
        // The user's own devices get the receipt in any case, in the same round as others.
        let own = |frame: &Value| {
            let payload = &frame["payload"];
            frame["type"] == "receipt" && payload["chat_id"] == chat_id && payload["user_id"] == user_id
        };
        one.find(own).await;
    }
    for frame_type in ["typing_indicator", "receipt"] {
        let seen = other.find(|frame| frame["type"] == frame_type && frame["payload"]["user_id"] == user_id).await;
        assert_eq!(seen["payload"]["chat_id"], group, "{seen}");
    }
    let heard = other.heard_so_far().await;
    let of_direct = |frame: &&Value| frame["payload"]["chat_id"] == direct && frame["payload"]["user_id"] == user_id;
    assert_eq!(heard.iter().filter(of_direct).collect::<Vec<_>>(), [&Value::Null; 0]);
}

/// The receipts of a user's own message, as REST returns them: the members with watermarks, the counts of members that
/// have received and read it, and its status.
async fn receipts_of(one: &TestDevice, chat_id: &str) -> (Value, Value, Value) {
    let history = one.get(&format!("/chats/{chat_id}/messages")).await.data(200);
    let messages = history["messages"].as_array().unwrap();
    let own = messages.iter().find(|message| message["sender_id"] == one.user_id).expect("the user has sent one");
    let receipts = one.get(&format!("/chats/{chat_id}/receipts?sequence={}", own["sequence"])).await.data(200);
    assert_eq!(receipts["member_count"], 2);
    let members = receipts["members"].as_array().unwrap().iter().map(|member| member["user_id"].clone());
    let counts = json!([receipts["delivered_count"], receipts["read_count"]]);
    (members.collect(), counts, own["status"].clone())
}

#[tokio::test]
async fn a_block_hides_typing_and_receipts_and_keeps_the_settings_of_the_direct_chat() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (direct, group) = (ann.direct_chat(&bob).await, bob.group("both", &[&ann]).await);
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    for chat_id in [&direct, &group] {
        bobs.send_message(chat_id, "before").await;
        anns.next_of("message").await;
        anns.send_message(chat_id, "before, too").await;
        bobs.next_of("message").await;
    }
    block(&ann, &bob).await;

    is_hidden(&mut bobs, &mut anns, &bob.user_id, &direct, &group).await;
    is_hidden(&mut anns, &mut bobs, &ann.user_id, &direct, &group).await;

    // Both have read everything meanwhile.
    let all = (json!([ann.user_id, bob.user_id]), json!([1, 1]), json!("read"));
    for one in [&ann, &bob] {
        assert_eq!(receipts_of(one, &direct).await, (json!([one.user_id]), json!([0, 0]), json!("sent")));
        assert_eq!(receipts_of(one, &group).await, all);
    }

    let settings = json!({ "message_ttl_seconds": 60 });
    bob.patch(&format!("/chats/{direct}"), settings.clone()).await.refused(403, "FORBIDDEN");
    ann.patch(&format!("/chats/{direct}"), settings.clone()).await.refused(400, "INVALID_OPERATION");
    bob.patch(&format!("/chats/{group}"), settings.clone()).await.data(200);
    unblock(&ann, &bob).await;
    bob.patch(&format!("/chats/{direct}"), settings).await.data(200);
    assert_eq!(receipts_of(&bob, &direct).await, all);
    bobs.send(json!({ "type": "typing_start", "payload": { "chat_id": direct } })).await;
    anns.find(|frame| frame["type"] == "typing_indicator" && frame["payload"]["chat_id"] == direct).await;
}
