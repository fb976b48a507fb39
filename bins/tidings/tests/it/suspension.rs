//! Suspended users, and revoked tokens of users of an external identity provider.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;
use uuid::Uuid;

use crate::issuer::{Issuer, IssuerServer};
use crate::rules::rules;
use crate::server::{ATTEMPTS, BUSY, RestResponse, TestDevice, TestServer, TestSocket};
use crate::webhook::{said, tidings};

rules!(
    on crate::issuer::IssuerServer::start(&[]);
    a_deleted_user_of_an_issuer_is_cut_off_and_older_tokens_create_no_new_user,
    signing_out_everywhere_ends_sessions_and_older_tokens_of_an_issuer,
    a_revoked_token_is_refused_and_another_token_of_its_user_is_not,
);

/// A device of a user of the issuer. The first call creates the user.
async fn external(like: &TestDevice, token: String) -> TestDevice {
    let mut device = like.clone();
    (device.access_token, device.device_id) = (token, Uuid::new_v4());
    device.user_id = device.get("/users/me").await.data(200)["user_id"].as_str().unwrap().to_owned();
    device
}

/// Another device that uses the same token.
fn beside(device: &TestDevice) -> TestDevice {
    let mut other = device.clone();
    other.device_id = Uuid::new_v4();
    other
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The status and the error of a refused handshake.
async fn refused_handshake(device: &TestDevice) -> (u16, Value) {
    match TestSocket::try_open(device.handshake()).await {
        Err(tungstenite::Error::Http(response)) => {
            let body: Value = serde_json::from_slice(response.body().as_deref().unwrap_or_default()).unwrap();
            (response.status().as_u16(), body["error"].clone())
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the handshake is accepted"),
    }
}

/// Runs a command of operators, and asserts that these sockets close within a second of it. Returns when it has run.
async fn close_all(server: &TestServer, command: &[&str], sockets: &mut [TestSocket], reason: &str) -> Instant {
    said(&tidings(server, &[&["admin", "user"], command].concat()).await);
    let start = Instant::now();
    for socket in sockets {
        let closed = socket.closed().await;
        assert_eq!((closed.code, &*closed.reason), (4001, reason));
    }
    assert!(start.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", start.elapsed());
    start
}

/// Waits until every API process answers a user's calls with this status.
async fn until_answered(server: &TestServer, user: &TestDevice, status: u16) {
    for url in server.api_urls() {
        let user = user.at(&url);
        server.until(async || user.get("/users/me").await.status == status).await;
    }
}

/// Asserts that every API process answers a user's calls with this status, at the latest a second after `since`.
async fn answered_within_a_second(server: &TestServer, user: &TestDevice, status: u16, since: Instant) {
    until_answered(server, user, status).await;
    assert!(since.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", since.elapsed());
    for url in server.api_urls() {
        let user = user.at(&url);
        assert_eq!(user.get("/users/me").await.status, status, "it does not change again");
        assert_eq!(user.patch("/users/me", json!({ "display_name": "Eve" })).await.status, status);
    }
}

async fn assert_suspended(server: &TestServer, user: &TestDevice, chat_id: &str) {
    until_answered(server, user, 403).await;
    let refusal = user.get("/users/me").await.refused(403, "FORBIDDEN");
    assert_eq!(refusal["details"], json!({ "reason": "account_suspended" }));
    let message = json!({ "client_message_id": Uuid::new_v4(), "content": "hello" });
    user.post(&format!("/chats/{chat_id}/messages"), message).await.refused(403, "FORBIDDEN");
    user.post("/auth/ws-ticket", json!({})).await.refused(403, "FORBIDDEN");
    assert_eq!(refused_handshake(user).await, (403, json!("account_suspended")));
    let trail = std::fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    let actions: Vec<Value> = trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let target = format!("/users/{}/suspend", user.user_id);
    let recorded = |action: &Value| action["target"] == target && action["request"]["reason"] == "spam";
    assert!(actions.iter().any(recorded), "{trail}");
}

#[tokio::test]
async fn a_suspended_user_is_refused_everywhere_until_the_suspension_ends() {
    let issuer = Issuer::start().await;
    let mut server = issuer.server(&[]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let eve = external(&bob, issuer.token("JWT", json!({ "sub": "eve", "name": "Eve" }))).await;
    let chat_id = bob.group("Club", &[&ann, &eve]).await;
    let mut bobs = bob.connect().await;
    for user in [&ann, &eve] {
        let second = if user.user_id == ann.user_id { server.another_device(&ann).await } else { beside(&eve) };
        let mut sockets = [user.connect().await, second.connect().await];
        sockets[0].send_message(&chat_id, "before").await;
        let suspend = ["suspend", &user.user_id, "--reason", "spam", "--yes"];
        let since = close_all(&server, &suspend, &mut sockets, "session_revoked").await;
        answered_within_a_second(&server, user, 403, since).await;
        assert_suspended(&server, user, &chat_id).await;
    }
    let refresh = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.refused(403, "FORBIDDEN");
    let otp = json!({ "phone_number": ann.phone_number, "otp": "000000", "device_id": ann.device_id });
    let phone = json!({ "phone_number": ann.phone_number });
    server.call(Method::POST, "/api/v1/auth/request-otp", Some(&phone)).await.data(200);
    server.call(Method::POST, "/api/v1/auth/verify-otp", Some(&otp)).await.refused(403, "FORBIDDEN");
    assert_eq!(bobs.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "others stay");

    server.stop().await;
    server.restart().await;
    for user in [&ann, &eve] {
        assert_suspended(&server, user, &chat_id).await;
        let shown = said(&tidings(&server, &["admin", "user", "show", &user.user_id]).await).to_owned();
        assert!(shown.contains(", reason: spam\n"), "{shown}");
        said(&tidings(&server, &["admin", "user", "resume", &user.user_id]).await);
        until_answered(&server, user, 200).await;
        // Other processes may apply the suspension for another second.
        let message = || json!({ "client_message_id": Uuid::new_v4(), "content": "again" });
        let path = format!("/chats/{chat_id}/messages");
        server.until(async || user.post(&path, message()).await.status == 201).await;
        user.connect().await;
    }
    let refresh = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.data(200);
}

#[tokio::test]
async fn sockets_close_within_a_second_of_a_suspension() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut quickest = Duration::MAX;
    for _ in 0..ATTEMPTS {
        let mut sockets = [ann.connect_eventually().await];
        let suspend = ["suspend", &ann.user_id, "--yes"];
        quickest = close_all(&server, &suspend, &mut sockets, "session_revoked").await.elapsed().min(quickest);
        if quickest <= Duration::from_secs(1) {
            return;
        }
        said(&tidings(&server, &["admin", "user", "resume", &ann.user_id]).await);
        until_answered(&server, &ann, 200).await;
    }
    panic!("no attempt of {ATTEMPTS} took less than {quickest:?}");
}

async fn a_deleted_user_of_an_issuer_is_cut_off_and_older_tokens_create_no_new_user(
    IssuerServer { issuer, server }: &IssuerServer,
) {
    let bob = server.sign_up("Bob").await;
    let token = |iat: u64| issuer.token("JWT", json!({ "sub": "deleted", "iat": iat }));
    let eve = external(&bob, token(now() - 10)).await;
    eve.direct_chat(&bob).await;
    let mut sockets = [eve.connect().await, beside(&eve).connect().await];

    let start = Instant::now();
    let body = json!({ "confirm": eve.user_id, "erase_messages": false });
    RestResponse::of(eve.request(Method::DELETE, "/users/me").json(&body)).await.data(202);
    for socket in &mut sockets {
        let closed = socket.closed().await;
        assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));
    }
    answered_within_a_second(server, &eve, 401, start).await;
    eve.get("/users/me").await.refused(401, "UNAUTHORIZED");
    assert_eq!(refused_handshake(&eve).await, (401, json!("token_revoked")));
    let again = external(&bob, token(now() + 5)).await;
    assert_ne!(again.user_id, eve.user_id, "a token from after the deletion belongs to a new account");
}

async fn signing_out_everywhere_ends_sessions_and_older_tokens_of_an_issuer(
    IssuerServer { issuer, server }: &IssuerServer,
) {
    let ann = server.sign_up("Ann").await;
    let token = |iat: u64| issuer.token("JWT", json!({ "sub": "signed-out", "iat": iat }));
    let mut eve = external(&ann, token(now() - 10)).await;
    for user in [&ann, &eve] {
        let mut sockets = [user.connect().await];
        let sign_out = ["sign-out", &user.user_id, "--yes"];
        let since = close_all(server, &sign_out, &mut sockets, "session_revoked").await;
        answered_within_a_second(server, user, 401, since).await;
        user.get("/users/me").await.refused(401, "UNAUTHORIZED");
        assert_eq!(refused_handshake(user).await, (401, json!("token_revoked")));
    }
    eve.access_token = token(now() + 5);
    eve.connect().await;
    let ann = server.sign_in(&ann.phone_number, "").await;
    ann.connect().await;
}

async fn a_revoked_token_is_refused_and_another_token_of_its_user_is_not(
    IssuerServer { issuer, server }: &IssuerServer,
) {
    let ann = server.sign_up("Ann").await;
    let token = |id: &str| issuer.token("JWT", json!({ "sub": "revoked", "jti": id }));
    let (stolen, kept) = (external(&ann, token("stolen")).await, external(&ann, token("kept")).await);
    let mut sockets = [stolen.connect().await, kept.connect().await];
    let revoke = ["revoke-token", &stolen.user_id, "stolen", "--hours", "1"];
    let since = close_all(server, &revoke, &mut sockets, "token_expired").await;
    answered_within_a_second(server, &stolen, 401, since).await;
    stolen.get("/users/me").await.refused(401, "UNAUTHORIZED");
    assert_eq!(refused_handshake(&stolen).await, (401, json!("token_revoked")));
    kept.connect().await;

    let claims = BASE64_URL_SAFE_NO_PAD.decode(ann.access_token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let revoke = ["revoke-token", &ann.user_id, claims["jti"].as_str().unwrap()];
    let since = close_all(server, &revoke, &mut [ann.connect().await], "token_expired").await;
    answered_within_a_second(server, &ann, 401, since).await;
    ann.get("/users/me").await.refused(401, "UNAUTHORIZED");
    let refresh = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    let tokens = server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.data(200);
    let mut ann = ann;
    ann.access_token = tokens["tokens"]["access_token"].as_str().unwrap().to_owned();
    ann.connect().await;
}
