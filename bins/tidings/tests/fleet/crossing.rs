use std::time::{Duration, Instant};

use ports::ProcessRole;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;
use uuid::Uuid;

use crate::gateways::connect_to;
use crate::rules::rules;
use crate::server::{BUSY, TestDevice, TestServer, TestSocket};

rules!(
    members_at_both_gateways_get_every_push_once_and_in_order,
    g8_the_other_device_at_another_gateway_gets_sends_of_the_first,
    sessions_revoked_at_the_api_lose_their_sockets_at_both_gateways,
    typing_and_receipts_cross_from_one_gateway_to_the_other,
    the_newer_connection_of_a_device_wins_over_one_at_another_gateway,
);

/// Connects devices to both gateways in turn, and asserts that distribution.
async fn connect_to_both<const N: usize>(server: &TestServer, devices: [&TestDevice; N]) -> [TestSocket; N] {
    let have = async |count: usize| {
        let has = async |n| {
            let metrics = server.fleet.process(ProcessRole::Gateway, n).metrics().await;
            metrics.contains(&format!("tidings_gateway_connections {count}\n"))
        };
        has(0).await && has(1).await
    };
    // The connections of an earlier rule may not have ended yet.
    server.until(async || have(0).await).await;
    let mut sockets = Vec::with_capacity(N);
    for device in devices {
        sockets.push(device.connect().await);
    }
    assert!(have(N / 2).await, "each gateway has half of the connections");
    sockets.try_into().unwrap_or_else(|_| unreachable!("there is one for each device"))
}

async fn pushed(socket: &mut TestSocket, count: usize) -> Vec<u64> {
    let mut sequences = vec![];
    while sequences.len() < count {
        sequences.push(socket.next_of("message").await["payload"]["sequence"].as_u64().unwrap());
    }
    sequences
}

async fn members_at_both_gateways_get_every_push_once_and_in_order(server: &TestServer) {
    let [ann, bob, cy, di] = server.sign_up_all(["Ann", "Bob", "Cy", "Di"]).await;
    let chat_id = ann.group("Club", &[&bob, &cy, &di]).await;
    let [mut anns, mut bobs, mut cys, mut dis] = connect_to_both(server, [&ann, &bob, &cy, &di]).await;
    let texts = |who: &str| (1..=20).map(|n| format!("{who}{n}")).collect::<Vec<_>>();
    anns.send_messages(&chat_id, &texts("a")).await;
    bobs.send_messages(&chat_id, &texts("b")).await;
    for socket in [&mut cys, &mut dis] {
        assert_eq!(pushed(socket, 40).await, (1..=40).collect::<Vec<_>>());
    }
    for socket in [&mut anns, &mut bobs] {
        let mut all = pushed(socket, 20).await;
        assert!(all.is_sorted(), "{all:?}");
        for place in 1..=20 {
            all.push(socket.answer(&place.to_string()).await["payload"]["sequence"].as_u64().unwrap());
        }
        all.sort_unstable();
        assert_eq!(all, (1..=40).collect::<Vec<_>>());
    }
    for socket in [&mut anns, &mut bobs, &mut cys, &mut dis] {
        assert_eq!(socket.heard_so_far().await, [Value::Null; 0]);
    }
}

async fn g8_the_other_device_at_another_gateway_gets_sends_of_the_first(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&ann).await;
    let bobs_laptop = server.another_device(&bob).await;
    let chat_id = ann.direct_chat(&bob).await;
    let [mut origin, mut own, mut bobs, mut bobs_other] =
        connect_to_both(server, [&ann, &laptop, &bob, &bobs_laptop]).await;
    let ack = origin.send_message(&chat_id, "hello").await;
    for socket in [&mut own, &mut bobs, &mut bobs_other] {
        assert_eq!(socket.next_of("message").await["payload"]["message_id"], ack["message_id"]);
    }
    assert_eq!(origin.heard_so_far().await, [Value::Null; 0]);
}

async fn sessions_revoked_at_the_api_lose_their_sockets_at_both_gateways(server: &TestServer) {
    let phone = server.sign_up("Ann").await;
    let [laptop, tablet, watch] =
        [server.another_device(&phone).await, server.another_device(&phone).await, server.another_device(&phone).await];
    let [mut kept, mut laptops, mut tablets, mut watchs] =
        connect_to_both(server, [&phone, &laptop, &tablet, &watch]).await;
    let start = Instant::now();
    assert_eq!(phone.delete("/sessions").await.data(200)["revoked_count"], 3);
    for socket in [&mut laptops, &mut tablets, &mut watchs] {
        let closed = socket.closed().await;
        assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));
    }
    assert!(start.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", start.elapsed());
    assert_eq!(kept.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
}

async fn typing_and_receipts_cross_from_one_gateway_to_the_other(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let [mut anns, mut bobs] = connect_to_both(server, [&ann, &bob]).await;
    bobs.send(json!({ "type": "typing_start", "payload": { "chat_id": chat_id } })).await;
    let shown = anns.next_of("typing_indicator").await;
    assert_eq!((&shown["payload"]["user_id"], &shown["payload"]["is_typing"]), (&json!(bob.user_id), &json!(true)));

    anns.send_message(&chat_id, "hello").await;
    bobs.next_of("message").await;
    bobs.send(json!({ "type": "mark_read", "payload": { "chat_id": chat_id, "last_read_sequence": 1 } })).await;
    let receipt = anns.next_of("receipt").await;
    let payload = json!({ "chat_id": chat_id, "user_id": bob.user_id, "delivered_sequence": 1, "read_sequence": 1 });
    assert_eq!(receipt["payload"], payload);
}

async fn the_newer_connection_of_a_device_wins_over_one_at_another_gateway(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let mut older = ann.connect().await;
    let mut newer = ann.connect().await;
    let closed = older.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4009, "duplicate_connection"));
    assert_eq!(newer.ask("heartbeat", json!({})).await["type"], "heartbeat_ack");
}

/// The limits that the processes of a fleet share. A process with counts of its own would admit as many again.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_user_and_of_an_address_hold_over_two_processes() {
    let server = TestServer::start_with(&[
        ("TIDINGS_LIMITS__MESSAGE_MIB", "1"),
        ("TIDINGS_LIMITS__CONNECTIONS_NEW", "6"),
        ("TIDINGS_LIMITS__OTP_REQUEST_PER_IP", "10"),
        ("TIDINGS_LIMITS__GROUPS_CREATED", "4"),
        ("TIDINGS_LIMITS__MEMBERS_ADDED", "3"),
        ("TIDINGS_LIMITS__TYPING", "1"),
    ])
    .await;
    let [ann, bob, cid] = server.sign_up_all(["Ann", "Bob", "Cid"]).await;
    let laptop = server.another_device(&ann).await;
    groups_and_members_of_a_user(&server, &bob, &cid).await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut sockets = [connect_to(&server, 0, &ann).await.0, connect_to(&server, 1, &laptop).await.0];
    typing_of_a_user(&mut sockets, &chat_id).await;
    bytes_of_a_user(sockets, &chat_id).await;
    connections_of_a_user(&server, &ann).await;
    codes_of_an_address(&server).await;
}

/// Four groups and three additions of members in a day, at both api processes in turn.
async fn groups_and_members_of_a_user(server: &TestServer, user: &TestDevice, other: &TestDevice) {
    let urls = server.api_urls();
    let mut chats = vec![];
    let mut refused = vec![];
    for n in 0..8 {
        let body = json!({ "type": "group", "name": n.to_string(), "member_ids": [] });
        let answer = user.at(&urls[n % 2]).post("/chats", body).await;
        if answer.status == 201 {
            chats.push(answer.data(201)["chat_id"].as_str().unwrap().to_owned());
        } else {
            refused.push((n % 2, answer.refused(429, "RATE_LIMITED")["details"]["limit"].take()));
        }
    }
    assert_eq!(chats.len(), 4);
    assert_eq!(refused, [0, 1, 0, 1].map(|process| (process, json!("groups_created"))));
    let mut added = vec![];
    for (n, chat_id) in chats.iter().enumerate() {
        let answer =
            user.at(&urls[n % 2]).post(&format!("/chats/{chat_id}/members"), json!({ "user_id": other.user_id })).await;
        if answer.status != 201 {
            assert_eq!(answer.refused(429, "RATE_LIMITED")["details"]["limit"], "members_added");
        } else {
            added.push(n);
        }
    }
    assert_eq!(added, [0, 1, 2]);
}

/// One start of typing per second in a chat, over both gateways.
async fn typing_of_a_user(sockets: &mut [TestSocket; 2], chat_id: &str) {
    const EACH: usize = 4;
    let start = Instant::now();
    for socket in sockets.iter_mut() {
        let typing = json!({ "type": "typing_start", "payload": { "chat_id": chat_id } });
        socket.send_all(vec![typing; EACH]).await;
    }
    let mut refused = 0;
    for socket in sockets {
        let heard = socket.heard_so_far().await;
        let limited = |frame: &&Value| frame["payload"]["details"]["limit"] == "typing";
        refused += heard.iter().filter(limited).count();
    }
    let accepted = 2 * EACH - refused;
    // One more each second. Two gateways with counts of their own would accept twice as many.
    let bound = 1 + start.elapsed().as_secs() as usize;
    assert!((1..=bound).contains(&accepted), "{accepted} in {:?}", start.elapsed());
}

/// A message of 4 KiB counts as 5 KiB, so 204 of them are a MiB.
async fn bytes_of_a_user(mut sockets: [TestSocket; 2], chat_id: &str) {
    let content = "x".repeat(4096);
    let mut accepted = [0, 0];
    for (socket, accepted) in sockets.iter_mut().zip(&mut accepted) {
        let send = |n: usize| {
            let payload = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content });
            json!({ "type": "send_message", "request_id": n.to_string(), "payload": payload })
        };
        socket.send_all((0..120).map(send)).await;
        for n in 0..120 {
            let answer = socket.answer(&n.to_string()).await;
            if answer["type"] == "error" {
                assert_eq!(answer["payload"]["details"]["limit"], "message_mib", "{answer}");
            } else {
                *accepted += 1;
            }
        }
    }
    assert_eq!(accepted[0], 120, "the first gateway is below the limit");
    assert!((84..=90).contains(&accepted[1]), "{accepted:?}");
}

/// Six new connections a minute, of which two are open.
async fn connections_of_a_user(server: &TestServer, user: &TestDevice) {
    let start = Instant::now();
    let (mut accepted, mut refused) = (2, [0, 0]);
    for n in 0..12 {
        let mut handshake = user.handshake();
        let address = server.fleet.process(ProcessRole::Gateway, n % 2).address();
        *handshake.uri_mut() = format!("ws://{address}/v1/ws").parse().unwrap();
        match TestSocket::try_open(handshake).await {
            Ok(_) => accepted += 1,
            Err(tungstenite::Error::Http(response)) => {
                assert_eq!(response.status(), 429);
                refused[n % 2] += 1;
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    // One more every ten seconds.
    let refilled = start.elapsed().as_secs() / 10 + 1;
    assert!((6..=6 + refilled).contains(&accepted), "{accepted} in {:?}", start.elapsed());
    assert!(refused.iter().all(|refused| *refused > 0), "each gateway refuses: {refused:?}");
}

/// Ten codes in a quarter of an hour, of which the four sign-ins have used four.
async fn codes_of_an_address(server: &TestServer) {
    let mut answers = vec![];
    for n in 0..14 {
        let body = json!({ "phone_number": server.unused_number() });
        let process = server.fleet.process(ProcessRole::Api, n % 2);
        answers.push(process.call(Method::POST, "/api/v1/auth/request-otp", Some(&body)).await);
    }
    let accepted = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((6..=7).contains(&accepted), "{answers:?}");
    for answer in answers.split_off(10) {
        assert_eq!(answer.refused(429, "RATE_LIMITED")["details"]["limit"], "otp_request_per_ip");
    }
}
