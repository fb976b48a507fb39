use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::server::{BUSY, SocketClose, TestDevice, TestServer, sequences};

/// Longest time from the signal to the end of the process.
const DRAINED: Duration = Duration::from_secs(10);
/// The log line of a drain that has reached its deadline.
const EXCEEDED: &str = "the drain exceeded its deadline";

/// The observations of a client during a drain.
struct DrainObservations {
    acked: Vec<u64>,
    others: Vec<Value>,
    closed: SocketClose,
}

/// Sends without a pause until the server closes. Signals `running` at its first ack.
async fn send_until_closed(device: TestDevice, chat_id: String, running: oneshot::Sender<()>) -> DrainObservations {
    let mut socket = device.connect().await;
    let mut running = Some(running);
    let (mut acked, mut others) = (Vec::new(), Vec::new());
    loop {
        // One more send for each ack keeps sixteen in flight.
        let sends = if acked.is_empty() { 16 } else { 1 };
        for _ in 0..sends {
            let payload = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "x" });
            let frame = json!({ "type": "send_message", "request_id": "r", "payload": payload });
            socket.try_send_raw(Message::text(frame.to_string())).await;
        }
        match socket.read().await {
            Ok(frame) if frame["type"] == "send_message_ack" => {
                acked.push(frame["payload"]["sequence"].as_u64().unwrap());
                if let Some(running) = running.take() {
                    running.send(()).unwrap();
                }
            }
            Ok(frame) => others.push(frame),
            Err(closed) => {
                return DrainObservations { acked, others, closed: closed.expect("the server says why it closes") };
            }
        }
    }
}

#[tokio::test]
async fn g5_a_drain_under_load_answers_says_goodbye_and_loses_nothing_acknowledged() {
    let mut server = TestServer::start().await;
    let [ann, bob, cy, di] = server.sign_up_all(["Ann", "Bob", "Cy", "Di"]).await;
    let mut senders = Vec::new();
    for device in [&bob, &cy, &di] {
        let chat_id = ann.direct_chat(device).await;
        let (running, runs) = oneshot::channel();
        let sender = tokio::spawn(send_until_closed(device.clone(), chat_id.clone(), running));
        runs.await.unwrap();
        senders.push((chat_id, sender));
    }
    let (status, took) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    assert!(took < DRAINED + BUSY, "{took:?}");

    server.restart().await;
    let mut socket = ann.connect().await;
    for (chat_id, sender) in senders {
        let DrainObservations { acked, others, closed } = sender.await.unwrap();
        assert_eq!((closed.code, &*closed.reason), (1001, "server_shutdown"));
        let goodbyes: Vec<_> = others.iter().filter(|frame| frame["type"] == "connection_closing").collect();
        assert_eq!(goodbyes.len(), 1, "{others:?}");
        assert_eq!(goodbyes[0]["payload"]["reason"], "server_shutdown");
        assert_eq!(goodbyes[0]["payload"]["reconnect_delay_ms"], 1000);

        let stored = sequences(&json!({ "messages": socket.sync_all(&chat_id).await }));
        assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
        assert_eq!(acked, stored[..acked.len()], "in the order sent, none missing");
        assert!(stored.len() - acked.len() <= 16, "only what was under way may be there unanswered");
    }
}

/// A request in progress that never completes, which a drain has to wait for.
pub(crate) async fn half_a_request(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    stream.write_all(format!("{head}content-length: 99\r\n\r\n{{").as_bytes()).await.unwrap();
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let (http, url) = (reqwest::Client::new(), format!("{}/admin/v1/drain", server.admin_url()));
    let remaining = async || -> Value {
        let request = http.get(&url).bearer_auth(file["token"].as_str().unwrap());
        request.send().await.unwrap().json().await.unwrap()
    };
    server.until(async || remaining().await["requests"] == 1).await;
    stream
}

#[tokio::test]
async fn a_drain_waits_for_no_client_longer_than_ten_seconds() {
    let mut server = TestServer::start().await;
    let _held = half_a_request(&server).await;
    let (status, took) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    assert!(took < DRAINED + BUSY, "{took:?}");
    assert!(server.log().contains(EXCEEDED), "{}", server.log());
}

#[tokio::test]
async fn a_second_signal_ends_a_drain_at_once() {
    let mut server = TestServer::start().await;
    let _held = half_a_request(&server).await;
    server.signal(Signal::SIGTERM);
    server.until(async || server.log().contains("draining")).await;
    let (status, took) = server.stop().await;
    assert_eq!(status.code(), Some(1));
    assert!(took < BUSY, "{took:?}");
    assert!(!server.log().contains(EXCEEDED), "{}", server.log());
}

#[tokio::test]
async fn a_drain_closes_open_connections_and_accepts_no_new_ones() {
    let mut server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let closed = tokio::spawn(async move { socket.closed().await });
    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    assert!(!server.log().contains(EXCEEDED), "clients that answer are not waited for: {}", server.log());
    assert_eq!(closed.await.unwrap().code, 1001);
    assert!(TcpStream::connect(server.address()).await.is_err());
}
