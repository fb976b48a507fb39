//! An application that hears of everything that happens, tried with a receiver that fails, sleeps and comes back.

use std::net::TcpListener;
use std::process::Output;

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::receiver::{Call, Receiver};
use crate::server::{Device, TestServer};

const SECRET: &str = "a secret of both";

fn secret_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    file
}

async fn server(url: &str, secret: &NamedTempFile) -> TestServer {
    let secret = secret.path().to_str().unwrap();
    TestServer::start_with(&[("TIDINGS_WEBHOOK__URL", url), ("TIDINGS_WEBHOOK__SECRET_FILE", secret)]).await
}

/// What the application must check before it believes a call.
fn assert_signed(call: &Call) {
    let signature = call.header("tidings-signature");
    let (time, tag) = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).expect(signature);
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [time.as_bytes(), b".", &call.body].concat();
    let expected: String = hmac::sign(&key, &signed).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(tag, expected);
}

/// An event in a few words.
fn words(event: &Value) -> Value {
    let payload = &event["payload"];
    match event["event_type"].as_str().unwrap() {
        "MessagePersisted" => json!([payload["sequence"], payload["content"]]),
        other => json!(other),
    }
}

async fn heard(receiver: &mut Receiver, count: usize) -> Vec<Value> {
    let mut events = vec![];
    for _ in 0..count {
        events.push(receiver.next().await.json());
    }
    events
}

/// Runs a command of the binary on a running server.
async fn tidings(server: &TestServer, arguments: &[&str]) -> Output {
    let admin = server.admin_url();
    let listen = admin.strip_prefix("http://").unwrap();
    Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(arguments)
        .args(["--admin-listen", listen, "--data-dir"])
        .arg(server.data_dir())
        .output()
        .await
        .unwrap()
}

#[track_caller]
fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

async fn group_with(owner: &Device, messages: &[&str]) -> String {
    let chat_id = owner.group("group", &[]).await;
    for message in messages {
        owner.send(&chat_id, message).await;
    }
    chat_id
}

#[tokio::test]
async fn every_event_is_posted_signed_and_in_the_order_of_its_chat() {
    let mut receiver = Receiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.group("team", &[]).await;
    let ack = ann.send(&chat_id, "hello").await;
    ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": bob.user_id })).await.data(201);
    ann.patch(&format!("/chats/{chat_id}"), json!({ "name": "crew", "message_ttl_seconds": 60 })).await.data(200);

    let mut calls = vec![];
    for _ in 0..5 {
        let call = receiver.next().await;
        assert_signed(&call);
        assert_eq!(call.header("content-type"), "application/json");
        let event = call.json();
        assert_eq!(call.header("tidings-event-id"), event["event_id"].as_str().unwrap());
        assert_eq!((&event["event_version"], &event["partition_key"]), (&json!(1), &json!(chat_id)));
        calls.push(event);
    }
    let types: Vec<_> = calls.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["ChatCreated", "MessagePersisted", "MembershipChanged", "ChatRenamed", "MessageTtlChanged"]);
    assert!(calls.is_sorted_by_key(|event| event["position"].as_u64().unwrap()));
    let message = &calls[1]["payload"];
    assert_eq!((&message["message_id"], &message["content"]), (&ack["message_id"], &json!("hello")));
    assert_eq!(message["client_message_id"], ack["client_message_id"]);
    let added = &calls[2]["payload"];
    assert_eq!((&added["user_id"], &added["change_type"]), (&json!(bob.user_id), &json!("added")));
}

#[tokio::test]
async fn a_receiver_that_is_away_misses_nothing_also_when_the_server_dies_meanwhile() {
    // A port that nobody listens on, until the receiver comes.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let secret = secret_file();
    let mut server = server(&format!("http://{address}/hook"), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two"]).await;
    server
        .until(async || server.metrics().await.contains("tidings_webhook_deliveries_total{outcome=\"unavailable\"}"))
        .await;
    let status = tidings(&server, &["webhook", "status"]).await;
    assert!(said(&status).starts_with("failing since "), "{status:?}");
    server.kill().await;
    server.restart().await;
    ann.send(&chat_id, "three").await;

    let mut receiver = Receiver::start_at(address).await;
    let events = heard(&mut receiver, 4).await;
    let expected = [json!("ChatCreated"), json!([1, "one"]), json!([2, "two"]), json!([3, "three"])];
    assert_eq!(events.iter().map(words).collect::<Vec<_>>(), expected);
    server
        .until(async || {
            said(&tidings(&server, &["webhook", "status"]).await).starts_with("delivering, 0 events behind")
        })
        .await;
}

#[tokio::test]
async fn events_are_delivered_again_from_a_position_a_time_the_start_and_a_sequence() {
    let mut receiver = Receiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two", "three"]).await;
    let first = heard(&mut receiver, 4).await;
    let place = first[2]["position"].to_string();
    let time = first[0]["event_time"].as_str().unwrap().to_owned();
    for (from, expected) in
        [(vec!["--position", &place], &first[2..]), (vec!["--time", &time], &first[..]), (vec!["--oldest"], &first[..])]
    {
        let replayed = tidings(&server, &[&["webhook", "replay"][..], &from].concat()).await;
        assert_eq!(said(&replayed), "the application will hear of it again\n");
        assert_eq!(heard(&mut receiver, expected.len()).await, expected, "{from:?}");
    }
    let replayed = tidings(&server, &["webhook", "replay", "--chat", &chat_id, "--sequence", "2"]).await;
    said(&replayed);
    let again: Vec<_> = heard(&mut receiver, 2).await.iter().map(words).collect();
    assert_eq!(again, [json!([2, "two"]), json!([3, "three"])]);
    assert_eq!(receiver.rest().len(), 0);
}

#[tokio::test]
async fn what_the_application_refuses_is_a_dead_letter_that_can_be_delivered_again() {
    let mut receiver = Receiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &[]).await;
    heard(&mut receiver, 1).await;
    receiver.answer(&[400, 400, 500, 422, 400]);
    ann.send(&chat_id, "poison").await;
    ann.send(&chat_id, "behind it").await;
    let events: Vec<_> = heard(&mut receiver, 6).await.iter().map(words).collect();
    assert_eq!(events, [vec![json!([1, "poison"]); 5], vec![json!([2, "behind it"])]].concat());

    let list = async || -> Value {
        serde_json::from_slice(&tidings(&server, &["dead-letters", "list", "--json"]).await.stdout).unwrap()
    };
    server.until(async || list().await.as_array().unwrap().len() == 1).await;
    let letter = &list().await[0];
    assert_eq!(
        (&letter["kind"], &letter["chat_id"], &letter["attempts"]),
        (&json!("event"), &json!(chat_id), &json!(5))
    );
    assert_eq!(letter["reason"], "the answer was 400 Bad Request");
    let id = letter["id"].as_str().unwrap();
    let shown = tidings(&server, &["dead-letters", "list"]).await;
    assert!(said(&shown).contains(id), "{shown:?}");
    assert!(!list().await.to_string().contains("poison"), "a dead letter holds no content");

    receiver.answer(&[400]);
    let refused = tidings(&server, &["dead-letters", "redeliver", id]).await;
    assert_eq!(
        (refused.status.code(), said_anyway(&refused)),
        (Some(1), format!("{id}: the answer was 400 Bad Request\n"))
    );
    said(&tidings(&server, &["dead-letters", "redeliver", id]).await);
    let again: Vec<_> = heard(&mut receiver, 2).await.iter().map(words).collect();
    assert_eq!(again, vec![json!([1, "poison"]); 2]);
    assert_eq!(said(&tidings(&server, &["dead-letters", "list"]).await), "everything was delivered\n");
}

fn said_anyway(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn operators_are_let_in_by_the_token_of_the_data_directory_alone() {
    let server = TestServer::start().await;
    let url = format!("{}/admin/v1/dead-letters", server.admin_url());
    let http = reqwest::Client::new();
    for request in [http.get(&url), http.get(&url).bearer_auth("wrong")] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    let file: Value = serde_json::from_slice(&std::fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let let_in = http.get(&url).bearer_auth(file["token"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(let_in.status(), 200);

    let off = tidings(&server, &["webhook", "status"]).await;
    assert_eq!(off.status.code(), Some(1));
    assert_eq!(String::from_utf8(off.stderr).unwrap(), "error: this service has no `webhook.url`\n");
}
