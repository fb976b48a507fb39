use serde_json::json;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::server::TestServer;

/// Memory of an idle server with some margin: memory retained after a flood would be far more.
const RESIDENT_BYTES_MAX: u64 = 256 << 20;

#[tokio::test]
async fn ten_thousand_frames_that_cannot_be_taken_leave_the_server_as_it_was() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut floods = JoinSet::new();
    for _ in 0..8 {
        let ann = server.another_device(&ann).await;
        floods.spawn(async move {
            let mut frames = 0;
            for _ in 0..125 {
                let mut socket = ann.connect().await;
                for n in 0..9 {
                    let garbage =
                        if n % 2 == 0 { Message::text("{".repeat(2000)) } else { Message::binary(vec![7; 2000]) };
                    socket.send_raw(garbage).await;
                }
                socket.try_send_raw(Message::text("x".repeat(65 * 1024))).await;
                let closed = socket.closed().await;
                assert_eq!((closed.code, &*closed.reason), (4013, "frame_too_large"));
                frames += 10;
            }
            frames
        });
    }
    assert_eq!(floods.join_all().await.iter().sum::<usize>(), 10_000);
    assert_eq!(ann.connect().await.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
    assert!(server.resident_bytes() < RESIDENT_BYTES_MAX, "{} bytes", server.resident_bytes());
}

/// Regression: a burst of inbox reads left a server with 2 GB, because each read ran on one of hundreds of threads, and
/// each thread retained its freed memory.
#[tokio::test]
async fn a_flood_of_reads_starts_few_threads() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    for n in 0..20 {
        ann.group(&n.to_string(), &[]).await;
    }
    let mut reads = JoinSet::new();
    for _ in 0..300 {
        let ann = ann.clone();
        reads.spawn(async move { ann.get("/chats").await.data(200)["chats"].as_array().unwrap().len() });
    }
    assert_eq!(reads.join_all().await, [20; 300]);
    assert!(server.threads() < 50, "{} threads", server.threads());
}

#[tokio::test]
async fn two_thousand_connections_come_and_go() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut floods = JoinSet::new();
    for _ in 0..10 {
        let mut devices = Vec::new();
        for _ in 0..10 {
            devices.push(server.another_device(&ann).await);
        }
        floods.spawn(async move {
            let mut sockets = Vec::new();
            for _ in 0..20 {
                for device in &devices {
                    // It replaces the previous connection of the same device.
                    sockets.push(device.connect().await);
                }
                sockets.drain(..sockets.len().saturating_sub(20));
            }
            sockets.split_off(10)
        });
    }
    let mut live: Vec<_> = floods.join_all().await.into_iter().flatten().collect();
    assert_eq!(live.len(), 100);
    for socket in &mut live {
        assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
    }
    assert!(server.resident_bytes() < RESIDENT_BYTES_MAX, "{} bytes", server.resident_bytes());
    drop(live);
    server.until(async || server.metrics().await.contains("tidings_gateway_connections 0")).await;
}
