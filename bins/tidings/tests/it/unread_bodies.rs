//! Requests that are answered before their body is read, on connections that are kept alive.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::server::{PATIENCE, TestDevice, TestServer};

/// Delay of the body after the head: long enough for a response to the head alone.
const LATER: Duration = Duration::from_millis(50);
/// Longest wait of the server for a body that no handler reads.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How a client sends a body.
#[derive(Clone, Copy, Debug)]
enum BodyTiming {
    AtOnce,
    Later,
    InChunks,
    InChunksLater,
}

const EVERY_WAY: [BodyTiming; 4] =
    [BodyTiming::AtOnce, BodyTiming::Later, BodyTiming::InChunks, BodyTiming::InChunksLater];

/// One connection of HTTP/1.1, with nothing between the test and the socket.
struct RawHttpConnection {
    stream: BufReader<TcpStream>,
}

/// A response as it is on the wire.
#[derive(Debug)]
struct WireResponse {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl WireResponse {
    fn announces_close(&self) -> bool {
        self.headers.get("connection").is_some_and(|value| value == "close")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl RawHttpConnection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Whether a process has the server's end of the connection open. The kernel lists a closed one without an inode.
    fn is_open_at_server(&self) -> bool {
        let stream = self.stream.get_ref();
        let [client, server] = [stream.local_addr(), stream.peer_addr()].map(|address| {
            let SocketAddr::V4(address) = address.unwrap() else { panic!("tests use IPv4") };
            format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
        });
        std::fs::read_to_string("/proc/net/tcp").unwrap().lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[1] == server && fields[2] == client && fields[9] != "0"
        })
    }

    async fn write(&mut self, bytes: &[u8]) {
        let writing = self.stream.get_mut().write_all(bytes);
        timeout(PATIENCE, writing).await.expect("the server reads").expect("the server does not reset the connection");
    }

    /// Sends a request. `head` is its first line and additional headers.
    async fn send(&mut self, head: &str, body: &[u8], sending: BodyTiming) {
        let (length, body) = match sending {
            BodyTiming::AtOnce | BodyTiming::Later => (format!("content-length: {}", body.len()), body.to_vec()),
            BodyTiming::InChunks | BodyTiming::InChunksLater => {
                let middle = body.len() / 2;
                let chunks = [&body[..middle], &body[middle..]].into_iter().filter(|chunk| !chunk.is_empty());
                let mut encoded: Vec<u8> = chunks
                    .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
                    .collect();
                encoded.extend(b"0\r\n\r\n");
                ("transfer-encoding: chunked".to_owned(), encoded)
            }
        };
        let head = format!("{head}\r\nhost: localhost\r\n{length}\r\n\r\n");
        match sending {
            BodyTiming::AtOnce | BodyTiming::InChunks => self.write(&[head.as_bytes(), &body].concat()).await,
            BodyTiming::Later | BodyTiming::InChunksLater => {
                self.write(head.as_bytes()).await;
                sleep(LATER).await;
                self.write(&body).await;
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.stream.read_line(&mut line)).await.expect("the server answers");
        assert!(read.expect("the server does not reset the connection") > 0, "the connection was closed unannounced");
        line.trim_end().to_owned()
    }

    /// Reads the next response. A response to HEAD has no body.
    async fn answer(&mut self, has_body: bool) -> WireResponse {
        let first = self.line().await;
        let status =
            first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{first}"));
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let mut body = vec![0; if has_body { length } else { 0 }];
        timeout(PATIENCE, self.stream.read_exact(&mut body)).await.expect("the answer is sent").unwrap();
        WireResponse { status, headers, body }
    }

    /// Asserts that the server ends the connection gracefully, without further output.
    async fn ends(&mut self) {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await.expect("the connection ends").unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Asserts that another request succeeds on this connection.
    async fn goes_on(&mut self) {
        self.write(b"GET /api/v1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(self.answer(true).await.status, 200);
    }
}

fn authorization(device: &TestDevice) -> String {
    format!("authorization: Bearer {}", device.access_token)
}

/// Sends a request in every way over one connection, each followed by another request.
async fn is_followed(address: SocketAddr, head: &str, body: &[u8], status: u16) {
    let mut wire = RawHttpConnection::open(address).await;
    for sending in EVERY_WAY {
        wire.send(head, body, sending).await;
        let answered = wire.answer(true).await;
        assert_eq!(answered.status, status, "{head} {sending:?}: {answered:?}");
        assert!(!answered.announces_close(), "{head} {sending:?}: {answered:?}");
        wire.goes_on().await;
    }
}

#[tokio::test]
async fn a_request_without_a_token_is_followed_by_others() {
    let server = TestServer::start().await;
    is_followed(server.address(), "POST /api/v1/chats HTTP/1.1", br#"{"type":"group"}"#, 401).await;
}

#[tokio::test]
async fn a_request_to_no_route_is_followed_by_others() {
    let server = TestServer::start().await;
    is_followed(server.address(), "POST /api/v1/nowhere HTTP/1.1", b"{}", 404).await;
}

#[tokio::test]
async fn a_request_with_a_wrong_method_is_followed_by_others() {
    let server = TestServer::start().await;
    is_followed(server.address(), "PUT /api/v1/auth/refresh HTTP/1.1", b"{}", 405).await;
}

#[tokio::test]
async fn a_request_over_the_limit_of_a_body_is_followed_by_others() {
    let server = TestServer::start().await;
    let body = vec![b' '; 200 << 10];
    is_followed(server.address(), "POST /api/v1/auth/request-otp HTTP/1.1", &body, 413).await;
}

#[tokio::test]
async fn a_request_over_a_rate_limit_is_followed_by_others() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__REST_WRITE", "1")]).await;
    let ann = server.sign_up("Ann").await;
    ann.post("/auth/ws-ticket", json!({})).await.data(200);
    let head = format!("POST /api/v1/auth/ws-ticket HTTP/1.1\r\n{}", authorization(&ann));
    is_followed(server.address(), &head, b"{}", 429).await;
}

#[tokio::test]
async fn a_ws_ticket_is_followed_by_other_requests() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let head = format!("POST /api/v1/auth/ws-ticket HTTP/1.1\r\n{}", authorization(&ann));
    is_followed(server.address(), &head, b"{}", 200).await;
}

#[tokio::test]
async fn leaving_a_chat_is_followed_by_other_requests() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    for sending in EVERY_WAY {
        let chat_id = ann.group("friends", &[&bob]).await;
        let head = format!("POST /api/v1/chats/{chat_id}/leave HTTP/1.1\r\n{}", authorization(&bob));
        wire.send(&head, b"{}", sending).await;
        assert_eq!(wire.answer(true).await.status, 204, "{sending:?}");
        wire.goes_on().await;
    }
}

#[tokio::test]
async fn a_refused_request_of_an_operator_is_followed_by_others() {
    let server = TestServer::start().await;
    let address = server.admin_url().strip_prefix("http://").unwrap().parse().unwrap();
    let mut wire = RawHttpConnection::open(address).await;
    for sending in EVERY_WAY {
        wire.send("POST /admin/v1/drain HTTP/1.1", b"{}", sending).await;
        let answered = wire.answer(true).await;
        assert_eq!(answered.status, 401, "{sending:?}: {answered:?}");
    }
    wire.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(wire.answer(true).await.status, 200);
}

#[tokio::test]
async fn a_head_request_with_a_body_is_followed_by_others() {
    let server = TestServer::start().await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    for sending in EVERY_WAY {
        wire.send("HEAD /api/v1 HTTP/1.1", b"{}", sending).await;
        assert_eq!(wire.answer(false).await.status, 200, "{sending:?}");
        wire.goes_on().await;
    }
}

#[tokio::test]
async fn a_refused_request_is_followed_by_a_websocket() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    wire.send("POST /api/v1/chats HTTP/1.1", b"{}", BodyTiming::Later).await;
    assert_eq!(wire.answer(true).await.status, 401);
    let handshake = format!(
        "GET /v1/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nx-device-id: {}\r\n{}\r\n\r\n",
        ann.device_id,
        authorization(&ann)
    );
    wire.write(handshake.as_bytes()).await;
    assert_eq!(wire.answer(false).await.status, 101);
    // The first byte of a frame of text.
    assert_eq!(timeout(PATIENCE, wire.stream.read_u8()).await.unwrap().unwrap(), 0x81);
}

#[tokio::test]
async fn of_three_hundred_requests_over_one_connection_none_is_lost() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    let accepted = format!("POST /api/v1/users/lookup HTTP/1.1\r\n{}", authorization(&ann));
    let body = json!({ "phone_numbers": [ann.phone_number] }).to_string();
    let expected: Vec<u16> = (0..300).map(|n| if n % 2 == 0 { 401 } else { 200 }).collect();
    let mut answered = Vec::new();
    for status in &expected {
        let head = if *status == 200 { &*accepted } else { "POST /api/v1/users/lookup HTTP/1.1" };
        // Two packets, as Python's `http.client` sends them.
        wire.write(format!("{head}\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes()).await;
        tokio::task::yield_now().await;
        wire.write(body.as_bytes()).await;
        answered.push(wire.answer(true).await.status);
    }
    assert_eq!(answered, expected);
}

#[tokio::test]
async fn an_oversized_body_is_answered_and_the_answer_can_be_read_after_all_of_it_was_sent() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let refused = "POST /api/v1/chats HTTP/1.1".to_owned();
    let too_large = format!("{refused}\r\n{}", authorization(&ann));
    // More than the buffers of both sockets hold: the server has to take it while the client sends.
    let body = vec![b' '; 12 << 20];
    for (head, status) in [(refused, 401), (too_large, 413)] {
        for sending in EVERY_WAY {
            let mut wire = RawHttpConnection::open(server.address()).await;
            wire.send(&head, &body, sending).await;
            let answered = wire.answer(true).await;
            assert_eq!(answered.status, status, "{sending:?}: {answered:?}");
            assert!(answered.announces_close(), "{sending:?}: {answered:?}");
            assert!(answered.json()["error"]["code"].is_string(), "{sending:?}: {answered:?}");
            wire.ends().await;
        }
    }
}

#[tokio::test]
async fn a_client_that_never_sends_its_body_is_answered_and_closed_in_time() {
    let server = TestServer::start().await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    let start = Instant::now();
    wire.write(b"POST /api/v1/chats HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{").await;
    let answered = wire.answer(true).await;
    assert_eq!((answered.status, answered.announces_close()), (401, true), "{answered:?}");
    wire.ends().await;
    assert!(start.elapsed() >= BODY_TIMEOUT, "{:?}", start.elapsed());
    // The client does not close its end. The server closes the connection all the same, and answers input with a reset.
    server.until(async || !wire.is_open_at_server()).await;
    let reset = async {
        while wire.stream.get_mut().write_all(b" ").await.is_ok() {
            sleep(LATER).await;
        }
    };
    timeout(PATIENCE, reset).await.expect("the server has closed the connection");
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_refused_at_once() {
    let server = TestServer::start().await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    let start = Instant::now();
    wire.write(b"POST /api/v1/chats HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n").await;
    let answered = wire.answer(true).await;
    assert_eq!((answered.status, answered.announces_close()), (401, true), "{answered:?}");
    wire.ends().await;
    assert!(start.elapsed() < BODY_TIMEOUT, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked_for_one_that_is_read() {
    let server = TestServer::start().await;
    let mut wire = RawHttpConnection::open(server.address()).await;
    let body = json!({ "phone_number": "+14155550100" }).to_string();
    let head = "POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\nexpect: 100-continue";
    wire.write(format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes()).await;
    assert_eq!(wire.answer(false).await.status, 100);
    wire.write(body.as_bytes()).await;
    let answered = wire.answer(true).await;
    assert_eq!((answered.status, answered.announces_close()), (200, false), "{answered:?}");
    wire.goes_on().await;
}
