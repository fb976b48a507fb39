//! Attacks on the public listener by clients without an account, from loopback addresses of their own.

use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use http::Method;
use nix::sys::resource::{Resource, getrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::server::{PATIENCE, TestDevice, TestServer, TestSocket, this_release, unlimited};

/// Connections of an attack, if the limit of open files allows it.
const ATTACK: usize = 9900;
/// Open files that a process needs for itself.
const OWN_FILES: usize = 500;
/// The deadline of a request by an ordinary client. An attack that blocks it lasts at least ten seconds.
const AT_ONCE: Duration = Duration::from_secs(9);

/// The connections of an attack.
pub(crate) fn attack() -> usize {
    let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    ATTACK.min(usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(OWN_FILES))
}

/// The attackers' addresses. Tests and commands use 127.0.0.1.
pub(crate) fn attacker(n: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, 100 + n).into()
}

/// A connection from an address, with a small receive buffer.
pub(crate) async fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    timeout(PATIENCE, socket.connect(to)).await.expect("the server accepts").unwrap()
}

/// Opens connections and sends the same bytes over each. The server may refuse both.
pub(crate) async fn flood(from: IpAddr, server: &TestServer, connections: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream = connect(from, server.address()).await;
        // The write may fail: the server may reset the connection, or not read all bytes.
        let _ = timeout(Duration::from_secs(1), stream.write_all(bytes)).await;
        open.push(stream);
    }
    open
}

/// The status of the answer on a connection.
pub(crate) async fn status(stream: &mut TcpStream) -> String {
    let mut answer = [0; 12];
    timeout(AT_ONCE, stream.read_exact(&mut answer)).await.expect("it is answered at once").unwrap();
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

/// A new client at another address is served.
pub(crate) async fn is_served(server: &TestServer) {
    let mut other = connect(Ipv4Addr::LOCALHOST.into(), server.address()).await;
    other.write_all(b"GET /api/v1 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut other).await, "200");
}

/// A user at another address, with a socket from before the attack.
struct OnlineUser {
    device: TestDevice,
    socket: TestSocket,
}

impl OnlineUser {
    async fn of(server: &TestServer) -> Self {
        let device = server.sign_up("Ann").await;
        Self { socket: device.connect().await, device }
    }

    /// The socket still works, and another device gets one.
    async fn is_served(&mut self, server: &TestServer) {
        assert_eq!(self.socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
        let opened = timeout(AT_ONCE, self.device.connect()).await.expect("a handshake succeeds at once");
        self.socket = opened;
        is_served(server).await;
    }
}

/// The health check of a container succeeds.
fn is_healthy(server: &TestServer) {
    let admin = server.admin_url();
    let mut check = Command::new(env!("CARGO_BIN_EXE_tidings"));
    check.args(["healthcheck", "--admin-listen", admin.strip_prefix("http://").unwrap()]);
    assert!(check.output().unwrap().status.success());
}

/// A metric of a listener, with its further label.
async fn metric(server: &TestServer, listener: &str, name: &str, label: &str) -> f64 {
    let (metrics, series) = (server.metrics().await, format!(r#"{name}{{listener="{listener}"{label}}} "#));
    let line = metrics.lines().find_map(|line| line.strip_prefix(&*series));
    line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
}

pub(crate) async fn connections(server: &TestServer, state: &str) -> f64 {
    metric(server, "public", "tidings_http_connections", &format!(r#",state="{state}""#)).await
}

pub(crate) async fn request_bytes(server: &TestServer) -> f64 {
    metric(server, "public", "tidings_http_request_bytes", "").await
}

pub(crate) async fn refused(server: &TestServer, reason: &str) -> f64 {
    metric(server, "public", "tidings_http_refused_total", &format!(r#",reason="{reason}""#)).await
}

/// The lines about refusals in the log.
fn log_lines(server: &TestServer) -> Vec<String> {
    server.log().lines().filter(|line| line.contains("to stay within its bounds")).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn idle_connections_of_one_address_keep_no_other_client_out() {
    let server = TestServer::start_with_limits().await;
    let mut ann = OnlineUser::of(&server).await;
    let open = flood(attacker(0), &server, attack(), b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    ann.is_served(&server).await;
    is_healthy(&server);
    let per_address = 2500.0;
    assert!(refused(&server, "idle").await >= open.len() as f64 - per_address);
    assert!(refused(&server, "request_rate").await > 0.0);
    server
        .until(async || {
            let idle = connections(&server, "idle").await;
            (per_address / 2.0..=per_address + 10.0).contains(&idle)
        })
        .await;
    server.until(async || !log_lines(&server).is_empty()).await;
    let lines = log_lines(&server);
    assert!(lines[0].contains(&format!("top_address={}", attacker(0))), "{lines:?}");
    assert_eq!(lines.len(), 1, "one line a minute: {lines:?}");
}

#[tokio::test]
async fn idle_connections_of_many_addresses_keep_no_other_client_out() {
    let server = TestServer::start_with_limits().await;
    let mut ann = OnlineUser::of(&server).await;
    let mut open = Vec::new();
    for n in 0..5 {
        open.push(flood(attacker(n), &server, attack() / 4, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await);
    }
    ann.is_served(&server).await;
    is_healthy(&server);
    assert!(refused(&server, "idle").await > 0.0, "idle connections make room");
    assert_eq!(refused(&server, "connections").await, 0.0, "no new connection is refused");
}

#[tokio::test]
async fn busy_connections_of_one_address_keep_no_other_client_out() {
    let server = TestServer::start_with(&[("TIDINGS_HTTP_CONNECTIONS_PER_ADDRESS_MAX", "100")]).await;
    let mut ann = OnlineUser::of(&server).await;
    let half = b"POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{";
    let mut open = flood(attacker(0), &server, 100, half).await;
    server.until(async || connections(&server, "busy").await == 100.0).await;
    let mut refused_one = connect(attacker(0), server.address()).await;
    // The connection is closed or reset.
    let read = timeout(AT_ONCE, refused_one.read(&mut [0])).await.expect("it is refused at once");
    assert_eq!(read.unwrap_or(0), 0);
    assert_eq!(refused(&server, "connections").await, 1.0);
    ann.is_served(&server).await;
    // A request that completes makes its connection idle, and the next connection replaces it.
    open[0].write_all(b"}").await.unwrap();
    assert_ne!(status(&mut open[0]).await, "503");
    server.until(async || connections(&server, "idle").await > 0.0).await;
    let mut next = connect(attacker(0), server.address()).await;
    next.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut next).await, "200");
}

#[tokio::test]
async fn idle_connections_to_the_admin_listener_keep_no_probe_out() {
    const ADMIN_CONNECTIONS_MAX: usize = 256;
    let server = TestServer::start().await;
    let address = server.admin_url().strip_prefix("http://").unwrap().parse().unwrap();
    let mut open = Vec::new();
    for _ in 0..3 * ADMIN_CONNECTIONS_MAX {
        let mut stream = connect(attacker(0), address).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await.unwrap();
        open.push(stream);
    }
    is_healthy(&server);
    let shed = metric(&server, "admin", "tidings_http_refused_total", r#",reason="idle""#).await;
    assert!(shed >= (open.len() - ADMIN_CONNECTIONS_MAX) as f64, "{shed}");
}

#[tokio::test]
async fn a_gateway_with_all_its_sockets_in_use_refuses_new_ones_and_keeps_the_others() {
    let server = TestServer::start_with(&[("TIDINGS_GATEWAY__CONNECTIONS_MAX", "2")]).await;
    let [ann, bob, cid] = server.sign_up_all(["Ann", "Bob", "Cid"]).await;
    let (mut anns, bobs) = (ann.connect().await, bob.connect().await);
    let refusal = TestSocket::try_open(cid.handshake()).await.err().expect("there is no room").to_string();
    assert!(refusal.contains("503"), "{refusal}");
    assert_eq!(anns.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
    bobs.leave().await;
    cid.connect_eventually().await;
}

#[tokio::test]
async fn a_trusted_proxy_is_not_bounded_and_its_clients_are() {
    let server = TestServer::start_with(&[
        ("TIDINGS_TRUSTED_PROXIES", "127.0.0.1"),
        ("TIDINGS_HTTP_CONNECTIONS_PER_ADDRESS_MAX", "1"),
        ("TIDINGS_LIMITS__UNAUTHENTICATED_PER_IP", "1"),
    ])
    .await;
    let proxy = Ipv4Addr::LOCALHOST.into();
    let mut open = flood(proxy, &server, 20, b"").await;
    let mut ask = async |n: usize, client: &str| {
        let request = format!("GET /api/v1 HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {client}\r\n\r\n");
        open[n].write_all(request.as_bytes()).await.unwrap();
        status(&mut open[n]).await
    };
    let mut of_one = Vec::new();
    for n in 0..10 {
        of_one.push(ask(n, "192.0.2.1").await);
    }
    assert_eq!(of_one[0], "200");
    assert!(of_one.contains(&"429".to_owned()), "{of_one:?}");
    for n in 10..20 {
        assert_eq!(ask(n, &format!("192.0.2.{n}")).await, "200");
    }
}

#[tokio::test]
async fn unauthenticated_requests_of_an_address_are_limited_and_others_are_not() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__UNAUTHENTICATED_PER_IP", "2")]).await;
    let ann = server.sign_up("Ann").await;
    let mut answer = server.call(Method::GET, "/api/v1", None).await;
    for _ in 0..20 {
        if answer.status == 429 {
            break;
        }
        answer = server.call(Method::GET, "/api/v1", None).await;
    }
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(answer.refused(429, "RATE_LIMITED")["details"]["limit"], "unauthenticated_per_ip");
    assert_eq!(ann.get("/users/me").await.status, 200);
    assert!(refused(&server, "request_rate").await >= 1.0);
}

/// The answer to a request from an address, on a connection of its own.
async fn answer(from: IpAddr, server: &TestServer, line: &str, header: &str) -> String {
    let mut stream = connect(from, server.address()).await;
    let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
    answer
}

#[tokio::test]
async fn requests_with_a_header_but_no_valid_token_are_limited_and_valid_tokens_are_not() {
    let settings =
        [("TIDINGS_LIMITS__UNAUTHENTICATED_PER_IP", "1"), ("TIDINGS_ALLOWED_ORIGINS", "https://app.example")];
    let server = TestServer::start_with(&settings).await;
    let ann = server.sign_up("Ann").await;
    let forged = format!("authorization: Bearer {}x", ann.access_token);
    // The burst of an address is 5, and 12 more requests come faster than one in a second.
    for (n, (line, header, before)) in [
        ("GET /api/v1", "authorization: x", "200"),
        ("GET /healthz", "authorization: Bearer x", "200"),
        ("GET /nowhere", "authorization: Bearer x", "404"),
        ("PUT /api/v1/users/me", "authorization: Bearer x", "405"),
        ("OPTIONS /api/v1/users/me", "authorization: Bearer x", "200"),
        ("GET /api/v1/users/me", "authorization: Bearer x", "401"),
        ("GET /api/v1/users/me", &forged, "401"),
        ("GET /v1/ws?ticket=x", "x-device-id: 3f0e4c5a-9d0b-4a39-8d8c-5a4f6f1c2b7e", "401"),
        ("GET /v1/ws", "authorization: Bearer x", "400"),
    ]
    .into_iter()
    .enumerate()
    {
        let from = attacker(n as u8);
        let mut statuses = Vec::new();
        for _ in 0..17 {
            let answer = answer(from, &server, line, header).await;
            statuses.push(answer[9..12].to_owned());
            if statuses[statuses.len() - 1] == "429" {
                assert!(
                    answer.contains("\r\nretry-after: 1\r\n") && answer.contains("unauthenticated_per_ip"),
                    "{answer}"
                );
                break;
            }
        }
        assert_eq!((&*statuses[0], &*statuses[statuses.len() - 1]), (before, "429"), "{line} {header}: {statuses:?}");
    }
    assert!(refused(&server, "request_rate").await >= 9.0);
    // A user at the address of an attacker is served, also with a new socket.
    let valid = format!("authorization: Bearer {}", ann.access_token);
    for _ in 0..10 {
        let answer = answer(attacker(6), &server, "GET /api/v1/users/me", &valid).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    ann.connect().await;
}

#[tokio::test]
async fn a_body_beyond_the_bytes_of_its_address_is_answered_with_server_busy() {
    let server = TestServer::start_with(&[("TIDINGS_HTTP_REQUESTS_MIB_MAX", "1")]).await;
    let head =
        "POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 65536\r\n\r\n";
    // Three of them reserve 240 KiB of 256 KiB.
    let open = flood(attacker(0), &server, 3, head.as_bytes()).await;
    server.until(async || request_bytes(&server).await > f64::from(200 << 10)).await;
    let mut fourth = connect(attacker(0), server.address()).await;
    fourth.write_all(head.as_bytes()).await.unwrap();
    fourth.write_all(&vec![b' '; 64 << 10]).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, fourth.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n") && answer.contains(r#""code":"SERVER_BUSY""#), "{answer}");
    drop(open);
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_to_its_maximum() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("tidings-of-a-shell");
    fs::write(&program, format!("#!/bin/sh\nulimit -S -n 256\nexec '{}' \"$@\"\n", this_release().display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    let server = TestServer::start_program(program, unlimited(&[])).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files: Vec<_> = files.split_whitespace().collect();
    assert_ne!(files[0], "256");
    assert_eq!(files[0], files[1], "the maximum");
    is_served(&server).await;
}
