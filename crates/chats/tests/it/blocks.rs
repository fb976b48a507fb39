use domain::PresenceView;
use serde_json::{Value, json};

use crate::world::{ApiTestUser, NOBODY, World};

fn path(person: &ApiTestUser) -> String {
    format!("/blocks/{}", person.user_id)
}

async fn block(world: &World, by: &ApiTestUser, other: &ApiTestUser) {
    let answer = world.put(by, &path(other), Value::Null).await;
    assert_eq!((answer.status, answer.body), (204, Value::Null));
}

async fn blocks(world: &World, person: &ApiTestUser) -> Vec<Value> {
    world.get(person, "/blocks").await.each("blocks", "user_id").into_iter().cloned().collect()
}

/// Tries to send and returns the refusal.
async fn refused(world: &World, by: &ApiTestUser, chat_id: &str) -> (u16, String) {
    let body = json!({ "client_message_id": world.uuid(), "content": "hello?" });
    let answer = world.post(by, &format!("/chats/{chat_id}/messages"), body).await;
    let (status, code) = answer.failure();
    (status, code.to_owned())
}

#[tokio::test]
async fn a_user_is_blocked_until_they_are_unblocked() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    for _ in 0..2 {
        block(&world, &ann, &bob).await;
    }
    let user = json!({ "user_id": bob.user_id, "display_name": "Bob", "created_at": "2026-01-30T14:30:00.000Z" });
    let page = json!({ "data": { "blocks": [user] }, "pagination": { "next_cursor": null, "has_more": false } });
    let listed = world.get(&ann, "/blocks").await;
    assert_eq!((listed.status, listed.body), (200, page));
    assert_eq!(blocks(&world, &bob).await, Vec::<Value>::new(), "one side has blocked the other");
    for _ in 0..2 {
        let answer = world.delete(&ann, &path(&bob)).await;
        assert_eq!((answer.status, answer.body), (204, Value::Null));
    }
    assert_eq!(blocks(&world, &ann).await, Vec::<Value>::new());
}

#[tokio::test]
async fn blocking_oneself_or_an_unknown_user_is_refused() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for (blocked, failure) in
        [(ann.user_id.as_str(), (400, "INVALID_OPERATION")), (NOBODY, (404, "NOT_FOUND")), ("bob", (404, "NOT_FOUND"))]
    {
        let answer = world.put(&ann, &format!("/blocks/{blocked}"), Value::Null).await;
        assert_eq!(answer.failure(), failure, "{blocked}");
    }
    assert_eq!(world.delete(&ann, &format!("/blocks/{NOBODY}")).await.status, 204);
    assert_eq!(blocks(&world, &ann).await, Vec::<Value>::new());
}

#[tokio::test]
async fn blocks_are_by_id_page_by_page_and_their_cursors_are_their_own() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let mut expected = vec![];
    for n in 0..5 {
        let other = world.person(&format!("Other {n}")).await;
        block(&world, &ann, &other).await;
        world.put(&ann, &format!("/contacts/{}", other.user_id), Value::Null).await;
        expected.push(json!(other.user_id));
    }
    expected.sort_by_key(Value::to_string);
    let (mut found, mut next) = (vec![], "/blocks?limit=2".to_owned());
    loop {
        let page = world.get(&ann, &next).await;
        found.push(page.each("blocks", "user_id").into_iter().cloned().collect::<Vec<_>>());
        let Some(cursor) = page.body["pagination"]["next_cursor"].as_str() else { break };
        let elsewhere = world.get(&ann, &format!("/contacts?cursor={cursor}")).await;
        assert_eq!((elsewhere.failure(), elsewhere.field()), ((400, "VALIDATION_ERROR"), "cursor"));
        next = format!("/blocks?limit=2&cursor={cursor}");
    }
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(found.concat(), expected);
}

#[tokio::test]
async fn neither_sends_into_the_direct_chat_and_both_read_it() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let direct = world.direct(&ann, &bob).await;
    world.say(&bob, &direct, "hello").await;
    block(&world, &ann, &bob).await;
    assert_eq!(refused(&world, &bob, &direct).await, (403, "FORBIDDEN".to_owned()));
    assert_eq!(refused(&world, &ann, &direct).await, (400, "INVALID_OPERATION".to_owned()));
    for person in [&ann, &bob] {
        let history = world.get(person, &format!("/chats/{direct}/messages")).await;
        assert_eq!(history.each("messages", "content"), [&json!("hello")]);
    }
    world.delete(&ann, &path(&bob)).await;
    assert_eq!(world.say(&bob, &direct, "again").await["sequence"], 2);
}

#[tokio::test]
async fn a_pair_without_a_chat_gets_none_and_one_with_a_chat_gets_it() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    block(&world, &ann, &bob).await;
    let open = async |by: &ApiTestUser, other: &ApiTestUser| {
        world.post(by, "/chats", json!({ "type": "direct", "member_ids": [other.user_id] })).await
    };
    let refused = open(&bob, &ann).await;
    assert_eq!(refused.failure(), (403, "FORBIDDEN"));
    assert!(!refused.body.to_string().contains("block"), "nobody is told that they are blocked: {refused:?}");
    assert_eq!(refused.body["error"]["details"]["reason"], "not_reachable");
    let refused = open(&ann, &bob).await;
    assert_eq!(refused.failure(), (400, "INVALID_OPERATION"));
    assert_eq!(refused.body["error"]["details"]["reason"], "blocked_by_you");

    world.delete(&ann, &path(&bob)).await;
    let chat = open(&bob, &ann).await;
    assert_eq!(chat.status, 201);
    block(&world, &ann, &bob).await;
    let again = open(&bob, &ann).await;
    assert_eq!((again.status, again.text("/chat_id")), (200, chat.text("/chat_id")));
}

#[tokio::test]
async fn the_blocked_one_brings_the_blocker_into_no_group_and_the_blocker_may_bring_them() {
    let world = World::new();
    let (ann, bob, eve) = (world.person("Ann").await, world.person("Bob").await, world.person("Eve").await);
    let (bobs, anns) = (world.group(&bob, &[&eve]).await, world.group(&ann, &[]).await);
    let both = world.group(&bob, &[&ann]).await;
    block(&world, &ann, &bob).await;
    let add = async |by: &ApiTestUser, chat_id: &str, user: &ApiTestUser| {
        world.post(by, &format!("/chats/{chat_id}/members"), json!({ "user_id": user.user_id })).await
    };
    assert_eq!(add(&bob, &bobs, &ann).await.failure(), (403, "FORBIDDEN"));
    let body = json!({ "type": "group", "name": "team", "member_ids": [eve.user_id, ann.user_id] });
    let refused = world.post(&bob, "/chats", body).await;
    assert_eq!(refused.failure(), (403, "FORBIDDEN"));
    let named = json!({ "reason": "not_reachable", "user_ids": [ann.user_id] });
    assert_eq!(refused.body["error"]["details"], named, "the caller can leave out the users who cannot be added");
    assert!(!refused.body.to_string().contains("block"), "nobody is told that they are blocked: {refused:?}");
    assert_eq!(add(&ann, &anns, &bob).await.status, 201);
    for person in [&ann, &bob] {
        world.say(person, &both, "in the group both go on").await;
    }
    world.delete(&ann, &path(&bob)).await;
    assert_eq!(add(&bob, &bobs, &ann).await.status, 201);
}

#[tokio::test]
async fn a_blocked_user_sees_no_presence_of_the_blocker_and_subscribers_re_check() {
    const HIDDEN: PresenceView = PresenceView::Offline { last_seen: None };
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    for person in [&ann, &bob] {
        world.patch(person, "/users/me", json!({ "presence_visibility": "everyone" })).await;
        world.connect(person).await;
    }
    let seen = async |viewer: &ApiTestUser, user: &ApiTestUser| {
        world.get(viewer, &format!("/users/{}/presence", user.user_id)).await.text("/status")
    };
    world.told.take();
    assert_eq!(seen(&bob, &ann).await, "online");
    for (method, told, status) in [("PUT", HIDDEN, "unknown"), ("DELETE", PresenceView::Online, "online")] {
        for told in [vec![(ann.user_id.clone(), told)], vec![]] {
            assert_eq!(world.call(method, &path(&bob), Some(&ann), None).await.status, 204);
            assert_eq!(world.told.take(), told, "{method}");
            assert_eq!(seen(&bob, &ann).await, status);
            assert_eq!(seen(&ann, &bob).await, "online", "the blocker sees as before");
        }
    }
}
