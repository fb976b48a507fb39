use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::rules::rules;
use crate::server::{BUSY, TestServer, TestSocket};

rules!(
    a_revoked_session_loses_its_sockets_within_a_second_and_its_tokens_at_once,
    logging_out_closes_the_devices_own_socket,
    a_spent_refresh_token_of_another_device_revokes_the_session,
);

async fn a_revoked_session_loses_its_sockets_within_a_second_and_its_tokens_at_once(server: &TestServer) {
    let phone = server.sign_up("Ann").await;
    let lost = server.another_device(&phone).await;
    let mut lost_socket = lost.connect().await;
    let mut phone_socket = phone.connect().await;

    let start = Instant::now();
    assert_eq!(phone.delete(&format!("/sessions/{}", lost.session_id)).await.status, 204);
    let closed = lost_socket.closed().await;
    assert!(start.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", start.elapsed());
    assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));

    lost.get("/users/me").await.refused(401, "UNAUTHORIZED");
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
async fn a_forged_refresh_token_does_not_end_the_session() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let forged = format!("rt_{}_{}", ann.session_id, "A".repeat(43));
    let body = json!({ "refresh_token": forged, "device_id": ann.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await.refused(401, "UNAUTHORIZED");
    assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "the socket stays");
    let body = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&body)).await.data(200);
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
