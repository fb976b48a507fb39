use std::time::Duration;

use domain::limits::INBOX_NEWER_MAX;
use domain::{Body, ChatId, ClientMessageId, ContentType, UserId};
use ports::{AppendOutcome, ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage};
use serde_json::{Value, json};

use crate::world::{ApiAnswer, ApiTestUser, World};

async fn pages(world: &World, by: &ApiTestUser, limit: usize) -> Vec<String> {
    let mut seen = vec![];
    let mut query = format!("?limit={limit}");
    loop {
        let page = world.get(by, &format!("/chats{query}")).await;
        seen.extend(ids(&page));
        let Some(cursor) = page.body["pagination"]["next_cursor"].as_str() else { return seen };
        query = format!("?limit={limit}&cursor={cursor}");
    }
}

fn ids(page: &ApiAnswer) -> Vec<String> {
    page.each("chats", "chat_id").into_iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_chat_shows_its_last_message_and_its_members() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    world.clock.advance(Duration::from_secs(1));
    let sent = world.say(&bob, &chat, &"é".repeat(150)).await;
    let inbox = world.get(&ann, "/chats").await;
    let (then, now) = ("2026-01-30T14:30:00.000Z", "2026-01-30T14:30:01.000Z");
    assert_eq!(
        inbox.body,
        json!({
            "data": { "chats": [{
                "chat_id": chat,
                "type": "direct",
                "name": null,
                "member_count": 2,
                "created_at": then,
                "other_participants": [{ "user_id": bob.user_id, "display_name": "Bob", "created_at": then }],
                "last_message": {
                    "message_id": sent["message_id"],
                    "sequence": 1,
                    "sender_id": bob.user_id,
                    "preview": "é".repeat(100),
                    "created_at": now,
                },
                "last_message_at": now,
                "unread_count": 1,
                "my_membership": { "role": "member", "muted_until": null },
                "message_ttl_seconds": null,
                "head_sequence": 1,
                "my_read_sequence": 0,
                "my_delivered_sequence": 0,
            }] },
            "pagination": { "next_cursor": null, "has_more": false },
        })
    );
}

#[tokio::test]
async fn an_encrypted_message_has_no_preview() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let body = json!({
        "client_message_id": world.uuid(), "content": "b3BhcXVl", "content_type": "application/vnd.tidings.encrypted",
    });
    world.post(&ann, &format!("/chats/{chat}/messages"), body).await;
    let inbox = world.get(&ann, "/chats").await;
    assert_eq!(inbox.data()["chats"][0]["last_message"]["preview"], Value::Null);
    assert_eq!(inbox.data()["chats"][0]["last_message"]["sequence"], 1);
}

#[tokio::test]
async fn at_most_five_others_are_named() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let mut others = vec![];
    for n in 0..7 {
        others.push(world.person(&format!("P{n}")).await);
    }
    world.group(&ann, &others.iter().collect::<Vec<_>>()).await;
    let inbox = world.get(&ann, "/chats").await;
    assert_eq!(inbox.data()["chats"][0]["member_count"], 8);
    assert_eq!(inbox.data()["chats"][0]["other_participants"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn newest_activity_comes_first() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let with_bob = world.direct(&ann, &bob).await;
    world.clock.advance(Duration::from_secs(1));
    let with_cid = world.direct(&ann, &cid).await;
    assert_eq!(
        ids(&world.get(&ann, "/chats").await),
        [with_cid.clone(), with_bob.clone()],
        "an empty chat counts as new"
    );
    world.clock.advance(Duration::from_secs(1));
    world.say(&bob, &with_bob, "hi").await;
    assert_eq!(ids(&world.get(&ann, "/chats").await), [with_bob, with_cid]);
}

#[tokio::test]
async fn g10_my_own_messages_are_not_unread() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    for by in [&ann, &bob, &ann, &bob, &bob] {
        world.say(by, &chat, "hi").await;
    }
    let unread = async |by| world.get(by, "/chats").await.data()["chats"][0]["unread_count"].clone();
    assert_eq!((unread(&ann).await, unread(&bob).await), (3.into(), 2.into()));
    world.post(&ann, &format!("/chats/{chat}/read"), json!({ "last_read_sequence": 4 })).await;
    assert_eq!(unread(&ann).await, 1);
    world.post(&ann, &format!("/chats/{chat}/read"), json!({ "last_read_sequence": 5 })).await;
    assert_eq!(unread(&ann).await, 0);
}

#[tokio::test]
async fn a_large_unread_count_is_exact_or_says_that_there_are_more() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat_id = world.direct(&ann, &bob).await;
    let chat = chat_id.parse().unwrap();
    let (anns, bobs) = (ann.user_id.parse().unwrap(), bob.user_id.parse().unwrap());
    let unread = async || {
        let inbox = world.get(&ann, "/chats").await;
        let chat = &inbox.data()["chats"][0];
        (chat["unread_count"].clone(), chat.get("unread_count_exact").cloned())
    };
    append(&world, (0..1000).map(|_| (chat, bobs))).await;
    append(&world, (0..50).map(|_| (chat, anns))).await;
    assert_eq!(unread().await, (1000.into(), None));
    append(&world, (0..100).map(|_| (chat, bobs))).await;
    assert_eq!(unread().await, (1000.into(), Some(false.into())));
    world.post(&ann, &format!("/chats/{chat_id}/read"), json!({ "last_read_sequence": 101 })).await;
    assert_eq!(unread().await, (999.into(), None));
}

#[tokio::test]
async fn pages_neither_repeat_nor_hide_a_chat_while_messages_arrive() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let mut chats = vec![];
    for _ in 0..5 {
        chats.push(world.group(&ann, &[]).await);
        world.clock.advance(Duration::from_secs(1));
    }
    chats.reverse();
    let first = world.get(&ann, "/chats?limit=2").await;
    assert_eq!(ids(&first), chats[..2]);
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap();
    for _ in 0..250 {
        world.say(&ann, &chats[0], "on the first page").await;
    }
    world.say(&ann, &chats[3], "on the second page").await;
    world.group(&ann, &[]).await;
    let second = world.get(&ann, &format!("/chats?limit=2&cursor={cursor}")).await;
    assert_eq!(ids(&second), chats[2..4]);
    assert_eq!(second.data()["chats"][1]["last_message"]["preview"], "on the second page");
    let cursor = second.body["pagination"]["next_cursor"].as_str().unwrap();
    world.say(&ann, &chats[2], "on the second page").await;
    let third = world.get(&ann, &format!("/chats?limit=2&cursor={cursor}")).await;
    assert_eq!(ids(&third), chats[4..]);
    assert_eq!(third.body["pagination"]["has_more"], false);
}

#[tokio::test]
async fn a_thousand_chats_come_in_order_and_once() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let owner: UserId = ann.user_id.parse().unwrap();
    let mut expected = vec![];
    for _ in 0..1000 {
        let group = NewGroup {
            chat_id: world.ids.ulid().into(),
            name: "team".to_owned().try_into().unwrap(),
            created_by: owner,
            members: vec![],
            created_at: world.clock.now(),
        };
        expected.push(group.chat_id);
        world.store.create_group(group).await.unwrap();
    }
    // The even ones are written to, the later the newer; the odd ones stay at their creation, ordered by id.
    let written: Vec<ChatId> = expected.iter().copied().step_by(2).collect();
    for chat_id in &written {
        world.clock.advance(Duration::from_millis(1));
        append(&world, [(*chat_id, owner)].into_iter()).await;
    }
    let silent = expected.iter().skip(1).step_by(2);
    let expected: Vec<String> = written.iter().rev().chain(silent).map(ToString::to_string).collect();
    assert_eq!(pages(&world, &ann, 100).await, expected);
}

#[tokio::test]
async fn a_cursor_is_too_old_after_messages_in_many_chats() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let owner: UserId = ann.user_id.parse().unwrap();
    let mut chats: Vec<ChatId> = vec![];
    for _ in 0..=INBOX_NEWER_MAX {
        chats.push(world.group(&ann, &[]).await.parse().unwrap());
    }
    let first = world.get(&ann, "/chats?limit=2").await;
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap();
    let next = async || world.get(&ann, &format!("/chats?limit=2&cursor={cursor}")).await;
    world.clock.advance(Duration::from_secs(1));
    append(&world, chats[1..].iter().map(|chat_id| (*chat_id, owner))).await;
    assert_eq!(next().await.status, 200);
    append(&world, chats[..1].iter().map(|chat_id| (*chat_id, owner))).await;
    let refused = next().await;
    assert_eq!((refused.failure(), refused.field()), ((400, "VALIDATION_ERROR"), "cursor"));
}

#[tokio::test]
async fn inbox_parameters_that_cannot_be_taken_are_named() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("cursor=", "cursor"),
        ("cursor=nonsense", "cursor"),
        // Made up: {"inbox_2":{"newest":9,"activity":9,"chat_id":"chat_00000000000000000000000000"}} behind 12 bytes.
        (
            "cursor=AAAAAAAAAAAAAAAAeyJpbmJveF8yIjp7Im5ld2VzdCI6OSwiYWN0aXZpdHkiOjksImNoYXRfaWQiOiJjaGF0XzAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwIn19",
            "cursor",
        ),
    ] {
        let answer = world.get(&ann, &format!("/chats?{query}")).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{query}");
    }
}

async fn append(world: &World, sends: impl Iterator<Item = (ChatId, UserId)>) {
    let batch = sends.map(|(chat_id, sender_id)| NewMessage {
        chat_id,
        sender_id,
        client_message_id: ClientMessageId::from_bytes(world.ids.ulid().to_bytes()),
        message_id: world.ids.ulid().into(),
        body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: world.clock.now(),
        origin_connection_id: None,
    });
    let outcomes = world.store.append(batch.collect()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))));
}
