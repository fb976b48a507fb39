use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::limits::CONTACTS_MAX;
use domain::{Quota, RateDecision, Timestamp, UserId};
use ports::{ChatWriter, ContactStore, Ids, LimitKey, NewGroup, RateLimiter, StoreError};
use serde_json::{Value, json};
use tidings_chats::{Api, Limits};

use crate::world::{ApiAnswer, NO_AUTH_LIMITS, NO_LIMITS, World};

const MINUTE: Duration = Duration::from_secs(60);

fn headers(answer: &ApiAnswer) -> [Option<&str>; 4] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"].map(|name| answer.header(name))
}

#[tokio::test]
async fn reads_and_writes_are_counted_separately_and_answers_have_the_remainder() {
    let limits = Limits { rest_read: Quota::per(2, MINUTE), rest_write: Quota::per(1, MINUTE), ..NO_LIMITS };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    // The world's clock stands at 1769783400; each read fills up again in 30 s.
    let first = world.get(&ann, "/users/me").await;
    assert_eq!((first.status, headers(&first)), (200, [Some("2"), Some("1"), Some("1769783430"), None]));
    let second = world.get(&ann, "/users/user_x").await;
    assert_eq!((second.status, headers(&second)), (404, [Some("2"), Some("0"), Some("1769783460"), None]));
    let third = world.get(&ann, "/users/me").await;
    assert_eq!(third.failure(), (429, "RATE_LIMITED"));
    assert_eq!(headers(&third), [Some("2"), Some("0"), Some("1769783460"), Some("30")]);
    assert_eq!(third.body["error"]["details"], json!({ "limit": "rest_read", "retry_after_seconds": 30 }));

    let write = world.patch(&ann, "/users/me", json!({})).await;
    assert_eq!((write.status, headers(&write)), (200, [Some("1"), Some("0"), Some("1769783460"), None]));
    let over = world.patch(&ann, "/users/me", json!({})).await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "rest_write", "retry_after_seconds": 60 }));
    assert_eq!(world.get(&bob, "/users/me").await.status, 200, "each user has their own");

    world.clock.advance(Duration::from_secs(30));
    assert_eq!(world.get(&ann, "/users/me").await.status, 200);
}

#[tokio::test]
async fn a_question_about_presence_is_a_read() {
    let limits = Limits { rest_read: Quota::per(2, MINUTE), rest_write: Quota::per(1, MINUTE), ..NO_LIMITS };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    assert_eq!(world.get(&ann, &format!("/users/{}/presence", ann.user_id)).await.status, 200);
    let question = json!({ "user_ids": [] });
    let asked = world.post(&ann, "/presence/query", question.clone()).await;
    assert_eq!((asked.status, headers(&asked)), (200, [Some("2"), Some("0"), Some("1769783460"), None]));
    let over = world.post(&ann, "/presence/query", question).await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "rest_read", "retry_after_seconds": 30 }));
    assert_eq!(world.patch(&ann, "/users/me", json!({})).await.status, 200, "no write was counted");
}

#[tokio::test]
async fn a_user_looks_up_so_many_numbers_in_a_day() {
    // A short day, within the lifetime of an access token.
    const DAY: Duration = MINUTE.saturating_mul(40);
    let world = World::with(Limits { lookup_numbers: Quota::per(4, DAY), ..NO_LIMITS }, NO_AUTH_LIMITS);
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let lookup = async |person, count| {
        world.post(person, "/users/lookup", json!({ "phone_numbers": vec![&bob.phone_number; count] })).await
    };
    assert_eq!(lookup(&ann, 3).await.status, 200);
    let over = lookup(&ann, 2).await;
    assert_eq!(over.failure(), (429, "RATE_LIMITED"));
    assert_eq!(over.header("retry-after"), Some("600"), "a quarter of it brings the one that is missing");
    assert_eq!(over.body["error"]["details"], json!({ "limit": "lookup_numbers", "retry_after_seconds": 600 }));
    assert_eq!(lookup(&ann, 0).await.status, 200, "who asks for nobody learns nothing");
    assert_eq!(lookup(&ann, 1).await.status, 200, "what was refused has taken nothing");
    assert_eq!(lookup(&ann, 1).await.failure(), (429, "RATE_LIMITED"));
    assert_eq!(lookup(&bob, 4).await.status, 200, "each user has their own");
    world.clock.advance(DAY / 4);
    assert_eq!(lookup(&ann, 1).await.status, 200);
}

#[tokio::test]
async fn sends_are_counted_per_chat_and_per_user() {
    let limits = Limits {
        send_per_chat: Quota::with_burst(1, Duration::from_secs(1), 2),
        send_per_user: Quota::per(3, MINUTE),
        rest_write: Quota::per(60, MINUTE),
        ..NO_LIMITS
    };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    let (one, other) = (world.group(&ann, &[]).await, world.group(&ann, &[]).await);
    let send = async |chat: &str| {
        let body = json!({ "client_message_id": world.uuid(), "content": "hi" });
        world.post(&ann, &format!("/chats/{chat}/messages"), body).await
    };
    world.say(&ann, &one, "hi").await;
    world.say(&ann, &one, "hi").await;
    let over = send(&one).await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "send_per_chat", "retry_after_seconds": 1 }));
    assert_eq!(headers(&over)[..2], [Some("2"), Some("0")], "of the limit that refused");
    world.say(&ann, &other, "hi").await;
    let over = send(&other).await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "send_per_user", "retry_after_seconds": 20 }));
    assert_eq!(world.get(&ann, &format!("/chats/{one}")).await.data()["head_sequence"], 2, "no sequence was used");
}

#[tokio::test]
async fn updates_are_counted_like_sends_and_not_as_writes() {
    let limits = Limits { send_per_chat: Quota::per(2, MINUTE), rest_write: Quota::per(2, MINUTE), ..NO_LIMITS };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    let chat = world.group(&ann, &[]).await;
    world.say(&ann, &chat, "hi").await;
    let react = async |reaction: &str| {
        world.put(&ann, &format!("/chats/{chat}/messages/1/reactions/{reaction}"), Value::Null).await
    };
    assert_eq!(react("one").await.status, 200);
    let over = react("two").await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "send_per_chat", "retry_after_seconds": 30 }));
    assert_eq!(world.patch(&ann, "/users/me", json!({})).await.status, 200, "only the group was counted as a write");
}

#[tokio::test]
async fn a_refused_send_or_update_counts_as_a_write() {
    let world = World::with(Limits { rest_write: Quota::per(5, MINUTE), ..NO_LIMITS }, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    let chat = world.group(&ann, &[]).await;
    world.say(&ann, &chat, "hi").await;
    let invalid = world.post(&ann, &format!("/chats/{chat}/messages"), json!({ "content": 7 })).await;
    assert_eq!((invalid.status, headers(&invalid)[1]), (400, Some("3")));
    let unknown = world.post(&ann, "/chats/chat_x/messages", json!({})).await;
    assert_eq!((unknown.status, headers(&unknown)[1]), (404, Some("2")));
    let spaced = format!("/chats/{chat}/messages/1/reactions/a%20b");
    assert_eq!(world.put(&ann, &spaced, Value::Null).await.status, 400);
    assert_eq!(world.put(&ann, &spaced, Value::Null).await.status, 400);
    let over = world.put(&ann, &spaced, Value::Null).await;
    assert_eq!(over.body["error"]["details"], json!({ "limit": "rest_write", "retry_after_seconds": 12 }));
    world.say(&ann, &chat, "valid sends have limits of their own").await;
}

/// Allows every request, and records the number of buckets in each call.
#[derive(Default)]
struct RecordingLimiter(Mutex<Vec<usize>>);

#[async_trait::async_trait]
impl RateLimiter for RecordingLimiter {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        self.0.lock().unwrap().push(takes.len());
        Ok(takes.iter().map(|(_, quota)| quota.decide(None, Timestamp::from_millis(0)).0).collect())
    }
}

#[tokio::test]
async fn a_send_is_one_call_for_both_of_its_limits() {
    let [rest_write, send_per_chat, send_per_user] = [Quota::per(9, MINUTE); 3];
    let limits = Limits { rest_write, send_per_chat, send_per_user, ..NO_LIMITS };
    let limiter = Arc::new(RecordingLimiter::default());
    let world = World::build(limits, NO_AUTH_LIMITS, |api| Api { limiter: limiter.clone(), ..api });
    let ann = world.person("Ann").await;
    let chat = world.group(&ann, &[]).await;
    limiter.0.lock().unwrap().clear();
    world.say(&ann, &chat, "hi").await;
    assert_eq!(*limiter.0.lock().unwrap(), [2]);
}

#[tokio::test]
async fn codes_are_limited_by_phone_and_by_address() {
    let auth_limits = auth::Limits {
        otp_request_per_phone: Quota::per(1, MINUTE),
        otp_request_per_ip: Quota::per(3, MINUTE),
        ..auth::Limits::OFF
    };
    let world = World::with(NO_LIMITS, auth_limits);
    let ask =
        async |phone: &str| world.call("POST", "/auth/request-otp", None, Some(json!({ "phone_number": phone }))).await;
    assert_eq!(ask("+14155550100").await.data()["retry_after_seconds"], 60);
    let again = ask("+14155550100").await;
    assert_eq!(again.failure(), (429, "RATE_LIMITED"));
    assert_eq!(again.body["error"]["details"], json!({ "limit": "otp_request_per_phone", "retry_after_seconds": 60 }));
    assert_eq!(headers(&again), [Some("1"), Some("0"), Some("1769783460"), Some("60")]);
    assert_eq!(ask("+14155550101").await.status, 200);
    assert_eq!(ask("+14155550102").await.body["error"]["details"]["limit"], "otp_request_per_ip");
}

/// A limiter that is unavailable.
struct UnavailableLimiter;

#[async_trait::async_trait]
impl RateLimiter for UnavailableLimiter {
    async fn take_all(&self, _: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        Err(StoreError::unavailable("away"))
    }
}

#[tokio::test]
async fn an_unavailable_limiter_refuses_no_request() {
    let limits = Limits { rest_read: Quota::per(1, MINUTE), ..NO_LIMITS };
    let world = World::build(limits, NO_AUTH_LIMITS, |api| Api { limiter: Arc::new(UnavailableLimiter), ..api });
    let ann = world.person("Ann").await;
    for _ in 0..3 {
        let answer = world.get(&ann, "/users/me").await;
        assert_eq!((answer.status, headers(&answer)), (200, [None; 4]));
    }
}

#[tokio::test]
async fn groups_members_and_bytes_have_quotas_of_a_day() {
    const DAY: Duration = MINUTE.saturating_mul(40);
    let limits = Limits {
        groups_created: Quota::per(2, DAY),
        members_added: Quota::per(4, DAY),
        message_kib: Quota::per(8, DAY),
        ..NO_LIMITS
    };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let group = async |key: Option<&str>, members: &[&str]| {
        let body = json!({ "type": "group", "name": "team", "member_ids": members });
        match key {
            Some(key) => world.post_once(&ann, "/chats", key, body).await,
            None => world.post(&ann, "/chats", body).await,
        }
    };
    fn of(answer: &ApiAnswer) -> ((u16, &str), Value) {
        (answer.failure(), answer.body["error"]["details"]["limit"].clone())
    }
    let first = group(None, &[&bob.user_id]).await;
    let chat = first.data()["chat_id"].as_str().unwrap().to_owned();
    assert_eq!(group(None, &[&bob.user_id, &cid.user_id]).await.status, 201);
    let key = world.uuid();
    for _ in 0..3 {
        // A retry of a refused request with its key does not pass either.
        let over = group(Some(&key), &[]).await;
        assert_eq!(of(&over), ((429, "RATE_LIMITED"), "groups_created".into()));
        assert_eq!(over.header("retry-after"), Some("1200"));
    }

    let members = format!("/chats/{chat}/members");
    assert_eq!(world.post(&ann, &members, json!({ "user_id": cid.user_id })).await.status, 201);
    let dan = world.person("Dan").await;
    let over = world.post(&ann, &members, json!({ "user_id": dan.user_id })).await;
    assert_eq!(of(&over), ((429, "RATE_LIMITED"), "members_added".into()));

    let say = async |content: String| {
        let body = json!({ "client_message_id": world.uuid(), "content": content });
        world.post(&ann, &format!("/chats/{chat}/messages"), body).await
    };
    assert_eq!(say("x".repeat(4096)).await.status, 201);
    let over = say("x".repeat(4096)).await;
    assert_eq!(of(&over), ((429, "RATE_LIMITED"), "message_mib".into()));
    for _ in 0..3 {
        assert_eq!(say("x".into()).await.status, 201);
    }
    assert_eq!(of(&say("x".into()).await), ((429, "RATE_LIMITED"), "message_mib".into()));
    world.clock.advance(DAY);
    assert_eq!(group(Some(&key), &[]).await.status, 201);
    assert_eq!(say("x".repeat(4096)).await.status, 201);
}

#[tokio::test]
async fn a_user_with_the_maximum_of_chats_opens_no_new_one() {
    let world = World::with(Limits { chats_per_user: Some(2), ..NO_LIMITS }, NO_AUTH_LIMITS);
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let with_bob = world.direct(&ann, &bob).await;
    let group = world.group(&ann, &[]).await;
    for body in [
        json!({ "type": "group", "name": "team", "member_ids": [] }),
        json!({ "type": "direct", "member_ids": [cid.user_id] }),
    ] {
        let refused = world.post(&ann, "/chats", body).await;
        assert_eq!(refused.failure(), (400, "INVALID_OPERATION"));
        assert_eq!(refused.body["error"]["details"], json!({ "limit": "chats_per_user", "maximum": 2 }));
    }
    assert_eq!(world.direct(&ann, &bob).await, with_bob, "an existing chat is not a new one");
    world.direct(&cid, &ann).await;
    let leave = world.post(&ann, &format!("/chats/{group}/leave"), json!({})).await;
    assert_eq!(leave.status, 204, "the last member leaves, and the group no longer counts");
}

/// Gives a user more groups.
async fn add_groups(world: &World, created_by: UserId, count: usize) {
    for _ in 0..count {
        let group = NewGroup {
            chat_id: world.ids.ulid().into(),
            name: "team".to_owned().try_into().unwrap(),
            created_by,
            members: vec![],
            created_at: Timestamp::from_millis(1_769_783_400_000),
        };
        world.store.create_group(group).await.unwrap();
    }
}

#[tokio::test]
async fn a_page_of_a_large_inbox_takes_a_read_for_every_500_chats() {
    let limits = Limits { rest_read: Quota::per(10, MINUTE), ..NO_LIMITS };
    let world = World::with(limits, NO_AUTH_LIMITS);
    let ann = world.person("Ann").await;
    let user_id = ann.user_id.parse().unwrap();
    let remaining = async || {
        let page = world.get(&ann, "/chats").await;
        (page.status, page.header("x-ratelimit-remaining").unwrap().to_owned())
    };
    add_groups(&world, user_id, 499).await;
    assert_eq!(remaining().await, (200, "9".to_owned()));
    add_groups(&world, user_id, 1001).await;
    assert_eq!(remaining().await, (200, "5".to_owned()), "one read and three for 1500 chats");
    assert_eq!(remaining().await, (200, "1".to_owned()));
    let over = world.get(&ann, "/chats").await;
    assert_eq!(over.failure(), (429, "RATE_LIMITED"));
    assert_eq!(over.body["error"]["details"]["limit"], "rest_read");
}

#[tokio::test]
async fn a_user_with_the_maximum_of_contacts_adds_no_new_one() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let user_id: UserId = ann.user_id.parse().unwrap();
    for _ in 1..CONTACTS_MAX {
        world.store.add(user_id, world.ids.ulid().into()).await.unwrap();
    }
    let add = async |contact_id: &str| world.put(&ann, &format!("/contacts/{contact_id}"), Value::Null).await;
    assert_eq!(add(&bob.user_id).await.status, 200);
    let refused = add(&cid.user_id).await;
    assert_eq!(refused.failure(), (400, "INVALID_OPERATION"));
    assert_eq!(refused.body["error"]["details"], json!({ "limit": "contacts", "maximum": CONTACTS_MAX }));
    assert_eq!(add(&bob.user_id).await.status, 200, "a listed contact is not a new one");
    assert_eq!(world.delete(&ann, &format!("/contacts/{}", bob.user_id)).await.status, 204);
    assert_eq!(add(&cid.user_id).await.status, 200);
}
