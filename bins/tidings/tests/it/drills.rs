//! What operators are told to do, done: a service on one machine that is broken as a runbook says.

use std::process::Command;

use serde_json::json;
use uuid::Uuid;

use crate::runbook::{Moment, follow, names};
use crate::server::{Device, Socket, TestServer};

/// Does what a page says about this server.
async fn broken(server: &TestServer, page: &str) {
    follow(page, Moment::Broken, names(&server.base_url(), &server.admin_url(), &server.data_dir())).await;
}

/// The value of a series.
async fn value(server: &TestServer, series: &str) -> f64 {
    let metrics = server.metrics().await;
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{series} is not in {metrics}")).parse().unwrap()
}

async fn note_to_self(server: &TestServer) -> (Device, String, Socket) {
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
async fn what_makes_sends_slow_is_told_apart() {
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
    let refusal = Socket::try_open(bob.handshake()).await.err().expect("there is no room").to_string();
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
        Command::new(env!("CARGO_BIN_EXE_tidings")).arg("verify").arg("--data-dir").arg(copy).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

#[tokio::test]
async fn the_clock_of_a_process_is_told() {
    let server = TestServer::start().await;
    broken(&server, "clock-skewed.md").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let told = value(&server, "tidings_process_time_seconds").await;
    assert!((now - told).abs() < 15.0, "the alert would fire: it is {now}, and {told} was told");
}
