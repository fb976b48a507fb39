use std::collections::BTreeSet;

use protocol::story;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{ExampleMapping, assert_fits};
use crate::server::{TestServer, TestSocket};
use crate::slow_consumer::{flood, measuring_server};

/// An execution of the examples of the AsyncAPI document.
struct FrameExamples {
    document: Value,
    scene: ExampleMapping,
    played: BTreeSet<String>,
}

impl FrameExamples {
    async fn start(server: &TestServer) -> Self {
        let document = server.call(Method::GET, "/asyncapi.json", None).await.body;
        Self { document, scene: ExampleMapping::default(), played: BTreeSet::new() }
    }

    /// The documented example frame of a message.
    fn shown(&self, message: &str) -> Value {
        let examples = self.document["components"]["messages"][message]["examples"].as_array();
        let examples = examples.unwrap_or_else(|| panic!("there is no message `{message}`"));
        assert_eq!(examples.len(), 1, "{message} shows one frame");
        examples[0]["payload"].clone()
    }

    /// Sends the documented frame.
    async fn say(&mut self, socket: &mut TestSocket, message: &str) {
        let frame = self.shown(message);
        self.fits(message, &frame);
        socket.send(self.scene.body(&frame)).await;
        self.played.insert(message.to_owned());
    }

    /// Sends the documented frame, and asserts the documented response.
    async fn ask(&mut self, socket: &mut TestSocket, message: &str, answer: &str) {
        self.say(socket, message).await;
        let request_id = self.shown(message)["request_id"].as_str().unwrap().to_owned();
        let answered = socket.answer(&request_id).await;
        self.heard(answer, &answered);
    }

    /// Asserts that a frame equals the documented one.
    fn heard(&mut self, message: &str, frame: &Value) {
        self.fits(message, frame);
        let documented = self.shown(message);
        self.fits(message, &documented);
        self.scene.expect(&documented, frame);
        self.played.insert(message.to_owned());
    }

    fn fits(&self, message: &str, frame: &Value) {
        assert_fits(&self.document, &self.document["components"]["messages"][message]["payload"], frame);
    }
}

#[tokio::test]
async fn every_frame_is_exchanged_as_documented() {
    let mut server = TestServer::start().await;
    let mut play = FrameExamples::start(&server).await;
    let [ada, bob, cleo] = server.sign_up_all(["Ada", "Bob", "Cleo"]).await;
    for (one, other) in [(&ada, &bob), (&bob, &ada)] {
        one.put(&format!("/contacts/{}", other.user_id), json!({})).await.data(200);
    }
    let (direct_chat, group) = (ada.direct_chat(&bob).await, ada.group("Sailing", &[&bob]).await);
    let without_ada = bob.direct_chat(&cleo).await;
    let cast = [
        (json!(story::ada()), &ada.user_id),
        (json!(story::bob()), &bob.user_id),
        (json!(story::cleo()), &cleo.user_id),
        (json!(story::direct_chat()), &direct_chat),
        (json!(story::group()), &group),
        (json!(story::ACCESS_TOKEN), &ada.access_token),
    ];
    for (documented, real) in cast {
        play.scene.cast(&documented, real);
    }

    let mut bobs = bob.connect().await;
    let mut adas = TestSocket::open(ada.handshake()).await;
    let established = adas.next().await;
    play.heard("ConnectionEstablished", &established);
    let first = json!({ "client_message_id": story::first_send(), "content": story::FIRST_CONTENT });
    ada.post(&format!("/chats/{direct_chat}/messages"), first).await.data(201);
    bobs.send_message(&direct_chat, story::SECOND_CONTENT).await;
    let pushed = adas.find(|frame| frame["type"] == "message" && frame["payload"]["sequence"] == 2).await;
    play.heard("Message", &pushed);

    play.ask(&mut adas, "SyncRequest", "SyncResponse").await;
    for message in ["Ack", "MarkRead", "TypingStart", "TypingStop"] {
        play.say(&mut adas, message).await;
    }
    play.ask(&mut adas, "SendMessage", "SendMessageAck").await;
    play.say(&mut adas, "UpdateMessage").await;
    let updated = adas.next_of("message_updated").await;
    play.heard("MessageUpdated", &updated);
    play.ask(&mut adas, "PresenceSubscribe", "PresenceSnapshot").await;
    play.say(&mut adas, "PresenceUnsubscribe").await;
    play.ask(&mut adas, "Reauth", "ReauthAck").await;
    play.ask(&mut adas, "Heartbeat", "HeartbeatAck").await;
    // Frames without a response were accepted: other members receive the effect, and the sender receives no error.
    let typing = [true, false]
        .map(|is_typing| json!({ "chat_id": direct_chat, "user_id": ada.user_id, "is_typing": is_typing }));
    for payload in typing {
        assert_eq!(bobs.next_of("typing_indicator").await["payload"], payload);
    }
    let read = |frame: &Value| frame["type"] == "receipt" && frame["payload"]["read_sequence"] == 2;
    assert_eq!(bobs.find(read).await["payload"]["user_id"], ada.user_id);
    assert!(adas.heard_so_far().await.iter().all(|frame| frame["type"] != "error"));

    let in_chat = |field: &str, sequence: u64| json!({ "chat_id": direct_chat, field: sequence });
    bobs.send(json!({ "type": "typing_start", "payload": { "chat_id": direct_chat } })).await;
    let typing = adas.next_of("typing_indicator").await;
    play.heard("TypingIndicator", &typing);
    bobs.send(json!({ "type": "ack", "payload": in_chat("last_acked_sequence", 3) })).await;
    bobs.send(json!({ "type": "mark_read", "payload": in_chat("last_read_sequence", 2) })).await;
    let moved = |frame: &Value| {
        frame["payload"]["user_id"] == bob.user_id && frame["payload"]["delivered_sequence"] == 3 && read(frame)
    };
    let receipt = adas.find(moved).await;
    play.heard("Receipt", &receipt);

    ada.post(&format!("/chats/{group}/members"), json!({ "user_id": cleo.user_id })).await.data(201);
    let added = adas.find(|frame| frame["payload"]["change"] == "member_added").await;
    play.heard("ChatUpdated", &added);
    let short_lived = json!({ "client_message_id": uuid::Uuid::new_v4(), "content": "soon gone", "ttl_seconds": 1 });
    ada.post(&format!("/chats/{group}/messages"), short_lived).await.data(201);
    let expired = adas.next_of("message_expired").await;
    play.heard("MessageExpired", &expired);

    let foreign = json!({ "client_message_id": uuid::Uuid::new_v4(), "chat_id": without_ada, "content": "hello?" });
    adas.send(json!({ "type": "send_message", "request_id": "send-2", "payload": foreign })).await;
    let refused = adas.answer("send-2").await;
    play.heard("Error", &refused);
    bobs.leave().await;
    let gone = |frame: &Value| frame["type"] == "presence_changed" && frame["payload"]["status"] == "offline";
    let offline = adas.find(gone).await;
    play.heard("PresenceChanged", &offline);

    let resync = resync().await;
    play.heard("Resync", &resync);
    server.stop().await;
    let (frames, _) = adas.rest().await;
    play.heard("ConnectionClosing", frames.last().unwrap());

    let messages = play.document["components"]["messages"].as_object().unwrap();
    assert_eq!(play.played, messages.keys().cloned().collect(), "every frame is played");
}

/// The frame that a slow reader receives, after it catches up, in place of dropped pushes.
async fn resync() -> Value {
    let server = measuring_server().await;
    let [dan, eve] = server.sign_up_all(["Dan", "Eve"]).await;
    let chat_id = dan.direct_chat(&eve).await;
    let mut slow = TestSocket::open_with_small_window(eve.handshake()).await;
    let mut sender = dan.connect().await;
    flood(&server, &mut sender, &chat_id, 0).await;
    slow.next_of("resync").await
}
