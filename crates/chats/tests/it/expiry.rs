use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{ApiTestUser, World};

async fn send(world: &World, by: &ApiTestUser, chat: &str, id: &str, ttl_seconds: Option<u64>) -> Value {
    let mut body = json!({ "client_message_id": id, "content": "hi" });
    if let Some(ttl_seconds) = ttl_seconds {
        body["ttl_seconds"] = ttl_seconds.into();
    }
    world.post(by, &format!("/chats/{chat}/messages"), body).await.data().clone()
}

async fn expiries(world: &World, by: &ApiTestUser, chat: &str) -> Vec<Value> {
    let page = world.get(by, &format!("/chats/{chat}/messages?after=0")).await;
    page.each("messages", "expires_at").into_iter().cloned().collect()
}

#[tokio::test]
async fn messages_that_do_not_say_how_long_they_live_live_as_long_as_their_chat_says() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let path = format!("/chats/{chat}");
    send(&world, &ann, &chat, &world.uuid(), None).await;
    let changed = world.patch(&bob, &path, json!({ "message_ttl_seconds": 60 })).await;
    assert_eq!(changed.data()["message_ttl_seconds"], 60);
    let id = world.uuid();
    let first = send(&world, &ann, &chat, &id, None).await;
    send(&world, &ann, &chat, &world.uuid(), Some(5)).await;
    let ended = world.patch(&ann, &path, json!({ "message_ttl_seconds": null })).await;
    assert_eq!(ended.data()["message_ttl_seconds"], Value::Null);
    send(&world, &ann, &chat, &world.uuid(), None).await;

    let in_a_minute = json!("2026-01-30T14:31:00.000Z");
    let expected = [Value::Null, in_a_minute, json!("2026-01-30T14:30:05.000Z"), Value::Null];
    assert_eq!(expiries(&world, &bob, &chat).await, expected);
    let again = send(&world, &ann, &chat, &id, None).await;
    assert_eq!((&again["message_id"], &again["deduplicated"]), (&first["message_id"], &json!(true)));
    assert_eq!(world.get(&bob, "/chats").await.data()["chats"][0]["message_ttl_seconds"], Value::Null);
}

#[tokio::test]
async fn name_and_lifetime_are_changed_together_by_permitted_members() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let group = world.group(&ann, &[&bob]).await;
    let direct = world.direct(&ann, &bob).await;
    let both = json!({ "name": "short", "message_ttl_seconds": 31_536_000 });
    let changed = world.patch(&ann, &format!("/chats/{group}"), both.clone()).await;
    assert_eq!(
        (&changed.data()["name"], &changed.data()["message_ttl_seconds"]),
        (&json!("short"), &json!(31_536_000))
    );
    assert_eq!(world.patch(&bob, &format!("/chats/{group}"), both.clone()).await.failure(), (403, "FORBIDDEN"));
    assert_eq!(world.patch(&bob, &format!("/chats/{direct}"), both).await.failure(), (400, "INVALID_OPERATION"));
    assert_eq!(world.get(&bob, &format!("/chats/{direct}")).await.data()["message_ttl_seconds"], Value::Null);
}

#[tokio::test]
async fn a_lifetime_out_of_range_and_a_change_of_nothing_are_refused() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let group = world.group(&ann, &[]).await;
    for (body, field) in [
        (json!({ "message_ttl_seconds": 0 }), "message_ttl_seconds"),
        (json!({ "message_ttl_seconds": 31_536_001 }), "message_ttl_seconds"),
        (json!({ "message_ttl_seconds": -1 }), "message_ttl_seconds"),
        (json!({ "message_ttl_seconds": "1" }), "message_ttl_seconds"),
        (json!({ "message_ttl_seconds": 1, "name": "" }), "name"),
        (json!({}), "name"),
    ] {
        let answer = world.patch(&ann, &format!("/chats/{group}"), body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{body}");
    }
}

#[tokio::test]
async fn g11_the_inbox_shows_the_newest_message_that_is_left_and_the_chat_keeps_its_place() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    send(&world, &ann, &chat, &world.uuid(), Some(60)).await;
    world.clock.advance(Duration::from_secs(1));
    send(&world, &ann, &chat, &world.uuid(), Some(5)).await;
    let shown = async || {
        let inbox = world.get(&bob, "/chats").await;
        let chat = &inbox.data()["chats"][0];
        (chat["last_message"]["sequence"].clone(), chat["last_message_at"].clone(), chat["unread_count"].clone())
    };
    let at = json!("2026-01-30T14:30:01.000Z");
    assert_eq!(shown().await, (json!(2), at.clone(), json!(2)));
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(shown().await, (json!(1), at.clone(), json!(1)));
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(shown().await, (Value::Null, at, json!(0)));
}
