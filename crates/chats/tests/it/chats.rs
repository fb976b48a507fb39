use serde_json::{Value, json};

use crate::world::{ApiTestUser, NO_CHAT, NOBODY, World};

#[tokio::test]
async fn a_new_group_has_its_creator_as_owner_and_the_others_once() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let body = json!({ "type": "group", "name": "team", "member_ids": [bob.user_id, ann.user_id, bob.user_id] });
    let answer = world.post(&ann, "/chats", body).await;
    assert_eq!(answer.status, 201);
    let moment = "2026-01-30T14:30:00.000Z";
    assert_eq!(
        answer.data(),
        &json!({
            "chat_id": answer.text("/chat_id"),
            "type": "group",
            "name": "team",
            "member_count": 2,
            "created_at": moment,
            "other_participants": [{ "user_id": bob.user_id, "display_name": "Bob", "created_at": moment }],
            "last_message": null,
            "last_message_at": null,
            "unread_count": 0,
            "my_membership": { "role": "owner", "muted_until": null },
                "message_ttl_seconds": null,
            "members": [
                { "user_id": ann.user_id, "display_name": "Ann", "role": "owner", "joined_at": moment },
                { "user_id": bob.user_id, "display_name": "Bob", "role": "member", "joined_at": moment },
            ],
            "head_sequence": 0,
            "my_read_sequence": 0,
            "my_delivered_sequence": 0,
        })
    );
}

#[tokio::test]
async fn a_pair_has_one_direct_chat_from_both_sides() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let first = world.post(&ann, "/chats", json!({ "type": "direct", "member_ids": [bob.user_id] })).await;
    assert_eq!((first.status, &first.data()["name"]), (201, &Value::Null));
    let again = world.post(&bob, "/chats", json!({ "type": "direct", "member_ids": [ann.user_id, bob.user_id] })).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.text("/chat_id"), first.text("/chat_id"));
    assert_eq!(again.data()["other_participants"][0]["user_id"], ann.user_id);
}

#[tokio::test]
async fn chats_that_cannot_be_opened() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let crowd: Vec<String> = (0..1000).map(|n| format!("user_0000000000000000000099{n:04}")).collect();
    let cases = [
        (json!({ "type": "direct", "member_ids": [] }), "VALIDATION_ERROR", "member_ids"),
        (json!({ "type": "direct", "member_ids": [ann.user_id] }), "VALIDATION_ERROR", "member_ids"),
        (json!({ "type": "direct", "member_ids": [bob.user_id, cid.user_id] }), "VALIDATION_ERROR", "member_ids"),
        (json!({ "type": "direct", "member_ids": [NOBODY] }), "VALIDATION_ERROR", "member_ids"),
        (json!({ "type": "group", "member_ids": [bob.user_id] }), "VALIDATION_ERROR", "name"),
        (json!({ "type": "group", "name": "", "member_ids": [bob.user_id] }), "VALIDATION_ERROR", "name"),
        (json!({ "type": "group", "name": "x".repeat(129), "member_ids": [bob.user_id] }), "VALIDATION_ERROR", "name"),
        (
            json!({ "type": "group", "name": "team", "member_ids": [bob.user_id, NOBODY] }),
            "VALIDATION_ERROR",
            "member_ids",
        ),
        (json!({ "type": "group", "name": "team", "member_ids": crowd }), "CHAT_FULL", "no field"),
    ];
    for (body, code, field) in cases {
        let answer = world.post(&ann, "/chats", body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, code), field), "{:.200}", body.to_string());
    }
    assert_eq!(world.get(&ann, "/chats").await.data(), &json!({ "chats": [] }), "nothing was opened");
}

#[tokio::test]
async fn an_unknown_member_is_named() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let answer = world.post(&ann, "/chats", json!({ "type": "direct", "member_ids": [NOBODY] })).await;
    assert_eq!(answer.body["error"]["details"]["field_errors"][0]["message"], format!("there is no user `{NOBODY}`"));
}

#[tokio::test]
async fn a_group_is_renamed_for_all() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.group(&ann, &[&bob]).await;
    let answer = world.patch(&ann, &format!("/chats/{chat}"), json!({ "name": "new" })).await;
    assert_eq!((answer.status, &answer.data()["name"]), (200, &"new".into()));
    assert_eq!(world.get(&bob, &format!("/chats/{chat}")).await.data()["name"], "new");
    for name in [json!({}), json!({ "name": "" }), json!({ "name": "x".repeat(129) })] {
        let answer = world.patch(&ann, &format!("/chats/{chat}"), name.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "name"), "{name}");
    }
}

/// Every route under a chat, with a body it takes.
fn routes_of(chat: &str, other: &ApiTestUser) -> Vec<(&'static str, String, Option<Value>)> {
    let member = format!("/chats/{chat}/members/{}", other.user_id);
    let send = json!({ "client_message_id": "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10", "content": "hi" });
    vec![
        ("GET", format!("/chats/{chat}"), None),
        ("PATCH", format!("/chats/{chat}"), Some(json!({ "name": "new" }))),
        ("POST", format!("/chats/{chat}/members"), Some(json!({ "user_id": other.user_id }))),
        ("PATCH", member.clone(), Some(json!({ "role": "admin" }))),
        ("DELETE", member, None),
        ("POST", format!("/chats/{chat}/leave"), None),
        ("POST", format!("/chats/{chat}/mute"), None),
        ("POST", format!("/chats/{chat}/unmute"), None),
        ("GET", format!("/chats/{chat}/messages"), None),
        ("POST", format!("/chats/{chat}/messages"), Some(send)),
        ("GET", format!("/chats/{chat}/messages/around/1"), None),
        ("POST", format!("/chats/{chat}/delivered"), Some(json!({ "last_acked_sequence": 0 }))),
        ("POST", format!("/chats/{chat}/read"), Some(json!({ "last_read_sequence": 0 }))),
        ("GET", format!("/chats/{chat}/receipts?sequence=1"), None),
    ]
}

#[tokio::test]
async fn outsiders_and_former_members_are_refused_on_every_route_of_a_chat() {
    let world = World::new();
    let [ann, bob, eve] = [world.person("Ann").await, world.person("Bob").await, world.person("Eve").await];
    let chat = world.group(&ann, &[&bob]).await;
    let message = world.say(&bob, &chat, "hi").await;
    assert_eq!(world.call("POST", &format!("/chats/{chat}/leave"), Some(&bob), None).await.status, 204);
    for outsider in [&bob, &eve] {
        for (method, path, body) in routes_of(&chat, &ann) {
            let answer = world.call(method, &path, Some(outsider), body).await;
            assert_eq!(answer.failure(), (403, "NOT_A_MEMBER"), "{method} {path}");
        }
        let path = format!("/messages/{}", message["message_id"].as_str().unwrap());
        assert_eq!(world.get(outsider, &path).await.failure(), (403, "NOT_A_MEMBER"));
        assert_eq!(world.get(outsider, "/chats").await.data(), &json!({ "chats": [] }));
    }
}

#[tokio::test]
async fn a_chat_that_does_not_exist_is_404_on_every_route() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for chat in [NO_CHAT, "chat_1", "general"] {
        for (method, path, body) in routes_of(chat, &ann) {
            let answer = world.call(method, &path, Some(&ann), body).await;
            assert_eq!(answer.failure(), (404, "NOT_FOUND"), "{method} {path}");
        }
    }
}
