//! What somebody who is blocked can do, and what they cannot.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Answer, Device, Socket, TestServer};

async fn block(by: &Device, other: &Device) {
    Answer::of(by.request(Method::PUT, &format!("/blocks/{}", other.user_id))).await.data(204);
}

async fn unblock(by: &Device, other: &Device) {
    by.delete(&format!("/blocks/{}", other.user_id)).await.data(204);
}

fn message(chat_id: &str, content: &str) -> Value {
    json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content })
}

/// The code that a send is refused with.
async fn refused(socket: &mut Socket, chat_id: &str) -> Value {
    let answer = socket.ask("send_message", message(chat_id, "hello?")).await;
    assert_eq!(answer["type"], "error", "{answer}");
    answer["payload"]["code"].clone()
}

#[tokio::test]
async fn nothing_that_the_blocked_one_writes_comes_through_and_what_came_before_stays() {
    let server = TestServer::start().await;
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
    // Whose answer was lost asks again, and is told what became of it.
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

#[tokio::test]
async fn the_blocked_one_reaches_the_blocker_in_no_new_chat() {
    let server = TestServer::start().await;
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

#[tokio::test]
async fn who_is_blocked_sees_the_blocker_go_and_nothing_more() {
    let server = TestServer::start().await;
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

    // Ann comes and goes, and Bob hears nothing of it until he is unblocked.
    first.leave().await;
    let _second = ann.connect().await;
    assert_eq!(seen().await["status"], "unknown");
    unblock(&ann, &bob).await;
    bobs.find(of_ann("online")).await;
    assert_eq!(seen().await["status"], "online");
}
