use std::time::Duration;

use domain::limits::CONTENT_BYTES_MAX;
use protocol::OutboxBounds;
use reqwest::Method;
use serde_json::{Value, json};

use crate::runbook::{RunbookMoment, follow, names};
use crate::server::{RestResponse, TestDevice, TestServer, TestSocket, sequences};

/// Several times as much as the queue of a connection holds.
const FLOOD: usize = 1600;
/// Messages of a flood that are sent in one go.
const PART: usize = 32;
/// Bytes in a queue with room for one more message of a flood at most.
fn full() -> f64 {
    (OutboxBounds::default().bytes - 2 * CONTENT_BYTES_MAX) as f64
}

/// A server that measures the queues of its connections often.
pub(crate) async fn measuring_server() -> TestServer {
    TestServer::start_with(&[("TIDINGS_GATEWAY__HEARTBEAT_INTERVAL_MS", "50")]).await
}

/// Sends at least this many long messages to a chat, until a member that does not read has missed pushes. Returns their
/// number. A flood that ends then leaves the member most of its grace period.
pub(crate) async fn flood(server: &TestServer, sender: &mut TestSocket, chat_id: &str, least: usize) -> usize {
    let mut sent = 0;
    loop {
        // Checked before a part, so that a part follows that does not fit.
        let is_full = queued_bytes(server).await > full();
        // In parts, so that neither side blocks on the other.
        sender.send_messages(chat_id, &vec!["x".repeat(CONTENT_BYTES_MAX); PART]).await;
        sender.answer(&PART.to_string()).await;
        sent += PART;
        if is_full && sent >= least {
            return sent;
        }
        assert!(sent < 10 * FLOOD, "the queue does not fill up");
    }
}

/// Bytes in the fullest queue.
async fn queued_bytes(server: &TestServer) -> f64 {
    let metrics = server.metrics().await;
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("tidings_gateway_mailbox_bytes_max "));
    bytes.map_or(0.0, |bytes| bytes.parse().unwrap())
}

/// A slow client of Bob, after Ann has flooded the chat with at least this many messages. Returns their number too.
async fn flooded(server: &TestServer, least: usize) -> (TestDevice, String, TestSocket, usize) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut slow = TestSocket::open_with_small_window(bob.handshake()).await;
    assert_eq!(slow.next().await["type"], "connection_established");
    let mut sender = ann.connect().await;
    let sent = flood(server, &mut sender, &chat_id, least).await;
    (bob, chat_id, slow, sent)
}

fn is_warning(frame: &Value) -> bool {
    frame["payload"]["code"] == "SLOW_CONSUMER"
}

#[tokio::test]
async fn g9_a_slow_reader_is_warned_then_cut_and_loses_nothing() {
    let server = measuring_server().await;
    let before = server.resident_bytes();
    let (bob, chat_id, mut slow, sent) = flooded(&server, FLOOD).await;
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 128 << 20, "the server grew by {grown} bytes");

    // The server cuts the connection 5 s after its notice; then the client reads again.
    let cut = r#"tidings_gateway_closes_total{reason="slow_consumer"} 1"#;
    server.until(async || server.metrics().await.contains(cut)).await;
    let names = names(&server.base_url(), &server.admin_url(), &server.data_dir());
    follow("slow-consumers.md", RunbookMoment::Broken, names).await;
    let (frames, closed) = slow.rest().await;
    assert_eq!((closed.code, &*closed.reason), (4029, "slow_consumer"));
    assert_eq!(frames.iter().filter(|frame| is_warning(frame)).count(), 1, "it is warned once");
    assert!(frames.iter().filter(|frame| frame["type"] == "message").count() < sent);

    let found = bob.connect().await.sync_all(&chat_id).await;
    assert_eq!(sequences(&json!({ "messages": found })), (1..=sent as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn g9_typing_costs_a_slow_reader_neither_messages_nor_its_connection() {
    let server = measuring_server().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut slow = TestSocket::open_with_small_window(bob.handshake()).await;
    let mut sender = ann.connect().await;
    let mut sent = fill(&server, &mut sender, &mut slow, &chat_id).await;
    while dropped(&server).await <= 100.0 {
        flood_typing(&mut sender, &chat_id).await;
        slow.send(json!({ "type": "heartbeat" })).await;
    }
    sender.send_message(&chat_id, "after the flood").await;
    sent += 1;
    let last = |frame: &Value| frame["payload"]["content"] == "after the flood";
    slow.find(last).await;
    let frames = slow.heard_so_far().await;
    assert!(!frames.iter().any(is_sign_of_slowness), "it is not slow");
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "message").count() + 1, sent);
}

/// The attack: a blocked user floods the blocker, without limits of frames, in the direct chat and in a group of both.
#[tokio::test]
async fn g9_a_blocked_user_cuts_no_connection_of_the_blocker() {
    let server = measuring_server().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (direct, group) = (ann.direct_chat(&bob).await, ann.group("both", &[&bob]).await);
    let mut slow = TestSocket::open_with_small_window(bob.handshake()).await;
    let mut sender = ann.connect().await;
    sender.send_message(&direct, "before the block").await;
    let mut sent = 1 + fill(&server, &mut sender, &mut slow, &group).await;
    RestResponse::of(bob.request(Method::PUT, &format!("/blocks/{}", ann.user_id))).await.data(204);

    for _ in 0..20 {
        flood_typing(&mut sender, &direct).await;
        let read = json!({ "chat_id": direct, "last_read_sequence": 1 });
        sender.send_all(vec![json!({ "type": "mark_read", "payload": read }); 200]).await;
        slow.send(json!({ "type": "heartbeat" })).await;
    }
    sender.ask("heartbeat", json!({})).await;
    assert_eq!(dropped(&server).await, 0.0, "nothing is pushed in the direct chat");
    while dropped(&server).await <= 100.0 {
        flood_typing(&mut sender, &group).await;
        slow.send(json!({ "type": "heartbeat" })).await;
    }
    sender.send_message(&group, "after the flood").await;
    sent += 1;
    let last = |frame: &Value| frame["payload"]["content"] == "after the flood";
    slow.find(last).await;
    let frames = slow.heard_so_far().await;
    assert!(!frames.iter().any(is_sign_of_slowness), "it is not slow");
    let of_direct = |frame: &&Value| frame["type"] != "message" && frame["payload"]["chat_id"] == direct;
    assert_eq!(frames.iter().filter(of_direct).collect::<Vec<_>>(), [&Value::Null; 0]);
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "message").count() + 1, sent);
}

/// Sends messages to a member that does not read, until the buffers of its socket are full and its queue begins to fill
/// up. Returns their number.
async fn fill(server: &TestServer, sender: &mut TestSocket, slow: &mut TestSocket, chat_id: &str) -> usize {
    let mut sent = 0;
    while queued_bytes(server).await < (OutboxBounds::default().bytes / 5) as f64 {
        sender.send_messages(chat_id, &vec!["x".repeat(CONTENT_BYTES_MAX); PART]).await;
        sender.answer(&PART.to_string()).await;
        sent += PART;
        slow.send(json!({ "type": "heartbeat" })).await;
        // The server measures its queues every 50 ms. Without this pause, several parts could be sent in between, which
        // together would make the reader a slow one.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    sent
}

async fn flood_typing(sender: &mut TestSocket, chat_id: &str) {
    let typing = |frame_type: &str| json!({ "type": frame_type, "payload": { "chat_id": chat_id } });
    sender.send_all((0..200).map(|n| typing(if n % 2 == 0 { "typing_start" } else { "typing_stop" }))).await;
}

/// Ephemeral pushes that full queues have dropped.
async fn dropped(server: &TestServer) -> f64 {
    let metrics = server.metrics().await;
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("tidings_gateway_ephemeral_pushes_dropped_total "));
    dropped.map_or(0.0, |dropped| dropped.parse().unwrap())
}

fn is_sign_of_slowness(frame: &Value) -> bool {
    is_warning(frame) || frame["type"] == "resync"
}

#[tokio::test]
async fn g9_unread_responses_are_bounded_and_their_connection_is_cut() {
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
    // Every response is a page of half a megabyte; all of them together would be half a gigabyte.
    let before = server.resident_bytes_max();
    let mut silent = Vec::new();
    for _ in 0..READERS {
        let device = server.another_device(&bob).await;
        let mut socket = TestSocket::open_with_small_window(device.handshake()).await;
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
async fn g9_a_slow_reader_that_catches_up_stays_and_is_asked_to_sync() {
    let server = measuring_server().await;
    let (_, chat_id, mut slow, sent) = flooded(&server, 0).await;
    let resync = slow.next_of("resync").await;
    assert_eq!(resync, json!({ "type": "resync", "payload": { "reason": "slow_consumer" } }));
    let frames = slow.heard_so_far().await;
    assert_eq!(frames.iter().filter(|frame| is_warning(frame)).count(), 1);
    let found = slow.sync_all(&chat_id).await;
    assert_eq!(sequences(&json!({ "messages": found })), (1..=sent as u64).collect::<Vec<_>>());
}
