//! The stream of security events of the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::server::{RestResponse, TestServer};
use crate::webhook::{said, tidings};

async fn server(file: &Path, more: &[(&str, &str)]) -> TestServer {
    let file = ("TIDINGS_SECURITY_EVENTS__FILE", file.to_str().unwrap());
    TestServer::start_with(&[&[file], more].concat()).await
}

/// Stops a server and reads its events, parsed and as text.
async fn events(mut server: TestServer, file: &Path) -> (Vec<Value>, String) {
    assert!(server.stop().await.0.success());
    let text = fs::read_to_string(file).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), text)
}

/// The kind, outcome and reason of each event.
fn facts(events: &[Value]) -> Vec<[&str; 3]> {
    let mut facts = Vec::new();
    for event in events {
        facts.push(["kind", "outcome", "reason"].map(|name| event[name].as_str().unwrap_or_default()));
    }
    facts
}

#[tokio::test]
async fn sign_ins_and_their_ends_are_security_events_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.jsonl");
    let proxies = ("TIDINGS_TRUSTED_PROXIES", "127.0.0.0/8");
    let server = server(&file, &[proxies, ("TIDINGS_SECURITY_EVENTS__LOG", "true")]).await;
    let ann = server.sign_up("Ann").await;
    let bob = server.sign_up("Bob").await;
    let group = ann.group("Sailing", &[&bob]).await;

    let wrong = json!({ "phone_number": ann.phone_number, "otp": "999999", "device_id": ann.device_id });
    let request = ann.anonymous(Method::POST, "/api/v1/auth/verify-otp").header("x-forwarded-for", "192.0.2.7");
    RestResponse::of(request.json(&wrong)).await.refused(401, "UNAUTHORIZED");
    let role = ann.request(Method::PATCH, &format!("/chats/{group}/members/{}", bob.user_id));
    RestResponse::of(role.json(&json!({ "role": "admin" }))).await.data(200);
    // Only the last spent token is forgiven, and the first one is older.
    let refresh = async |token: &str| {
        let body = json!({ "refresh_token": token, "device_id": bob.device_id });
        bob.post("/auth/refresh", body).await
    };
    let second = refresh(&bob.refresh_token).await.data(200)["tokens"]["refresh_token"].as_str().unwrap().to_owned();
    refresh(&second).await.data(200);
    refresh(&bob.refresh_token).await.refused(401, "UNAUTHORIZED");
    let body = json!({ "confirm": ann.user_id, "erase_messages": false });
    RestResponse::of(ann.request(Method::DELETE, "/users/me").json(&body)).await.data(202);

    server.until(async || server.log().contains("refresh_reuse_detected")).await;
    let (events, text) = events(server, &file).await;
    let signed_up = [["code_requested", "success", ""], ["sign_in", "success", "new_user"]];
    let rest = [
        ["sign_in_failed", "failure", "wrong_code"],
        ["role_changed", "success", ""],
        ["refresh_reuse_detected", "failure", "spent_token"],
        ["session_revoked", "success", "refresh_reuse"],
        ["account_deleted", "success", ""],
        ["session_revoked", "success", "revoked"],
    ];
    assert_eq!(facts(&events), [&signed_up[..], &signed_up, &rest].concat(), "{text}");
    let [sign_in, failed, changed, reused] = [1, 4, 5, 6].map(|at| &events[at]);
    let ids = [&sign_in["user_id"], &sign_in["session_id"], &sign_in["device_id"], &sign_in["address"]];
    assert_eq!(ids, [&json!(ann.user_id), &json!(ann.session_id), &json!(ann.device_id), &json!("127.0.0.1")]);
    assert_eq!((&failed["address"], &failed["user_id"]), (&json!("192.0.2.7"), &Value::Null));
    let change = [&changed["user_id"], &changed["by_user_id"], &changed["chat_id"], &changed["role"]];
    assert_eq!(change, [&json!(bob.user_id), &json!(ann.user_id), &json!(group), &json!("admin")]);
    assert_eq!((&reused["user_id"], &reused["session_id"]), (&json!(bob.user_id), &json!(bob.session_id)));
    for secret in
        [&ann.phone_number[1..], &bob.phone_number[1..], &ann.access_token, &second, "999999", "000000", "Ann"]
    {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn the_first_token_of_a_user_of_an_issuer_is_a_security_event() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.jsonl");
    let issuer = Issuer::start().await;
    let server = issuer.server(&[("TIDINGS_SECURITY_EVENTS__FILE", file.to_str().unwrap())]).await;
    let url = format!("{}/api/v1/users/me", server.base_url());
    let mut user_ids = vec![];
    for subject in ["ann", "bob", "ann"] {
        let token = issuer.token("JWT", json!({ "sub": subject }));
        let response = reqwest::Client::new().get(&url).bearer_auth(token).send().await.unwrap();
        let mut me: Value = response.json().await.unwrap();
        user_ids.push(me["data"]["user_id"].take());
    }
    let (events, text) = events(server, &file).await;
    assert_eq!(facts(&events), [["sign_in", "success", "new_external_user"]; 2], "{text}");
    for ((event, user_id), subject) in events.iter().zip(&user_ids).zip(["ann", "bob"]) {
        assert_eq!((&event["user_id"], &event["address"]), (user_id, &json!("127.0.0.1")), "{text}");
        assert_eq!(event["external_id"], subject, "{text}");
        assert_eq!(event["session_id"], Value::Null, "the issuer has the session");
    }
    assert_eq!(user_ids[0], user_ids[2]);
}

#[tokio::test]
async fn actions_of_operators_are_security_events() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.jsonl");
    let server = server(&file, &[]).await;
    let ulf = server.sign_up("Ulf").await;
    let base_url = format!("{}/admin/v1", server.admin_url());
    let http = reqwest::Client::new();
    let call = async |path: &str, token: &str| {
        let request = http.post(format!("{base_url}{path}")).bearer_auth(token).json(&json!({}));
        request.send().await.unwrap().status().as_u16()
    };
    let token =
        said(&tidings(&server, &["admin", "operator", "add", "ann", "--role", "viewer"]).await).trim().to_owned();
    let suspend = format!("/users/{}/suspend", ulf.user_id);
    assert_eq!([call(&suspend, "guess").await, call(&suspend, &token).await], [401, 403]);
    said(&tidings(&server, &["admin", "user", "suspend", &ulf.user_id, "--yes"]).await);
    said(&tidings(&server, &["admin", "user", "resume", &ulf.user_id]).await);
    said(&tidings(&server, &["admin", "user", "sign-out", &ulf.user_id, "--yes"]).await);
    let metrics = server.metrics().await;
    assert!(metrics.contains("tidings_security_events_total{kind=\"user_suspended\"} 1"), "{metrics}");
    assert!(metrics.contains("tidings_security_events_dropped_total{reason=\"queue_full\"} 0"), "{metrics}");

    let trail = fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    let (events, text) = events(server, &file).await;
    let expected = [
        ["operator_sign_in", "success", ""],
        ["operator_action", "success", ""],
        ["operator_refused", "failure", "unknown_token"],
        ["operator_sign_in", "success", ""],
        ["operator_refused", "failure", "role"],
        ["user_suspended", "success", ""],
        ["operator_action", "success", ""],
        ["user_resumed", "success", ""],
        ["operator_action", "success", ""],
        ["session_revoked", "success", "revoked"],
        ["user_signed_out", "success", ""],
        ["operator_action", "success", ""],
    ];
    assert_eq!(facts(&events)[2..], expected, "{text}");
    let of = |at: usize| (events[at + 2]["operator"].as_str(), events[at + 2]["user_id"].as_str());
    assert_eq!(
        [of(0), of(2), of(3), of(4)],
        [(Some("root"), None), (None, None), (Some("ann"), None), (Some("ann"), None)]
    );
    assert_eq!([of(5), of(9)], [(Some("root"), Some(&*ulf.user_id)); 2]);
    assert!(events[2..].iter().all(|event| event["address"] == "127.0.0.1"), "{text}");
    let hash = events[3]["audit_hash"].as_str().unwrap();
    assert!(trail.contains(&format!("\"hash\":\"{hash}\"")), "{hash} is in {trail}");
    assert!(!text.contains(&token) && !text.contains("guess"), "{text}");
}
