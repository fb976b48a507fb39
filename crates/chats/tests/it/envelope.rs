use std::sync::Arc;

use axum::body::Body;
use serde_json::json;
use tidings_chats::Api;

use crate::world::{Hanging, NO_AUTH_LIMITS, NO_LIMITS, UnavailableUserReader, World, request};

#[tokio::test]
async fn every_answer_has_a_request_id_and_failures_repeat_it() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for (method, path) in [("GET", "/users/me"), ("GET", "/nowhere"), ("PUT", "/users/me"), ("GET", NO_USER_PATH)] {
        let answer = world.call(method, path, Some(&ann), None).await;
        let id = answer.header("x-request-id").unwrap_or_else(|| panic!("{answer:?}"));
        assert_eq!(id.len(), 26, "a ulid: {id}");
        if answer.status >= 400 {
            assert_eq!(answer.body["error"]["request_id"], id);
        }
    }
}

const NO_USER_PATH: &str = "/users/user_7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

#[tokio::test]
async fn a_clients_own_request_id_is_taken_over_if_it_is_short_and_visible() {
    let world = World::new();
    let long = "r".repeat(65);
    for (given, taken) in
        [("client-1", true), (&"r".repeat(64), true), (&long, false), ("two words", false), ("", false)]
    {
        let mut request = request("GET", "/api/v1", Body::empty());
        request.headers_mut().insert("x-request-id", given.parse().unwrap());
        let answer = world.send(request).await;
        assert_eq!(answer.header("x-request-id") == Some(given), taken, "{given}");
    }
}

#[tokio::test]
async fn a_number_with_a_fraction_of_zero_is_an_integer() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.direct(&ann, &bob).await;
    let id = "2f1e8a04-0000-4000-8000-000000000001";
    let send = |ttl: f64| json!({ "client_message_id": id, "content": "hi", "ttl_seconds": ttl });
    let calls = |fraction: f64| {
        [
            ("POST", "/messages", send(60.0 + fraction)),
            ("POST", "/delivered", json!({ "last_acked_sequence": 1.0 + fraction })),
            ("POST", "/read", json!({ "last_read_sequence": 1.0 + fraction })),
            ("POST", "/mute", json!({ "duration_seconds": 60.0 + fraction })),
            ("PATCH", "", json!({ "message_ttl_seconds": 60.0 + fraction })),
        ]
    };
    for (method, path, body) in calls(0.0) {
        let field = body.as_object().unwrap().keys().next_back().unwrap().clone();
        let answer = world.call(method, &format!("/chats/{chat}{path}"), Some(&ann), Some(body)).await;
        assert!(answer.status < 300, "{field}: {answer:?}");
    }
    for (method, path, body) in calls(0.5) {
        let field = body.as_object().unwrap().keys().next_back().unwrap().clone();
        let answer = world.call(method, &format!("/chats/{chat}{path}"), Some(&ann), Some(body)).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), &*field));
    }
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_are_failures_in_the_envelope() {
    let world = World::new();
    for path in ["/", "/api/v1/nothing", "/api/v1/presence", "/api/v1/chats/x/y/z", "/api/v2"] {
        let answer = world.send(request("GET", path, Body::empty())).await;
        assert_eq!(answer.failure(), (404, "NOT_FOUND"), "{path}");
    }
    for (method, path, allow) in [
        ("PUT", "/api/v1/users/me", "GET,HEAD,PATCH,DELETE"),
        ("DELETE", "/api/v1/auth/refresh", "POST"),
        ("POST", "/api/v1", "GET,HEAD"),
        ("POST", "/openapi.json", "GET,HEAD"),
    ] {
        let answer = world.send(request(method, path, Body::empty())).await;
        assert_eq!(answer.failure(), (405, "METHOD_NOT_ALLOWED"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test]
async fn without_a_good_token_the_answer_is_401_and_says_bearer() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for authorization in ["", "Bearer", "Bearer x.y.z", "Basic YTpi", &ann.access_token] {
        let mut request = request("GET", "/api/v1/users/me", Body::empty());
        request.headers_mut().insert("authorization", authorization.parse().unwrap());
        let answer = world.send(request).await;
        assert_eq!(answer.failure(), (401, "UNAUTHORIZED"), "{authorization}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let mut lower = request("GET", "/api/v1/users/me", Body::empty());
    lower.headers_mut().insert("authorization", format!("bearer {}", ann.access_token).parse().unwrap());
    assert_eq!(world.send(lower).await.status, 200, "the scheme is not case-sensitive");
}

#[tokio::test]
async fn bodies_that_cannot_be_taken() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let token = format!("Bearer {}", ann.access_token);
    let big = format!(r#"{{"display_name":"{}"}}"#, "x".repeat(64 * 1024));
    let cases: [(&str, &str, u16, &str, &str); 10] = [
        ("PATCH /users/me", "{", 400, "VALIDATION_ERROR", "no field"),
        ("PATCH /users/me", "[]", 400, "VALIDATION_ERROR", "no field"),
        ("PATCH /users/me", "\"text\"", 400, "VALIDATION_ERROR", "no field"),
        ("PATCH /users/me", "{} {}", 400, "VALIDATION_ERROR", "no field"),
        ("PATCH /users/me", r#"{"display_name":7}"#, 400, "VALIDATION_ERROR", "display_name"),
        ("PATCH /users/me", &big, 413, "MESSAGE_TOO_LARGE", "no field"),
        ("POST /chats", "", 400, "VALIDATION_ERROR", "type"),
        ("POST /chats", r#"{"type":"room","member_ids":[]}"#, 400, "VALIDATION_ERROR", "type"),
        ("POST /chats", r#"{"type":"group","name":"x"}"#, 400, "VALIDATION_ERROR", "member_ids"),
        (
            "POST /chats",
            r#"{"type":"group","name":"x","member_ids":["chat_1"]}"#,
            400,
            "VALIDATION_ERROR",
            "member_ids[0]",
        ),
    ];
    for (route, body, status, code, field) in cases {
        let (method, path) = route.split_once(' ').unwrap();
        let mut request = request(method, &format!("/api/v1{path}"), Body::from(body.to_owned()));
        request.headers_mut().insert("authorization", token.parse().unwrap());
        let answer = world.send(request).await;
        let shown: String = body.chars().take(80).collect();
        assert_eq!((answer.failure(), answer.field()), ((status, code), field), "{route} {shown}");
    }
}

#[tokio::test]
async fn an_unavailable_store_is_a_503_without_internal_details() {
    let world = World::build(NO_LIMITS, NO_AUTH_LIMITS, |api| Api { users: Arc::new(UnavailableUserReader), ..api });
    let ann = world.person("Ann").await;
    let answer = world.get(&ann, "/users/me").await;
    assert_eq!(answer.failure(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.body["error"]["details"], json!({ "retry_after_seconds": 1 }));
    assert!(!answer.body.to_string().contains("db-3"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_a_503_and_not_a_hang() {
    let world = World::build(NO_LIMITS, NO_AUTH_LIMITS, |api| Api { users: Arc::new(Hanging), ..api });
    let ann = world.person("Ann").await;
    let before = tokio::time::Instant::now();
    assert_eq!(world.get(&ann, "/users/me").await.failure(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!(before.elapsed().as_secs(), 20);
}

#[tokio::test]
async fn no_answer_is_kept_by_caches() {
    let world = World::new();
    let ann = world.person("Ann").await;
    assert_eq!(world.get(&ann, "/users/me").await.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn the_service_lists_its_capabilities_and_limits() {
    let answer = World::new().call("GET", "", None, None).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.data()["protocol_version"], 1);
    assert_eq!(answer.data()["limits"]["content_bytes_max"], 4096);
    assert_eq!(answer.data()["limits"]["group_members_max"], 1000);
}
