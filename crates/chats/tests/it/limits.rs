use std::sync::Arc;
use std::time::Duration;

use domain::{Decision, Quota};
use ports::{LimitKey, RateLimiter, StoreError};
use serde_json::json;
use tidings_chats::{Api, Limits};

use crate::world::{Answer, NO_AUTH_LIMITS, NO_LIMITS, World};

const MINUTE: Duration = Duration::from_secs(60);

fn headers(answer: &Answer) -> [Option<&str>; 4] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"].map(|name| answer.header(name))
}

#[tokio::test]
async fn reads_and_writes_are_counted_apart_and_each_answer_says_what_is_left() {
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
    // A day that is as short as a token is good.
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
async fn codes_are_limited_by_phone_and_by_address() {
    let auth_limits = auth::Limits {
        otp_request_per_phone: Quota::per(1, MINUTE),
        otp_request_per_ip: Quota::per(3, MINUTE),
        otp_verify_per_ip: None,
        refresh: None,
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

/// A limiter that is away.
struct Away;

#[async_trait::async_trait]
impl RateLimiter for Away {
    async fn take(&self, _: LimitKey, _: Quota) -> Result<Decision, StoreError> {
        Err(StoreError::unavailable("away"))
    }
}

#[tokio::test]
async fn a_limiter_that_is_away_stops_nobody() {
    let limits = Limits { rest_read: Quota::per(1, MINUTE), ..NO_LIMITS };
    let world = World::build(limits, NO_AUTH_LIMITS, |api| Api { limiter: Arc::new(Away), ..api });
    let ann = world.person("Ann").await;
    for _ in 0..3 {
        let answer = world.get(&ann, "/users/me").await;
        assert_eq!((answer.status, headers(&answer)), (200, [None; 4]));
    }
}
