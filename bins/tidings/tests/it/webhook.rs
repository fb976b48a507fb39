//! The application webhook, with a receiver that fails, stalls and recovers.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::receiver::WebhookReceiver;
use crate::runbook::{RunbookMoment, follow, names};
use crate::server::{TestDevice, TestServer};

pub(crate) const SECRET: &str = "a secret of both";

pub(crate) fn secret_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    file
}

pub(crate) async fn server(url: &str, secret: &NamedTempFile) -> TestServer {
    let secret = secret.path().to_str().unwrap();
    TestServer::start_with(&[("TIDINGS_WEBHOOK__URL", url), ("TIDINGS_WEBHOOK__SECRET_FILE", secret)]).await
}

/// A summary of an event.
pub(crate) fn words(event: &Value) -> Value {
    let payload = &event["payload"];
    match event["event_type"].as_str().unwrap() {
        "MessagePersisted" => json!([payload["sequence"], payload["content"]]),
        other => json!(other),
    }
}

/// The next events. Each matches the committed document.
pub(crate) async fn heard(receiver: &mut WebhookReceiver, count: usize) -> Vec<Value> {
    let document: Value = serde_json::from_str(include_str!("../../../../docs/asyncapi-events.json")).unwrap();
    let schema = json!({ "$ref": "#/components/schemas/Event", "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut events = vec![];
    for _ in 0..count {
        let event = receiver.next().await.json();
        assert!(validator.is_valid(&event), "{event} is not described");
        events.push(event);
    }
    events
}

/// Runs a command of the binary on a running server.
pub(crate) async fn tidings(server: &TestServer, arguments: &[&str]) -> Output {
    let admin = server.admin_url();
    let listen = admin.strip_prefix("http://").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    // Settings in the environment of the test are not meant for this command.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .args(["--admin-listen", listen, "--data-dir"])
        .arg(server.data_dir())
        .output()
        .await
        .unwrap()
}

#[track_caller]
pub(crate) fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) async fn group_with(owner: &TestDevice, messages: &[&str]) -> String {
    let chat_id = owner.group("group", &[]).await;
    for message in messages {
        owner.send(&chat_id, message).await;
    }
    chat_id
}

#[tokio::test]
async fn an_event_refused_by_the_application_is_a_dead_letter_that_can_be_redelivered() {
    let mut receiver = WebhookReceiver::start().await;
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
        serde_json::from_slice(&tidings(&server, &["log", "dead-letters", "list", "--json"]).await.stdout).unwrap()
    };
    server.until(async || list().await.as_array().unwrap().len() == 1).await;
    let letter = &list().await[0];
    assert_eq!(
        (&letter["kind"], &letter["chat_id"], &letter["attempts"]),
        (&json!("event"), &json!(chat_id), &json!(5))
    );
    assert_eq!(letter["reason"], "the answer was 400 Bad Request");
    let id = letter["id"].as_str().unwrap();
    let shown = tidings(&server, &["log", "dead-letters", "list"]).await;
    assert!(said(&shown).contains(id), "{shown:?}");
    assert!(!list().await.to_string().contains("poison"), "a dead letter holds no content");
    let process = server.showing("tidings_dead_letters_total{kind=\"event\"} 1").await;
    let names = names(&server.base_url(), &process.admin_url(), &process.data_dir());
    follow("webhook-failing.md", RunbookMoment::Broken, names.clone()).await;

    receiver.answer(&[400]);
    let refused = tidings(&server, &["log", "dead-letters", "redeliver", id]).await;
    assert_eq!(
        (refused.status.code(), said_anyway(&refused)),
        (Some(1), format!("{id}: the answer was 400 Bad Request\n"))
    );
    said(&tidings(&server, &["log", "dead-letters", "redeliver", id]).await);
    let again: Vec<_> = heard(&mut receiver, 2).await.iter().map(words).collect();
    assert_eq!(again, vec![json!([1, "poison"]); 2]);
    assert_eq!(said(&tidings(&server, &["log", "dead-letters", "list"]).await), "everything was delivered\n");
    follow("webhook-failing.md", RunbookMoment::Over, names).await;
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

    let off = tidings(&server, &["log", "webhook", "status"]).await;
    assert_eq!(off.status.code(), Some(1));
    assert_eq!(String::from_utf8(off.stderr).unwrap(), "error: this service has no `webhook.url`\n");
}
