use serde_json::json;

use crate::world::{ApiTestUser, World};

async fn read(world: &World, by: &ApiTestUser, chat: &str, sequence: u64) {
    let body = json!({ "last_read_sequence": sequence });
    assert_eq!(world.post(by, &format!("/chats/{chat}/read"), body).await.status, 200);
}

async fn delivered(world: &World, to: &ApiTestUser, chat: &str, sequence: u64) {
    let (user_id, chat_id) = (to.user_id.parse().unwrap(), chat.parse().unwrap());
    let kind = domain::WatermarkKind::Delivered;
    ports::WatermarkStore::advance(&*world.store, user_id, chat_id, kind, domain::Sequence(sequence)).await.unwrap();
}

#[tokio::test]
async fn g10_reading_moves_both_watermarks_forward_and_never_back() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    for _ in 0..3 {
        world.say(&ann, &chat, "hi").await;
    }
    let path = format!("/chats/{chat}/read");
    let answer = world.post(&bob, &path, json!({ "last_read_sequence": 2 })).await;
    assert_eq!(answer.data(), &json!({ "chat_id": chat, "delivered_sequence": 2, "read_sequence": 2 }));
    let back = world.post(&bob, &path, json!({ "last_read_sequence": 1 })).await;
    assert_eq!((back.status, back.data()), (200, answer.data()));
    let above = world.post(&bob, &path, json!({ "last_read_sequence": 4 })).await;
    assert_eq!(above.failure(), (422, "INVALID_SEQUENCE"));
    assert_eq!(above.body["error"]["details"], json!({ "head_sequence": 3 }));
    let missing = world.post(&bob, &path, json!({})).await;
    assert_eq!((missing.failure(), missing.field()), ((400, "VALIDATION_ERROR"), "last_read_sequence"));

    let seen = world.get(&bob, &format!("/chats/{chat}")).await;
    assert_eq!((&seen.data()["my_read_sequence"], &seen.data()["unread_count"]), (&2.into(), &1.into()));
}

#[tokio::test]
async fn g10_the_status_of_my_messages_is_what_every_other_member_has_reached() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let chat = world.group(&ann, &[&bob, &cid]).await;
    for _ in 0..4 {
        world.say(&ann, &chat, "hi").await;
    }
    let statuses = async || {
        let page = world.get(&ann, &format!("/chats/{chat}/messages?after=0")).await;
        let of = |message: &serde_json::Value| message["status"].as_str().unwrap().to_owned();
        page.data()["messages"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    read(&world, &bob, &chat, 4).await;
    assert_eq!(statuses().await, ["sent", "sent", "sent", "sent"], "one of two has nothing");
    delivered(&world, &cid, &chat, 3).await;
    read(&world, &cid, &chat, 1).await;
    assert_eq!(statuses().await, ["read", "delivered", "delivered", "sent"]);
    world.call("POST", &format!("/chats/{chat}/leave"), Some(&cid), None).await;
    assert_eq!(statuses().await, ["read", "read", "read", "read"], "who has left holds nothing back");

    let others = world.get(&bob, &format!("/chats/{chat}/messages")).await;
    assert!(others.each("messages", "status").iter().all(|status| status.is_null()), "only my own have one");
}

#[tokio::test]
async fn a_message_without_recipients_stays_sent() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let chat = world.group(&ann, &[]).await;
    world.say(&ann, &chat, "alone").await;
    let page = world.get(&ann, &format!("/chats/{chat}/messages")).await;
    assert_eq!(page.each("messages", "status"), ["sent"]);
}

#[tokio::test]
async fn receipts_count_without_the_sender() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let chat = world.group(&ann, &[&bob, &cid]).await;
    world.say(&ann, &chat, "one").await;
    world.say(&ann, &chat, "two").await;
    read(&world, &ann, &chat, 2).await;
    delivered(&world, &bob, &chat, 2).await;
    read(&world, &bob, &chat, 1).await;
    delivered(&world, &cid, &chat, 1).await;
    let members = json!([
        { "user_id": ann.user_id, "delivered_sequence": 2, "read_sequence": 2 },
        { "user_id": bob.user_id, "delivered_sequence": 2, "read_sequence": 1 },
        { "user_id": cid.user_id, "delivered_sequence": 1, "read_sequence": 0 },
    ]);
    for (query, sequence, delivered, read) in [("?sequence=1", 1, 2, 1), ("?sequence=2", 2, 1, 0), ("", 2, 1, 0)] {
        let answer = world.get(&bob, &format!("/chats/{chat}/receipts{query}")).await;
        let expected = json!({
            "chat_id": chat, "sequence": sequence, "member_count": 3, "delivered_count": delivered,
            "read_count": read, "members": members,
        });
        assert_eq!(answer.data(), &expected, "{query}");
    }
    let above = world.get(&bob, &format!("/chats/{chat}/receipts?sequence=3")).await;
    assert_eq!(above.failure(), (422, "INVALID_SEQUENCE"));
    let none = world.get(&bob, &format!("/chats/{chat}/receipts?sequence=0")).await;
    assert_eq!(none.failure(), (404, "NOT_FOUND"));
}
