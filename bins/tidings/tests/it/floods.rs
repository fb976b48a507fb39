use std::fs;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

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

/// Members of the attacked group beside the attacker.
const MEMBERS: usize = 200;
/// Most bytes of a typing indicator.
const INDICATOR_BYTES_MAX: usize = 200;
/// Frames that are ignored: more than a connection is read at once.
const IGNORED: usize = 1400;
/// Frames of a flood that ends with a close. At the default limits 300 of them beyond a limit close a connection.
const FLOOD: usize = 900;

/// A group of 201 members, all of them online.
struct AttackedGroup {
    attacker: TestDevice,
    chat_id: String,
    members: Vec<TestSocket>,
}

impl AttackedGroup {
    async fn of(server: &TestServer) -> Self {
        let attacker = server.sign_up("Eve").await;
        let mut devices = Vec::with_capacity(MEMBERS);
        for n in 0..MEMBERS {
            devices.push(server.sign_up(&format!("Member {n}")).await);
        }
        let chat_id = attacker.group("Everyone", &devices.iter().collect::<Vec<_>>()).await;
        let mut members = Vec::with_capacity(MEMBERS);
        for device in &devices {
            members.push(device.connect().await);
        }
        Self { attacker, chat_id, members }
    }

    fn typing(&self, frame_type: &str) -> Value {
        json!({ "type": frame_type, "payload": { "chat_id": self.chat_id } })
    }

    /// The bytes that the members have received since the last call, and the most frames that one of them has. Typing
    /// indicators are all that a flood may send them.
    async fn received(&mut self, attacker: &mut TestSocket) -> (usize, usize) {
        attacker.send_message(&self.chat_id, "after the flood").await;
        let (mut bytes, mut frames_max) = (0, 0);
        for member in &mut self.members {
            member.find(|frame| frame["payload"]["content"] == "after the flood").await;
            let frames = member.heard_so_far().await;
            assert!(frames.iter().all(|frame| frame["type"] == "typing_indicator"), "{frames:?}");
            bytes += frames.iter().map(|frame| frame.to_string().len()).sum::<usize>();
            frames_max = frames_max.max(frames.len());
        }
        (bytes, frames_max)
    }
}

/// Sends frames until the server closes the connection. Returns the frames that it sent before.
async fn flood_until_closed(device: &TestDevice, frames: &[Value]) -> Vec<Value> {
    let mut socket = device.connect().await;
    for frame in frames {
        socket.try_send_raw(Message::text(frame.to_string())).await;
    }
    let (mut answers, closed) = socket.rest().await;
    assert_eq!((closed.code, &*closed.reason), (4029, "rate_limited"));
    answers.retain(|frame| frame["type"] != "connection_closing");
    answers
}

/// The attack: 0.45 MB of `typing_stop` in a second were 112 MB/s to a group of 201 members.
#[tokio::test]
async fn a_flood_of_frames_in_a_group_of_two_hundred_members_sends_them_few_bytes() {
    // All limits are the default ones, except that many users sign up from one address.
    let server = TestServer::start_in(vec![("TIDINGS_LIMITS__OTP_REQUEST_PER_IP".into(), "0".into())]).await;
    let mut group = AttackedGroup::of(&server).await;
    let mut attacker = group.attacker.connect().await;
    attacker.send_all(vec![group.typing("typing_stop"); IGNORED]).await;
    assert_eq!(group.received(&mut attacker).await, (0, 0), "a stop without a start is ignored");

    // At the same time over two connections: typing in turn, and heartbeats with frames of a later version.
    let typing: Vec<_> =
        (0..FLOOD).map(|n| group.typing(if n % 2 == 0 { "typing_start" } else { "typing_stop" })).collect();
    let beat = json!({ "type": "heartbeat", "request_id": "flood" });
    let unknown = json!({ "type": "of_a_later_version", "payload": { "chat_id": group.chat_id } });
    let others: Vec<_> = (0..FLOOD).map(|n| if n % 2 == 0 { beat.clone() } else { unknown.clone() }).collect();
    let devices = [server.another_device(&group.attacker).await, server.another_device(&group.attacker).await];
    let begun = Instant::now();
    let (refused, answered) =
        tokio::join!(flood_until_closed(&devices[0], &typing), flood_until_closed(&devices[1], &others));
    let (bytes, frames_max) = group.received(&mut attacker).await;
    let seconds = begun.elapsed().as_secs() as usize + 1;
    println!("{FLOOD} frames sent {bytes} bytes to {MEMBERS} members in {seconds} s");
    // One start and one stop in a second.
    assert!((1..=2 * (seconds + 1)).contains(&frames_max), "{frames_max} indicators in {seconds} s");
    assert!(bytes <= MEMBERS * frames_max * INDICATOR_BYTES_MAX, "{bytes} bytes of {frames_max} indicators");
    // The attacker has at most one answer to each frame.
    assert!(refused.len() <= typing.len() && answered.len() <= others.len() / 2, "{} answers", answered.len());
}

/// Members of each group, with its owner.
const GROUP: usize = 1000;

/// Creates users as an operator does, and returns their ids and phone numbers.
async fn create_users(server: &TestServer, count: usize) -> Vec<(String, String)> {
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let (http, url) = (Client::new(), format!("{}/admin/v1/users", server.admin_url()));
    let token = file["token"].as_str().unwrap();
    let create = async |n: usize| {
        let phone = server.unused_number();
        let body = json!({ "phone_number": phone, "display_name": format!("Member {n}") });
        let created = RestResponse::of(http.post(&url).bearer_auth(token).json(&body)).await;
        assert_eq!(created.status, 201, "{created:?}");
        (created.body["user_id"].as_str().unwrap().to_owned(), phone)
    };
    iter(0..count).map(create).buffer_unordered(16).collect().await
}

/// The attack: one account made 61 groups of 1,000 in a burst, then 60 in a minute.
#[tokio::test]
async fn an_account_makes_two_groups_of_a_thousand_in_a_burst_and_is_stopped_for_the_day() {
    let server = TestServer::start_with_limits().await;
    let users = create_users(&server, GROUP - 1).await;
    let eve = server.sign_up("Eve").await;
    let member_ids: Vec<_> = users.iter().map(|(user_id, _)| user_id).collect();
    let body = json!({ "type": "group", "name": "Buy now", "member_ids": member_ids });
    let answers = join_all((0..8).map(|_| eve.post("/chats", body.clone()))).await;
    let (created, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(created.len(), 2, "2000 members in a day are two groups of 999 others: {refused:?}");
    for answer in refused {
        // The quota gains 2000 in a day, so the next 999 take half a day.
        assert!(answer.header("retry-after").parse::<u64>().unwrap() > 11 * 3600, "{answer:?}");
        assert_eq!(answer.refused(429, "RATE_LIMITED")["details"]["limit"], "members_added");
    }
    let victim = server.sign_in(&users[0].1, "").await;
    assert_eq!(victim.get("/chats").await.data(200)["chats"].as_array().unwrap().len(), 2);
}
