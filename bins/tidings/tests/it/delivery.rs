use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::{TestServer, TestSocket};

rules!(
    g8_a_message_is_pushed_to_every_device_but_the_connection_it_came_from,
    g8_a_message_sent_over_http_is_pushed_to_all_of_the_senders_devices,
    a_group_gets_each_message_once_and_in_order,
    every_change_of_a_chat_is_pushed_to_its_members,
    the_newer_connection_of_a_device_wins,
);

/// The pushed sequences of a connection, up to `last`.
async fn pushed_up_to(socket: &mut TestSocket, last: u64) -> Vec<u64> {
    let mut sequences = Vec::new();
    while sequences.last() != Some(&last) {
        sequences.push(socket.next_of("message").await["payload"]["sequence"].as_u64().unwrap());
    }
    sequences
}

async fn g8_a_message_is_pushed_to_every_device_but_the_connection_it_came_from(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let anns_laptop = server.another_device(&ann).await;
    let bobs_laptop = server.another_device(&bob).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut origin = ann.connect().await;
    let mut own = anns_laptop.connect().await;
    let mut others = [bob.connect().await, bobs_laptop.connect().await];
    let mut outsider = cy.connect().await;

    let ack = origin.send_message(&chat_id, "hello").await;
    let mut message = json!({
        "message_id": ack["message_id"],
        "chat_id": chat_id,
        "sequence": 1,
        "sender_id": ann.user_id,
        "content": "hello",
        "content_type": "text/plain",
        "created_at": ack["created_at"],
    });
    for socket in &mut others {
        assert_eq!(socket.next_of("message").await, json!({ "type": "message", "payload": message }));
    }
    message["client_message_id"] = ack["client_message_id"].clone();
    assert_eq!(own.next_of("message").await, json!({ "type": "message", "payload": message }));

    // All recipients have it by now, so any further push would already be here.
    assert_eq!(origin.heard_so_far().await, [Value::Null; 0]);
    assert_eq!(outsider.heard_so_far().await, [Value::Null; 0]);
}

async fn g8_a_message_sent_over_http_is_pushed_to_all_of_the_senders_devices(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let ack = ann.send(&chat_id, "hello").await;
    let push = socket.next_of("message").await;
    assert_eq!(push["payload"]["client_message_id"], ack["client_message_id"]);
}

async fn a_group_gets_each_message_once_and_in_order(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let chat_id = ann.group("Club", &[&bob, &cy]).await;
    let mut anns = ann.connect().await;
    let mut bobs = bob.connect().await;
    let mut cys = cy.connect().await;
    for n in 0..20 {
        anns.send_message(&chat_id, &format!("a{n}")).await;
        bobs.send_message(&chat_id, &format!("b{n}")).await;
    }
    let all: Vec<u64> = (1..=40).collect();
    assert_eq!(pushed_up_to(&mut cys, 40).await, all);
    let (odd, even): (Vec<u64>, Vec<u64>) = all.into_iter().partition(|n| n % 2 == 1);
    assert_eq!(pushed_up_to(&mut anns, 40).await, even);
    assert_eq!(pushed_up_to(&mut bobs, 39).await, odd);
}

async fn every_change_of_a_chat_is_pushed_to_its_members(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let mut bobs = bob.connect().await;
    let mut cys = cy.connect().await;
    let chat_id = ann.group("Club", &[&bob]).await;
    let updated = |change: &str, user_id: Option<&str>| {
        let mut payload = json!({ "chat_id": chat_id, "change": change });
        if let Some(user_id) = user_id {
            payload["user_id"] = json!(user_id);
        }
        json!({ "type": "chat_updated", "payload": payload })
    };
    assert_eq!(bobs.next().await, updated("created", None));

    ann.patch(&format!("/chats/{chat_id}"), json!({ "name": "Den" })).await.data(200);
    assert_eq!(bobs.next().await, updated("renamed", None));

    ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": cy.user_id })).await.data(201);
    for socket in [&mut bobs, &mut cys] {
        assert_eq!(socket.next().await, updated("member_added", Some(&cy.user_id)));
    }

    ann.patch(&format!("/chats/{chat_id}/members/{}", cy.user_id), json!({ "role": "admin" })).await.data(200);
    for socket in [&mut bobs, &mut cys] {
        assert_eq!(socket.next().await, updated("role_changed", Some(&cy.user_id)));
    }

    assert_eq!(ann.delete(&format!("/chats/{chat_id}/members/{}", cy.user_id)).await.status, 204);
    for socket in [&mut bobs, &mut cys] {
        assert_eq!(socket.next().await, updated("member_removed", Some(&cy.user_id)));
    }

    // A removed member receives nothing more.
    let ack = ann.send(&chat_id, "among us").await;
    assert_eq!(bobs.next().await["payload"]["message_id"], ack["message_id"]);
    assert_eq!(cys.heard_so_far().await, [Value::Null; 0]);
}

async fn the_newer_connection_of_a_device_wins(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&bob).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut older = bob.connect().await;
    let mut elsewhere = laptop.connect().await;
    let mut newer = bob.connect().await;
    let closed = older.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4009, "duplicate_connection"));
    ann.send(&chat_id, "hello").await;
    for socket in [&mut newer, &mut elsewhere] {
        assert_eq!(socket.next_of("message").await["payload"]["content"], "hello");
    }
}
