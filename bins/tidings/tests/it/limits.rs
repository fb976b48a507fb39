use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Answer, Socket, TestServer};

/// Sends so many frames in one go and returns the answers.
async fn burst(socket: &mut Socket, frame_type: &str, payloads: Vec<Value>) -> Vec<Value> {
    let frame =
        |(n, payload): (usize, Value)| json!({ "type": frame_type, "request_id": n.to_string(), "payload": payload });
    let count = payloads.len();
    socket.send_all(payloads.into_iter().enumerate().map(frame)).await;
    let mut answers = Vec::new();
    for n in 0..count {
        answers.push(socket.answer(&n.to_string()).await);
    }
    answers
}

fn refusals<'a>(answers: &'a [Value], limit: &str) -> Vec<&'a Value> {
    let refused: Vec<_> = answers.iter().filter(|answer| answer["type"] == "error").collect();
    for answer in &refused {
        assert_eq!(answer["payload"]["code"], "RATE_LIMITED", "{answer}");
        assert_eq!(answer["payload"]["details"]["limit"], limit, "{answer}");
        assert!(answer["payload"]["details"]["retry_after_seconds"].as_u64().is_some_and(|seconds| seconds >= 1));
    }
    refused
}

fn sends(chat_id: &str, count: usize) -> Vec<Value> {
    let send = |_| json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "x" });
    (0..count).map(send).collect()
}

#[tokio::test]
async fn g4_a_send_over_the_limit_of_its_chat_uses_no_sequence_and_works_later() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__SEND_PER_CHAT", "10")]).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let payloads = sends(&chat_id, 60);
    let answers = burst(&mut socket, "send_message", payloads.clone()).await;
    assert!(answers[..20].iter().all(|answer| answer["type"] == "send_message_ack"), "20 come at once: {answers:?}");
    let refused = refusals(&answers, "send_per_chat");
    assert!(!refused.is_empty());
    let taken = answers.len() - refused.len();
    assert_eq!(ann.get(&format!("/chats/{chat_id}")).await.data(200)["head_sequence"], taken);

    let position = answers.iter().position(|answer| answer["type"] == "error").unwrap();
    let wait = answers[position]["payload"]["details"]["retry_after_seconds"].as_u64().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
    let later = socket.ask("send_message", payloads[position].clone()).await;
    assert_eq!((&later["payload"]["sequence"], &later["payload"]["deduplicated"]), (&json!(taken + 1), &json!(false)));
}

#[tokio::test]
async fn sends_of_one_user_are_limited_over_all_chats() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__SEND_PER_USER", "5")]).await;
    let ann = server.sign_up("Ann").await;
    let mut payloads = Vec::new();
    for n in 0..20 {
        payloads.extend(sends(&ann.group(&n.to_string(), &[]).await, 1));
    }
    let mut socket = ann.connect().await;
    let answers = burst(&mut socket, "send_message", payloads).await;
    assert!(answers[..5].iter().all(|answer| answer["type"] == "send_message_ack"), "{answers:?}");
    assert!(!refusals(&answers, "send_per_user").is_empty());
}

#[tokio::test]
async fn syncs_over_the_limit_are_refused() {
    let server = TestServer::start_with_limits().await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let answers =
        burst(&mut socket, "sync_request", vec![json!({ "chat_id": chat_id, "last_acked_sequence": 0 }); 40]).await;
    assert!(answers[..5].iter().all(|answer| answer["type"] == "sync_response"), "{answers:?}");
    assert!(!refusals(&answers, "sync").is_empty());
}

#[tokio::test]
async fn typing_over_the_limit_is_refused_and_its_end_never_is() {
    let server = TestServer::start_with_limits().await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let typing = |frame_type: &str| json!({ "type": frame_type, "payload": { "chat_id": chat_id } });
    socket.send_all(vec![typing("typing_start"); 8]).await;
    let heard = socket.heard_so_far().await;
    assert!((1..8).contains(&refusals(&heard, "typing").len()), "{heard:?}");
    socket.send_all(vec![typing("typing_stop"); 8]).await;
    assert_eq!(socket.heard_so_far().await, [Value::Null; 0]);
}

#[tokio::test]
async fn calls_over_a_limit_are_told_when_to_come_back() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__REST_WRITE", "3")]).await;
    let ann = server.sign_up("Ann").await;
    let rename = async || ann.patch("/users/me", json!({ "display_name": "Anna" })).await;
    for remaining in ["2", "1", "0"] {
        let answer = rename().await;
        assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("3", remaining));
        assert_eq!(answer.status, 200);
    }
    let answer: Answer = rename().await;
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    let error = answer.refused(429, "RATE_LIMITED");
    assert!(error["details"]["retry_after_seconds"].as_u64().unwrap() >= 1);
}
