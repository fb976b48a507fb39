use axum::body::Body;
use serde_json::json;

use crate::world::{CODE, World, request};

#[tokio::test]
async fn the_first_sign_in_is_201_and_the_next_200() {
    let world = World::new();
    let phone = json!({ "phone_number": "+14155550100" });
    let asked = world.call("POST", "/auth/request-otp", None, Some(phone.clone())).await;
    assert_eq!(
        asked.data(),
        &json!({ "phone_number": "+14155550100", "expires_at": "2026-01-30T14:35:00.000Z", "retry_after_seconds": 0 })
    );
    let verify = json!({
        "phone_number": "+14155550100", "otp": CODE, "device_id": "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10", "display_name": "Ann",
    });
    let first = world.call("POST", "/auth/verify-otp", None, Some(verify.clone())).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.data()["is_new_user"], true);
    assert_eq!(first.data()["user"]["display_name"], "Ann");
    assert_eq!(first.data()["session"]["device_id"], "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10");
    assert_eq!(first.data()["session"]["is_current"], true);
    assert_eq!(first.data()["tokens"]["token_type"], "Bearer");
    assert_eq!(first.data()["tokens"]["expires_in"], 3600);

    world.call("POST", "/auth/request-otp", None, Some(phone)).await;
    let second = world.call("POST", "/auth/verify-otp", None, Some(verify)).await;
    assert_eq!(second.status, 200);
    assert_eq!(second.data()["is_new_user"], false);
    assert_eq!(second.data()["user"]["user_id"], first.data()["user"]["user_id"]);
}

#[tokio::test]
async fn wrong_codes_are_401_and_the_sixth_try_is_locked_out() {
    let world = World::new();
    world.call("POST", "/auth/request-otp", None, Some(json!({ "phone_number": "+14155550100" }))).await;
    let wrong = json!({
        "phone_number": "+14155550100", "otp": "123456", "device_id": "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10",
    });
    for _ in 0..5 {
        let answer = world.call("POST", "/auth/verify-otp", None, Some(wrong.clone())).await;
        assert_eq!(answer.failure(), (401, "UNAUTHORIZED"));
    }
    let answer = world.call("POST", "/auth/verify-otp", None, Some(wrong)).await;
    assert_eq!(answer.failure(), (429, "RATE_LIMITED"));
    assert_eq!(answer.header("retry-after"), Some("900"));
    assert_eq!(answer.body["error"]["details"], json!({ "limit": "otp_verify", "retry_after_seconds": 900 }));
}

#[tokio::test]
async fn sign_in_requests_that_cannot_be_taken_name_their_field() {
    let world = World::new();
    let device = "2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10";
    let cases = [
        ("/auth/request-otp", json!({}), "phone_number"),
        ("/auth/request-otp", json!({ "phone_number": "555" }), "phone_number"),
        ("/auth/verify-otp", json!({ "phone_number": "555", "otp": CODE, "device_id": device }), "phone_number"),
        ("/auth/verify-otp", json!({ "phone_number": "+14155550100", "device_id": device }), "otp"),
        ("/auth/verify-otp", json!({ "phone_number": "+14155550100", "otp": CODE, "device_id": "tv" }), "device_id"),
        (
            "/auth/verify-otp",
            json!({ "phone_number": "+14155550100", "otp": CODE, "device_id": device, "display_name": "" }),
            "display_name",
        ),
        ("/auth/refresh", json!({ "device_id": device }), "refresh_token"),
    ];
    for (path, body, field) in cases {
        let answer = world.call("POST", path, None, Some(body.clone())).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{path} {body}");
    }
}

#[tokio::test]
async fn refreshing_gives_a_pair_that_works() {
    let world = World::new();
    let mut ann = world.person("Ann").await;
    let body = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    let answer = world.call("POST", "/auth/refresh", None, Some(body)).await;
    ann.access_token = answer.text("/tokens/access_token");
    assert_ne!(answer.text("/tokens/refresh_token"), ann.refresh_token);
    assert_eq!(world.get(&ann, "/users/me").await.status, 200);

    let nonsense = json!({ "refresh_token": "rt_nonsense", "device_id": ann.device_id });
    let answer = world.call("POST", "/auth/refresh", None, Some(nonsense)).await;
    assert_eq!(answer.failure(), (401, "UNAUTHORIZED"));
}

#[tokio::test]
async fn after_logout_the_token_is_void() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let answer = world.call("POST", "/auth/logout", Some(&ann), None).await;
    assert_eq!((answer.status, answer.body), (204, serde_json::Value::Null));
    assert_eq!(world.get(&ann, "/users/me").await.failure(), (401, "UNAUTHORIZED"));
    assert_eq!(world.sockets.closed(), 1);
}

#[tokio::test]
async fn a_ticket_lasts_thirty_seconds() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let answer = world.call("POST", "/auth/ws-ticket", Some(&ann), None).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.text("/ticket").is_empty());
    assert_eq!(answer.data()["expires_at"], "2026-01-30T14:30:30.000Z");
}

#[tokio::test]
async fn the_public_keys_are_at_the_root() {
    let answer = World::new().send(request("GET", "/.well-known/jwks.json", Body::empty())).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["keys"].as_array().unwrap().len(), 1);
    assert_eq!(answer.body["keys"][0]["d"], serde_json::Value::Null, "nothing private");
}
