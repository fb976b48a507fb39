use std::time::Duration;

use domain::{Quota, Sequence};
use ports::{AccountStore, Clock, MessageKey, MessageReader, PageBounds};
use serde_json::{Value, json};
use tidings_chats::Limits;

use crate::world::{ApiTestUser, NO_AUTH_LIMITS, NO_LIMITS, World};

/// Bounds that no page of these tests reaches.
const ALL: PageBounds = PageBounds { count: 1000, bytes: usize::MAX };

async fn delete(world: &World, person: &ApiTestUser, body: Value) -> crate::world::ApiAnswer {
    world.call("DELETE", "/users/me", Some(person), Some(body)).await
}

/// Deletes an account, and waits until nothing is left to do.
async fn deleted(world: &World, person: &ApiTestUser, erase_messages: bool) {
    let answer = delete(world, person, json!({ "confirm": person.user_id, "erase_messages": erase_messages })).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.data()["user_id"], person.user_id);
    let mut turns = 0;
    while !world.store.deletions(1).await.unwrap().is_empty() {
        turns += 1;
        assert!(turns < 10_000, "the deletion does not end");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_export_has_everything_that_is_the_users_own_and_nothing_that_others_wrote() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let (direct, group) = (world.direct(&ann, &bob).await, world.group(&ann, &[&bob]).await);
    for (by, chat, words) in [(&ann, &direct, "mine"), (&bob, &direct, "theirs"), (&ann, &direct, "mine too")] {
        world.say(by, chat, words).await;
    }
    world.put(&ann, &format!("/contacts/{}", bob.user_id), json!({})).await;
    let push = json!({ "provider": "webhook", "token": "secret" });
    assert_eq!(world.put(&ann, &format!("/devices/{}/push", ann.device_id), push).await.status, 204);
    world.post(&ann, &format!("/chats/{direct}/read"), json!({ "last_read_sequence": 2 })).await;

    let export = world.get(&ann, "/users/me/export").await;
    assert_eq!((export.status, export.header("content-type")), (200, Some("application/json")));
    let data = export.data();
    assert_eq!((&data["user"]["phone_number"], &data["is_complete"]), (&json!(ann.phone_number), &json!(true)));
    assert_eq!(export.each("sessions", "device_id"), [&json!(ann.device_id)]);
    assert_eq!(data["contacts"], json!([bob.user_id]));
    let device = &data["push_devices"][0];
    assert_eq!((&device["device_id"], &device["provider"]), (&json!(ann.device_id), &json!("webhook")));
    assert_eq!(export.each("chats", "chat_id"), [&json!(direct), &json!(group)]);
    let chats = &data["chats"];
    let place = [&chats[0]["role"], &chats[0]["read_sequence"], &chats[0]["delivered_sequence"], &chats[1]["role"]];
    assert_eq!(place, [&json!("member"), &json!(2), &json!(2), &json!("owner")]);
    let words = |chat: &Value| {
        let messages = chat["messages"].as_array().unwrap().iter();
        messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((words(&chats[0]), words(&chats[1])), (vec!["mine".to_owned(), "mine too".to_owned()], vec![]));
    let text = export.body.to_string();
    assert!(!text.contains("theirs") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn an_export_has_the_users_own_edits_deletions_and_reactions() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let (direct, group) = (world.direct(&ann, &bob).await, world.group(&ann, &[&bob]).await);
    for (by, words) in [(&ann, "frist"), (&bob, "theirs"), (&ann, "goes")] {
        world.say(by, &direct, words).await;
    }
    let path = |rest: &str| format!("/chats/{direct}/messages/{rest}");
    let edit = json!({ "client_message_id": world.uuid(), "content": "first" });
    assert_eq!(world.patch(&ann, &path("1"), edit.clone()).await.status, 200);
    for (by, rest) in [(&ann, "2/reactions/ok"), (&bob, "1/reactions/no"), (&ann, "2/reactions/ha")] {
        assert_eq!(world.put(by, &path(rest), Value::Null).await.status, 200);
    }
    for rest in ["2/reactions/ok", "3"] {
        assert_eq!(world.delete(&ann, &path(rest)).await.status, 200);
    }
    world.say(&ann, &group, "without updates").await;

    let export = world.get(&ann, "/users/me/export").await;
    let chats = &export.data()["chats"];
    let updates = chats[0]["updates"].as_array().unwrap().iter();
    let updates: Vec<_> = updates
        .map(|update| (&update["sequence"], &update["target_sequence"], &update["kind"], &update["reaction"]))
        .collect();
    let expected = [
        (4, 1, "edited", Value::Null),
        (5, 2, "reacted", json!("ok")),
        (7, 2, "reacted", json!("ha")),
        (8, 2, "unreacted", json!("ok")),
        (9, 3, "deleted", Value::Null),
    ]
    .map(|(sequence, target, kind, reaction)| (json!(sequence), json!(target), json!(kind), reaction));
    assert_eq!(updates, expected.each_ref().map(|(sequence, target, kind, text)| (sequence, target, kind, text)));
    assert_eq!(chats[0]["updates"][0]["client_message_id"], edit["client_message_id"]);
    let messages = chats[0]["messages"].as_array().unwrap();
    assert_eq!(messages.iter().map(|message| &message["content"]).collect::<Vec<_>>(), ["first"]);
    assert_eq!((&chats[1]["messages"][0]["content"], &chats[1]["updates"]), (&json!("without updates"), &json!([])));
    assert_eq!(export.data()["is_complete"], true);
    let text = chats[0].to_string();
    assert!(!text.contains("theirs") && !text.contains(&bob.user_id), "{text}");
}

#[tokio::test]
async fn an_export_is_whole_however_many_pages_it_is_read_from() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let chat = world.direct(&ann, &bob).await;
    // More than one page of messages, with pages in between that have none of Ann's.
    for n in 0..1100 {
        let by = if (1..600).contains(&n) { &bob } else { &ann };
        world.say(by, &chat, "words").await;
    }
    // As many pages of updates, the first one of Bob's alone.
    for n in 0..1100 {
        let (by, reaction) = (if n < 600 { &bob } else { &ann }, if n % 2 == 0 { "PUT" } else { "DELETE" });
        let path = format!("/chats/{chat}/messages/1/reactions/ok");
        assert_eq!(world.call(reaction, &path, Some(by), None).await.status, 200);
    }
    let export = world.get(&ann, "/users/me/export").await;
    let sequences = |list: &str| -> Vec<u64> {
        let entries = export.data()["chats"][0][list].as_array().unwrap().iter();
        entries.map(|entry| entry["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!(sequences("messages"), std::iter::once(1).chain(601..=1100).collect::<Vec<_>>());
    assert_eq!(sequences("updates"), (1701..=2200).collect::<Vec<_>>());
}

#[tokio::test]
async fn exports_have_a_limit_of_their_own() {
    let limits = Limits { exports: Quota::per(2, Duration::from_secs(24 * 3600)), ..NO_LIMITS };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    for left in ["1", "0"] {
        let export = world.get(&ann, "/users/me/export").await;
        assert_eq!((export.status, export.header("x-ratelimit-remaining")), (200, Some(left)));
    }
    let refused = world.get(&ann, "/users/me/export").await;
    assert_eq!(refused.failure(), (429, "RATE_LIMITED"));
    assert_eq!(refused.body["error"]["details"]["limit"], "exports");
}

#[tokio::test]
async fn an_account_is_deleted_by_its_own_id_alone() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    for (body, field) in [(json!({}), "confirm"), (json!({ "confirm": bob.user_id }), "confirm")] {
        let refused = delete(&world, &ann, body).await;
        assert_eq!((refused.failure(), refused.field()), ((400, "VALIDATION_ERROR"), field));
    }
    assert_eq!(world.get(&ann, "/users/me").await.status, 200);
    assert_eq!(world.get(&bob, "/users/me").await.status, 200);
}

#[tokio::test]
async fn of_a_deleted_account_a_tombstone_is_left_and_the_phone_is_free() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let direct = world.direct(&ann, &bob).await;
    world.say(&ann, &direct, "stays").await;
    for (one, other) in [(&ann, &bob), (&bob, &ann)] {
        world.put(one, &format!("/contacts/{}", other.user_id), json!({})).await;
    }
    deleted(&world, &ann, false).await;

    assert_eq!(world.get(&ann, "/users/me").await.failure(), (401, "UNAUTHORIZED"));
    assert_eq!(world.sockets.closed(), 1);
    let tombstone = world.get(&bob, &format!("/users/{}", ann.user_id)).await;
    assert_eq!(tombstone.text("/display_name"), "Deleted account");
    assert_eq!(world.get(&bob, "/contacts").await.data()["contacts"], json!([]));
    let lookup = world.post(&bob, "/users/lookup", json!({ "phone_numbers": [ann.phone_number] })).await;
    assert_eq!(lookup.data()["results"], json!([null]));
    // The other member can still read the chat, and sees the deleted account in it.
    let chat = world.get(&bob, &format!("/chats/{direct}")).await;
    assert_eq!(chat.text("/last_message/preview"), "stays");
    assert!(chat.each("members", "display_name").contains(&&json!("Deleted account")), "{chat:?}");
    // A deleted account cannot be added to a chat or as a contact.
    let add = json!({ "type": "group", "name": "team", "member_ids": [ann.user_id] });
    assert_eq!(world.post(&bob, "/chats", add).await.failure(), (400, "VALIDATION_ERROR"));
    let contact = world.put(&bob, &format!("/contacts/{}", ann.user_id), json!({})).await;
    assert_eq!(contact.failure(), (404, "NOT_FOUND"));

    let again = world.sign_in(&ann.phone_number, &ann.device_id, "Ann again").await;
    assert_ne!(again.user_id, ann.user_id);
    assert_eq!(world.get(&again, "/chats").await.data()["chats"], json!([]));
}

#[tokio::test]
async fn a_group_goes_on_with_its_oldest_admin_or_else_its_oldest_member() {
    let world = World::new();
    let [ann, bob, cem] = [world.person("Ann").await, world.person("Bob").await, world.person("Cem").await];
    let with_admin = world.group(&ann, &[&bob, &cem]).await;
    let promote = format!("/chats/{with_admin}/members/{}", cem.user_id);
    assert_eq!(world.patch(&ann, &promote, json!({ "role": "admin" })).await.status, 200);
    let without = world.group(&ann, &[&bob]).await;
    world.clock.advance(Duration::from_secs(1));
    world.post(&ann, &format!("/chats/{without}/members"), json!({ "user_id": cem.user_id })).await;
    let alone = world.group(&ann, &[]).await;
    deleted(&world, &ann, false).await;

    for (chat, owner) in [(&with_admin, &cem), (&without, &bob)] {
        let members = world.get(&bob, &format!("/chats/{chat}")).await.data()["members"].clone();
        let members: Vec<_> = members.as_array().unwrap().iter().map(|it| (&it["user_id"], &it["role"])).collect();
        assert_eq!(members.len(), 2);
        assert!(members.contains(&(&json!(owner.user_id), &json!("owner"))), "{members:?}");
    }
    assert_eq!(world.get(&bob, &format!("/chats/{alone}")).await.failure(), (403, "NOT_A_MEMBER"));
}

#[tokio::test]
async fn messages_go_with_the_account_if_their_sender_says_so() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let chats = [world.direct(&ann, &bob).await, world.group(&bob, &[&ann]).await];
    for chat in &chats {
        for (by, words) in [(&bob, "stays"), (&ann, "goes")] {
            world.say(by, chat, words).await;
        }
    }
    deleted(&world, &ann, true).await;
    for chat in &chats {
        let history = world.get(&bob, &format!("/chats/{chat}/messages")).await;
        assert_eq!(history.each("messages", "content"), [&json!("stays")]);
        let summary = world.get(&bob, &format!("/chats/{chat}")).await;
        assert_eq!(
            (summary.text("/last_message/preview"), &summary.data()["unread_count"]),
            ("stays".into(), &json!(0))
        );
    }
}

#[tokio::test]
async fn reactions_of_a_deleted_account_stay_and_those_on_its_messages_go_with_them() {
    let world = World::new();
    let [ann, bob] = [world.person("Ann").await, world.person("Bob").await];
    let chat = world.group(&bob, &[&ann]).await;
    let stays = world.say(&bob, &chat, "stays").await;
    let goes = world.say(&ann, &chat, "goes").await;
    for (by, sequence) in [(&ann, 1), (&bob, 1), (&bob, 2), (&ann, 2)] {
        let path = format!("/chats/{chat}/messages/{sequence}/reactions/ok");
        assert_eq!(world.put(by, &path, Value::Null).await.status, 200);
    }
    deleted(&world, &ann, true).await;

    let history = world.get(&bob, &format!("/chats/{chat}/messages")).await;
    assert_eq!(history.each("messages", "content"), ["stays"]);
    let reactions = json!([{ "reaction": "ok", "count": 2, "mine": true }]);
    assert_eq!(history.data()["messages"][0]["state"]["reactions"], reactions);
    let members = world.get(&bob, &format!("/chats/{chat}/messages/1/reactions")).await;
    assert!(members.each("members", "user_id").contains(&&json!(ann.user_id)), "{members:?}");
    let gone = world.get(&bob, &format!("/chats/{chat}/messages/2/reactions")).await;
    assert_eq!(gone.failure(), (404, "NOT_FOUND"));

    world.store.purge_expired(world.clock.now());
    let key = |sent: &Value, sequence| MessageKey {
        chat_id: chat.parse().unwrap(),
        sequence: Sequence(sequence),
        message_id: sent["message_id"].as_str().unwrap().parse().unwrap(),
    };
    let left = async |key| world.store.reactions(key, None, 9).await.unwrap().len();
    assert_eq!((left(key(&stays, 1)).await, left(key(&goes, 2)).await), (2, 0));
    let page = world.store.after(key(&stays, 1).chat_id, Sequence(0), ALL, world.clock.now()).await.unwrap();
    let entries: Vec<_> = page.updates.iter().map(|update| (update.sequence.0, update.target.0)).collect();
    assert_eq!(entries, [(3, 1), (4, 1), (5, 2), (6, 2)], "entries have no content, and stay");
}
