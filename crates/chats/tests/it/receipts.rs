use std::time::Duration;

use ports::Clock;
use serde_json::{Value, json};

use crate::world::{ApiTestUser, World};

async fn read(world: &World, by: &ApiTestUser, chat: &str, sequence: u64) {
    let body = json!({ "last_read_sequence": sequence });
    assert_eq!(world.post(by, &format!("/chats/{chat}/read"), body).await.status, 200);
}

async fn delivered(world: &World, to: &ApiTestUser, chat: &str, sequence: u64) {
    let body = json!({ "last_acked_sequence": sequence });
    assert_eq!(world.post(to, &format!("/chats/{chat}/delivered"), body).await.status, 200);
}

#[tokio::test]
async fn g10_an_acknowledgement_moves_the_delivered_watermark_forward_and_never_back() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let chat = world.direct(&ann, &bob).await;
    for _ in 0..3 {
        world.say(&ann, &chat, "hi").await;
    }
    let path = format!("/chats/{chat}/delivered");
    let answer = world.post(&bob, &path, json!({ "last_acked_sequence": 2 })).await;
    assert_eq!(answer.data(), &json!({ "chat_id": chat, "delivered_sequence": 2, "read_sequence": 0 }));
    let back = world.post(&bob, &path, json!({ "last_acked_sequence": 1 })).await;
    assert_eq!((back.status, back.data()), (200, answer.data()));
    let above = world.post(&bob, &path, json!({ "last_acked_sequence": 4 })).await;
    assert_eq!(above.failure(), (422, "INVALID_SEQUENCE"));
    let missing = world.post(&bob, &path, json!({ "last_read_sequence": 1 })).await;
    assert_eq!((missing.failure(), missing.field()), ((400, "VALIDATION_ERROR"), "last_acked_sequence"));
    let outsider = world.post(&cid, &path, json!({ "last_acked_sequence": 1 })).await;
    assert_eq!(outsider.failure(), (403, "NOT_A_MEMBER"));
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
async fn g10_the_status_of_my_messages_is_the_minimum_over_other_members() {
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
    let at = || world.clock.now();
    let [at_first, at_second] = [at(), at() + Duration::from_secs(60)];
    read(&world, &ann, &chat, 2).await;
    delivered(&world, &bob, &chat, 2).await;
    world.clock.advance(Duration::from_secs(60));
    read(&world, &bob, &chat, 1).await;
    delivered(&world, &bob, &chat, 2).await;
    delivered(&world, &cid, &chat, 1).await;
    let members = json!([
        {
            "user_id": ann.user_id, "delivered_sequence": 2, "delivered_at": at_first.to_string(),
            "read_sequence": 2, "read_at": at_first.to_string(),
        },
        {
            "user_id": bob.user_id, "delivered_sequence": 2, "delivered_at": at_first.to_string(),
            "read_sequence": 1, "read_at": at_second.to_string(),
        },
        {
            "user_id": cid.user_id, "delivered_sequence": 1, "delivered_at": at_second.to_string(),
            "read_sequence": 0,
        },
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

#[tokio::test]
async fn a_block_hides_the_receipts_of_a_direct_chat_until_it_ends() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let (chat, group) = (world.direct(&ann, &bob).await, world.group(&ann, &[&bob]).await);
    for chat in [&chat, &group] {
        world.say(&bob, chat, "seen?").await;
        read(&world, &bob, chat, 1).await;
    }
    assert_eq!(world.put(&ann, &format!("/blocks/{}", bob.user_id), Value::Null).await.status, 204);
    for chat in [&chat, &group] {
        read(&world, &ann, chat, 1).await;
    }
    let shown = async |to: &ApiTestUser, chat: &str| {
        let page = world.get(&bob, &format!("/chats/{chat}/messages")).await;
        let receipts = world.get(to, &format!("/chats/{chat}/receipts")).await.data().clone();
        let members: Vec<_> = receipts["members"].as_array().unwrap().iter().map(|member| &member["user_id"]).collect();
        json!([members, receipts["member_count"], receipts["read_count"], page.each("messages", "status")[0]])
    };
    assert_eq!(shown(&bob, &chat).await, json!([[bob.user_id], 2, 0, "sent"]));
    assert_eq!(shown(&ann, &chat).await, json!([[ann.user_id], 2, 1, "sent"]), "her own receipt of his message");
    let all = json!([[ann.user_id, bob.user_id], 2, 1, "read"]);
    assert_eq!(shown(&bob, &group).await, all, "groups are not affected");
    assert_eq!(world.delete(&ann, &format!("/blocks/{}", bob.user_id)).await.status, 204);
    assert_eq!(shown(&bob, &chat).await, all);
}
