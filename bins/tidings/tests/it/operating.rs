//! The interface to service managers and operators: notifications, health checks and drains.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use expect_test::expect_file;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::drain::half_a_request;
use crate::server::{PATIENCE, TestServer, this_release};

/// A fake service manager.
struct Manager {
    directory: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        Self { directory, socket }
    }

    /// Starts a server that must send a watchdog notification every second.
    async fn start(&self) -> TestServer {
        let socket = self.directory.path().join("notify");
        TestServer::start_with(&[("NOTIFY_SOCKET", socket.to_str().unwrap()), ("WATCHDOG_USEC", "1000000")]).await
    }

    /// The next notification, or `None` within the time.
    fn heard(&self, within: Duration) -> Option<String> {
        let mut bytes = [0; 512];
        self.socket.set_read_timeout(Some(within)).unwrap();
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// Waits for a notification with this prefix.
    fn hears(&self, begin: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.heard(deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            match said {
                Some(said) if said.starts_with(begin) => return said,
                Some(_) => {}
                None => panic!("nothing begins with {begin}"),
            }
        }
    }
}

#[tokio::test]
async fn the_service_manager_is_notified_of_ready_alive_and_stopping() {
    let manager = Manager::new();
    let mut server = manager.start().await;
    let ready = manager.hears("READY=1");
    assert_eq!(ready, format!("READY=1\nSTATUS=listening on {}", server.base_url()));
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(manager.hears("STOPPING=1"), "STOPPING=1\nSTATUS=draining");
}

#[tokio::test]
async fn the_watchdog_of_a_stopped_process_is_not_fed() {
    let manager = Manager::new();
    let server = manager.start().await;
    manager.hears("WATCHDOG=1");
    server.signal(Signal::SIGSTOP);
    // Drains the notifications from before the halt.
    while manager.heard(Duration::from_millis(1)).is_some() {}
    assert_eq!(manager.heard(Duration::from_secs(2)), None);
    server.signal(Signal::SIGCONT);
    manager.hears("WATCHDOG=1");
}

#[test]
fn the_runs_of_docs_capacity_print_the_documented_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capacity.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let mut parts = document.split("```sh\ntidings capacity");
    let mut written = parts.next().unwrap().to_owned();
    for part in parts {
        let (arguments, rest) = part.split_once("\n```\n\n```text\n").expect("what it prints follows each command");
        let (_, rest) = rest.split_once("```\n").expect("what it prints ends");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidings"));
        let output = command.arg("capacity").args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        written += &format!("```sh\ntidings capacity{arguments}\n```\n\n```text\n{said}```\n{rest}");
    }
    expect_file![path].assert_eq(&written);
}

fn tidings(server: &TestServer, arguments: &[&str]) -> Output {
    let admin_url = server.admin_url();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidings"));
    // Settings in the environment of the test are not meant for this server.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command.args(arguments).arg("--data-dir").arg(server.data_dir());
    command.args(["--admin-listen", admin_url.strip_prefix("http://").unwrap()]).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_drained_until_nothing_is_left_and_resumed() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let leaving = tokio::spawn(async move { socket.closed().await });
    let drained = tidings(&server, &["admin", "drain", "--timeout", "20", "--json"]);
    let standing: Value = serde_json::from_slice(&drained.stdout).unwrap();
    assert_eq!(drained.status.code(), Some(0), "{standing}");
    let nothing = json!({ "connections": 0, "requests": 0, "sends": 0, "safe_to_remove": true });
    for (name, value) in nothing.as_object().unwrap() {
        assert_eq!(&standing[name], value, "{name}");
    }
    assert_eq!((&standing["node"], &standing["draining"]), (&json!("local"), &json!(true)));
    assert_eq!(leaving.await.unwrap().code, 1001);

    let ready = server.call(Method::GET, "/readyz", None).await;
    assert_eq!((ready.status.as_u16(), &ready.body["status"]), (503, &json!("draining")));
    assert_eq!(ready.body["safe_to_remove"], true);
    // Requests that still arrive are served.
    assert_eq!(server.call(Method::GET, "/api/v1", None).await.status, 200);

    let resumed = tidings(&server, &["admin", "resume"]);
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), "not draining; the process accepts work\n");
    assert_eq!(server.call(Method::GET, "/readyz", None).await.status, 200);
    let actions = std::fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    assert!(actions.contains("POST /drain") && actions.contains("POST /resume"), "{actions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_takes_too_long_prints_the_remaining_work_and_exits_1() {
    let server = TestServer::start().await;
    // The server waits longer for the rest of a request than this drain does.
    let _held = half_a_request(&server).await;
    let drained = tidings(&server, &["admin", "drain", "--timeout", "2"]);
    assert_eq!(drained.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&drained.stdout), "drain in progress: 1 requests left\n");
    assert_eq!(String::from_utf8_lossy(&drained.stderr), "draining: 1 requests left\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_exits_as_the_service_is() {
    let mut server = TestServer::start().await;
    let url = server.base_url();
    let check = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidings"));
        command.args(["healthcheck", "--url", &url]).args(more).output().unwrap()
    };
    let alive = check(&[]);
    assert_eq!((alive.status.code(), &*alive.stdout), (Some(0), &b"{\"status\":\"ok\"}\n"[..]));
    assert_eq!(check(&["--ready"]).status.code(), Some(0));
    tidings(&server, &["admin", "drain", "--timeout", "0"]);
    assert_eq!((check(&[]).status.code(), check(&["--ready"]).status.code()), (Some(0), Some(1)));
    // By default it asks the admin listener.
    let admin = server.admin_url();
    let admin_listen = ["--admin-listen", admin.strip_prefix("http://").unwrap()];
    let by_default = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidings"));
        command.arg("healthcheck").args(admin_listen).args(more).output().unwrap().status.code()
    };
    assert_eq!((by_default(&[]), by_default(&["--ready"])), (Some(0), Some(1)));
    server.kill().await;
    let gone = check(&[]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).starts_with(&format!("error: no service answers at {url}/healthz")));
}

/// The findings of `doctor`, run beside a server: its exit code, and for each check the verdict and the message.
fn diagnosis(server: &TestServer, arguments: &[&str]) -> (Option<i32>, Map<String, Value>) {
    let output = tidings(server, &[&["doctor", "--json"], arguments].concat());
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let by_check = |finding: Value| (finding["check"].as_str().unwrap().to_owned(), finding);
    (output.status.code(), findings.into_iter().map(by_check).collect())
}

#[tokio::test]
async fn doctor_recognises_the_running_service() {
    let server = TestServer::start().await;
    let address = server.address().to_string();
    let (code, findings) = diagnosis(&server, &["--listen", &address]);
    assert_eq!(code, Some(0), "{findings:?}");
    for (check, text) in [
        ("service", " and is ready".to_owned()),
        ("listen", format!("the running service listens on {address}")),
        ("admin.listen", "the running service listens on ".to_owned()),
        ("data_dir", "the running service uses `".to_owned()),
        ("fsync", "one takes ".to_owned()),
    ] {
        let message = findings[check]["message"].as_str().unwrap();
        assert!(message.contains(&text), "{check}: {message}");
    }

    // An address that the service does not use yet.
    let (_, findings) = diagnosis(&server, &["--listen", "127.0.0.2:1"]);
    assert_ne!(findings["listen"]["verdict"], "good", "{findings:?}");
    // The data directory of another service has another token.
    let other = TestServer::start().await;
    let listen = server.admin_url().strip_prefix("http://").unwrap().to_owned();
    let mut doctor = std::process::Command::new(this_release());
    let output = doctor.args(["doctor", "--listen", &address, "--admin-listen", &listen, "--data-dir"]);
    let output = output.arg(other.data_dir()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for check in ["listen", "admin.listen", "data_dir"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("BAD   {check:<14} "))), "{text}");
    }
}

#[tokio::test]
async fn a_dev_server_limits_neither_codes_nor_connections_nor_sends() {
    let server = TestServer::start_in(Vec::new()).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    // Production has 3 codes for a phone, 10 for an address, 5 connections of a user, and bursts of 20 sends into a chat.
    let mut sockets = vec![];
    for _ in 0..12 {
        sockets.push(server.another_device(&ann).await.connect().await);
    }
    let contents: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    sockets[0].send_messages(&chat_id, &contents).await;
    for request_id in 1..=contents.len() {
        let answer = sockets[0].answer(&request_id.to_string()).await;
        assert_eq!(answer["type"], "send_message_ack", "{answer}");
    }
    let log = server.log();
    let warning = "and codes, sends, requests and connections are not limited";
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains(warning)), "{log}");
}
