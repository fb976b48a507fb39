use std::sync::Arc;

use domain::Timestamp;
use ports::{Begun, RequestKey, RequestStore, StoreError, StoredResponse};
use serde_json::json;
use tidings_chats::Api;
use ulid::Ulid;

use crate::world::{NO_AUTH_LIMITS, NO_LIMITS, World};

const KEY: &str = "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10";

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_and_opens_nothing() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let body = json!({ "type": "group", "name": "team", "member_ids": [bob.user_id] });
    let first = world.post_once(&ann, "/chats", KEY, body.clone()).await;
    assert_eq!((first.status, first.header("x-idempotent-replay")), (201, None));
    world.patch(&ann, &format!("/chats/{}", first.text("/chat_id")), json!({ "name": "renamed" })).await;
    let again = world.post_once(&ann, "/chats", KEY, body).await;
    assert_eq!((again.status, again.header("x-idempotent-replay")), (201, Some("true")));
    assert_eq!(again.body, first.body);
    assert_eq!(world.get(&ann, "/chats").await.data()["chats"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_replay_repeats_the_original_status() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    world.direct(&ann, &bob).await;
    let body = json!({ "type": "direct", "member_ids": [bob.user_id] });
    assert_eq!(world.post_once(&ann, "/chats", KEY, body.clone()).await.status, 200);
    let again = world.post_once(&ann, "/chats", KEY, body).await;
    assert_eq!((again.status, again.header("x-idempotent-replay")), (200, Some("true")));
}

#[tokio::test]
async fn another_body_or_another_route_with_the_same_key_is_refused() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let body = json!({ "type": "group", "name": "team", "member_ids": [] });
    let chat = world.post_once(&ann, "/chats", KEY, body).await.text("/chat_id");
    let renamed = json!({ "type": "group", "name": "other", "member_ids": [] });
    assert_eq!(world.post_once(&ann, "/chats", KEY, renamed).await.failure(), (409, "IDEMPOTENCY_KEY_REUSED"));
    let member = json!({ "user_id": bob.user_id });
    let elsewhere = world.post_once(&ann, &format!("/chats/{chat}/members"), KEY, member).await;
    assert_eq!(elsewhere.failure(), (409, "IDEMPOTENCY_KEY_REUSED"));
}

#[tokio::test]
async fn spelling_and_unknown_fields_do_not_make_another_request() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let first =
        world.post_once(&ann, "/chats", KEY, json!({ "type": "group", "name": "team", "member_ids": [] })).await;
    let again = json!({ "member_ids": [], "name": "team", "later": true, "type": "group" });
    assert_eq!(world.post_once(&ann, "/chats", KEY, again).await.body, first.body);
}

#[tokio::test]
async fn keys_belong_to_their_user() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let body = json!({ "type": "group", "name": "team", "member_ids": [] });
    let anns = world.post_once(&ann, "/chats", KEY, body.clone()).await;
    let bobs = world.post_once(&bob, "/chats", KEY, body).await;
    assert_eq!((bobs.status, bobs.header("x-idempotent-replay")), (201, None));
    assert_ne!(anns.text("/chat_id"), bobs.text("/chat_id"));
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let path = format!("/chats/{}/members", world.group(&ann, &[&bob]).await);
    let body = json!({ "user_id": cid.user_id });
    assert_eq!(world.post_once(&bob, &path, KEY, body.clone()).await.failure(), (403, "FORBIDDEN"));
    world.patch(&ann, &format!("{path}/{}", bob.user_id), json!({ "role": "admin" })).await;
    let again = world.post_once(&bob, &path, KEY, body).await;
    assert_eq!((again.status, again.header("x-idempotent-replay")), (201, None));
}

#[tokio::test]
async fn a_member_is_added_once_and_the_repetition_says_so() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let path = format!("/chats/{}/members", world.group(&ann, &[]).await);
    let body = json!({ "user_id": bob.user_id });
    let first = world.post_once(&ann, &path, KEY, body.clone()).await;
    let again = world.post_once(&ann, &path, KEY, body.clone()).await;
    assert_eq!((again.status, again.header("x-idempotent-replay")), (201, Some("true")));
    assert_eq!(again.body, first.body);
    let without = world.post(&ann, &path, body).await;
    assert_eq!(without.failure(), (409, "ALREADY_A_MEMBER"));
}

#[tokio::test]
async fn a_key_is_a_uuid() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let body = json!({ "type": "group", "name": "team", "member_ids": [] });
    let answer = world.post_once(&ann, "/chats", "first", body).await;
    assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "Idempotency-Key"));
}

/// Stores that a request has begun and loses every response, like a crash before `finish`.
struct Forgetful(Arc<dyn RequestStore>);

#[async_trait::async_trait]
impl RequestStore for Forgetful {
    async fn begin(
        &self,
        key: RequestKey,
        print: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        self.0.begin(key, print, reserve, now).await
    }

    async fn finish(&self, _: RequestKey, _: StoredResponse) -> Result<(), StoreError> {
        Err(StoreError::unavailable("crashed"))
    }
}

#[tokio::test]
async fn an_attempt_with_a_lost_answer_is_finished_by_the_next_one() {
    let world = World::build(NO_LIMITS, NO_AUTH_LIMITS, |api| {
        let requests = Arc::new(Forgetful(api.requests.clone()));
        Api { requests, ..api }
    });
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    for body in [
        json!({ "type": "group", "name": "team", "member_ids": [] }),
        json!({ "type": "direct", "member_ids": [bob.user_id] }),
    ] {
        let key = world.uuid();
        let first = world.post_once(&ann, "/chats", &key, body.clone()).await;
        let again = world.post_once(&ann, "/chats", &key, body).await;
        assert_eq!((first.status, again.status), (201, 201));
        assert_eq!(first.text("/chat_id"), again.text("/chat_id"));
    }
    let path = format!("/chats/{}/members", world.group(&ann, &[]).await);
    let first = world.post_once(&ann, &path, KEY, json!({ "user_id": bob.user_id })).await;
    let again = world.post_once(&ann, &path, KEY, json!({ "user_id": bob.user_id })).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(again.body, first.body);
}
