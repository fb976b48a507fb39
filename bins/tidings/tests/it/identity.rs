//! Users of an external identity provider, with a real issuer in front of the real binary.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::issuer::{Issuer, IssuerServer};
use crate::rules::rules;
use crate::webhook::{said, tidings};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_subject_of_the_issuer_is_shown_to_the_user_and_to_operators_alone() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[]).await;
    let (url, subject) = (server.base_url(), "ann/42@shop.example");
    let ann = issuer.token("JWT", json!({ "sub": subject, "name": "Ann" }));
    let bob = issuer.token("JWT", json!({ "sub": "bob", "name": "Bob" }));
    let (_, me) = call(&url, Method::GET, "/users/me", &ann, Value::Null).await;
    assert_eq!(me["data"]["external_id"], subject, "{me}");
    let ann_id = me["data"]["user_id"].as_str().unwrap();
    let (_, export) = call(&url, Method::GET, "/users/me/export", &ann, Value::Null).await;
    assert_eq!(export["data"]["user"]["external_id"], subject, "{export}");
    let phone_user = server.sign_up("Dee").await;
    assert_eq!(phone_user.get("/users/me").await.data(200).get("external_id"), None);

    // Everything that Bob can see of Ann.
    let group = json!({ "type": "group", "name": "Shop", "member_ids": [ann_id] });
    let (status, chat) = call(&url, Method::POST, "/chats", &bob, group).await;
    assert_eq!(status, 201, "{chat}");
    let chat_id = chat["data"]["chat_id"].as_str().unwrap();
    let message = json!({ "client_message_id": uuid::Uuid::new_v4(), "content": "Hello" });
    let (status, sent) = call(&url, Method::POST, &format!("/chats/{chat_id}/messages"), &bob, message).await;
    assert_eq!(status, 201, "{sent}");
    call(&url, Method::PUT, &format!("/contacts/{ann_id}"), &bob, json!({})).await;
    for path in [
        format!("/users/{ann_id}"),
        format!("/users/{ann_id}/presence"),
        "/contacts".to_owned(),
        "/chats".to_owned(),
        format!("/chats/{chat_id}"),
        format!("/chats/{chat_id}/receipts"),
        "/users/me/export".to_owned(),
    ] {
        let (status, body) = call(&url, Method::GET, &path, &bob, Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        let shows_ann = body.to_string();
        let is_of_ann = !["/chats", "/users/me/export"].contains(&&*path) && !path.ends_with("presence");
        assert!(shows_ann.contains(ann_id) || !is_of_ann, "{path} is about Ann: {body}");
        assert!(!shows_ann.contains(subject), "{path}: {body}");
    }

    let found = tidings(&server, &["admin", "user", "find", subject]).await;
    assert_eq!(said(&found), format!("{ann_id}  Ann  {subject}\n"));
    let found = tidings(&server, &["admin", "user", "find", ann_id]).await;
    assert_eq!(said(&found), format!("{ann_id}  Ann  {subject}\n"));
    let shown = tidings(&server, &["admin", "user", "show", subject]).await;
    assert!(said(&shown).contains(&format!("id at the identity provider: {subject}\n")), "{shown:?}");
    let unknown = tidings(&server, &["admin", "user", "find", "ann"]).await;
    assert_eq!((unknown.status.code(), said_anyway(&unknown)), (Some(1), "no user is found by `ann`\n"));
    let trail = std::fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    assert!(trail.contains("an external id") && trail.contains(ann_id), "{trail}");
    assert!(!trail.contains(subject), "{trail}");

    let deleted = tidings(&server, &["admin", "user", "delete", subject, "--yes"]).await;
    assert!(deleted.status.success(), "{deleted:?}");
    let gone = tidings(&server, &["admin", "user", "find", subject]).await;
    assert_eq!(gone.status.code(), Some(1), "the id of a deleted account finds nobody");
    let shown = tidings(&server, &["admin", "user", "show", ann_id, "--json"]).await;
    assert!(!said(&shown).contains(subject), "{shown:?}");
}

/// The standard output of a command with any exit code.
fn said_anyway(output: &std::process::Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
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
