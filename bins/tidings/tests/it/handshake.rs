use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

rules!(
    the_first_frame_identifies_the_connection_and_its_settings,
    a_ticket_admits_its_device_and_only_once,
    a_handshake_without_a_device_is_refused_in_plain_http,
    a_session_that_has_ended_is_refused_as_revoked,
);

/// These rules share a server that logs everything and admits one device of a user at a time.
mod logged {
    use super::{
        a_device_over_the_limit_of_live_connections_is_refused_until_another_leaves,
        a_token_in_the_query_admits_and_reaches_no_log,
    };
    use crate::rules::rules;

    rules!(
        on crate::handshake::logged_server();
        a_token_in_the_query_admits_and_reaches_no_log,
        a_device_over_the_limit_of_live_connections_is_refused_until_another_leaves,
    );
}

async fn logged_server() -> TestServer {
    TestServer::start_with(&[("TIDINGS_LOG__LEVEL", "trace"), ("TIDINGS_LIMITS__CONNECTIONS_LIVE", "1")]).await
}

type Headers<'a> = &'a [(&'a str, &'a str)];

/// The plain HTTP response to a refused handshake.
async fn refused(device: &TestDevice, query: &str, headers: Headers<'_>) -> RestResponse {
    let mut request = device
        .anonymous(Method::GET, &format!("/v1/ws{query}"))
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    RestResponse::of(request).await
}

fn outcome(answer: &RestResponse) -> (u16, &Value) {
    assert!(answer.body["message"].is_string(), "{answer:?}");
    (answer.status.as_u16(), &answer.body["error"])
}

async fn ticket(device: &TestDevice) -> String {
    let answer = device.post("/auth/ws-ticket", json!({})).await.data(200);
    answer["ticket"].as_str().unwrap().to_owned()
}

async fn the_first_frame_identifies_the_connection_and_its_settings(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut socket = TestSocket::open(ann.handshake()).await;
    let mut first = socket.next().await;
    let connection_id = first["payload"]["connection_id"].take();
    assert!(connection_id.as_str().is_some_and(|id| id.starts_with("conn_") && id.len() == 31), "{connection_id}");
    let server_time = first["payload"]["server_time"].take();
    assert!(server_time.as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{server_time}");
    let payload = json!({
        "connection_id": null,
        "user_id": ann.user_id,
        "device_id": ann.device_id,
        "server_time": null,
        "heartbeat_interval_ms": 5000,
        "protocol_version": 1,
    });
    assert_eq!(first, json!({ "type": "connection_established", "payload": payload }));
}

async fn a_token_in_the_query_admits_and_reaches_no_log(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let query = format!("?token={}&device_id={}", ann.access_token, ann.device_id);
    let mut socket = TestSocket::open(ann.handshake_without_headers(&query)).await;
    assert_eq!(socket.next().await["payload"]["user_id"], ann.user_id);
    let ticket = ticket(&ann).await;
    let query = format!("?ticket={ticket}&device_id={}", ann.device_id);
    let mut socket = TestSocket::open(ann.handshake_without_headers(&query)).await;
    assert_eq!(socket.next().await["payload"]["user_id"], ann.user_id);
    let bob = server.sign_up("Bob").await;
    let chat_id = ann.direct_chat(&bob).await;
    socket.send_message(&chat_id, "nobody else's business").await;
    let log = server.log();
    assert!(log.contains("TRACE"), "everything is logged");
    let content = "nobody else's business".to_owned();
    for secret in [&ann.access_token, &ticket, &ann.refresh_token, &ann.phone_number, &content] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

async fn a_ticket_admits_its_device_and_only_once(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let query = format!("?ticket={}&device_id={}", ticket(&ann).await, ann.device_id);
    let mut socket = TestSocket::open(ann.handshake_without_headers(&query)).await;
    assert_eq!(socket.next().await["payload"]["user_id"], ann.user_id);
    assert_eq!(outcome(&refused(&ann, &query, &[]).await), (401, &json!("invalid_token")));

    let elsewhere = format!("?ticket={}&device_id={}", ticket(&ann).await, Uuid::new_v4());
    assert_eq!(outcome(&refused(&ann, &elsewhere, &[]).await), (401, &json!("invalid_token")));
}

async fn a_handshake_without_a_device_is_refused_in_plain_http(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let bearer = format!("Bearer {}", ann.access_token);
    let device = ann.device_id.to_string();
    let other = Uuid::new_v4().to_string();
    let cut = &bearer[..bearer.len() - 4];
    let cases: [(Headers<'_>, _, _); 7] = [
        (&[("authorization", &bearer)], 400, "invalid_request"),
        (&[("authorization", &bearer), ("x-device-id", "phone")], 400, "invalid_request"),
        (&[("x-device-id", &device)], 401, "invalid_token"),
        (&[("authorization", "Bearer nonsense"), ("x-device-id", &device)], 401, "invalid_token"),
        (&[("authorization", "Basic nonsense"), ("x-device-id", &device)], 401, "invalid_token"),
        (&[("authorization", cut), ("x-device-id", &device)], 401, "invalid_token"),
        (&[("authorization", &bearer), ("x-device-id", &other)], 401, "invalid_token"),
    ];
    for (headers, status, error) in cases {
        assert_eq!(outcome(&refused(&ann, "", headers).await), (status, &json!(error)), "{headers:?}");
    }
    assert_eq!(
        outcome(&refused(&ann, "?ticket=none", &[("x-device-id", &device)]).await),
        (401, &json!("invalid_token"))
    );
    assert_eq!(
        outcome(&refused(&ann, "?token=none", &[("x-device-id", &device)]).await),
        (401, &json!("invalid_token"))
    );

    let no_upgrade =
        ann.anonymous(Method::GET, "/v1/ws").header("authorization", &bearer).header("x-device-id", &device);
    assert_eq!(outcome(&RestResponse::of(no_upgrade).await), (400, &json!("invalid_request")));
}

async fn a_session_that_has_ended_is_refused_as_revoked(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    assert_eq!(ann.post("/auth/logout", json!({})).await.status, 204);
    let bearer = format!("Bearer {}", ann.access_token);
    let headers = [("authorization", &*bearer), ("x-device-id", &*ann.device_id.to_string())];
    assert_eq!(outcome(&refused(&ann, "", &headers).await), (401, &json!("token_revoked")));
}

#[tokio::test]
async fn handshakes_over_the_limit_of_new_connections_get_a_retry_time() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__CONNECTIONS_NEW", "2")]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    ann.connect().await;
    ann.connect().await;
    let bearer = format!("Bearer {}", ann.access_token);
    let headers = [("authorization", &*bearer), ("x-device-id", &*ann.device_id.to_string())];
    let answer = refused(&ann, "", &headers).await;
    assert_eq!(outcome(&answer), (429, &json!("rate_limited")));
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(answer.body["details"], json!({ "retry_after_seconds": seconds, "limit": "connections_new" }));
    bob.connect().await;
}

async fn a_device_over_the_limit_of_live_connections_is_refused_until_another_leaves(server: &TestServer) {
    let laptop = server.sign_up("Ann").await;
    let phone = server.another_device(&laptop).await;
    laptop.connect().await;
    // A reconnect of the same device is always accepted: it replaces the old connection.
    let socket = laptop.connect().await;
    let bearer = format!("Bearer {}", phone.access_token);
    let headers = [("authorization", &*bearer), ("x-device-id", &*phone.device_id.to_string())];
    let answer = refused(&phone, "", &headers).await;
    assert_eq!(outcome(&answer), (429, &json!("rate_limited")));
    assert_eq!(answer.body["details"]["limit"], "connections_live");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    socket.leave().await;
    phone.connect_eventually().await;
}
