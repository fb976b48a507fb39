//! Data export and account deletion by the user.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::{BUSY, RestResponse, TestDevice, TestServer};

rules!(
    a_deleted_account_is_signed_out_leaves_its_groups_and_takes_its_messages_along,
    an_export_is_one_document_of_the_users_messages_and_memberships,
);

/// Requests the deletion of an account.
async fn delete(device: &TestDevice, erase_messages: bool) -> Value {
    let body = json!({ "confirm": device.user_id, "erase_messages": erase_messages });
    RestResponse::of(device.request(Method::DELETE, "/users/me").json(&body)).await.data(202)
}

fn contents(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

async fn a_deleted_account_is_signed_out_leaves_its_groups_and_takes_its_messages_along(server: &TestServer) {
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let (direct, group) = (ann.direct_chat(&bob).await, ann.group("Sailing", &[&bob, &cem]).await);
    let mut anns = ann.connect().await;
    let mut bobs = bob.connect().await;
    for chat_id in [&direct, &group] {
        bob.send(chat_id, "stays").await;
        ann.send(chat_id, "goes").await;
    }
    bobs.find(|frame| frame["type"] == "message" && frame["payload"]["content"] == "goes").await;

    let start = Instant::now();
    assert_eq!(delete(&ann, true).await["user_id"], ann.user_id);
    let closed = anns.closed().await;
    assert!(start.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", start.elapsed());
    assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));
    ann.get("/users/me").await.refused(401, "UNAUTHORIZED");

    // Other members receive the usual events for a departure and for expired messages.
    let (mut gone, mut left) = (vec![], false);
    while gone.len() < 2 || !left {
        let frame = bobs.next().await;
        let payload = &frame["payload"];
        match frame["type"].as_str() {
            Some("message_expired") => {
                assert_eq!(payload["sequences"], json!([2]));
                gone.push(payload["chat_id"].as_str().unwrap().to_owned());
            }
            Some("chat_updated") if payload["change"] == "member_removed" => {
                assert_eq!((&payload["chat_id"], &payload["user_id"]), (&json!(group), &json!(ann.user_id)));
                left = true;
            }
            _ => {}
        }
    }
    gone.sort_unstable();
    let mut both = [direct.clone(), group.clone()];
    both.sort_unstable();
    assert_eq!(gone, both);

    for chat_id in [&direct, &group] {
        assert_eq!(contents(&bob.get(&format!("/chats/{chat_id}/messages")).await.data(200)), ["stays"]);
    }
    let inbox = bob.get("/chats").await.data(200);
    for chat in inbox["chats"].as_array().unwrap() {
        assert_eq!((&chat["last_message"]["preview"], &chat["unread_count"]), (&json!("stays"), &json!(0)), "{chat}");
    }
    let members = bob.get(&format!("/chats/{group}")).await.data(200)["members"].take();
    let mut members: Vec<_> = members
        .as_array()
        .unwrap()
        .iter()
        .map(|member| (member["display_name"].clone(), member["role"].clone()))
        .collect();
    members.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(members, [(json!("Bob"), json!("owner")), (json!("Cem"), json!("member"))]);
    let tombstone = bob.get(&format!("/users/{}", ann.user_id)).await.data(200);
    assert_eq!(tombstone["display_name"], "Deleted account");

    let again = server.sign_in(&ann.phone_number, "Ann again").await;
    assert_ne!(again.user_id, ann.user_id);
    assert_eq!(again.get("/chats").await.data(200)["chats"], json!([]));
}

async fn an_export_is_one_document_of_the_users_messages_and_memberships(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "mine").await;
    bob.send(&chat_id, "theirs").await;
    let export = ann.get("/users/me/export").await.data(200);
    assert_eq!((&export["user"]["user_id"], &export["is_complete"]), (&json!(ann.user_id), &json!(true)));
    assert_eq!(export["sessions"][0]["session_id"], ann.session_id);
    let chat = &export["chats"][0];
    assert_eq!((&chat["chat_id"], contents(chat)), (&json!(chat_id), vec!["mine"]));
}
