//! Users of an external identity provider, with a real issuer in front of the real binary.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::issuer::IssuerServer;
use crate::rules::rules;

rules!(
    on crate::issuer::IssuerServer::start(&crate::identity::SETTINGS);
    beside_an_issuer_sign_up_by_phone_can_be_switched_off,
    the_name_of_the_issuer_wins_and_users_cannot_rename_themselves,
    tokens_for_another_purpose_or_client_are_refused,
    a_deceitful_name_of_an_issuer_is_cleaned_and_the_sign_in_succeeds,
);

/// The issuer is the only source of users and of their names.
const SETTINGS: [(&str, &str); 2] =
    [("TIDINGS_AUTH__PHONE__ENABLED", "false"), ("TIDINGS_AUTH__EXTERNAL__NAME_FROM_ISSUER", "true")];

/// The status and the body of a call to a process.
async fn call(url: &str, method: Method, path: &str, token: &str, body: Value) -> (u16, Value) {
    let mut request = reqwest::Client::new().request(method.clone(), format!("{url}/api/v1{path}")).bearer_auth(token);
    if method != Method::GET {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The user of a token.
async fn me(url: &str, token: &str) -> (u16, Value) {
    call(url, Method::GET, "/users/me", token, Value::Null).await
}

async fn beside_an_issuer_sign_up_by_phone_can_be_switched_off(IssuerServer { issuer, server }: &IssuerServer) {
    let phone = "+14155550100";
    for (path, body) in [
        ("/auth/request-otp", json!({ "phone_number": phone })),
        ("/auth/verify-otp", json!({ "phone_number": phone, "otp": "000000", "device_id": Uuid::new_v4() })),
    ] {
        let (status, body) = call(&server.base_url(), Method::POST, path, "", body).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("INVALID_OPERATION")), "{body}");
        let reason = "sign-in with a phone number is off on this server; sign in with your identity provider";
        assert_eq!(body["error"]["message"], reason);
    }
    // The issuer is all that is configured: its keys are discovered.
    let token = issuer.token("JWT", json!({ "sub": "without-phone", "name": "Ann" }));
    let (status, body) = me(&server.base_url(), &token).await;
    assert_eq!((status, &body["data"]["display_name"]), (200, &json!("Ann")), "{body}");
}

async fn the_name_of_the_issuer_wins_and_users_cannot_rename_themselves(
    IssuerServer { issuer, server }: &IssuerServer,
) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let token = |name: &str, iat: u64| issuer.token("JWT", json!({ "sub": "renamed", "name": name, "iat": iat }));
    let (first, second) = (token("Ann", now - 10), token("Ann Andersson", now));
    let name_with = async |url: &str, token: &str| {
        let (status, body) = me(url, token).await;
        assert_eq!(status, 200, "{body}");
        body["data"]["display_name"].as_str().unwrap().to_owned()
    };
    let urls = server.api_urls();
    for url in &urls {
        let patch = async |body: Value| call(url, Method::PATCH, "/users/me", &first, body).await;
        assert_eq!(name_with(url, &first).await, "Ann");
        let (status, body) = patch(json!({ "display_name": "The Director" })).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("INVALID_OPERATION")), "{body}");
        let (status, body) = patch(json!({ "presence_visibility": "nobody" })).await;
        assert_eq!((status, &body["data"]["display_name"]), (200, &json!("Ann")), "{body}");
    }
    // Each process knows the tokens that it has seen.
    for url in &urls {
        assert_eq!(name_with(url, &second).await, "Ann Andersson");
    }
    for url in &urls {
        assert_eq!(name_with(url, &first).await, "Ann Andersson", "an older token does not bring the old name back");
    }
}

async fn tokens_for_another_purpose_or_client_are_refused(IssuerServer { issuer, server }: &IssuerServer) {
    let audiences = json!(["tidings", "shop"]);
    for (token, expected) in [
        (issuer.token("at+jwt", json!({ "sub": "client" })), 200),
        (issuer.token("logout+jwt", json!({ "sub": "client" })), 401),
        (issuer.token("JWT", json!({ "sub": "client", "aud": audiences, "azp": "tidings" })), 200),
        (issuer.token("JWT", json!({ "sub": "client", "aud": audiences, "azp": "shop" })), 401),
    ] {
        let (status, body) = me(&server.base_url(), &token).await;
        assert_eq!(status, expected, "{body}");
    }
}

async fn a_deceitful_name_of_an_issuer_is_cleaned_and_the_sign_in_succeeds(
    IssuerServer { issuer, server }: &IssuerServer,
) {
    for (subject, name, expected) in [
        ("a", "Ann\u{202E} B\u{200B}ell", "Ann Bell"),
        ("b", "\u{410}nn", "\u{410}"),
        ("c", "\u{202E}", "User "),
        ("d", "\u{1D400}nn", "Ann"),
    ] {
        let token = issuer.token("JWT", json!({ "sub": subject, "name": name }));
        let (status, me) = me(&server.base_url(), &token).await;
        assert_eq!(status, 200, "{me}");
        let stored = me["data"]["display_name"].as_str().unwrap();
        assert!(if subject == "c" { stored.starts_with(expected) } else { stored == expected }, "{me}");
    }
}
