use serde_json::{Value, json};

use crate::runbook::{Moment, follow, names};
use crate::server::{Device, Socket, TestServer, sequences};

/// More than a connection's queue and all buffers on the way to a client that does not read can hold.
const FLOOD: usize = 1600;

/// A slow client of Bob, whom Ann has flooded in the chat.
async fn flooded(server: &TestServer) -> (Device, String, Socket) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut slow = Socket::open_with_small_window(bob.handshake()).await;
    assert_eq!(slow.next().await["type"], "connection_established");
    let mut sender = ann.connect().await;
    // In parts, so that neither side waits for the other to read.
    for _ in 0..FLOOD / 32 {
        sender.send_messages(&chat_id, &vec!["x".repeat(4096); 32]).await;
        sender.answer("32").await;
    }
    (bob, chat_id, slow)
}

fn is_warning(frame: &Value) -> bool {
    frame["payload"]["code"] == "SLOW_CONSUMER"
}

#[tokio::test]
async fn g9_a_slow_reader_is_told_then_cut_and_loses_nothing() {
    let server = TestServer::start().await;
    let before = server.resident_bytes();
    let (bob, chat_id, mut slow) = flooded(&server).await;
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 128 << 20, "the server grew by {grown} bytes");

    // The server cuts the connection 5 s after it has told so; then the client reads again.
    let cut = r#"tidings_gateway_closes_total{reason="slow_consumer"} 1"#;
    server.until(async || server.metrics().await.contains(cut)).await;
    let names = names(&server.base_url(), &server.admin_url(), &server.data_dir());
    follow("slow-consumers.md", Moment::Broken, names).await;
    let (frames, closed) = slow.rest().await;
    assert_eq!((closed.code, &*closed.reason), (4029, "slow_consumer"));
    assert_eq!(frames.iter().filter(|frame| is_warning(frame)).count(), 1, "it is told once");
    assert!(frames.iter().filter(|frame| frame["type"] == "message").count() < FLOOD);

    let found = bob.connect().await.sync_all(&chat_id).await;
    assert_eq!(sequences(&json!({ "messages": found })), (1..=FLOOD as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn g9_answers_that_nobody_reads_are_bounded_and_their_connection_is_cut() {
    const READERS: usize = 16;
    let timing = [("TIDINGS_GATEWAY__IDLE_TIMEOUT_MS", "2000"), ("TIDINGS_GATEWAY__HEARTBEAT_INTERVAL_MS", "100")];
    let server = TestServer::start_with(&timing).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut sender = ann.connect().await;
    for _ in 0..4 {
        sender.send_messages(&chat_id, &vec!["x".repeat(4096); 32]).await;
        sender.answer("32").await;
    }
    sender.leave().await;
    // Every answer is a page of half a megabyte; all of them together would be half a gigabyte.
    let before = server.resident_bytes_max();
    let mut silent = Vec::new();
    for _ in 0..READERS {
        let device = server.another_device(&bob).await;
        let mut socket = Socket::open_with_small_window(device.handshake()).await;
        let ask = |n| {
            let payload = json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": 500 });
            json!({ "type": "sync_request", "request_id": format!("s{n}"), "payload": payload })
        };
        socket.send_all((0..60).map(ask)).await;
        silent.push(socket);
    }
    let cut = format!(r#"tidings_gateway_closes_total{{reason="idle_timeout"}} {READERS}"#);
    server.until(async || server.metrics().await.contains(&cut)).await;
    let grown = server.resident_bytes_max().saturating_sub(before);
    assert!(grown < 160 << 20, "the server grew by {grown} bytes");
}

#[tokio::test]
async fn g9_a_slow_reader_that_catches_up_stays_and_is_told_to_sync() {
    let server = TestServer::start().await;
    let (_, chat_id, mut slow) = flooded(&server).await;
    let resync = slow.next_of("resync").await;
    assert_eq!(resync, json!({ "type": "resync", "payload": { "reason": "slow_consumer" } }));
    let frames = slow.heard_so_far().await;
    assert_eq!(frames.iter().filter(|frame| is_warning(frame)).count(), 1);
    let found = slow.sync_all(&chat_id).await;
    assert_eq!(sequences(&json!({ "messages": found })), (1..=FLOOD as u64).collect::<Vec<_>>());
}
