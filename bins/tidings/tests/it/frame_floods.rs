//! Floods of every kind of frame, at the default limits of frames.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use protocol::FrameKind;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::server::{TestDevice, TestServer};

/// Frames of a flood that ends with a close. At the default limits 300 of them beyond a limit close a connection.
const FLOOD: usize = 900;
const CLOSED_AFTER: f64 = 300.0;
/// How long a flood takes that is read at its rate.
const DELAY: Duration = Duration::from_secs(2);

/// The messages of a flood.
type Frames = Box<dyn FnMut() -> Message + Send>;

/// The documented reaction to a flood.
enum FrameBound {
    /// Frames within a rate get an answer of this type, if they have any. All others are answered `RATE_LIMITED` with
    /// one of these limits, and the connection is closed.
    Refused { answer: Option<&'static str>, burst: usize, per_second: usize, limits: &'static [&'static str] },
    /// Frames are ignored, and the connection is closed.
    Ignored,
    /// The connection is read at this rate.
    Delayed { burst: usize, per_second: usize },
    /// The connection is closed after ten frames.
    Violation,
}

/// A user who floods one connection.
struct Flooder {
    device: TestDevice,
    /// A chat of the user with one message.
    chat_id: String,
}

impl Flooder {
    async fn sign_up(server: &TestServer) -> Self {
        let device = server.sign_up("Ann").await;
        let chat_id = device.group("Notes", &[]).await;
        device.send(&chat_id, "one").await;
        Self { device, chat_id }
    }

    /// The floods of a kind of frame, with their bounds (docs/protocol-notes.md, "Limits of frames"). A kind without an
    /// arm does not compile.
    fn floods(&self, kind: FrameKind) -> Vec<(Frames, FrameBound)> {
        const OF_CONNECTION: &[&str] = &["frames_per_connection"];
        let chat = json!({ "chat_id": self.chat_id });
        let with = |name: &str, value: Value| {
            let mut payload = chat.clone();
            payload[name] = value;
            payload
        };
        let frames = |payload| frames(kind.as_str(), payload);
        match kind {
            FrameKind::SendMessage => {
                let limits = &["send_per_chat", "send_per_user"];
                let bound = FrameBound::Refused { answer: Some("send_message_ack"), burst: 20, per_second: 10, limits };
                vec![(sends(&self.chat_id, "x"), bound)]
            }
            FrameKind::UpdateMessage => {
                let limits = &["send_per_chat", "send_per_user"];
                let bound = FrameBound::Refused { answer: Some("send_message_ack"), burst: 20, per_second: 10, limits };
                vec![(edits(&self.chat_id), bound)]
            }
            FrameKind::SyncRequest => {
                let answer = Some("sync_response");
                let bound = FrameBound::Refused { answer, burst: 5, per_second: 5, limits: &["sync"] };
                vec![(frames(with("last_acked_sequence", json!(0))), bound)]
            }
            FrameKind::TypingStart => {
                let limits = &["typing", "typing_per_user"];
                vec![(frames(chat), FrameBound::Refused { answer: None, burst: 1, per_second: 1, limits })]
            }
            // One for each accepted start; only the limit of all frames bounds the others, which are ignored.
            FrameKind::TypingStop => vec![(frames(chat), FrameBound::Delayed { burst: 1000, per_second: 200 })],
            FrameKind::PresenceSubscribe => {
                let answer = Some("presence_snapshot");
                let bound = FrameBound::Refused { answer, burst: 300, per_second: 5, limits: &["rest_read"] };
                vec![(frames(json!({ "user_ids": [STRANGER] })), bound)]
            }
            FrameKind::PresenceUnsubscribe => {
                let bound = FrameBound::Delayed { burst: 100, per_second: 10 };
                vec![(frames(json!({ "user_ids": [STRANGER] })), bound)]
            }
            FrameKind::Ack => {
                let bound = FrameBound::Delayed { burst: 500, per_second: 50 };
                vec![(frames(with("last_acked_sequence", json!(1))), bound)]
            }
            FrameKind::MarkRead => {
                let bound = FrameBound::Delayed { burst: 500, per_second: 50 };
                vec![(frames(with("last_read_sequence", json!(1))), bound)]
            }
            FrameKind::Reauth => {
                let answer = Some("error");
                let bound = FrameBound::Refused { answer, burst: 10, per_second: 1, limits: OF_CONNECTION };
                vec![(frames(json!({ "token": "of nobody" })), bound)]
            }
            FrameKind::Heartbeat => {
                let answer = Some("heartbeat_ack");
                vec![(
                    frames(json!({})),
                    FrameBound::Refused { answer, burst: 50, per_second: 5, limits: OF_CONNECTION },
                )]
            }
            FrameKind::Unknown => vec![(self::frames("of_a_later_version", json!({})), FrameBound::Ignored)],
            FrameKind::Invalid => {
                let too_large =
                    FrameBound::Refused { answer: Some("error"), burst: 50, per_second: 5, limits: OF_CONNECTION };
                vec![
                    (sends(&self.chat_id, &"x".repeat(4097)), too_large),
                    (Box::new(|| Message::text("{")), FrameBound::Violation),
                    (Box::new(|| Message::binary(vec![7])), FrameBound::Violation),
                ]
            }
            FrameKind::Ping => vec![
                (Box::new(|| Message::Ping(vec![7; 125].into())), FrameBound::Ignored),
                (Box::new(|| Message::Pong(vec![7; 125].into())), FrameBound::Ignored),
            ],
        }
    }

    /// Floods a new connection, and asserts the bound.
    async fn flood(&self, kind: FrameKind, frames: Frames, bound: FrameBound) {
        match bound {
            FrameBound::Delayed { burst, per_second } => self.is_delayed(kind, frames, burst, per_second).await,
            FrameBound::Ignored => {
                let answers = self.is_closed(kind, frames, FLOOD, (4029, "rate_limited")).await;
                assert_eq!(answers, [Value::Null; 0], "{kind:?}");
            }
            FrameBound::Violation => {
                let answers = self.is_closed(kind, frames, 50, (1002, "protocol_error")).await;
                assert_eq!(answers.len(), 10, "{kind:?}: {answers:?}");
                assert!(answers.iter().all(|answer| answer["payload"]["code"] == "INVALID_MESSAGE"), "{answers:?}");
            }
            FrameBound::Refused { answer, burst, per_second, limits } => {
                let begun = Instant::now();
                let answers = self.is_closed(kind, frames, FLOOD, (4029, "rate_limited")).await;
                let accepted_max = burst + (begun.elapsed().as_secs() as usize + 1) * per_second;
                let (refused, accepted): (Vec<_>, Vec<_>) =
                    answers.iter().partition(|answer| answer["payload"]["code"] == "RATE_LIMITED");
                for refusal in refused {
                    let limit = refusal["payload"]["details"]["limit"].as_str().unwrap();
                    assert!(limits.contains(&limit), "{kind:?}: {refusal}");
                }
                assert!(accepted.iter().all(|accepted| accepted["type"].as_str() == answer), "{kind:?}: {accepted:?}");
                let accepted_min = if answer.is_some() { burst.min(5) } else { 0 };
                assert!(
                    (accepted_min..=accepted_max).contains(&accepted.len()),
                    "{kind:?}: {} accepted",
                    accepted.len()
                );
            }
        }
    }

    /// Asserts that the server closes the connection. Returns the answers before that.
    async fn is_closed(&self, kind: FrameKind, mut frames: Frames, count: usize, close: (u16, &str)) -> Vec<Value> {
        let mut socket = self.device.connect().await;
        for _ in 0..count {
            socket.try_send_raw(frames()).await;
        }
        let (mut answers, closed) = socket.rest().await;
        assert_eq!((closed.code, &*closed.reason), close, "{kind:?}");
        answers.retain(|frame| frame["type"] != "connection_closing" && !is_late_push(frame));
        answers
    }

    /// Asserts that the server reads the connection at this rate, without refusing anything.
    async fn is_delayed(&self, kind: FrameKind, mut frames: Frames, burst: usize, per_second: usize) {
        let mut socket = self.device.connect().await;
        let begun = Instant::now();
        for _ in 0..burst + per_second * DELAY.as_secs() as usize {
            socket.send_raw(frames()).await;
        }
        let answers = socket.heard_so_far().await;
        // The server counts in milliseconds.
        assert!(begun.elapsed() > DELAY - Duration::from_millis(50), "{kind:?} was read in {:?}", begun.elapsed());
        assert!(answers.iter().all(|answer| answer["type"] != "error"), "{kind:?}: {answers:?}");
    }
}

/// Whether a frame is a push about the chat or its first message, which a fleet may deliver after the flood has begun.
fn is_late_push(frame: &Value) -> bool {
    // The connection receives its own updates too.
    ["message", "message_updated"].iter().any(|pushed| frame["type"] == *pushed)
        || frame["payload"]["change"] == "created"
}

/// A user whose presence nobody knows.
const STRANGER: &str = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The same frame again and again.
fn frames(frame_type: &str, payload: Value) -> Frames {
    let frame = json!({ "type": frame_type, "request_id": "flood", "payload": payload }).to_string();
    Box::new(move || Message::text(frame.clone()))
}

/// New messages with this content.
fn sends(chat_id: &str, content: &str) -> Frames {
    let payload = json!({ "chat_id": chat_id, "content": content });
    Box::new(move || {
        let mut payload = payload.clone();
        payload["client_message_id"] = json!(Uuid::new_v4());
        Message::text(json!({ "type": "send_message", "request_id": "flood", "payload": payload }).to_string())
    })
}

/// Edits of the first message of a chat.
fn edits(chat_id: &str) -> Frames {
    let payload = json!({ "chat_id": chat_id, "sequence": 1, "action": "edit", "content": "x" });
    Box::new(move || {
        let mut payload = payload.clone();
        payload["client_message_id"] = json!(Uuid::new_v4());
        Message::text(json!({ "type": "update_message", "request_id": "flood", "payload": payload }).to_string())
    })
}

#[tokio::test]
async fn every_kind_of_frame_is_limited() {
    // All limits are those of production, except that many users sign up from one address.
    let server = TestServer::start_with_limits_and(&[("TIDINGS_LIMITS__OTP_REQUEST_PER_IP", "0")]).await;
    let document: Value = serde_json::from_str(include_str!("../../../../docs/asyncapi.json")).unwrap();
    let operations = document["operations"].as_object().unwrap().iter();
    let documented = operations.filter(|(_, operation)| operation["action"] == "receive").map(|(name, _)| &**name);
    let kinds: BTreeSet<&str> = FrameKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(documented.filter(|name| !kinds.contains(name)).collect::<Vec<_>>(), [""; 0], "frames without a kind");

    join_all(FrameKind::ALL.iter().map(async |kind| {
        let flooder = Flooder::sign_up(&server).await;
        for (frames, bound) in flooder.floods(*kind) {
            flooder.flood(*kind, frames, bound).await;
        }
    }))
    .await;

    let metrics = server.metrics().await;
    for kind in [FrameKind::Heartbeat, FrameKind::Unknown, FrameKind::Invalid, FrameKind::Ping] {
        let series = format!("tidings_gateway_frames_limited_total{{frame=\"{}\"}} ", kind.as_str());
        let count = metrics.lines().find_map(|line| line.strip_prefix(&*series)).expect("the frames are counted");
        assert!(count.parse::<f64>().unwrap() >= CLOSED_AFTER, "{series}{count}");
    }
}
