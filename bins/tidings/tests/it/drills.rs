//! Runbook drills on one machine: breaks a service and follows the runbook page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use uuid::Uuid;

use crate::runbook::{RunbookMoment, follow, names};
use crate::server::{TestDevice, TestServer, TestSocket};

/// Follows a page for a broken server.
async fn broken(server: &TestServer, page: &str) {
    follow(page, RunbookMoment::Broken, names(&server.base_url(), &server.admin_url(), &server.data_dir())).await;
}

/// The value of a series.
async fn value(server: &TestServer, series: &str) -> f64 {
    let metrics = server.metrics().await;
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{series} is not in {metrics}")).parse().unwrap()
}

async fn note_to_self(server: &TestServer) -> (TestDevice, String, TestSocket) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("notes", &[]).await;
    let socket = ann.connect().await;
    (ann, chat_id, socket)
}

#[tokio::test]
async fn a_process_that_is_down_is_started_and_has_everything() {
    let mut server = TestServer::start().await;
    let (ann, chat_id, mut socket) = note_to_self(&server).await;
    for n in 0..5 {
        socket.send_message(&chat_id, &n.to_string()).await;
    }
    let began = value(&server, "tidings_process_start_time_seconds").await;
    let admin = server.admin_url();
    server.kill().await;
    assert!(reqwest::get(format!("{admin}/metrics")).await.is_err(), "Prometheus would find it down");
    server.restart().await;
    broken(&server, "process-down.md").await;
    assert!(value(&server, "tidings_process_start_time_seconds").await > began);
    let page = ann.get(&format!("/chats/{chat_id}/messages?after=0")).await.data(200);
    assert_eq!(page["messages"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn causes_of_slow_sends_are_distinguished() {
    let server = TestServer::start().await;
    let (_, chat_id, mut socket) = note_to_self(&server).await;
    socket.send_message(&chat_id, "hello").await;
    broken(&server, "sends-slow.md").await;
    broken(&server, "store-slow.md").await;
    assert_eq!(value(&server, "tidings_ingest_answer_seconds_count").await, 1.0);
    assert!(value(&server, "tidings_store_commit_seconds_sum").await > 0.0);
    server.until(async || value(&server, "tidings_store_log_events").await >= 2.0).await;
    assert!(value(&server, "tidings_store_free_bytes").await > 0.0);
}

#[tokio::test]
async fn a_chat_with_more_than_a_hundred_messages_a_minute_is_hot() {
    let server = TestServer::start().await;
    let (_, chat_id, mut socket) = note_to_self(&server).await;
    for n in 0..100 {
        socket.send_message(&chat_id, &n.to_string()).await;
    }
    assert_eq!(value(&server, "tidings_ingest_hot_chat_minutes_total").await, 0.0);
    socket.send_message(&chat_id, "one more").await;
    broken(&server, "hot-chat.md").await;
}

#[tokio::test]
async fn sends_that_are_repeated_are_counted_and_stored_once() {
    let server = TestServer::start().await;
    let (_, chat_id, mut socket) = note_to_self(&server).await;
    let sent = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "hello" });
    for _ in 0..21 {
        assert_eq!(socket.ask("send_message", sent.clone()).await["payload"]["sequence"], 1);
    }
    broken(&server, "retry-storm.md").await;
}

#[tokio::test]
async fn a_full_gateway_refuses_the_next_client_and_says_so() {
    let server = TestServer::start_with(&[("TIDINGS_GATEWAY__CONNECTIONS_MAX", "1")]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let _socket = ann.connect().await;
    let refusal = TestSocket::try_open(bob.handshake()).await.err().expect("there is no room").to_string();
    assert!(refusal.contains("503"), "{refusal}");
    broken(&server, "connections.md").await;
}

#[tokio::test]
async fn a_store_is_verified_while_it_serves_and_as_a_copy() {
    let mut server = TestServer::start().await;
    let (_, chat_id, mut socket) = note_to_self(&server).await;
    socket.send_message(&chat_id, "hello").await;
    broken(&server, "invariant-violated.md").await;
    server.stop().await;
    let copy = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(server.data_dir()).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    let copy = copy.path().join(server.data_dir().file_name().unwrap());
    let verified =
        Command::new(env!("CARGO_BIN_EXE_tidings")).args(["store", "verify", "--data-dir"]).arg(copy).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

/// Changes one byte of a table file that every store has from its first start on.
pub(crate) fn damage(data_dir: &Path) -> PathBuf {
    let mut files = fs::read_dir(data_dir.join("db/keyspaces/0/tables")).unwrap();
    let file = files.next().expect("the engine lists its tables in a table").unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[10] ^= 1;
    fs::write(&file, bytes).unwrap();
    file
}

#[tokio::test]
async fn a_damaged_file_is_found_by_a_scheduled_scrub_and_a_backup_replaces_it() {
    let mut server = TestServer::start_with(&[("TIDINGS_STORE__SCRUB_EVERY_SECONDS", "1")]).await;
    let (ann, chat_id, mut socket) = note_to_self(&server).await;
    socket.send_message(&chat_id, "hello").await;
    let clean = r#"tidings_store_scrubs_total{outcome="clean"}"#;
    server.until(async || value(&server, clean).await >= 2.0).await;
    assert!(value(&server, "tidings_store_scrubbed_bytes_total").await > 0.0);
    assert_eq!(value(&server, "tidings_store_damaged_files").await, 0.0);

    let file = damage(&server.data_dir());
    broken(&server, "store-damaged.md").await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("a file of the store is damaged")).expect("it is logged");
    assert!(line.contains("ERROR") && line.contains(&file.display().to_string()), "{line}");
    assert!(log.contains("scrub started") && log.contains("scrub finished"), "{log}");

    let (kept, data_dir) = (tempfile::tempdir().unwrap(), server.data_dir());
    let backup = kept.path().join("backup");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        let output = command.args(arguments).arg(&backup).arg("--data-dir").arg(&data_dir).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let admin = server.admin_url();
    run(&["store", "backup", "--admin-listen", admin.strip_prefix("http://").unwrap()]);
    server.stop().await;
    fs::rename(&data_dir, kept.path().join("damaged")).unwrap();
    run(&["store", "restore"]);
    server.restart().await;
    let names = names(&server.base_url(), &server.admin_url(), &data_dir);
    follow("store-damaged.md", RunbookMoment::Over, names).await;
    let page = ann.get(&format!("/chats/{chat_id}/messages?after=0")).await.data(200);
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_clock_of_a_process_is_exported() {
    let server = TestServer::start().await;
    broken(&server, "clock-skewed.md").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let told = value(&server, "tidings_process_time_seconds").await;
    assert!((now - told).abs() < 15.0, "the alert would fire: it is {now}, and {told} was exported");
}
