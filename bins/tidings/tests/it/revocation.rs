use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::rules::rules;
use crate::server::{ATTEMPTS, BUSY, TestDevice, TestServer, TestSocket};

rules!(
    a_revoked_session_loses_its_sockets_within_a_second_and_its_tokens_at_once,
    logging_out_closes_the_devices_own_socket,
    a_spent_refresh_token_of_another_device_revokes_the_session,
);

/// Revokes the session of another device of a user. Returns the device, and the time until its socket was closed.
async fn revoked(server: &TestServer, phone: &TestDevice) -> (TestDevice, Duration) {
    let lost = server.another_device(phone).await;
    let mut socket = lost.connect().await;
    let start = Instant::now();
    assert_eq!(phone.delete(&format!("/sessions/{}", lost.session_id)).await.status, 204);
    let closed = socket.closed().await;
    let took = start.elapsed();
    assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));
    assert!(took < Duration::from_secs(1) + BUSY, "{took:?}");
    (lost, took)
}

async fn a_revoked_session_loses_its_sockets_within_a_second_and_its_tokens_at_once(server: &TestServer) {
    let phone = server.sign_up("Ann").await;
    let mut phone_socket = phone.connect().await;
    let (lost, mut quickest) = revoked(server, &phone).await;
    for _ in 1..ATTEMPTS {
        if quickest > Duration::from_secs(1) {
            quickest = revoked(server, &phone).await.1.min(quickest);
        }
    }
    assert!(quickest <= Duration::from_secs(1), "no attempt of {ATTEMPTS} took less than {quickest:?}");

    for url in server.api_urls() {
        let lost = lost.at(&url);
        lost.get("/users/me").await.refused(401, "UNAUTHORIZED");
        lost.patch("/users/me", json!({ "display_name": "Eve" })).await.refused(401, "UNAUTHORIZED");
        lost.post("/auth/ws-ticket", json!({})).await.refused(401, "UNAUTHORIZED");
        phone.at(&url).get("/users/me").await.data(200);
    }
    let refresh = json!({ "refresh_token": lost.refresh_token, "device_id": lost.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.refused(401, "UNAUTHORIZED");
    assert!(TestSocket::try_open(lost.handshake()).await.is_err());

    assert_eq!(phone_socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "the other device stays");
    assert_eq!(phone.get("/sessions").await.data(200)["sessions"].as_array().unwrap().len(), 1);
}

async fn logging_out_closes_the_devices_own_socket(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    assert_eq!(ann.post("/auth/logout", json!({})).await.status, 204);
    assert_eq!(socket.closed().await.code, 4001);
}

async fn a_spent_refresh_token_of_another_device_revokes_the_session(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let refresh = async |token: &str| {
        let body = json!({ "refresh_token": token, "device_id": ann.device_id });
        server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await
    };
    let second = refresh(&ann.refresh_token).await.data(200)["tokens"]["refresh_token"].as_str().unwrap().to_owned();
    let third = refresh(&second).await.data(200)["tokens"]["refresh_token"].as_str().unwrap().to_owned();
    // The successor of the first token was already used, so this reuse means that the token was stolen.
    refresh(&ann.refresh_token).await.refused(401, "UNAUTHORIZED");
    refresh(&third).await.refused(401, "UNAUTHORIZED");
    assert_eq!(socket.closed().await.reason, "session_revoked");
}

#[tokio::test]
async fn forged_refresh_tokens_neither_end_the_session_nor_use_up_its_refreshes() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__REFRESH", "3")]).await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let forged = format!("rt_{}_{}", ann.session_id, "A".repeat(43));
    let body = json!({ "refresh_token": forged, "device_id": ann.device_id });
    for (status, code) in [(401, "UNAUTHORIZED"); 3].into_iter().chain([(429, "RATE_LIMITED"); 2]) {
        server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await.refused(status, code);
    }
    assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "the socket stays");
    let body = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await.data(200);
}

#[tokio::test]
async fn a_new_token_on_the_open_socket_moves_the_end_of_the_connection() {
    let server = TestServer::start_with(&[("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "6")]).await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let begun = Instant::now();
    let mut refresh_token = ann.refresh_token.clone();
    // Twice as long as the token of the handshake is valid.
    while begun.elapsed() < Duration::from_secs(12) {
        let body = json!({ "refresh_token": refresh_token, "device_id": ann.device_id });
        let tokens = server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await.data(200)["tokens"].clone();
        refresh_token = tokens["refresh_token"].as_str().unwrap().to_owned();
        let answer = socket.ask("reauth", json!({ "token": tokens["access_token"] })).await;
        assert_eq!(answer["type"], "reauth_ack", "{answer}");
        assert!(answer["payload"]["expires_at"].is_string(), "{answer}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4001, "token_expired"));
}

#[tokio::test]
async fn only_a_token_of_the_same_user_and_session_renews_a_connection() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&ann).await;
    let mut socket = ann.connect().await;
    for token in [&*bob.access_token, &laptop.access_token, &ann.refresh_token, "nonsense"] {
        let refused = socket.ask("reauth", json!({ "token": token })).await;
        assert_eq!((&refused["type"], &refused["payload"]["code"]), (&json!("error"), &json!("UNAUTHORIZED")));
        assert!(!refused.to_string().contains(token), "an answer does not repeat the token");
    }
    assert_eq!(socket.ask("reauth", json!({ "token": ann.access_token })).await["type"], "reauth_ack");
    assert!(!server.log().contains(&*ann.access_token));
}

#[tokio::test]
async fn a_connection_ends_with_the_token_it_was_opened_with() {
    let server = TestServer::start_with(&[("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "3")]).await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4001, "token_expired"));
    ann.get("/users/me").await.refused(401, "UNAUTHORIZED");
}
