use domain::limits::MESSAGE_FIELDS_BYTES;
use serde_json::{Value, json};

use crate::world::{ApiTestUser, World};

/// A direct chat in which Ann has said `1` to `count`.
async fn chat_with(world: &World, count: u64) -> (ApiTestUser, ApiTestUser, String) {
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    for n in 1..=count {
        world.say(&ann, &chat, &n.to_string()).await;
    }
    (ann, bob, chat)
}

fn range(numbers: impl Iterator<Item = u64>) -> Vec<Value> {
    numbers.map(Value::from).collect()
}

#[tokio::test]
async fn history_is_newest_first_twenty_at_a_time() {
    let world = World::new();
    let (ann, _, chat) = chat_with(&world, 45).await;
    let mut seen = vec![];
    let mut query = String::new();
    let mut sizes = vec![];
    loop {
        let page = world.get(&ann, &format!("/chats/{chat}/messages{query}")).await;
        let sequences = page.each("messages", "sequence");
        sizes.push(sequences.len());
        seen.extend(sequences.into_iter().cloned());
        assert_eq!(page.data()["head_sequence"], 45);
        let pagination = &page.body["pagination"];
        assert_eq!(pagination["has_more"], pagination["next_cursor"].is_string());
        let Some(cursor) = pagination["next_cursor"].as_str() else { break };
        query = format!("?cursor={cursor}");
    }
    assert_eq!(sizes, [20, 20, 5]);
    assert_eq!(seen, range((1..=45).rev()));
}

#[tokio::test]
async fn before_goes_down_and_after_goes_up() {
    let world = World::new();
    let (ann, _, chat) = chat_with(&world, 10).await;
    for (query, expected, has_more) in [
        ("limit=3", range((8..=10).rev()), true),
        ("limit=3&before=4", range((1..=3).rev()), false),
        ("limit=3&before=8", range((5..=7).rev()), true),
        ("before=1", vec![], false),
        ("limit=3&after=0", range(1..=3), true),
        ("limit=3&after=7", range(8..=10), false),
        ("after=10", vec![], false),
        ("after=99", vec![], false),
        ("after=18446744073709551615", vec![], false),
        ("limit=1&before=18446744073709551615", range(10..=10), true),
        ("limit=9999", range((1..=10).rev()), false),
    ] {
        let page = world.get(&ann, &format!("/chats/{chat}/messages?{query}")).await;
        assert_eq!(page.data()["messages"].as_array().unwrap().len(), expected.len(), "{query}");
        assert_eq!(page.each("messages", "sequence"), expected.iter().collect::<Vec<_>>(), "{query}");
        assert_eq!(page.body["pagination"]["has_more"], has_more, "{query}");
    }
    let first = world.get(&ann, &format!("/chats/{chat}/messages?limit=4&after=2")).await;
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap();
    let second = world.get(&ann, &format!("/chats/{chat}/messages?limit=4&cursor={cursor}")).await;
    assert_eq!(second.each("messages", "sequence"), [7, 8, 9, 10]);
}

#[tokio::test]
async fn pages_of_history_are_bounded_in_bytes() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let per_page = 512 * 1024 / (6 * 4096 + MESSAGE_FIELDS_BYTES);
    for _ in 0..50 {
        world.say(&ann, &chat, &"\u{1}".repeat(4096)).await;
    }
    let page = world.get(&ann, &format!("/chats/{chat}/messages?limit=100")).await;
    assert_eq!(page.each("messages", "sequence"), range((51 - per_page as u64..=50).rev()).iter().collect::<Vec<_>>());
    assert_eq!(page.body["pagination"]["has_more"], true);
    let around = world.get(&ann, &format!("/chats/{chat}/messages/around/25?limit=100")).await;
    let half = per_page as u64 / 2;
    assert_eq!(around.each("messages", "sequence"), range(25 - half..25 + half).iter().collect::<Vec<_>>());
    assert_eq!((&around.data()["has_more_before"], &around.data()["has_more_after"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn pages_of_history_stay_in_place_while_messages_arrive() {
    let world = World::new();
    let (ann, _, chat) = chat_with(&world, 4).await;
    let first = world.get(&ann, &format!("/chats/{chat}/messages?limit=2")).await;
    let cursor = first.body["pagination"]["next_cursor"].as_str().unwrap();
    world.say(&ann, &chat, "meanwhile").await;
    let second = world.get(&ann, &format!("/chats/{chat}/messages?limit=2&cursor={cursor}")).await;
    assert_eq!(second.each("messages", "sequence"), [2, 1]);
    assert_eq!(second.data()["head_sequence"], 5);
}

#[tokio::test]
async fn parameters_that_cannot_be_taken_are_named() {
    let world = World::new();
    let (ann, _, chat) = chat_with(&world, 1).await;
    for (path, field) in [
        ("messages?limit=0", "limit"),
        ("messages?limit=-1", "limit"),
        ("messages?limit=ten", "limit"),
        ("messages?before=-1", "before"),
        ("messages?after=x", "after"),
        ("messages?before=3&after=1", "cursor"),
        ("messages?cursor=nonsense", "cursor"),
        ("messages/around/x", "sequence"),
        ("messages/around/1?limit=0", "limit"),
        ("receipts?sequence=x", "sequence"),
    ] {
        let answer = world.get(&ann, &format!("/chats/{chat}/{path}")).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{path}");
    }
}

#[tokio::test]
async fn a_cursor_that_was_changed_or_belongs_to_another_list_is_refused() {
    let world = World::new();
    let (ann, bob, chat) = chat_with(&world, 3).await;
    let other = world.group(&ann, &[]).await;
    for n in 0..3 {
        world.say(&ann, &other, &n.to_string()).await;
    }
    let cursor = async |path: &str| {
        let page = world.get(&ann, path).await;
        page.body["pagination"]["next_cursor"].as_str().unwrap().to_owned()
    };
    let good = cursor(&format!("/chats/{chat}/messages?limit=1")).await;
    let goes_on = world.get(&bob, &format!("/chats/{chat}/messages?limit=1&cursor={good}")).await;
    assert_eq!(goes_on.each("messages", "sequence"), [2], "every member may use it");

    let mut refused = vec![
        (chat.clone(), cursor(&format!("/chats/{other}/messages?limit=1")).await),
        (chat.clone(), cursor("/chats?limit=1").await),
        (other, good.clone()),
    ];
    // Changing any character breaks the seal. The last one is skipped, because it has unused bits.
    for at in 0..good.len() - 1 {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        refused.push((chat.clone(), String::from_utf8(changed).unwrap()));
    }
    for (chat, cursor) in refused {
        let answer = world.get(&ann, &format!("/chats/{chat}/messages?cursor={cursor}")).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "cursor"), "{cursor}");
    }
    let of_ann = cursor("/chats?limit=1").await;
    let answer = world.get(&bob, &format!("/chats?cursor={of_ann}")).await;
    assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "cursor"));
}

#[tokio::test]
async fn a_page_around_a_message_has_its_neighbours() {
    let world = World::new();
    let (ann, _, chat) = chat_with(&world, 30).await;
    for (target, limit, expected, before, after) in [
        (15, 10, 10..=19, true, true),
        (3, 10, 1..=7, false, true),
        (29, 10, 24..=30, true, false),
        (15, 1, 15..=15, true, true),
    ] {
        let page = world.get(&ann, &format!("/chats/{chat}/messages/around/{target}?limit={limit}")).await;
        assert_eq!(page.each("messages", "sequence"), range(expected).iter().collect::<Vec<_>>(), "{target}");
        let rest = json!({
            "head_sequence": 30, "target_sequence": target, "has_more_before": before, "has_more_after": after,
        });
        for (key, value) in rest.as_object().unwrap() {
            assert_eq!(&page.data()[key], value, "{target} {key}");
        }
    }
    let answer = world.get(&ann, &format!("/chats/{chat}/messages/around/31")).await;
    assert_eq!(answer.failure(), (422, "INVALID_SEQUENCE"));
    assert_eq!(answer.body["error"]["details"], json!({ "head_sequence": 30 }));
}

#[tokio::test]
async fn g11_expired_messages_are_in_no_page() {
    let world = World::new();
    let (ann, bob, chat) = chat_with(&world, 2).await;
    let body = json!({ "client_message_id": world.uuid(), "content": "soon gone", "ttl_seconds": 1 });
    world.post(&ann, &format!("/chats/{chat}/messages"), body).await;
    let unread = async || world.get(&bob, &format!("/chats/{chat}")).await.data()["unread_count"].clone();
    assert_eq!(unread().await, 3);
    world.clock.advance(std::time::Duration::from_secs(1));
    for path in ["messages", "messages?after=0", "messages/around/3"] {
        let page = world.get(&bob, &format!("/chats/{chat}/{path}")).await;
        assert!(!page.body.to_string().contains("soon gone"), "{path}: {page:?}");
        assert_eq!(page.data()["head_sequence"], 3, "{path}");
    }
    let seen = world.get(&bob, &format!("/chats/{chat}")).await;
    assert_eq!(seen.data()["last_message"]["sequence"], 2);
    assert_eq!(seen.data()["last_message_at"], "2026-01-30T14:30:00.000Z");
    assert_eq!(unread().await, 2);
    let gone = world.get(&bob, &format!("/chats/{chat}/receipts?sequence=3")).await;
    assert_eq!(gone.failure(), (404, "NOT_FOUND"));
}
