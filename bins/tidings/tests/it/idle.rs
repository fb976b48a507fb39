use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::TestServer;

/// A server that closes connections after this silence.
async fn start(idle: Duration) -> TestServer {
    let idle_ms = idle.as_millis().to_string();
    let timing = [("TIDINGS_GATEWAY__IDLE_TIMEOUT_MS", &*idle_ms), ("TIDINGS_GATEWAY__HEARTBEAT_INTERVAL_MS", "100")];
    TestServer::start_with(&timing).await
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    const IDLE: Duration = Duration::from_secs(1);
    let server = start(IDLE).await;
    let ann = server.sign_up("Ann").await;
    let start = Instant::now();
    let mut socket = ann.connect().await;
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4008, "idle_timeout"));
    assert!(start.elapsed() >= IDLE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn any_frame_keeps_a_connection_open() {
    // A busy machine may delay a frame, but not for so long.
    const IDLE: Duration = Duration::from_secs(4);
    let server = start(IDLE).await;
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let mut ticks = tokio::time::interval(IDLE / 5);
    for n in 0..8 {
        ticks.tick().await;
        if n % 2 == 0 {
            socket.send(json!({ "type": "of a later version" })).await;
        } else {
            assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
        }
    }
}
