use std::time::{Duration, Instant};

use ports::ProcessRole;
use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::{BUSY, TestDevice, TestServer, TestSocket};

rules!(
    members_at_both_gateways_get_every_push_once_and_in_order,
    g8_a_users_other_device_at_another_gateway_gets_what_the_first_one_sends,
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

async fn g8_a_users_other_device_at_another_gateway_gets_what_the_first_one_sends(server: &TestServer) {
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
