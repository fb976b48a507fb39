//! Users of an external identity provider, with a real issuer in front of the real binary.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::server::TestServer;

/// The status and the body of a call.
async fn call(server: &TestServer, method: Method, path: &str, token: &str, body: Value) -> (u16, Value) {
    let url = format!("{}/api/v1{path}", server.base_url());
    let mut request = reqwest::Client::new().request(method.clone(), url).bearer_auth(token);
    if method != Method::GET {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn beside_an_issuer_sign_up_by_phone_can_be_switched_off() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[("TIDINGS_AUTH__PHONE__ENABLED", "false")]).await;
    let phone = "+14155550100";
    let device = uuid::Uuid::new_v4();
    for (path, body) in [
        ("/auth/request-otp", json!({ "phone_number": phone })),
        ("/auth/verify-otp", json!({ "phone_number": phone, "otp": "000000", "device_id": device })),
    ] {
        let (status, body) = call(&server, Method::POST, path, "", body).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("INVALID_OPERATION")), "{body}");
        let reason = "sign-in with a phone number is off on this server; sign in with your identity provider";
        assert_eq!(body["error"]["message"], reason);
    }
    // The issuer is all that is configured: its keys are discovered.
    let token = issuer.token("JWT", json!({ "name": "Ann" }));
    let (status, body) = call(&server, Method::GET, "/users/me", &token, Value::Null).await;
    assert_eq!((status, &body["data"]["display_name"]), (200, &json!("Ann")), "{body}");
}

#[tokio::test]
async fn the_name_of_the_issuer_wins_and_users_cannot_rename_themselves() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[("TIDINGS_AUTH__EXTERNAL__NAME_FROM_ISSUER", "true")]).await;
    let name_with = async |token: &str| {
        let (status, body) = call(&server, Method::GET, "/users/me", token, Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body["data"]["display_name"].as_str().unwrap().to_owned()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let first = issuer.token("JWT", json!({ "name": "Ann", "iat": now - 10 }));
    assert_eq!(name_with(&first).await, "Ann");
    let (status, body) =
        call(&server, Method::PATCH, "/users/me", &first, json!({ "display_name": "The Director" })).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("INVALID_OPERATION")), "{body}");
    let (status, body) =
        call(&server, Method::PATCH, "/users/me", &first, json!({ "presence_visibility": "nobody" })).await;
    assert_eq!((status, &body["data"]["display_name"]), (200, &json!("Ann")), "{body}");
    let second = issuer.token("JWT", json!({ "name": "Ann Andersson", "iat": now }));
    assert_eq!(name_with(&second).await, "Ann Andersson");
    assert_eq!(name_with(&first).await, "Ann Andersson", "an older token does not bring the old name back");
}

#[tokio::test]
async fn tokens_for_another_purpose_or_client_are_refused() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[]).await;
    let audiences = json!(["tidings", "shop"]);
    for (token, expected) in [
        (issuer.token("at+jwt", json!({})), 200),
        (issuer.token("logout+jwt", json!({})), 401),
        (issuer.token("JWT", json!({ "aud": audiences, "azp": "tidings" })), 200),
        (issuer.token("JWT", json!({ "aud": audiences, "azp": "shop" })), 401),
    ] {
        let (status, body) = call(&server, Method::GET, "/users/me", &token, Value::Null).await;
        assert_eq!(status, expected, "{body}");
    }
}

#[tokio::test]
async fn a_deceitful_name_of_an_issuer_is_cleaned_and_keeps_nobody_out() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[("TIDINGS_AUTH__EXTERNAL__NAME_FROM_ISSUER", "true")]).await;
    for (subject, name, expected) in
        [("a", "Ann\u{202E} B\u{200B}ell", "Ann Bell"), ("b", "\u{410}nn", "\u{410}"), ("c", "\u{202E}", "User ")]
    {
        let token = issuer.token("JWT", json!({ "sub": subject, "name": name }));
        let (status, me) = call(&server, Method::GET, "/users/me", &token, Value::Null).await;
        assert_eq!(status, 200, "{me}");
        let stored = me["data"]["display_name"].as_str().unwrap();
        assert!(if subject == "c" { stored.starts_with(expected) } else { stored == expected }, "{me}");
    }
}
