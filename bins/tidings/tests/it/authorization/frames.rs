use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::{AuthorizationStage, TestCaller, document};
use crate::server::TestSocket;

/// The table: a frame, its payload, and the expected response for outsider, ex-member, member, admin and owner: a frame
/// type, an error code, or none.
fn table(chat_id: &str, user_id: &str) -> Vec<(&'static str, Value, [&'static str; 5])> {
    const STRANGER: &str = "NOT_A_MEMBER";
    let members = |answer| [STRANGER, STRANGER, answer, answer, answer];
    let chat = json!({ "chat_id": chat_id });
    vec![
        (
            "send_message",
            json!({ "chat_id": chat_id, "client_message_id": Uuid::new_v4(), "content": "hi" }),
            members("send_message_ack"),
        ),
        (
            "update_message",
            json!({
                "chat_id": chat_id, "client_message_id": Uuid::new_v4(), "sequence": 1, "action": "react", "reaction": "ok",
            }),
            members("send_message_ack"),
        ),
        ("sync_request", json!({ "chat_id": chat_id, "last_acked_sequence": 0 }), members("sync_response")),
        ("ack", json!({ "chat_id": chat_id, "last_acked_sequence": 1 }), members("")),
        ("mark_read", json!({ "chat_id": chat_id, "last_read_sequence": 1 }), members("")),
        ("typing_start", chat.clone(), members("")),
        // Ignored without an accepted start.
        ("typing_stop", chat, [""; 5]),
        ("presence_subscribe", json!({ "user_ids": [user_id] }), ["presence_snapshot"; 5]),
        ("presence_unsubscribe", json!({ "user_ids": [user_id] }), [""; 5]),
        ("reauth", json!({ "token": "of nobody" }), ["UNAUTHORIZED"; 5]),
        ("heartbeat", json!({}), ["heartbeat_ack"; 5]),
    ]
}

/// The response to a frame. If none is expected, none has arrived before the response to the next frame.
async fn heard(socket: &mut TestSocket, frame_type: &str, payload: &Value, expected: &str) -> String {
    let request_id = Uuid::new_v4().to_string();
    socket.send(json!({ "type": frame_type, "request_id": request_id, "payload": payload })).await;
    let is_answer = |frame: &Value| frame["request_id"] == *request_id || frame["type"] == "error";
    let answer = match expected {
        "" => socket.heard_so_far().await.into_iter().find(is_answer),
        _ => Some(socket.find(is_answer).await),
    };
    answer.map_or_else(String::new, |answer| match answer["payload"]["code"].as_str() {
        Some(code) => code.to_owned(),
        None => answer["type"].as_str().unwrap().to_owned(),
    })
}

pub(super) async fn every_frame_is_answered_as_the_table_says(stage: &AuthorizationStage) {
    let scene = stage.scene().await;
    let mut witness = stage.target.connect().await;
    let table = table(&scene.chat_id, &stage.target.user_id);
    for (place, actor) in TestCaller::SIGNED_IN.into_iter().enumerate() {
        let mut socket = stage.device(actor).connect().await;
        witness.heard_so_far().await;
        for (frame_type, payload, expected) in &table {
            let heard = heard(&mut socket, frame_type, payload, expected[place]).await;
            assert_eq!(heard, expected[place], "{frame_type} as {actor:?}");
        }
        socket.leave().await;
        if matches!(actor, TestCaller::Outsider | TestCaller::ExMember) {
            let seen = witness.heard_so_far().await;
            // A fleet may push the events of the scene late. No frame changes a chat.
            let is_of_the_scene =
                |frame: &Value| frame["type"] == "chat_updated" || frame["payload"]["message_id"] == *scene.message_id;
            let of_the_chat: Vec<_> = seen
                .iter()
                .filter(|frame| frame["payload"]["chat_id"] == *scene.chat_id && !is_of_the_scene(frame))
                .collect();
            assert!(of_the_chat.is_empty(), "members receive nothing of {actor:?}: {of_the_chat:?}");
        }
    }
    let operations = document("asyncapi.json")["operations"].clone();
    let received = operations.as_object().unwrap().iter().filter(|(_, operation)| operation["action"] == "receive");
    let documented: BTreeSet<&str> = received.map(|(name, _)| name.as_str()).collect();
    let tried: BTreeSet<&str> = table.iter().map(|(frame_type, ..)| *frame_type).collect();
    assert_eq!(tried, documented, "every frame of the document is in the table, and no other");
}

pub(super) async fn connections_need_a_currently_valid_token(stage: &AuthorizationStage) {
    for actor in TestCaller::STRANGERS {
        let mut request = stage.device(actor).handshake();
        match actor {
            TestCaller::Nobody => drop(request.headers_mut().remove("authorization")),
            TestCaller::Garbage => {
                drop(request.headers_mut().insert("authorization", "Bearer garbage".parse().unwrap()))
            }
            _ => {}
        }
        assert!(TestSocket::try_open(request).await.is_err(), "{actor:?}");
    }
    let mut another = stage.owner.handshake();
    let device_id = stage.target.device_id.to_string();
    another.headers_mut().insert("x-device-id", device_id.parse().unwrap());
    assert!(TestSocket::try_open(another).await.is_err(), "a token is good on its own device");
    stage.owner.connect().await;
}

pub(super) async fn a_removed_member_receives_no_pushes_and_cannot_sync(stage: &AuthorizationStage) {
    let scene = stage.scene().await;
    let member = stage.device(TestCaller::Member);
    let (mut socket, mut witness) = (member.connect().await, stage.target.connect().await);
    let place = format!("/chats/{}/members/{}", scene.chat_id, member.user_id);
    assert_eq!(stage.owner.delete(&place).await.status, 204);
    // One push may race the removal. Messages sent after the removal was announced must not arrive.
    let told = json!({ "chat_id": scene.chat_id, "change": "member_removed", "user_id": member.user_id });
    witness.find(|frame| frame["payload"] == told).await;
    stage.owner.send(&scene.chat_id, "without you").await;
    witness.find(|frame| frame["payload"]["content"] == "without you").await;
    let heard = socket.heard_so_far().await;
    assert!(heard.iter().all(|frame| frame["payload"]["content"] != "without you"), "{heard:?}");
    let cursor = json!({ "chat_id": scene.chat_id, "last_acked_sequence": 0 });
    assert_eq!(socket.ask("sync_request", cursor).await["payload"]["code"], "NOT_A_MEMBER");
}
