//! Users of an external identity provider, with a real issuer in front of the real binary.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::server::TestServer;
use crate::unsafe_settings::Exposed;

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
async fn a_deceitful_name_of_an_issuer_is_cleaned_and_the_sign_in_succeeds() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[("TIDINGS_AUTH__EXTERNAL__NAME_FROM_ISSUER", "true")]).await;
    for (subject, name, expected) in [
        ("a", "Ann\u{202E} B\u{200B}ell", "Ann Bell"),
        ("b", "\u{410}nn", "\u{410}"),
        ("c", "\u{202E}", "User "),
        ("d", "\u{1D400}nn", "Ann"),
    ] {
        let token = issuer.token("JWT", json!({ "sub": subject, "name": name }));
        let (status, me) = call(&server, Method::GET, "/users/me", &token, Value::Null).await;
        assert_eq!(status, 200, "{me}");
        let stored = me["data"]["display_name"].as_str().unwrap();
        assert!(if subject == "c" { stored.starts_with(expected) } else { stored == expected }, "{me}");
    }
}

// The issuer answers while the test waits for the command.
#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_whose_keys_can_never_be_used_is_refused_at_start_and_by_doctor() {
    let empty = Issuer::publishing(|_| json!({ "keys": [] })).await;
    let without_discovery = format!("{}/tenant", empty.url);
    let settings = |issuer: &str, more: &str| {
        Exposed::new(&format!(
            "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n[auth.external]\nissuer = \"{issuer}\"\n\
             audience = \"tidings\"\n{more}"
        ))
    };
    for (case, cause, remedy) in [
        (
            settings("https://id.example", "jwks_file = \"keys.json\"\n"),
            "cannot read `keys.json`: No such file or directory (os error 2)",
            "set `auth.external.jwks_file` to a file with the JSON Web Key Set of the issuer",
        ),
        (
            settings(&without_discovery, ""),
            "cannot be read: the answer was 404 Not Found",
            "set `auth.external.issuer` to the issuer exactly as its tokens name it",
        ),
        (
            settings(&empty.url, ""),
            "no key of the set has a `kid` and is for RS256, ES256 or EdDSA signatures",
            "set `auth.external.issuer` to the issuer exactly as its tokens name it",
        ),
    ] {
        let refused = case.refused();
        assert!(refused.contains(cause) && refused.contains(remedy), "{refused}");
        let output = case.command(&["doctor"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains(" auth.external ")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.starts_with("BAD ") && line.contains(cause) && line.contains(remedy), "{line}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_prevents_no_start() {
    let unreachable =
        [("TIDINGS_AUTH__EXTERNAL__ISSUER", "http://127.0.0.1:1"), ("TIDINGS_AUTH__EXTERNAL__AUDIENCE", "tidings")];
    let server = TestServer::start_with(&unreachable).await;
    let log = server.log();
    let warning = "tokens of the external issuer are refused until its keys can be fetched";
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains(warning)), "{log}");
    let [ann] = server.sign_up_all(["Ann"]).await;
    ann.send(&ann.group("group", &[]).await, "sent").await;
}
