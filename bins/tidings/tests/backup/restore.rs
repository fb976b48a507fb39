//! A backup taken from a service under load, and the contents after its restore.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{TestDevice, TestServer, TestSocket};
use crate::tidings;

/// Pipelined sends of one user.
const PIPELINED: usize = 8;

/// One acknowledgement, with its time.
struct Acked {
    chat_id: String,
    sequence: u64,
    message_id: String,
    content: String,
    at: Timestamp,
}

#[track_caller]
fn ended(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(since.as_millis() as u64)
}

/// Sends to a chat, a few messages at a time, until `is_enough`.
async fn send_on(mut socket: TestSocket, name: &str, chat_id: &str, is_enough: &AtomicBool) -> Vec<Acked> {
    let mut acks = vec![];
    while !is_enough.load(Ordering::Relaxed) {
        let first = acks.len();
        let contents: Vec<_> = (first..first + PIPELINED).map(|n| format!("{name} {n}")).collect();
        socket.send_messages(chat_id, &contents).await;
        for (content, place) in contents.into_iter().zip(1..) {
            let answer = socket.answer(&place.to_string()).await;
            assert_eq!(answer["type"], "send_message_ack", "{answer}");
            let ack = &answer["payload"];
            acks.push(Acked {
                chat_id: chat_id.to_owned(),
                sequence: ack["sequence"].as_u64().unwrap(),
                message_id: ack["message_id"].as_str().unwrap().to_owned(),
                content,
                at: now(),
            });
        }
    }
    acks
}

/// Waits for enough new messages to show that the load continues.
async fn more_sends(server: &TestServer, device: &TestDevice, chat_id: &str) {
    let path = format!("/chats/{chat_id}/messages?limit=1");
    let head = async || device.get(&path).await.data(200)["head_sequence"].as_u64().unwrap();
    let before = head().await;
    server.until(async || head().await >= before + 5 * PIPELINED as u64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_has_every_ack_before_its_moment_once_and_in_order() {
    let mut server = TestServer::start().await;
    let people = server.sign_up_all(["Ann", "Bob", "Cid"]).await;
    let [ann, bob, cid] = &people;
    let group = ann.group("group", &[bob, cid]).await;
    let pair = ann.direct_chat(bob).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("backup");
    let path = file.to_str().unwrap();

    let is_enough = AtomicBool::new(false);
    let mut sockets = vec![];
    for (device, chat_id) in [(ann, &group), (bob, &group), (cid, &group), (ann, &pair), (bob, &pair)] {
        let device = server.another_device(device).await;
        sockets.push((device.connect().await, format!("{} in {chat_id}", device.device_id), chat_id));
    }
    let sending = sockets.into_iter().map(|(socket, name, chat_id)| {
        let is_enough = &is_enough;
        async move { send_on(socket, &name, chat_id, is_enough).await }
    });
    let backing_up = async {
        more_sends(&server, ann, &group).await;
        let admin = server.admin_url();
        let listen = admin.strip_prefix("http://").unwrap();
        let taken = tidings(&["store", "backup", path, "--json", "--admin-listen", listen], &server.data_dir()).await;
        more_sends(&server, ann, &group).await;
        is_enough.store(true, Ordering::Relaxed);
        taken
    };
    let (acks, taken) = tokio::join!(join_all(sending), backing_up);
    let taken: Value = serde_json::from_str(&ended(&taken, 0).0).unwrap();
    let taken_at: Timestamp = taken["taken_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(taken["files"], json!(["keys.json", "vapid.json"]));
    let trail = fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    assert!(trail.contains("POST /backup"), "{trail}");
    let again = tidings(&["store", "backup", path], &server.data_dir()).await;
    assert!(ended(&again, 1).1.contains("a backup never overwrites a file"));

    let jwks = server.call(Method::GET, "/.well-known/jwks.json", None).await.body;
    server.kill().await;
    let lost = directory.path().join("lost");
    fs::rename(server.data_dir(), &lost).unwrap();
    let restored = tidings(&["store", "restore", path, "--json"], &server.data_dir()).await;
    let restored: Value = serde_json::from_str(&ended(&restored, 0).0).unwrap();
    assert_eq!(restored["backup"], taken);
    let lines = restored["verify"]["invariants"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["violated"] == 0), "{restored}");
    server.restart().await;

    assert_eq!(server.call(Method::GET, "/.well-known/jwks.json", None).await.body, jwks);
    let mut socket = ann.connect().await;
    let acks: Vec<Acked> = acks.into_iter().flatten().collect();
    let (mut kept, mut gone) = (0, 0);
    for chat_id in [&group, &pair] {
        let messages = socket.sync_all(chat_id).await;
        for (message, sequence) in messages.iter().zip(1..) {
            assert_eq!(message["sequence"].as_u64(), Some(sequence), "{message}");
        }
        let mut found = 0;
        for ack in acks.iter().filter(|ack| ack.chat_id == *chat_id) {
            match messages.get(ack.sequence as usize - 1) {
                Some(message) => {
                    assert_eq!(message["message_id"], ack.message_id.as_str());
                    assert_eq!(message["content"], ack.content.as_str());
                    found += 1;
                }
                None => {
                    assert!(ack.at >= taken_at, "{} was acknowledged before the backup and is not there", ack.content);
                    gone += 1;
                }
            }
        }
        assert_eq!(found, messages.len(), "everything there was sent, and is there once");
        kept += found;
    }
    let before = acks.iter().filter(|ack| ack.at < taken_at).count();
    assert!(before >= 5 * PIPELINED && kept >= before && gone > 0, "{before} before, {kept} kept, {gone} gone");

    // Sessions survive the restore, and users continue where the backup ends.
    let refresh = json!({ "refresh_token": bob.refresh_token, "device_id": bob.device_id });
    server.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.data(200);
    let head = socket.sync_all(&group).await.len() as u64;
    assert_eq!(socket.send_message(&group, "after").await["sequence"], head + 1);
}

#[tokio::test]
async fn a_damaged_backup_is_refused_and_leaves_nothing() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "hello").await;
    let directory = tempfile::tempdir().unwrap();
    let (file, target) = (directory.path().join("backup"), directory.path().join("target"));
    let path = file.to_str().unwrap();
    let running = tidings(&["store", "backup", path], &server.data_dir()).await;
    assert!(ended(&running, 1).1.contains("use --admin-listen to query the running service"));
    server.stop().await;
    let (said, _) = ended(&tidings(&["store", "backup", path], &server.data_dir()).await, 0);
    assert!(said.contains("holds keys"), "{said}");
    let (said, _) = ended(&tidings(&["store", "restore", "--check", path], &target).await, 0);
    assert!(said.contains("nothing in it is damaged"), "{said}");
    assert!(!target.exists());

    let bytes = fs::read(&file).unwrap();
    let mut damaged = bytes.clone();
    let at = bytes.len() / 2;
    damaged[at] ^= 1;
    fs::write(&file, damaged).unwrap();
    let (_, said) = ended(&tidings(&["store", "restore", path], &target).await, 1);
    assert!(said.contains("rows of `") && said.contains("is damaged: its checksum is"), "{said}");
    fs::write(&file, &bytes[..at]).unwrap();
    let (_, said) = ended(&tidings(&["store", "restore", "--check", path], &target).await, 1);
    assert!(said.contains(&format!("it ends at byte {at}, within part ")), "{said}");
    let mut left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup"]);

    fs::write(&file, &bytes).unwrap();
    fs::create_dir(&target).unwrap();
    let (said, _) = ended(&tidings(&["store", "restore", path], &target).await, 0);
    assert!(said.contains("nothing is violated") && said.contains("is restored"), "{said}");
    let (_, said) = ended(&tidings(&["store", "restore", path], &target).await, 1);
    assert!(said.contains("a restore overwrites nothing"), "{said}");
}
