use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{RestResponse, TestServer};

/// Sends malformed bytes, and returns the response until the server closes.
async fn raw(server: &TestServer, request: &str) -> String {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A close with unread input results in a reset.
    drop(socket.read_to_end(&mut bytes).await);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

pub(super) async fn a_path_that_is_not_a_route_leads_nowhere(server: &TestServer) {
    for path in [
        "/api/v1/users/me/../../../admin/v1/nodes",
        "/api/v1/..%2f..%2fadmin/v1/nodes",
        "/api/v1//users/me",
        "//api/v1/users/me",
        "/api/v1/users%2fme",
        "/API/V1/users/me",
        "/api/v1/users/me/",
        "/admin/v1/nodes",
        "/metrics",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
    ] {
        let answer = raw(server, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert_eq!(status(&answer), "404", "{path}: {answer}");
    }
}

pub(super) async fn a_request_that_two_readers_could_read_differently_is_refused(server: &TestServer) {
    let body = r#"{"phone_number":"+14155550001"}"#;
    for (headers, body) in [
        (format!("content-length: {}\r\ncontent-length: 1\r\n", body.len()), body),
        (format!("content-length: {}\r\ntransfer-encoding: xchunked\r\n", body.len()), body),
        ("content-length: -1\r\n".to_owned(), ""),
        ("content-length: 99999999999999999999\r\n".to_owned(), ""),
        ("x: a\r\n b\r\n".to_owned(), ""),
        ("x : a\r\n".to_owned(), ""),
    ] {
        let request =
            format!("POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n{body}");
        let answer = raw(server, &request).await;
        assert_eq!(status(&answer), "400", "{headers}: {answer}");
    }
}

pub(super) async fn oversized_requests_are_refused_before_they_are_read(server: &TestServer) {
    let long = "a".repeat(40 << 10);
    for head in [
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /?{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(200)),
    ] {
        let answer = raw(server, &head).await;
        assert_eq!(status(&answer), "431", "{answer}");
    }
}

pub(super) async fn no_header_turns_a_request_into_another_one(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    for (name, value) in [
        ("x-http-method-override", "DELETE"),
        ("x-http-method", "DELETE"),
        ("x-method-override", "DELETE"),
        ("x-original-url", "/api/v1/users/me"),
        ("x-rewrite-url", "/api/v1/users/me"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-user-id", "user_00000000000000000000000000"),
    ] {
        let answer = RestResponse::of(ann.request(Method::GET, "/sessions").header(name, value)).await;
        assert_eq!(answer.data(200)["sessions"].as_array().unwrap().len(), 1, "{name}");
        let anonymous = RestResponse::of(ann.anonymous(Method::GET, "/api/v1/sessions").header(name, value)).await;
        assert_eq!(anonymous.outcome(), "401 UNAUTHORIZED", "{name}");
    }
    let query = format!("/api/v1/users/me?token={0}&access_token={0}", ann.access_token);
    assert_eq!(server.call(Method::GET, &query, None).await.outcome(), "401 UNAUTHORIZED", "only a handshake reads it");
}

pub(super) async fn json_with_two_meanings_or_no_end_is_refused(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let patch = async |body: String| {
        let request = ann.request(Method::PATCH, "/users/me").header("content-type", "application/json");
        RestResponse::of(request.body(body)).await
    };
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for body in [
        r#"{"display_name":"Ann","display_name":"Eve"}"#.to_owned(),
        format!(r#"{{"display_name":{deep}}}"#),
        r#"{"display_name":"Ann"}{"display_name":"Eve"}"#.to_owned(),
        r#"["Ann"]"#.to_owned(),
        "{\"display_name\":\"Ann\u{0}\"".to_owned(),
        r#"{"display_name":NaN}"#.to_owned(),
    ] {
        let refused = patch(body.clone()).await;
        assert_eq!(refused.outcome(), "400 VALIDATION_ERROR", "{}", &body[..body.len().min(60)]);
    }
    let unknown = patch(format!(r#"{{"unknown":{deep}}}"#)).await;
    assert_eq!(unknown.status, 200, "what is not read may be as deep as it likes");
    assert_eq!(ann.get("/users/me").await.data(200)["display_name"], "Ann");
    let mut socket = ann.connect().await;
    socket.send_raw(format!(r#"{{"type":"ack","payload":{deep}}}"#).into()).await;
    assert_eq!(socket.next_of("error").await["payload"]["code"], "INVALID_MESSAGE");
    assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
}

pub(super) async fn names_bring_no_headers_and_no_markup_with_them(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let injected = RestResponse::of(ann.request(Method::GET, "/users/me").header("x-request-id", "a b")).await;
    assert!(!injected.header("x-request-id").contains(' '), "{injected:?}");
    for name in ["<script>alert(1)</script>", "\u{202e}gnp.exe", "Ann\r\nSet-Cookie: a=b"] {
        let answer = ann.patch("/users/me", json!({ "display_name": name })).await;
        assert!(answer.headers.get("set-cookie").is_none());
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");
    }
}

/// A token with a forged header, claims and signature.
fn forged(token: &str, header: &Value, claims: impl FnOnce(&mut Value), signature: &str) -> String {
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let mut payload: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap();
    claims(&mut payload);
    format!("{}.{}.{signature}", encode(header), encode(&payload))
}

pub(super) async fn a_token_that_we_did_not_sign_is_worth_nothing(server: &TestServer) {
    let (ann, eve) = (server.sign_up("Ann").await, server.sign_up("Eve").await);
    let keys = server.call(Method::GET, "/.well-known/jwks.json", None).await.body;
    let kid = keys["keys"][0]["kid"].as_str().unwrap();
    let signature = eve.access_token.rsplit('.').next().unwrap();
    let public = BASE64_URL_SAFE_NO_PAD.decode(keys["keys"][0]["x"].as_str().unwrap()).unwrap();
    let hmac = |text: &str| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &public);
        BASE64_URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&key, text.as_bytes()))
    };
    let become_ann = |claims: &mut Value| claims["sub"] = json!(ann.user_id);
    let hs256 = forged(&eve.access_token, &json!({ "alg": "HS256", "typ": "JWT", "kid": kid }), become_ann, "");
    let hs256 = format!("{hs256}{}", hmac(hs256.trim_end_matches('.')));
    let tokens = [
        forged(&eve.access_token, &json!({ "alg": "none", "typ": "JWT", "kid": kid }), become_ann, ""),
        forged(&eve.access_token, &json!({ "alg": "nOnE", "typ": "JWT", "kid": kid }), become_ann, ""),
        hs256,
        forged(&eve.access_token, &json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid }), become_ann, signature),
        forged(
            &eve.access_token,
            &json!({ "alg": "EdDSA", "typ": "JWT", "kid": "../../admin.json" }),
            |_| (),
            signature,
        ),
        forged(&eve.access_token, &json!({ "alg": "EdDSA", "typ": "JWT" }), |_| (), signature),
        forged(
            &eve.access_token,
            &json!({ "alg": "EdDSA", "kid": "mine", "jwk": keys["keys"][0], "jku": "https://evil.example/jwks.json" }),
            |_| (),
            signature,
        ),
        format!("{}.", eve.access_token),
        eve.access_token.rsplit_once('.').unwrap().0.to_owned(),
        eve.refresh_token.clone(),
        String::new(),
    ];
    for token in tokens {
        let answer = RestResponse::of(eve.anonymous(Method::GET, "/api/v1/users/me").bearer_auth(&token)).await;
        assert_eq!(answer.outcome(), "401 UNAUTHORIZED", "{token}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
}
