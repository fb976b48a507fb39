//! Effects of gateway crashes, shutdowns and Redis outages on routes and presence: the test vectors of ADR-010 with a
//! real Redis and real processes. Each prints how long it took.

use std::time::{Duration, Instant};

use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::server::{BUSY, TestDevice, TestServer, TestSocket};

/// How long the routes of a dead gateway may stay visible (ADR-010 §1.3).
const EXPIRY: Duration = Duration::from_secs(15);
/// Time for the sweeper and the announcement.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// Connects a device to one of the gateways, and returns the connection id too.
pub(crate) async fn connect_to(server: &TestServer, gateway: usize, device: &TestDevice) -> (TestSocket, String) {
    let mut handshake = device.handshake();
    let address = server.fleet.process(ProcessRole::Gateway, gateway).address();
    *handshake.uri_mut() = format!("ws://{address}/v1/ws").parse().unwrap();
    let mut socket = TestSocket::open(handshake).await;
    let established = socket.next().await;
    assert_eq!(established["type"], "connection_established", "{established}");
    (socket, established["payload"]["connection_id"].as_str().unwrap().to_owned())
}

/// A user with public presence at the first gateway, and a subscriber at the second.
struct PresenceScene {
    server: TestServer,
    user: TestDevice,
    observer: TestDevice,
    users: Option<TestSocket>,
    users_connection: String,
    observers: TestSocket,
}

impl PresenceScene {
    async fn set() -> Self {
        let server = TestServer::start().await;
        let [user, observer] = server.sign_up_all(["User", "Observer"]).await;
        user.patch("/users/me", json!({ "presence_visibility": "everyone" })).await.data(200);
        let (mut observers, _) = connect_to(&server, 1, &observer).await;
        observers.ask("presence_subscribe", json!({ "user_ids": [user.user_id] })).await;
        let (users, users_connection) = connect_to(&server, 0, &user).await;
        let mut scene = Self { server, user, observer, users: Some(users), users_connection, observers };
        assert_eq!(scene.told().await["status"], "online");
        scene
    }

    /// The next presence change pushed to the observer.
    async fn told(&mut self) -> Value {
        loop {
            let next = timeout(Duration::from_secs(2), self.observers.next_of("presence_changed")).await;
            // The gateway closes a connection without heartbeats.
            self.observers.send(json!({ "type": "heartbeat" })).await;
            if let Ok(mut changed) = next {
                return changed["payload"].take();
            }
        }
    }

    /// Lets time pass, and asserts that the observer receives no presence change meanwhile.
    async fn nothing_is_told_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let heard = self.observers.heard_so_far().await;
            assert!(heard.iter().all(|frame| frame["type"] != "presence_changed"), "{heard:?}");
            if let Some(users) = &mut self.users {
                users.ask("heartbeat", json!({})).await;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn seen(&self) -> Value {
        self.observer.get(&format!("/users/{}/presence", self.user.user_id)).await.data(200)
    }

    /// Whether Redis has a key.
    async fn has(&self, key: &str) -> bool {
        self.redis(&format!("EXISTS {key}")).await == ":1"
    }

    /// The first line of Redis' answer to a command.
    async fn redis(&self, command: &str) -> String {
        let port = self.server.fleet.base.engines.redis.port();
        let mut redis = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        redis.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        redis.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// The HTTP status of `/readyz` of a gateway, and its word for it.
    async fn readiness(&self, gateway: usize) -> (u16, Value) {
        let url = format!("{}/readyz", self.server.fleet.process(ProcessRole::Gateway, gateway).base_url());
        let answer = reqwest::get(url).await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap()["status"].take())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_crash_causes_entries_to_expire_within_expiry_window_and_is_announced() {
    let mut scene = PresenceScene::set().await;
    let keys = [
        format!("connection:{{{}}}", scene.users_connection),
        format!("user_connections:{{{}}}", scene.user.user_id),
        format!("user_servers:{{{}}}", scene.user.user_id),
    ];
    scene.server.fleet.process_mut(ProcessRole::Gateway, 0).kill().await;
    scene.users = None;
    let killed = Instant::now();
    // Its last heartbeat was up to 5 s before, and on a busy machine a little earlier.
    scene.nothing_is_told_for(EXPIRY - Duration::from_secs(8)).await;
    for key in &keys {
        assert!(scene.has(key).await, "{key}");
    }
    let gone = scene.told().await;
    let announced = killed.elapsed();
    assert_eq!(gone["status"], "offline");
    assert!(announced < EXPIRY + ANNOUNCED + BUSY, "{announced:?}");
    assert_eq!(scene.seen().await, gone, "when they were last seen is written down");
    for key in &keys {
        assert!(!scene.has(key).await, "{key}");
    }
    eprintln!("the death was announced after {announced:?}");
    scene.nothing_is_told_for(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_routing_entry_costs_no_message_and_a_reconnect_is_no_presence_change() {
    let mut scene = PresenceScene::set().await;
    let chat_id = scene.observer.direct_chat(&scene.user).await;
    scene.server.fleet.process_mut(ProcessRole::Gateway, 0).kill().await;
    // The route still leads to the dead gateway.
    let sent = scene.observer.send(&chat_id, "to nobody there").await;
    let (mut users, connection) = connect_to(&scene.server, 1, &scene.user).await;
    assert_ne!(connection, scene.users_connection, "split_brain: a connection id belongs to one gateway for ever");
    let synced = users.sync_all(&chat_id).await;
    assert_eq!(synced.len(), 1);
    assert_eq!(synced[0]["message_id"], sent["message_id"]);
    scene.users = Some(users);
    scene.nothing_is_told_for(EXPIRY + ANNOUNCED).await;
    assert_eq!(scene.seen().await["status"], "online");
    assert!(!scene.has(&format!("connection:{{{}}}", scene.users_connection)).await, "the old one is swept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_shutdown_causes_no_presence_change() {
    let mut scene = PresenceScene::set().await;
    let leaving = scene.server.fleet.process_mut(ProcessRole::Gateway, 0).stop();
    let mut users = scene.users.take().unwrap();
    let ((status, _), closed) = tokio::join!(leaving, users.closed());
    assert_eq!((status.code(), &*closed.reason), (Some(0), "server_shutdown"));
    scene.nothing_is_told_for(Duration::from_secs(2)).await;
    scene.users = Some(connect_to(&scene.server, 1, &scene.user).await.0);
    scene.nothing_is_told_for(EXPIRY + ANNOUNCED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_recovery_rebuilds_state_while_gateways_are_degraded_and_keep_their_sockets() {
    let mut scene = PresenceScene::set().await;
    let (ready, degraded) = ((200, json!("ready")), (200, json!("degraded")));
    assert_eq!(scene.readiness(0).await, ready);
    scene.server.fleet.base.engines.redis.stop().await;
    let stopped = Instant::now();
    while scene.readiness(0).await != degraded {
        assert!(stopped.elapsed() < EXPIRY, "the gateway says that nothing fails");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(scene.seen().await, json!({ "user_id": scene.user.user_id, "status": "unknown" }));
    let users = scene.users.as_mut().unwrap();
    assert_eq!(users.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");

    // It restarts empty.
    scene.server.fleet.base.engines.redis.start_again().await;
    let back = Instant::now();
    while scene.seen().await["status"] != "online" {
        assert!(back.elapsed() < EXPIRY + BUSY, "the routes are not there again");
        scene.users.as_mut().unwrap().ask("heartbeat", json!({})).await;
        scene.observers.ask("heartbeat", json!({})).await;
        sleep(Duration::from_millis(100)).await;
    }
    eprintln!("routes were rebuilt after {:?}", back.elapsed());
    scene.server.until(async || scene.readiness(0).await == ready).await;
    // The subscription survives all of it.
    scene.users.take().unwrap().leave().await;
    while scene.told().await["status"] != "offline" {}
}
