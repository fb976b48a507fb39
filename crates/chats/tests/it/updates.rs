use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

const CLIENT_ID: &str = "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10";
const THUMB: &str = "%F0%9F%91%8D";

#[tokio::test]
async fn an_edit_is_in_every_read_and_its_retry_is_answered_with_the_first_outcome() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let sent = world.say(&ann, &chat, "frist").await;
    let edit = json!({ "client_message_id": CLIENT_ID, "content": "*first*", "content_type": "text/markdown" });
    let edited = world.patch(&ann, &format!("/chats/{chat}/messages/1"), edit.clone()).await;
    assert_eq!((edited.status, &edited.data()["sequence"]), (200, &json!(2)), "{edited:?}");
    assert_eq!(
        (&edited.data()["client_message_id"], &edited.data()["deduplicated"]),
        (&json!(CLIENT_ID), &json!(false))
    );
    let again = world.patch(&ann, &format!("/chats/{chat}/messages/1"), edit).await;
    assert_eq!((again.status, &again.data()["deduplicated"]), (200, &json!(true)));
    assert_eq!(again.data()["message_id"], edited.data()["message_id"]);

    let page = world.get(&bob, &format!("/chats/{chat}/messages")).await;
    let expected = json!({ "revision": 2, "edited_at": "2026-01-30T14:30:00.000Z", "edit_count": 1 });
    assert_eq!(page.each("messages", "state"), [&expected]);
    assert_eq!((page.each("messages", "content"), &page.data()["head_sequence"]), (vec![&json!("*first*")], &json!(2)));
    let by_id = world.get(&bob, &format!("/messages/{}", sent["message_id"].as_str().unwrap())).await;
    assert_eq!(by_id.data(), &page.data()["messages"][0]);
    let inbox = world.get(&bob, "/chats").await;
    let last = &inbox.data()["chats"][0]["last_message"];
    assert_eq!((&last["sequence"], &last["preview"]), (&json!(1), &json!("*first*")), "the sequence is the message's");
    assert_eq!(inbox.data()["chats"][0]["unread_count"], 1, "an update is not an unread message");
}

#[tokio::test]
async fn a_deleted_last_message_leaves_the_inbox_and_the_receipts_to_the_one_before() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    world.say(&ann, &chat, "stays").await;
    world.say(&ann, &chat, "goes").await;
    assert_eq!(world.delete(&ann, &format!("/chats/{chat}/messages/2")).await.data()["sequence"], 3);
    let page = world.get(&bob, &format!("/chats/{chat}/messages")).await;
    assert_eq!(page.each("messages", "content"), ["stays"]);
    let inbox = world.get(&bob, "/chats").await;
    let last = &inbox.data()["chats"][0]["last_message"];
    assert_eq!((&last["sequence"], &last["preview"]), (&json!(1), &json!("stays")));
    for sequence in [2, 3] {
        let path = format!("/chats/{chat}/receipts?sequence={sequence}");
        assert_eq!(world.get(&bob, &path).await.failure(), (404, "NOT_FOUND"), "{sequence}");
        let path = format!("/chats/{chat}/messages/{sequence}/reactions");
        assert_eq!(world.get(&bob, &path).await.failure(), (404, "NOT_FOUND"), "{sequence}");
    }
}

#[tokio::test]
async fn receipts_without_a_sequence_are_of_the_last_message_even_below_an_update() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    world.say(&ann, &chat, "hi").await;
    world.put(&bob, &format!("/chats/{chat}/messages/1/reactions/{THUMB}"), Value::Null).await;
    let receipts = world.get(&ann, &format!("/chats/{chat}/receipts")).await;
    assert_eq!(receipts.data()["sequence"], 1);
}

#[tokio::test]
async fn reactions_have_counts_and_mine_and_their_members_are_paged() {
    let world = World::new();
    let (ann, bob, cem) = (world.person("Ann").await, world.person("Bob").await, world.person("Cem").await);
    let chat = world.group(&ann, &[&bob, &cem]).await;
    world.say(&ann, &chat, "one").await;
    world.say(&ann, &chat, "two").await;
    let path = |sequence: u64, reaction: &str| format!("/chats/{chat}/messages/{sequence}/reactions/{reaction}");
    for (user, reaction) in [(&bob, THUMB), (&ann, THUMB), (&bob, "ok")] {
        assert_eq!(world.put(user, &path(1, reaction), Value::Null).await.status, 200);
    }
    assert_eq!(world.put(&bob, &path(1, "ok"), Value::Null).await.failure(), (409, "CONFLICT"));
    assert_eq!(world.delete(&cem, &path(1, "ok")).await.failure(), (404, "NOT_FOUND"));
    for (user, mine) in [(&ann, [true, false]), (&bob, [true, true]), (&cem, [false, false])] {
        let page = world.get(user, &format!("/chats/{chat}/messages?after=0")).await;
        let expected = json!([
            { "reaction": "\u{1F44D}", "count": 2, "mine": mine[0] },
            { "reaction": "ok", "count": 1, "mine": mine[1] },
        ]);
        assert_eq!(page.data()["messages"][0]["state"]["reactions"], expected, "{}", user.user_id);
        assert_eq!(page.data()["messages"][1]["state"], Value::Null, "the other message has no state");
    }

    let list = format!("/chats/{chat}/messages/1/reactions?limit=1");
    let first = world.get(&cem, &list).await;
    assert_eq!((&first.data()["chat_id"], &first.data()["sequence"]), (&json!(chat), &json!(1)));
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap();
    let second = world.get(&cem, &format!("{list}&cursor={cursor}")).await;
    assert_eq!(second.body["pagination"]["has_more"], false, "{second:?}");
    let mut members = [first.data()["members"].clone(), second.data()["members"].clone()].map(|page| page[0].clone());
    members.sort_by_key(|member| member["user_id"].to_string());
    let expected = [
        json!({ "user_id": ann.user_id, "reactions": ["\u{1F44D}"] }),
        json!({ "user_id": bob.user_id, "reactions": ["\u{1F44D}", "ok"] }),
    ];
    assert_eq!(members, expected);
    let foreign = format!("/chats/{chat}/messages/2/reactions?cursor={cursor}");
    assert_eq!(world.get(&cem, &foreign).await.failure(), (400, "VALIDATION_ERROR"), "a cursor is of one message");

    assert_eq!(world.delete(&bob, &path(1, THUMB)).await.status, 200);
    let page = world.get(&bob, &format!("/chats/{chat}/messages?after=0")).await;
    let thumb = &page.data()["messages"][0]["state"]["reactions"][0];
    assert_eq!(thumb, &json!({ "reaction": "\u{1F44D}", "count": 1, "mine": false }));
}

#[tokio::test]
async fn every_refused_update_has_its_code_and_its_reason_and_uses_no_sequence() {
    let world = World::new();
    let (ann, bob, eve) = (world.person("Ann").await, world.person("Bob").await, world.person("Eve").await);
    let chat = world.direct(&ann, &bob).await;
    world.say(&ann, &chat, "hi").await;
    let soon = json!({ "client_message_id": world.uuid(), "content": "soon gone", "ttl_seconds": 60 });
    world.post(&ann, &format!("/chats/{chat}/messages"), soon).await;
    world.put(&bob, &format!("/chats/{chat}/messages/1/reactions/ok"), Value::Null).await;
    world.clock.advance(Duration::from_secs(60));
    let edit = || Some(json!({ "client_message_id": CLIENT_ID, "content": "other" }));
    let cases = [
        (&bob, "PATCH", "1", edit(), (403, "FORBIDDEN"), "not_the_author"),
        (&bob, "DELETE", "1", None, (403, "FORBIDDEN"), "may_not_delete"),
        (&eve, "DELETE", "1", None, (403, "NOT_A_MEMBER"), ""),
        (&ann, "PATCH", "2", edit(), (404, "NOT_FOUND"), "message_not_found"),
        (&ann, "PATCH", "3", edit(), (404, "NOT_FOUND"), "message_not_found"),
        (&ann, "PATCH", "4", edit(), (404, "NOT_FOUND"), "message_not_found"),
        (&bob, "PUT", "2/reactions/ok", None, (404, "NOT_FOUND"), "message_not_found"),
        (&ann, "PUT", "1/reactions/a%20b", None, (400, "VALIDATION_ERROR"), ""),
        (&ann, "PUT", "one/reactions/ok", None, (400, "VALIDATION_ERROR"), ""),
    ];
    for (user, method, rest, body, refusal, reason) in cases {
        let path = format!("/chats/{chat}/messages/{rest}");
        let answer = world.call(method, &path, Some(user), body).await;
        assert_eq!(answer.failure(), refusal, "{method} {rest}: {answer:?}");
        let found = answer.body["error"]["details"]["reason"].as_str().unwrap_or_default();
        assert_eq!(found, reason, "{method} {rest}");
    }
    let page = world.get(&ann, &format!("/chats/{chat}/messages")).await;
    assert_eq!((page.each("messages", "content"), &page.data()["head_sequence"]), (vec![&json!("hi")], &json!(3)));
}
