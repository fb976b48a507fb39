//! `tidings store export` and `tidings store import`: a service moves from one machine to a fleet and back, without an
//! effect on its users. Incomplete files and stores with data are refused.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use contract::SampleData;
use domain::GroupInvites;
use embedded::EmbeddedStore;
use ports::{ImportAdmission, ImportId, ImportTarget, NewUser, UserKey, UserWriter};
use reqwest::Method;
use serde_json::json;

use super::server::{TestDevice, TestServer, unlimited};
use super::*;

/// Runs a command on a data directory.
async fn on_one_machine(arguments: &[&str], data_dir: &Path) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).arg("--data-dir").arg(data_dir).stdin(Stdio::null()).kill_on_drop(true);
    answer(command).await
}

fn open(data_dir: &Path) -> EmbeddedStore {
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
    EmbeddedStore::open(data_dir, embedded::Config::default(), clock, ids).unwrap()
}

/// A data directory with some data of each kind, and its export.
async fn exported(directory: &TempDir) -> PathBuf {
    let (data_dir, file) = (directory.path().join("from"), directory.path().join("file"));
    let store = open(&data_dir);
    SampleData::make(&store, SystemClock.now()).await;
    store.close().await;
    on_one_machine(&["store", "export", file.to_str().unwrap()], &data_dir).await.ended(0);
    file
}

/// The rows of a file, without its checksums.
fn rows(file: &Path) -> BTreeSet<String> {
    let is_row = |line: &&str| {
        let kind = serde_json::from_str::<Value>(line).unwrap()["kind"].take();
        !["header", "checksum", "trailer"].iter().any(|other| kind == *other)
    };
    fs::read_to_string(file).unwrap().lines().filter(is_row).map(str::to_owned).collect()
}

/// Users with some history, and their view of it.
struct MovedUsers {
    ann: TestDevice,
    bob: TestDevice,
    group: String,
    direct: String,
    /// A send to the group, and its ack.
    send: Value,
    told: Value,
}

async fn talk(server: &TestServer) -> MovedUsers {
    let [ann, bob, zoe] = server.sign_up_all(["Ann", "Bob", "Zoe"]).await;
    let (group, direct) = (ann.group("team", &[&bob, &zoe]).await, ann.direct_chat(&bob).await);
    let messages = format!("/chats/{group}/messages");
    let send = json!({ "client_message_id": Uuid::new_v4(), "content": "first" });
    let told = ann.post(&messages, send.clone()).await.data(201);
    zoe.send(&group, "from somebody who leaves").await;
    let brief = json!({ "client_message_id": Uuid::new_v4(), "content": "gone in an hour", "ttl_seconds": 3600 });
    bob.post(&messages, brief).await.data(201);
    bob.send(&direct, "between us").await;
    bob.post(&format!("/chats/{group}/read"), json!({ "last_read_sequence": 2 })).await.data(200);
    assert_eq!(ann.delete(&format!("/chats/{group}/members/{}", zoe.user_id)).await.status, 204);
    MovedUsers { ann, bob, group, direct, send, told }
}

/// The view of a user: their chats and messages.
async fn seen(server: &TestServer, access_token: &str, scene: &MovedUsers) -> Vec<Value> {
    let http = reqwest::Client::new();
    let mut seen = vec![];
    for path in ["/chats", &format!("/chats/{}/messages", scene.group), &format!("/chats/{}/messages", scene.direct)] {
        let url = format!("{}/api/v1{path}", server.base_url());
        let answer: Value = http.get(url).bearer_auth(access_token).send().await.unwrap().json().await.unwrap();
        assert!(answer["data"].is_object() || answer["data"].is_array(), "{answer}");
        seen.push(answer["data"].clone());
    }
    seen
}

/// A service on one machine, including an external user with tokens of another system.
async fn one_machine() -> (TestServer, MovedUsers, Vec<Value>) {
    let mut alone = TestServer::start().await;
    let scene = talk(&alone).await;
    let seen = seen(&alone, &scene.bob.access_token, &scene).await;
    assert_eq!(alone.stop().await.0.code(), Some(0));
    let store = open(&alone.data_dir());
    let key = UserKey::External { issuer: "https://id.example".to_owned(), subject: "carl".parse().unwrap() };
    let display_name = "Carl".to_owned().try_into().unwrap();
    let carl = NewUser {
        user_id: RandomIds.ulid().into(),
        display_name,
        group_invites: GroupInvites::default(),
        created_at: SystemClock.now(),
        proven_at: SystemClock.now(),
    };
    store.find_or_create(key, carl).await.unwrap();
    store.close().await;
    (alone, scene, seen)
}

#[tokio::test]
async fn a_service_moves_to_a_fleet_and_back() {
    let ((alone, scene, before), world) = tokio::join!(one_machine(), World::with_schema());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let out = on_one_machine(&["store", "export", &file("out"), "--json"], &alone.data_dir()).await.ended(0).json();
    assert_eq!(out["export"]["rows"]["user"], 4);
    assert_eq!(out["export"]["left"], json!({ "webhook_events": 0, "unpublished_chats": 0 }));
    let import = world.run(&["store", "import", &file("out"), "--json"]).await.ended(0).json();
    assert_eq!(import["import"]["content"], out["export"]["content"]);
    world.run(&["store", "verify", "--rate", "100000"]).await.ended(0);

    let command = world.command(&[]);
    let set = command.as_std().get_envs().filter_map(|(name, value)| {
        let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
        Some((text(name), text(value?)))
    });
    let mut fleet = TestServer::start_in(unlimited(&[]).into_iter().chain(set).collect()).await;
    people_go_on(&fleet, &scene, &before).await;
    world.run(&["store", "export", &file("early")]).await.ended(1).says("a process of the fleet is running");
    assert_eq!(fleet.stop().await.0.code(), Some(0));
    world.run(&["store", "verify", "--rate", "100000"]).await.ended(0);

    let back = world.run(&["store", "export", &file("back"), "--json"]).await.ended(0).json();
    let home = directory.path().join("home");
    let import = on_one_machine(&["store", "import", &file("back"), "--json"], &home).await.ended(0).json();
    assert_eq!(import["import"]["content"], back["export"]["content"]);
    on_one_machine(&["store", "verify"], &home).await.ended(0);
    on_one_machine(&["store", "export", &file("again")], &home).await.ended(0);
    let (back, again) = (rows(file("back").as_ref()), rows(file("again").as_ref()));
    assert_eq!(again, back);
    let carl = |row: &&String| row.contains("\"subject\":\"carl\"");
    assert_eq!(back.iter().filter(carl).count(), 1, "the external user is recognized by the external token");
    world.run(&["store", "import", &file("back")]).await.ended(1).says("the log has records of another store");
}

/// Checks that sessions, contents and deduplication of sends survive the move.
async fn people_go_on(fleet: &TestServer, scene: &MovedUsers, before: &[Value]) {
    let MovedUsers { ann, bob, group, send, told, .. } = scene;
    let refresh = json!({ "refresh_token": bob.refresh_token, "device_id": bob.device_id });
    let refreshed = fleet.call(Method::POST, "/api/v1/auth/refresh", Some(&refresh)).await.data(200);
    let access_token = refreshed["tokens"]["access_token"].as_str().unwrap();
    assert_eq!(seen(fleet, access_token, scene).await, before);

    let ann = fleet.sign_in(&ann.phone_number, "").await;
    assert_eq!(ann.user_id, scene.ann.user_id);
    let mut socket = ann.connect().await;
    let messages = socket.sync_all(group).await;
    assert_eq!(messages.iter().map(|message| message["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let mut again = send.clone();
    again["chat_id"] = json!(group);
    let again = socket.ask("send_message", again).await;
    assert_eq!(again["payload"]["deduplicated"], true, "{again}");
    for field in ["message_id", "sequence"] {
        assert_eq!(again["payload"][field], told[field]);
    }
    assert_eq!(socket.send_message(group, "after the move").await["sequence"], 4);
    socket.leave().await;
}

#[tokio::test]
async fn a_file_is_the_owners_alone_and_never_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let file = exported(&directory).await;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!directory.path().join("file.partial").exists());
    let again = on_one_machine(&["store", "export", file.to_str().unwrap()], &directory.path().join("from")).await;
    again.ended(1).says("exists already");
    let nowhere = directory.path().join("nowhere");
    on_one_machine(&["store", "export", "other"], &nowhere).await.ended(1).says("there is no data directory");
    assert!(!nowhere.exists());
}

#[tokio::test]
async fn a_file_that_is_not_whole_touches_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let file = exported(&directory).await;
    let whole = fs::read_to_string(&file).unwrap();
    let to = directory.path().join("to");
    let path = file.to_str().unwrap();
    on_one_machine(&["store", "import", "--check", path], &to).await.ended(0).says("is whole");

    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let cut = on_one_machine(&["store", "import", path], &to).await;
    let line = whole[..whole.len() / 2].lines().count();
    cut.ended(1).says(&format!("line {line}: it is cut off"));
    fs::write(&file, whole.replacen("hello", "hullo", 1)).unwrap();
    for arguments in [&["store", "import", "--check", path][..], &["store", "import", path]] {
        on_one_machine(arguments, &to).await.ended(1).says("checksum mismatch");
    }
    assert!(!to.exists(), "nothing was made");
}

#[tokio::test]
async fn nonempty_and_unfinished_stores_are_distinguished() {
    let directory = tempfile::tempdir().unwrap();
    let file = exported(&directory).await;
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let import = ["store", "import", file.to_str().unwrap()];
    on_one_machine(&import, &from).await.ended(1).says("the store is not empty, there is something in `sessions`");

    let store = open(&to);
    assert_eq!(store.begin(ImportId(1)).await.unwrap(), ImportAdmission::Begun);
    store.close().await;
    on_one_machine(&import, &to).await.ended(1).says("the import of another file was begun here and not finished");
    let serve = ["serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    for arguments in [&serve[..], &["store", "export", "never"]] {
        on_one_machine(arguments, &to).await.ended(1).says("an import into this store was not finished");
    }
    assert!(!Path::new("never").exists() && !Path::new("never.partial").exists());
    let store = open(&to);
    store.finish().await.unwrap();
    store.close().await;
    on_one_machine(&import, &to).await.ended(0).says("nothing is violated");
    on_one_machine(&["store", "verify"], &to).await.ended(0);
}

#[tokio::test]
async fn events_that_the_webhook_has_not_got_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (data_dir, file) = (directory.path().join("data"), directory.path().join("file"));
    let store = open(&data_dir);
    let (chat_id, sender_id) = new_group(&store).await;
    let mut consumer = store.consumer("webhook").await.unwrap();
    consumer.next().await.unwrap();
    consumer.commit().await.unwrap();
    drop(consumer);
    store.append((0..3).map(|_| message(chat_id, sender_id)).collect()).await.unwrap();
    store.close().await;
    let export = on_one_machine(&["store", "export", file.to_str().unwrap()], &data_dir).await;
    export.ended(0).says("3 events have not reached the webhook");
}
