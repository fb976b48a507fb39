use std::time::Instant;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

/// Limits with their defaults.
mod defaults {
    use super::{
        a_flood_of_typing_reaches_others_no_faster_than_its_limit, syncs_over_the_limit_are_refused,
        typing_in_many_chats_is_limited_over_all_of_them, typing_over_the_limit_is_refused_and_its_end_never_is,
    };
    use crate::rules::rules;

    rules!(
        on crate::server::TestServer::start_with_limits();
        syncs_over_the_limit_are_refused,
        typing_over_the_limit_is_refused_and_its_end_never_is,
        a_flood_of_typing_reaches_others_no_faster_than_its_limit,
        typing_in_many_chats_is_limited_over_all_of_them,
    );
}

/// Limits of what one account may create. These rules share low limits.
mod of_accounts {
    use super::{
        an_account_stores_so_many_bytes_of_messages_in_a_day,
        an_account_that_makes_groups_and_adds_members_in_bulk_is_stopped_for_the_day,
        an_account_with_the_maximum_of_chats_opens_no_new_one,
    };
    use crate::rules::rules;

    rules!(
        on crate::limits::low_limits_of_accounts();
        an_account_that_makes_groups_and_adds_members_in_bulk_is_stopped_for_the_day,
        an_account_stores_so_many_bytes_of_messages_in_a_day,
        an_account_with_the_maximum_of_chats_opens_no_new_one,
    );
}

async fn low_limits_of_accounts() -> TestServer {
    let limits = [
        ("TIDINGS_LIMITS__GROUPS_CREATED", "5"),
        ("TIDINGS_LIMITS__MEMBERS_ADDED", "12"),
        ("TIDINGS_LIMITS__CHATS_PER_USER", "6"),
        ("TIDINGS_LIMITS__MESSAGE_MIB", "1"),
    ];
    TestServer::start_with(&limits).await
}

/// Sends all frames in one go and returns the responses.
async fn burst(socket: &mut TestSocket, frame_type: &str, payloads: Vec<Value>) -> Vec<Value> {
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

/// Asserts that a plane has counted this many refusals by a limit.
async fn assert_counted(server: &TestServer, plane: &str, limit: &str, count: usize) {
    let metrics = server.metrics().await;
    let line = format!("tidings_{plane}_limited_total{{limit=\"{limit}\"}} {count}");
    assert!(metrics.lines().any(|found| found == line), "{line} is not in {metrics}");
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

async fn syncs_over_the_limit_are_refused(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let answers =
        burst(&mut socket, "sync_request", vec![json!({ "chat_id": chat_id, "last_acked_sequence": 0 }); 40]).await;
    assert!(answers[..5].iter().all(|answer| answer["type"] == "sync_response"), "{answers:?}");
    assert!(!refusals(&answers, "sync").is_empty());
}

async fn typing_over_the_limit_is_refused_and_its_end_never_is(server: &TestServer) {
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

async fn a_flood_of_typing_reaches_others_no_faster_than_its_limit(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.group("Notes", &[&bob]).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let typing = |frame_type: &str| json!({ "type": frame_type, "payload": { "chat_id": chat_id } });
    let is_typing = |frame: &&Value| frame["type"] == "typing_indicator";
    anns.send_all(vec![typing("typing_stop"); 200]).await;
    anns.send_message(&chat_id, "after the stops").await;
    bobs.next_of("message").await;
    assert_eq!(bobs.heard_so_far().await.iter().filter(is_typing).count(), 0, "a stop without a start is ignored");

    let begun = Instant::now();
    anns.send_all((0..200).map(|n| typing(if n % 2 == 0 { "typing_start" } else { "typing_stop" }))).await;
    anns.send_message(&chat_id, "after the flood").await;
    bobs.next_of("message").await;
    let heard = bobs.heard_so_far().await;
    let shown = heard.iter().filter(is_typing).count() as u64;
    let bound = 2 * (begun.elapsed().as_secs() + 2);
    assert!((1..=bound).contains(&shown), "{shown} indicators, at most {bound} are expected");
}

async fn typing_in_many_chats_is_limited_over_all_of_them(server: &TestServer) {
    const CHATS: usize = 30;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut frames = Vec::with_capacity(2 * CHATS);
    for n in 0..CHATS {
        let payload = json!({ "chat_id": ann.group(&n.to_string(), &[&bob]).await });
        frames.extend(["typing_start", "typing_stop"].map(|kind| json!({ "type": kind, "payload": payload })));
    }
    let chat_id = frames[0]["payload"]["chat_id"].as_str().unwrap().to_owned();
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let begun = Instant::now();
    anns.send_all(frames).await;
    // Ten starts are accepted at once, and then three in a second.
    let mut refused = Vec::new();
    while refused.len() < CHATS / 3 {
        refused.push(anns.next_of("error").await);
    }
    assert_eq!(refusals(&refused, "typing_per_user").len(), CHATS / 3);
    anns.send_message(&chat_id, "after the flood").await;
    bobs.next_of("message").await;
    let heard = bobs.heard_so_far().await;
    let shown = heard.iter().filter(|frame| frame["payload"]["is_typing"] == true).count();
    let shown_max = 10 + 3 * (begun.elapsed().as_secs() as usize + 1);
    assert!((1..=shown_max).contains(&shown), "{shown} of {shown_max}");
}

#[tokio::test]
async fn calls_over_a_limit_get_a_retry_time() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__REST_WRITE", "3")]).await;
    let ann = server.sign_up("Ann").await;
    let rename = async || ann.patch("/users/me", json!({ "display_name": "Anna" })).await;
    for remaining in ["2", "1", "0"] {
        let answer = rename().await;
        assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("3", remaining));
        assert_eq!(answer.status, 200);
    }
    let answer: RestResponse = rename().await;
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    let error = answer.refused(429, "RATE_LIMITED");
    assert!(error["details"]["retry_after_seconds"].as_u64().unwrap() >= 1);
}

async fn an_account_that_makes_groups_and_adds_members_in_bulk_is_stopped_for_the_day(server: &TestServer) {
    let [ann, bob, cid, dan] = server.sign_up_all(["Ann", "Bob", "Cid", "Dan"]).await;
    let group = async |by: &TestDevice, members: &[&TestDevice]| {
        let member_ids: Vec<_> = members.iter().map(|member| &member.user_id).collect();
        by.post("/chats", json!({ "type": "group", "name": "flood", "member_ids": member_ids })).await
    };
    let mut chats = vec![];
    for _ in 0..3 {
        chats.push(group(&ann, &[&bob, &cid, &dan]).await.data(201)["chat_id"].clone());
    }
    let refused = |answer: RestResponse, limit: &str| {
        assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 3600, "{answer:?}");
        let error = answer.refused(429, "RATE_LIMITED");
        assert_eq!(error["details"]["limit"], limit);
    };
    chats.push(group(&ann, &[&bob, &cid]).await.data(201)["chat_id"].clone());
    refused(group(&ann, &[&bob, &cid]).await, "members_added");
    let add = json!({ "user_id": dan.user_id });
    let chat_id = chats[3].as_str().unwrap();
    ann.post(&format!("/chats/{chat_id}/members"), add).await.data(201);
    let [eve] = server.sign_up_all(["Eve"]).await;
    refused(ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": eve.user_id })).await, "members_added");
    // The refused group has taken one of the five.
    refused(group(&ann, &[]).await, "groups_created");
    group(&bob, &[&ann]).await.data(201);
    assert_counted(server, "api", "members_added", 2).await;
    assert_counted(server, "api", "groups_created", 1).await;
}

async fn an_account_stores_so_many_bytes_of_messages_in_a_day(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let content = "x".repeat(4096);
    let send = |_| json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content });
    let answers = burst(&mut socket, "send_message", (0..220).map(send).collect()).await;
    let refused = refusals(&answers, "message_mib");
    // A message of 4 KiB counts as 5 KiB.
    assert!((10..=16).contains(&refused.len()), "{} of 220 were refused", refused.len());
    let over = ann.post(&format!("/chats/{chat_id}/messages"), send(0)).await;
    assert_eq!(over.refused(429, "RATE_LIMITED")["details"]["limit"], "message_mib");
    assert_counted(server, "gateway", "message_mib", refused.len()).await;
    assert_counted(server, "api", "message_mib", 1).await;
}

#[tokio::test]
async fn all_accounts_together_store_so_many_bytes_of_messages_in_a_day() {
    let server = TestServer::start_with(&[("TIDINGS_LIMITS__MESSAGE_MIB_TOTAL", "1")]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.group("Notes", &[&bob]).await;
    let content = "x".repeat(4096);
    let send = |_| json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content });
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let first = burst(&mut anns, "send_message", (0..100).map(send).collect()).await;
    assert_eq!(refusals(&first, "message_mib_total").len(), 0);
    let answers = burst(&mut bobs, "send_message", (0..120).map(send).collect()).await;
    // A message of 4 KiB counts as 5 KiB.
    let refused = refusals(&answers, "message_mib_total").len();
    // In a fleet the gateway of Ann may have taken the only portion of the quota.
    let refused_max = if TestServer::STANDS_ON == ["store"] { 16 } else { 120 };
    assert!((10..=refused_max).contains(&refused), "{refused} of 220 were refused");
    let over = ann.post(&format!("/chats/{chat_id}/messages"), send(0)).await.refused(429, "RATE_LIMITED");
    assert_eq!(over["details"]["limit"], "message_mib_total");
    assert_counted(&server, "gateway", "message_mib_total", refused).await;
    assert_counted(&server, "api", "message_mib_total", 1).await;
    assert_eq!(
        ann.get(&format!("/chats/{chat_id}/messages")).await.data(200)["messages"].as_array().unwrap().len(),
        20
    );
    if TestServer::STANDS_ON == ["store"] {
        let metrics = server.metrics().await;
        assert!(metrics.contains("\ntidings_message_quota_mib 1\n"), "{metrics}");
    }
}

async fn an_account_with_the_maximum_of_chats_opens_no_new_one(server: &TestServer) {
    let [ann, bob, cid, dan] = server.sign_up_all(["Ann", "Bob", "Cid", "Dan"]).await;
    for n in 0..4 {
        ann.group(&n.to_string(), &[]).await;
    }
    for other in [&bob, &cid] {
        ann.direct_chat(other).await;
    }
    for body in [
        json!({ "type": "group", "name": "more", "member_ids": [] }),
        json!({ "type": "direct", "member_ids": [dan.user_id] }),
    ] {
        let error = ann.post("/chats", body).await.refused(400, "INVALID_OPERATION");
        assert_eq!(error["details"], json!({ "limit": "chats_per_user", "maximum": 6 }));
    }
    assert_counted(server, "api", "chats_per_user", 2).await;
}
