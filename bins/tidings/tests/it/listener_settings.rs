//! Settings of the public and the admin listener: allowed origins and hosts, trusted proxies, limits by address.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

use crate::server::{PATIENCE, RestResponse, TestDevice, TestServer, TestSocket};

#[tokio::test]
async fn a_page_of_another_origin_opens_no_socket() {
    let server = TestServer::start_with(&[("TIDINGS_ALLOWED_ORIGINS", "https://app.example")]).await;
    let ann = server.sign_up("Ann").await;
    let open = async |device: &TestDevice, origin: &str| {
        let mut request = device.handshake();
        request.headers_mut().insert("origin", origin.parse().unwrap());
        TestSocket::try_open(request).await.is_ok()
    };
    assert!(open(&ann, "https://app.example").await);
    assert!(open(&ann, &server.base_url()).await, "our own page");
    for origin in ["https://evil.example", "null", "https://app.example.evil.example", "http://127.0.0.1:1"] {
        assert!(!open(&ann, origin).await, "{origin}");
        let refused = ann
            .anonymous(Method::GET, "/v1/ws")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("x-device-id", ann.device_id.to_string())
            .bearer_auth(&ann.access_token)
            .header("origin", origin);
        let refused = RestResponse::of(refused).await;
        assert_eq!((refused.status.as_u16(), &refused.body["error"]), (403, &json!("forbidden_origin")), "{origin}");
    }
    ann.connect().await;
}

#[tokio::test]
async fn a_trusted_balancer_names_the_address_that_requests_codes() {
    let environment = [("TIDINGS_LIMITS__OTP_REQUEST_PER_IP", "1"), ("TIDINGS_TRUSTED_PROXIES", "127.0.0.0/8")];
    for (trusted, expected) in [(true, 200), (false, 429)] {
        let server = TestServer::start_with(&environment[..if trusted { 2 } else { 1 }]).await;
        let http = reqwest::Client::new();
        let ask = async |client: &str, phone: u32| {
            let request = http.post(format!("{}/api/v1/auth/request-otp", server.base_url()));
            let body = json!({ "phone_number": format!("+1415555{phone:04}") });
            RestResponse::of(request.header("x-forwarded-for", client).json(&body)).await.status.as_u16()
        };
        assert_eq!(ask("192.0.2.1", 1).await, 200);
        assert_eq!(ask("192.0.2.2", 2).await, expected, "another client");
        assert_eq!(ask("198.51.100.1, 192.0.2.1", 3).await, 429, "what a client writes itself helps it nothing");
    }
}

#[tokio::test]
async fn guessing_codes_of_many_phones_from_one_address_is_limited() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__OTP_VERIFY_PER_IP", "3")]).await;
    let guess = async |phone: u32| {
        let body =
            json!({ "phone_number": format!("+1415555{phone:04}"), "otp": "123456", "device_id": Uuid::new_v4() });
        server.call(Method::POST, "/api/v1/auth/verify-otp", Some(&body)).await
    };
    for phone in 1..=3 {
        assert_eq!(guess(phone).await.outcome(), "401 UNAUTHORIZED");
    }
    let stopped = guess(4).await;
    assert!(stopped.header("retry-after").parse::<u64>().unwrap() > 60);
    assert_eq!(stopped.refused(429, "RATE_LIMITED")["details"]["limit"], "otp_verify_per_ip");
}

#[tokio::test]
async fn the_admin_listener_serves_no_unknown_host() {
    let server = TestServer::start_with(&[("TIDINGS_ADMIN__ALLOWED_HOSTS", "ops.example, tidings.internal")]).await;
    let http = reqwest::Client::new();
    for path in ["/metrics", "/healthz", "/console", "/admin/v1/nodes"] {
        let url = format!("{}{path}", server.admin_url());
        let status = async |host: &str| http.get(&url).header("host", host).send().await.unwrap().status().as_u16();
        assert_eq!(status("rebound.example:9464").await, 421, "{path}");
        assert_ne!(status("tidings.internal:9464").await, 421, "{path}");
        assert_ne!(http.get(&url).send().await.unwrap().status(), 421, "{path}");
    }
    assert_eq!(http.get(format!("{}/metrics", server.base_url())).send().await.unwrap().status(), 404);
}

/// Sends these bytes to a listener, and returns everything that it answers before it closes the connection.
async fn raw_answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes").unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn the_admin_listener_refuses_a_missing_or_repeated_host() {
    let server = TestServer::start().await;
    let address = server.admin_url();
    let address = address.strip_prefix("http://").unwrap();
    let cases = [
        ("1.1", "", "", "400"),
        ("1.0", "", "", "400"),
        ("1.1", "", "Host:\r\n", "400"),
        ("1.1", "", "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", "400"),
        ("1.1", "", "Host: 127.0.0.1\r\nhost: rebound.example\r\n", "400"),
        ("1.1", "", "Host: rebound.example\r\nX-A: b\r\nHost: 127.0.0.1\r\n", "400"),
        ("1.1", "", "Host: 127.0.0.1, rebound.example\r\n", "400"),
        ("1.1", "http://127.0.0.1", "Host: rebound.example\r\n", "400"),
        ("1.1", "http://rebound.example", "Host: 127.0.0.1\r\n", "400"),
        ("1.1", "http://rebound.example", "Host: rebound.example\r\n", "421"),
        ("1.1", "", "Host: rebound.example\r\n", "421"),
        ("1.1", "", "Host: 127.0.0.1\r\n", "200"),
    ];
    for path in ["/metrics", "/healthz", "/readyz", "/console"] {
        for (version, origin, hosts, status) in cases {
            let request = format!("GET {origin}{path} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
            let answer = raw_answer(address, &request).await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request}{answer}");
            assert!(status == "200" || !answer.contains("tidings_"), "{request}{answer}");
        }
    }
}
