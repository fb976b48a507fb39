use serde_json::{Value, json};

use crate::world::{NOBODY, World};

#[tokio::test]
async fn i_see_all_of_myself() {
    let world = World::new();
    let ann = world.person("Ann").await;
    assert_eq!(
        world.get(&ann, "/users/me").await.data(),
        &json!({
            "user_id": ann.user_id,
            "display_name": "Ann",
            "created_at": "2026-01-30T14:30:00.000Z",
            "phone_number": ann.phone_number,
            "presence_visibility": "contacts_only",
            "group_invites": "everyone",
            "updated_at": "2026-01-30T14:30:00.000Z",
        })
    );
}

#[tokio::test]
async fn a_patch_keeps_omitted_fields() {
    let world = World::new();
    let ann = world.person("Ann").await;
    world.clock.advance(std::time::Duration::from_secs(1));
    let named = world.patch(&ann, "/users/me", json!({ "display_name": "Änn" })).await;
    assert_eq!((named.status, &named.data()["display_name"]), (200, &"Änn".into()));
    assert_eq!(named.data()["updated_at"], "2026-01-30T14:30:01.000Z");
    let hidden = world.patch(&ann, "/users/me", json!({ "presence_visibility": "nobody" })).await;
    assert_eq!(hidden.data()["display_name"], "Änn");
    assert_eq!(hidden.data()["presence_visibility"], "nobody");
    assert_eq!(world.get(&ann, "/users/me").await.body, hidden.body);
}

#[tokio::test]
async fn a_patch_out_of_bounds_names_its_field() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for (body, field) in [
        (json!({ "display_name": "" }), "display_name"),
        (json!({ "display_name": "x".repeat(65) }), "display_name"),
        (json!({ "display_name": "a\nb" }), "display_name"),
        (json!({ "presence_visibility": "friends" }), "presence_visibility"),
        (json!({ "group_invites": "friends" }), "group_invites"),
    ] {
        let answer = world.patch(&ann, "/users/me", body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{body}");
    }
}

#[tokio::test]
async fn others_are_a_name_and_an_id() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let answer = world.get(&ann, &format!("/users/{}", bob.user_id)).await;
    assert_eq!(
        answer.data(),
        &json!({ "user_id": bob.user_id, "display_name": "Bob", "created_at": "2026-01-30T14:30:00.000Z" })
    );
    for nobody in [NOBODY, "user_1", "bob", "chat_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
        let answer = world.get(&ann, &format!("/users/{nobody}")).await;
        assert_eq!(answer.failure(), (404, "NOT_FOUND"), "{nobody}");
    }
}

#[tokio::test]
async fn lookup_answers_each_number_in_order() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let numbers = json!({ "phone_numbers": [bob.phone_number, "+14155559999", bob.phone_number] });
    let answer = world.post(&ann, "/users/lookup", numbers).await;
    let found = json!({ "user_id": bob.user_id, "display_name": "Bob", "created_at": "2026-01-30T14:30:00.000Z" });
    assert_eq!(answer.data(), &json!({ "results": [found, Value::Null, found] }));
}

#[tokio::test]
async fn a_lookup_is_of_a_hundred_real_numbers_at_the_most() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let many = |count| json!({ "phone_numbers": vec!["+14155559999"; count] });
    assert_eq!(world.post(&ann, "/users/lookup", many(100)).await.status, 200);
    let answer = world.post(&ann, "/users/lookup", many(101)).await;
    assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "phone_numbers"));
    let answer = world.post(&ann, "/users/lookup", json!({ "phone_numbers": ["+14155559999", "call me"] })).await;
    assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "phone_numbers[1]"));
}

#[tokio::test]
async fn no_answer_has_the_phone_number_of_another() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.group(&ann, &[&bob]).await;
    let direct = world.direct(&ann, &bob).await;
    let message = world.say(&bob, &chat, "hi").await;
    let message_id = message["message_id"].as_str().unwrap();
    let mut answers = vec![
        world.post(&ann, "/users/lookup", json!({ "phone_numbers": [bob.phone_number] })).await,
        world.post(&ann, "/chats", json!({ "type": "direct", "member_ids": [bob.user_id] })).await,
        world.post(&ann, &format!("/chats/{chat}/members"), json!({ "user_id": bob.user_id })).await,
    ];
    for path in [
        format!("/users/{}", bob.user_id),
        "/chats".to_owned(),
        format!("/chats/{chat}"),
        format!("/chats/{direct}"),
        format!("/chats/{chat}/messages"),
        format!("/chats/{chat}/messages/around/1"),
        format!("/messages/{message_id}"),
        format!("/chats/{chat}/receipts?sequence=1"),
    ] {
        answers.push(world.get(&ann, &path).await);
    }
    for answer in answers {
        assert!(answer.body.to_string().contains(&bob.user_id) || answer.status == 409, "{answer:?}");
        assert!(!answer.body.to_string().contains(&bob.phone_number[1..]), "{answer:?}");
    }
}
