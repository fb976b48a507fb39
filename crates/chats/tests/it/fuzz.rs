//! Sends almost valid requests through the whole API: each gets a response, and none an internal error.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{HeaderValue, Uri};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::world::{ApiAnswer, ApiTestUser, CODE, NOBODY, World, request};

/// A request under `/api/v1`. Everything in it can be damaged.
#[derive(Clone, Debug)]
struct FuzzCall {
    method: &'static str,
    path: String,
    body: Option<String>,
}

/// An API with a chat that has messages, and a user who calls it.
struct FuzzScene {
    runtime: Runtime,
    world: World,
    ada: ApiTestUser,
    calls: Vec<FuzzCall>,
    /// Paths of second pages.
    cursors: Vec<String>,
}

impl FuzzScene {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (world, ada, calls, cursors) = runtime.block_on(async {
            let world = World::new();
            let (ada, bea) = (world.person("Ada").await, world.person("Bea").await);
            let chat = world.group(&ada, &[&bea]).await;
            let message = world.say(&ada, &chat, "hello").await;
            for text in ["how", "are", "you"] {
                world.say(&ada, &chat, text).await;
            }
            for n in 0..3 {
                world.group(&ada, &[]).await;
                let other = world.person(&format!("Cem {n}")).await;
                world.put(&ada, &format!("/contacts/{}", other.user_id), Value::Null).await;
            }
            for user in [&ada, &bea] {
                let reaction = format!("/chats/{chat}/messages/1/reactions/%F0%9F%91%8D");
                assert_eq!(world.put(user, &reaction, Value::Null).await.status, 200);
            }
            let message_id = message["message_id"].as_str().unwrap();
            let calls = calls(&ada, &bea, &chat, message_id);
            let mut cursors = vec![];
            let messages = format!("/chats/{chat}/messages");
            for list in ["/chats", "/contacts", &messages, &format!("{messages}/1/reactions")] {
                let page = world.get(&ada, &format!("{list}?limit=1")).await;
                let cursor = page.body.pointer("/pagination/next_cursor").and_then(Value::as_str);
                cursors.push(format!("{list}?limit=1&cursor={}", cursor.unwrap_or_else(|| panic!("{page:?}"))));
            }
            (world, ada, calls, cursors)
        });
        Self { runtime, world, ada, calls, cursors }
    }

    /// Makes an authenticated call, unless no HTTP client could make it.
    fn call(&self, call: &FuzzCall, token: &str) -> Option<ApiAnswer> {
        let uri: Uri = format!("/api/v1{}", call.path).parse().ok()?;
        let body = call.body.clone().map_or(Body::empty(), Body::from);
        let mut request = request(call.method, &uri.to_string(), body);
        request.headers_mut().insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).ok()?);
        Some(self.runtime.block_on(self.world.send(request)))
    }
}

/// A valid call of every endpoint that takes input.
fn calls(ada: &ApiTestUser, bea: &ApiTestUser, chat: &str, message: &str) -> Vec<FuzzCall> {
    let with = |method, path: String, body: Value| FuzzCall { method, path, body: Some(body.to_string()) };
    let plain = |method, path: String| FuzzCall { method, path, body: None };
    let uuid = "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10";
    let (other_uuid, third_uuid) = ("2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a11", "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a12");
    vec![
        with("POST", "/auth/request-otp".into(), json!({ "phone_number": ada.phone_number })),
        with(
            "POST",
            "/auth/verify-otp".into(),
            json!({ "phone_number": ada.phone_number, "otp": CODE, "device_id": uuid, "display_name": "Ada" }),
        ),
        // Of another user: reuse of a refresh token ends its session, which would fail every call below.
        with("POST", "/auth/refresh".into(), json!({ "refresh_token": bea.refresh_token, "device_id": bea.device_id })),
        with("POST", "/chats".into(), json!({ "type": "group", "name": "team", "member_ids": [bea.user_id] })),
        with("POST", "/chats".into(), json!({ "type": "direct", "member_ids": [bea.user_id] })),
        with("PATCH", format!("/chats/{chat}"), json!({ "name": "new", "message_ttl_seconds": 60 })),
        with("POST", format!("/chats/{chat}/members"), json!({ "user_id": NOBODY, "role": "admin" })),
        with("PATCH", format!("/chats/{chat}/members/{}", bea.user_id), json!({ "role": "admin" })),
        with(
            "POST",
            format!("/chats/{chat}/messages"),
            json!({ "client_message_id": uuid, "content": "hi", "content_type": "text/plain", "ttl_seconds": 60 }),
        ),
        with(
            "PATCH",
            format!("/chats/{chat}/messages/1"),
            json!({ "client_message_id": other_uuid, "content": "{}", "content_type": "application/json" }),
        ),
        plain("PUT", format!("/chats/{chat}/messages/2/reactions/ok?client_message_id={third_uuid}")),
        plain("GET", format!("/chats/{chat}/messages/2/reactions?limit=2")),
        plain("DELETE", format!("/chats/{chat}/messages/2/reactions/ok")),
        plain("DELETE", format!("/chats/{chat}/messages/4")),
        with("POST", format!("/chats/{chat}/mute"), json!({ "duration_seconds": 60 })),
        with("POST", format!("/chats/{chat}/delivered"), json!({ "last_acked_sequence": 1 })),
        with("POST", format!("/chats/{chat}/read"), json!({ "last_read_sequence": 1 })),
        with(
            "PUT",
            format!("/devices/{uuid}/push"),
            json!({
                "provider": "webpush",
                "endpoint": "https://push.example/1",
                "keys": {
                    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
                },
            }),
        ),
        with("PUT", format!("/devices/{uuid}/push"), json!({ "provider": "webhook", "token": "abc" })),
        with("POST", "/presence/query".into(), json!({ "user_ids": [bea.user_id] })),
        with("POST", "/users/lookup".into(), json!({ "phone_numbers": [bea.phone_number] })),
        with(
            "PATCH",
            "/users/me".into(),
            json!({ "display_name": "Ada", "presence_visibility": "everyone", "group_invites": "everyone" }),
        ),
        plain("GET", format!("/chats/{chat}/messages?limit=2&before=3")),
        plain("GET", format!("/chats/{chat}/messages?limit=2&after=18446744073709551615")),
        plain("GET", format!("/chats/{chat}/messages/around/3?limit=2")),
        plain("GET", format!("/chats/{chat}/receipts?sequence=1")),
        plain("GET", format!("/chats/{chat}")),
        plain("GET", "/chats?limit=2".into()),
        plain("GET", "/contacts?limit=2".into()),
        plain("PUT", format!("/contacts/{}", bea.user_id)),
        plain("DELETE", format!("/contacts/{}", bea.user_id)),
        plain("GET", "/invitations".into()),
        plain("POST", format!("/invitations/{chat}/accept")),
        plain("DELETE", format!("/invitations/{chat}")),
        plain("GET", format!("/messages/{message}")),
        plain("GET", format!("/users/{}", bea.user_id)),
        plain("GET", format!("/users/{}/presence", bea.user_id)),
        plain("DELETE", format!("/devices/{uuid}/push")),
    ]
}

/// Calls with a damaged path or body.
fn damaged(calls: Vec<FuzzCall>) -> impl Strategy<Value = FuzzCall> {
    select(calls).prop_flat_map(|call| {
        let path = damage::text(Just(call.path.clone())).prop_map(|path| encoded(&path));
        let body = match call.body.clone() {
            Some(body) => damage::text(Just(body)).prop_map(Some).boxed(),
            None => Just(None).boxed(),
        };
        let (of_path, of_body) = (call.clone(), call.clone());
        prop_oneof![
            1 => path.prop_map(move |path| FuzzCall { path, ..of_path.clone() }),
            3 => body.prop_map(move |body| FuzzCall { body, ..of_body.clone() }),
        ]
    })
}

/// A path as an HTTP client writes it, with escapes.
fn encoded(path: &str) -> String {
    let path = path.strip_prefix('/').unwrap_or(path);
    let escape = |byte: u8| match byte {
        b'/' | b'?' | b'=' | b'&' | b'%' | b'_' | b'-' | b'.' | b'~' | b'+' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("/{}", path.bytes().map(escape).collect::<String>())
}

/// Fails unless a response is a success, or a typed refusal that blames the caller.
fn assert_answered(answer: &ApiAnswer) -> Result<(), TestCaseError> {
    prop_assert!((200..500).contains(&answer.status), "{:?}", answer);
    if answer.status >= 400 {
        let (_, code) = answer.failure();
        prop_assert!(code != "no failure" && code != "INTERNAL_ERROR", "{:?}", answer);
    }
    Ok(())
}

/// Otherwise the properties below would see damaged requests only. The refused sample names a user who does not exist.
#[test]
fn every_sample_is_a_success_but_one() {
    let scene = FuzzScene::new();
    let answers = scene.calls.iter().map(|call| (call, scene.call(call, &scene.ada.access_token).unwrap()));
    let refused: BTreeSet<_> = answers
        .filter(|(_, answer)| answer.status >= 400)
        .map(|(call, answer)| {
            let path = call.path.split('/').next_back().unwrap_or_default();
            format!("{} {path} {}", call.method, answer.failure().1)
        })
        .collect();
    assert_eq!(refused, BTreeSet::from(["POST members VALIDATION_ERROR".to_owned()]));
}

#[test]
fn every_damaged_request_gets_a_typed_answer() {
    let scene = FuzzScene::new();
    proptest!(|(call in damaged(scene.calls.clone()))| {
        if let Some(answer) = scene.call(&call, &scene.ada.access_token) {
            assert_answered(&answer)?;
        }
    });
}

#[test]
fn a_damaged_cursor_is_refused() {
    let scene = FuzzScene::new();
    for path in &scene.cursors {
        let sound = scene.call(&FuzzCall { method: "GET", path: path.clone(), body: None }, &scene.ada.access_token);
        assert_eq!(sound.unwrap().status, 200, "{path}");
    }
    let damaged = select(scene.cursors.clone()).prop_flat_map(|path| {
        let (before, cursor) = path.split_once("cursor=").unwrap();
        let (before, cursor) = (before.to_owned(), cursor.to_owned());
        let damaged = damage::text(Just(cursor.clone())).prop_filter("it is another", move |other| *other != cursor);
        damaged.prop_map(move |cursor| format!("{before}cursor={}", encoded(&cursor).trim_start_matches('/')))
    });
    proptest!(|(path in damaged)| {
        if let Some(answer) = scene.call(&FuzzCall { method: "GET", path, body: None }, &scene.ada.access_token) {
            assert_answered(&answer)?;
        }
    });
}

#[test]
fn a_damaged_access_token_opens_nothing() {
    let scene = FuzzScene::new();
    let token = scene.ada.access_token.clone();
    let call = FuzzCall { method: "GET", path: "/users/me".to_owned(), body: None };
    assert_eq!(scene.call(&call, &token).unwrap().status, 200);
    proptest!(|(damaged in damage::text(Just(token.clone())))| {
        prop_assume!(damaged.trim() != token);
        if let Some(answer) = scene.call(&call, &damaged) {
            prop_assert_eq!(answer.status, 401, "{:?}", answer);
        }
    });
}
