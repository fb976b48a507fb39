//! Consent to be added to groups: the setting `group_invites`, and invitations.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{RestResponse, TestDevice, TestServer};

rules!(
    a_stranger_cannot_add_users_who_require_consent_in_bulk,
    a_contact_adds_at_once_and_a_listed_stranger_does_not,
    an_invited_user_reads_nothing_before_accepting,
    a_declined_group_does_not_ask_again_and_does_not_learn_why,
    an_invitation_of_a_removed_or_blocked_user_is_worth_nothing,
    a_retried_invitation_gets_the_first_answer,
    the_setting_is_seen_by_its_user_alone,
);

async fn set(device: &TestDevice, group_invites: &str) {
    let me = device.patch("/users/me", json!({ "group_invites": group_invites })).await.data(200);
    assert_eq!(me["group_invites"], group_invites);
}

async fn invitations(device: &TestDevice) -> Vec<Value> {
    device.get("/invitations").await.data(200)["invitations"].as_array().unwrap().clone()
}

async fn accept(device: &TestDevice, chat_id: &str) -> RestResponse {
    device.post(&format!("/invitations/{chat_id}/accept"), json!({})).await
}

async fn add(by: &TestDevice, chat_id: &str, user: &TestDevice) -> RestResponse {
    by.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": user.user_id })).await
}

fn chat_ids(list: &Value) -> Vec<&str> {
    list["chats"].as_array().unwrap().iter().map(|chat| chat["chat_id"].as_str().unwrap()).collect()
}

/// The attack: one account makes strangers members of its groups.
async fn a_stranger_cannot_add_users_who_require_consent_in_bulk(server: &TestServer) {
    let [eve, ann, bob, cleo] = server.sign_up_all(["Eve", "Ann", "Bob", "Cleo"]).await;
    set(&ann, "nobody").await;
    set(&bob, "contacts").await;
    let body = json!({
        "type": "group", "name": "Buy now", "member_ids": [ann.user_id, bob.user_id, cleo.user_id],
    });
    let created = eve.post("/chats", body).await.data(201);
    let chat_id = created["chat_id"].as_str().unwrap().to_owned();
    let mut asked = [ann.user_id.clone(), bob.user_id.clone()];
    asked.sort();
    assert_eq!(created["invited_user_ids"], json!(asked));
    let mut members: Vec<_> = created["members"].as_array().unwrap().iter().map(|it| &it["user_id"]).collect();
    members.sort_by_key(|id| id.as_str());
    let mut expected = [&eve.user_id, &cleo.user_id];
    expected.sort();
    assert_eq!(json!(members), json!(expected));

    let added = add(&eve, &chat_id, &ann).await.data(202);
    assert_eq!((&added["invited"], &added["user_id"]), (&json!(true), &json!(ann.user_id)));
    for device in [&ann, &bob] {
        assert_eq!(chat_ids(&device.get("/chats").await.data(200)), [""; 0]);
        let [invitation] = &invitations(device).await[..] else { panic!("not invited once") };
        assert_eq!((&invitation["chat_id"], &invitation["name"]), (&json!(chat_id), &json!("Buy now")));
        assert_eq!(invitation["invited_by"]["user_id"], eve.user_id);
    }
    // A default keeps the contract: everyone else is added at once.
    assert_eq!(chat_ids(&cleo.get("/chats").await.data(200)), [chat_id.as_str()]);
    assert_eq!(invitations(&cleo).await, [Value::Null; 0]);
}

async fn a_contact_adds_at_once_and_a_listed_stranger_does_not(server: &TestServer) {
    let [ann, bob, eve] = server.sign_up_all(["Ann", "Bob", "Eve"]).await;
    set(&ann, "contacts").await;
    ann.put(&format!("/contacts/{}", bob.user_id), json!({})).await.data(200);
    // Her own list decides, not theirs.
    eve.put(&format!("/contacts/{}", ann.user_id), json!({})).await.data(200);
    let (bobs, eves) = (bob.group("Bob's", &[]).await, eve.group("Eve's", &[]).await);
    add(&bob, &bobs, &ann).await.data(201);
    add(&eve, &eves, &ann).await.data(202);
    assert_eq!(chat_ids(&ann.get("/chats").await.data(200)), [bobs.as_str()]);
    let [invitation] = &invitations(&ann).await[..] else { panic!("not invited once") };
    assert_eq!(invitation["chat_id"], eves);
}

async fn an_invited_user_reads_nothing_before_accepting(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    set(&ann, "nobody").await;
    let chat_id = bob.group("Bob's", &[&ann]).await;
    let mut anns = ann.connect().await;
    bob.send(&chat_id, "before").await;
    ann.get(&format!("/chats/{chat_id}")).await.refused(403, "NOT_A_MEMBER");
    ann.get(&format!("/chats/{chat_id}/messages")).await.refused(403, "NOT_A_MEMBER");
    assert!(anns.heard_so_far().await.iter().all(|frame| frame["type"] != "message"));

    let joined = accept(&ann, &chat_id).await.data(200);
    assert_eq!((&joined["member_count"], &joined["my_membership"]["role"]), (&json!(2), &json!("member")));
    assert_eq!(accept(&ann, &chat_id).await.data(200)["chat_id"], chat_id, "a repetition succeeds");
    assert_eq!(invitations(&ann).await, [Value::Null; 0]);
    bob.send(&chat_id, "after").await;
    // A fleet may push the earlier message as well, if it reads the members after the acceptance.
    anns.find(|frame| frame["payload"]["content"] == "after").await;
}

async fn a_declined_group_does_not_ask_again_and_does_not_learn_why(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    set(&ann, "nobody").await;
    let chat_id = bob.group("Bob's", &[]).await;
    let first = add(&bob, &chat_id, &ann).await.data(202);
    for _ in 0..2 {
        ann.delete(&format!("/invitations/{chat_id}")).await.data(204);
    }
    let second = add(&bob, &chat_id, &ann).await.data(202);
    let without_time = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove("joined_at");
        body
    };
    assert_eq!(without_time(&first), without_time(&second));
    assert_eq!(invitations(&ann).await, [Value::Null; 0]);
    accept(&ann, &chat_id).await.refused(404, "NOT_FOUND");
}

async fn an_invitation_of_a_removed_or_blocked_user_is_worth_nothing(server: &TestServer) {
    let [ann, bob, eve] = server.sign_up_all(["Ann", "Bob", "Eve"]).await;
    set(&ann, "nobody").await;
    let chat_id = bob.group("Bob's", &[&eve]).await;
    bob.patch(&format!("/chats/{chat_id}/members/{}", eve.user_id), json!({ "role": "admin" })).await.data(200);
    add(&eve, &chat_id, &ann).await.data(202);
    assert_eq!(invitations(&ann).await.len(), 1);

    let block = format!("/blocks/{}", eve.user_id);
    RestResponse::of(ann.request(Method::PUT, &block)).await.data(204);
    assert_eq!(invitations(&ann).await, [Value::Null; 0]);
    accept(&ann, &chat_id).await.refused(400, "INVALID_OPERATION");
    add(&eve, &chat_id, &ann).await.refused(403, "FORBIDDEN");
    ann.delete(&block).await.data(204);
    assert_eq!(invitations(&ann).await.len(), 1);

    bob.delete(&format!("/chats/{chat_id}/members/{}", eve.user_id)).await.data(204);
    assert_eq!(invitations(&ann).await, [Value::Null; 0]);
    accept(&ann, &chat_id).await.refused(404, "NOT_FOUND");
    // Another member with the right to add members invites her instead.
    add(&bob, &chat_id, &ann).await.data(202);
    accept(&ann, &chat_id).await.data(200);
}

async fn a_retried_invitation_gets_the_first_answer(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    set(&ann, "nobody").await;
    let key = Uuid::new_v4().to_string();
    let create = async || {
        let body = json!({ "type": "group", "name": "Once", "member_ids": [ann.user_id] });
        let request = bob.request(Method::POST, "/chats").header("Idempotency-Key", &key).json(&body);
        RestResponse::of(request).await.data(201)
    };
    let first = create().await;
    assert_eq!(first["invited_user_ids"], json!([ann.user_id]));
    assert_eq!(create().await, first);
    assert_eq!(invitations(&ann).await.len(), 1);
}

async fn the_setting_is_seen_by_its_user_alone(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    assert_eq!(ann.get("/users/me").await.data(200)["group_invites"], "everyone");
    set(&ann, "contacts").await;
    assert_eq!(ann.get("/users/me").await.data(200)["group_invites"], "contacts");
    assert_eq!(bob.get(&format!("/users/{}", ann.user_id)).await.data(200).get("group_invites"), None);
    ann.patch("/users/me", json!({ "group_invites": "friends" })).await.refused(400, "VALIDATION_ERROR");
    let exported = ann.get("/users/me/export").await.data(200);
    assert_eq!(exported["user"]["group_invites"], "contacts");
}

#[tokio::test]
async fn an_invitation_outlives_a_restart() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    set(&ann, "nobody").await;
    let chat_id = bob.group("Bob's", &[&ann]).await;
    server.stop().await;
    server.restart().await;
    drop(ann.connect_eventually().await);
    assert_eq!(invitations(&ann).await[0]["chat_id"], chat_id);
    let exported = ann.get("/users/me/export").await.data(200);
    assert_eq!(exported["invitations"][0]["chat_id"], chat_id);
    accept(&ann, &chat_id).await.data(200);
}

#[tokio::test]
async fn an_operator_chooses_the_setting_of_new_users() {
    let server = TestServer::start_with(&[("TIDINGS_AUTH__GROUP_INVITES_DEFAULT", "nobody")]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    assert_eq!(ann.get("/users/me").await.data(200)["group_invites"], "nobody");
    let chat_id = bob.group("Bob's", &[&ann]).await;
    assert_eq!(invitations(&ann).await[0]["chat_id"], chat_id);
}
