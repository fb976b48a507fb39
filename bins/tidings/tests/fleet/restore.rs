//! The tables of a fleet, restored to an earlier moment as new tables. The local server copies the items of the moment at
//! which it is asked, so the messages to be lost are sent between that and the rest of the restore, which is interrupted
//! there.

use std::time::Instant;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use engines::{Fault, When};
use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;
use uuid::Uuid;

use crate::drills::flush;
use crate::engine::SIZE;
use crate::runbook::take_step;
use crate::server::{PATIENCE, TestDevice, TestServer};

/// As on the page.
const PREFIX: &str = "restored_";
/// The page whose commands are executed.
const PAGE: &str = "fleet.md";

/// A send, and its first acknowledgement.
struct SentBeforeRestore {
    path: String,
    body: Value,
    ack: Value,
}

impl SentBeforeRestore {
    async fn new(sender: &TestDevice, chat_id: &str, content: &str) -> Self {
        let body = json!({ "client_message_id": Uuid::new_v4(), "content": content });
        let path = format!("/chats/{chat_id}/messages");
        let ack = sender.post(&path, body.clone()).await.data(201);
        Self { path, body, ack }
    }

    fn sequence(&self) -> u64 {
        self.ack["sequence"].as_u64().unwrap()
    }

    /// Sends it again, and returns the status and the acknowledgement.
    async fn again(&self, sender: &TestDevice) -> (u16, Value) {
        let answer = sender.post(&self.path, self.body.clone()).await;
        let status = answer.status.as_u16();
        (status, answer.data(status))
    }
}

/// The settings of an operator, and the time of the restore.
fn operator(server: &TestServer, at: &str, restored: bool) -> Vec<(String, String)> {
    let mut environment = server.fleet.base.environment(ProcessRole::Api);
    let mut set = |name: &str, value: &str| environment.push((name.to_owned(), value.to_owned()));
    set("TIDINGS_LISTEN", "127.0.0.1:0");
    set("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0");
    set("TIDINGS_DATA_DIR", server.data_dir().to_str().unwrap());
    set("TIDINGS_KAFKA__PARTITIONS", &SIZE.partitions.to_string());
    set("TIDINGS_KAFKA__REPLICATION", &SIZE.replication.to_string());
    set("at", at);
    if restored {
        set("TIDINGS_DYNAMODB__TABLE_PREFIX", PREFIX);
        set("TIDINGS_KAFKA__TOPIC_PREFIX", PREFIX);
    }
    environment
}

/// Runs a command of an operator, and returns its exit code and output.
async fn operate(server: &TestServer, arguments: &[&str], restored: bool) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.args(arguments).envs(operator(server, "", restored)).kill_on_drop(true);
    let output = timeout(4 * PATIENCE, command.output()).await.expect("it comes to an end").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// Deletes an item of a new table, as if its transaction were incomplete there.
async fn tear<const N: usize>(server: &TestServer, table: &str, key: [(&str, AttributeValue); N]) {
    let mut request = server.fleet.base.engines.client().delete_item().table_name(format!("{PREFIX}{table}"));
    for (name, value) in key {
        request = request.key(name, value);
    }
    let deleted = request.return_values(ReturnValue::AllOld).send().await.unwrap();
    assert!(deleted.attributes.is_some(), "the restored `{table}` had it");
}

/// Whether the new tables have the location of a message.
async fn is_located(server: &TestServer, sent: &SentBeforeRestore) -> bool {
    let request = server.fleet.base.engines.client().get_item().table_name(format!("{PREFIX}message_locations"));
    let request = request.key("message_id", text(sent.ack["message_id"].as_str().unwrap())).consistent_read(true);
    request.send().await.unwrap().item.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_fleet_has_lost_what_came_later_and_doubles_nothing() {
    let mut server = TestServer::start_recoverable().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let quiet_id = ann.group("quiet", &[&bob]).await;
    let mut kept = vec![];
    for n in 0..4 {
        kept.push(SentBeforeRestore::new(&ann, &chat_id, &format!("kept {n}")).await);
    }
    let quiet = SentBeforeRestore::new(&bob, &quiet_id, "quiet").await;

    let restore = ["store", "restore-tables", "--into-prefix", PREFIX];
    let (code, plan, _) = operate(&server, &restore, false).await;
    assert_eq!(code, Some(0), "{plan}");
    let at = plan.lines().find_map(|line| line.strip_prefix("restore to ")).unwrap().to_owned();
    let old = operator(&server, &at, false);
    let (code, plan) = take_step(PAGE, "plan", &old).await;
    assert!(code == Some(0) && plan.contains("absent") && !plan.contains("complete"), "{plan}");

    // The copies are made, and their settings are not.
    let faults = &server.fleet.base.engines.faults;
    faults.fail_operation("UpdateTimeToLive", Fault::Unavailable, When::Before, usize::MAX);
    let (code, said) = take_step(PAGE, "restore", &old).await;
    assert_eq!(code, Some(1), "{said}");
    faults.heal();
    let (code, _, error) = operate(&server, &["serve"], true).await;
    assert!(code == Some(1) && error.contains("was not finished"), "{error}");

    let mut lost = vec![];
    for n in 0..3 {
        lost.push(SentBeforeRestore::new(&ann, &chat_id, &format!("lost {n}")).await);
    }
    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    let key = format!("{}#{}", ann.user_id, kept[0].body["client_message_id"].as_str().unwrap());
    tear(&server, "idempotency_keys", [("chat_id", text(&*chat_id)), ("send_key", text(key))]).await;
    let fourth = AttributeValue::N("4".to_owned());
    tear(&server, "messages", [("chat_id", text(&*chat_id)), ("sequence", fourth)]).await;
    let second = kept[1].ack["message_id"].as_str().unwrap();
    tear(&server, "message_locations", [("message_id", text(second))]).await;

    let again = [&restore[..], &["--at", &at, "--yes"]].concat();
    let (code, _, error) = operate(&server, &again, false).await;
    assert!(code == Some(1) && error.contains("--resume"), "{error}");
    let started = Instant::now();
    let (code, said) = take_step(PAGE, "resume", &old).await;
    eprintln!("the rest of the restore took {:?}", started.elapsed());
    assert_eq!(code, Some(0), "{said}");
    for line in ["2 chats are restored; 1 of them have lost up to 4 messages", "1 send keys were written, 1 deleted"] {
        assert!(said.lines().any(|said| said == line), "{said}");
    }
    assert!(!said.contains("left: "), "{said}");
    assert!(is_located(&server, &kept[1]).await, "its location is written again");
    assert!(!is_located(&server, &kept[3]).await, "it is deleted with the key of the lost message");
    let (code, _, error) = operate(&server, &[&again[..], &["--resume"]].concat(), false).await;
    assert!(code == Some(1) && error.contains("is finished"), "{error}");

    let new = operator(&server, &at, true);
    let (code, said) = take_step(PAGE, "apply", &new).await;
    assert_eq!(code, Some(0), "{said}");
    flush(&server).await;
    let (code, said) = take_step(PAGE, "verify", &new).await;
    assert_eq!(code, Some(0), "{said}");
    server.set_env("TIDINGS_DYNAMODB__TABLE_PREFIX", PREFIX);
    server.set_env("TIDINGS_KAFKA__TOPIC_PREFIX", PREFIX);
    server.restart().await;

    let inbox = bob.get("/chats").await.data(200);
    let summary = inbox["chats"].as_array().unwrap().iter().find(|chat| chat["chat_id"] == chat_id).unwrap();
    assert_eq!(summary["last_message"]["message_id"], kept[2].ack["message_id"], "{inbox}");
    for sent in kept[..3].iter() {
        let (status, ack) = sent.again(&ann).await;
        assert_eq!((status, &ack["message_id"]), (200, &sent.ack["message_id"]));
    }
    let (status, ack) = quiet.again(&bob).await;
    assert_eq!((status, &ack["sequence"]), (200, &quiet.ack["sequence"]));

    // A client that has seen the lost messages receives the head, and every new message.
    let (seen, mut socket) = (lost[2].sequence(), bob.connect_eventually().await);
    let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": seen });
    let page = socket.ask("sync_request", cursor.clone()).await;
    assert_eq!((&page["type"], &page["payload"]["head_sequence"]), (&json!("sync_response"), &json!(seen)), "{page}");
    for sent in lost.iter().chain([&kept[3]]) {
        let (status, ack) = sent.again(&ann).await;
        assert!(status == 201 && ack["sequence"].as_u64().unwrap() > seen, "{ack}");
        let (status, repeated) = sent.again(&ann).await;
        assert_eq!((status, &repeated["message_id"]), (200, &ack["message_id"]));
        // Messages that were not confirmed as published at the time of the restore are pushed again, and no lost one is.
        loop {
            let pushed = socket.next_of("message").await["payload"]["message_id"].take();
            if pushed == ack["message_id"] {
                break;
            }
            assert!(kept.iter().any(|kept| kept.ack["message_id"] == pushed), "{pushed}");
        }
    }
    let page = socket.ask("sync_request", cursor).await;
    assert_eq!(page["payload"]["messages"].as_array().unwrap().len(), 4, "{page}");
    let history = ann.get(&format!("/chats/{chat_id}/messages?limit=100")).await.data(200);
    let contents: Vec<_> = history["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["kept 3", "lost 2", "lost 1", "lost 0", "kept 2", "kept 1", "kept 0"], "{history}");

    let (code, report, error) = operate(&server, &["store", "verify", "--json", "--rate", "100000"], true).await;
    assert_eq!(code, Some(0), "{report} {error}");
}
