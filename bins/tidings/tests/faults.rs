//! A disk that fails under a running server: sends are refused, reads continue, no false acks, and the server recovers
//! when the disk does.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

#[path = "it/runbook.rs"]
mod runbook;
#[path = "it/server.rs"]
mod server;
#[path = "shim/mod.rs"]
mod shim;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use domain::limits::CONTENT_BYTES_MAX;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::runbook::{RunbookMoment, follow, names};
use crate::server::{PATIENCE, RestResponse, TestDevice, TestServer, TestSocket};
use crate::shim::{DiskFault, Shim};

/// Length of the id at the start of a content.
const UUID_LEN: usize = 36;
/// More long messages than a small disk holds.
const LONG_SENDS_MAX: usize = 10_000;
/// Space on the small disk that is freed after a failure.
const RESERVED_BYTES: usize = 40 << 20;

#[tokio::test]
async fn a_disk_without_space_refuses_sends_and_recovers_by_itself() {
    fail_and_heal(DiskFault::Enospc, "No space left on device", "disk-full.md").await;
}

#[tokio::test]
async fn a_failed_fsync_refuses_sends_and_recovers_by_itself() {
    fail_and_heal(DiskFault::EioSync, "Input/output error", "sends-failing.md").await;
}

#[tokio::test]
async fn a_torn_write_refuses_sends_and_recovers_by_itself() {
    fail_and_heal(DiskFault::Torn, "Input/output error", "api-errors.md").await;
}

#[tokio::test]
async fn g1_death_while_the_disk_fails_keeps_every_ack() {
    for fault in [DiskFault::Enospc, DiskFault::EioSync, DiskFault::Torn] {
        let shim = Shim::build();
        let mut server = shim.start().await;
        let mut chat = FaultChat::new(&server).await;
        chat.send_some(5).await;
        shim.fail(fault, &server);
        chat.send_refused(3).await;
        assert!(shim.hits() > 0, "{fault:?} was met");
        server.kill().await;
        shim.heal();
        server.restart().await;
        chat.reconnect().await;
        chat.retry_refused().await;
        chat.check().await;
    }
}

#[tokio::test]
async fn a_disk_that_fails_again_and_again_never_makes_a_false_ack() {
    let shim = Shim::build();
    let mut server = shim.start().await;
    let mut chat = FaultChat::new(&server).await;
    for fault in
        [DiskFault::Torn, DiskFault::EioSync, DiskFault::Enospc, DiskFault::EioSync, DiskFault::Torn, DiskFault::Torn]
    {
        shim.fail(fault, &server);
        chat.send_refused(3).await;
        shim.heal();
        until_ready(&server).await;
        chat.send_some(3).await;
    }
    chat.retry_refused().await;
    chat.check().await;
    server.kill().await;
    server.restart().await;
    chat.check().await;
}

/// Injects a fault and heals it, following the runbook meanwhile.
async fn fail_and_heal(fault: DiskFault, reason: &str, page: &str) {
    let shim = Shim::build();
    let mut server = shim.start().await;
    let mut chat = FaultChat::new(&server).await;
    chat.send_some(5).await;

    shim.fail(fault, &server);
    chat.send_refused(3).await;
    assert!(shim.hits() > 0, "the fault was met");
    check_failing(&server, reason).await;
    chat.check().await;
    let names = || names(&server.base_url(), &server.admin_url(), &server.data_dir());
    follow(page, RunbookMoment::Broken, names()).await;

    shim.heal();
    until_ready(&server).await;
    follow(page, RunbookMoment::Over, names()).await;
    chat.check_recovered(&mut server).await;
}

#[tokio::test]
async fn a_stuck_committer_fails_liveness_until_it_continues() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let shim = Shim::build();
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "600000"),
        ("TIDINGS_HEALTH__STUCK_AFTER_MS", "1500"),
    ];
    let server = shim.start_with(&environment).await;
    let mut chat = FaultChat::new(&server).await;
    chat.send_some(1).await;
    shim.fail(DiskFault::StallSync, &server);
    chat.send_refused(1).await;
    assert!(shim.hits() > 0, "the fault was met");

    let alive = async || server.call(Method::GET, "/healthz", None).await;
    server.until(async || alive().await.status == 503).await;
    let stuck = alive().await.body;
    assert_eq!((&stuck["status"], &stuck["what"]), (&json!("stuck"), &json!("the committer")));
    // Drains earlier notifications.
    let said = RefCell::new(Vec::<String>::new());
    let heard = || {
        let mut bytes = [0; 512];
        while let Ok(length) = manager.recv(&mut bytes) {
            said.borrow_mut().push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        said.borrow().len()
    };
    heard();
    said.borrow_mut().clear();
    server.until(async || heard() > 2).await;
    assert!(said.borrow().iter().all(|said| said.starts_with("STATUS=the committer has not answered")), "{said:?}");

    shim.heal();
    server.until(async || alive().await.status == 200).await;
    chat.retry_refused().await;
    chat.check().await;
}

/// The same with a real full file system, in the journal, in the tables or wherever the store wrote last.
#[tokio::test]
async fn a_full_file_system_refuses_sends_and_recovers_by_itself() {
    let mut server = TestServer::start().await;
    // Mounts an empty file system over the data directory: the server starts with a new store.
    server.stop().await;
    // Without a reserve of free space, so that the disk really becomes full.
    server.set_env("TIDINGS_STORE__MIN_FREE_MIB", "0");
    let Some(small) = SmallDisk::mount(&server.data_dir()) else { return };
    server.restart().await;
    small.reserve();
    let mut chat = FaultChat::new(&server).await;
    chat.send_until_refused().await;
    check_failing(&server, "No space left on device").await;
    chat.check().await;

    small.make_room();
    until_ready(&server).await;
    chat.check_recovered(&mut server).await;
}

/// Before the file system is full, sends are refused and everything else works. Sends are accepted when space returns.
#[tokio::test]
async fn a_nearly_full_file_system_refuses_sends_and_accepts_them_when_space_returns() {
    let mut server = TestServer::start().await;
    server.stop().await;
    let Some(small) = SmallDisk::mount(&server.data_dir()) else { return };
    server.set_env("TIDINGS_STORE__MIN_FREE_MIB", "40");
    server.restart().await;
    let mut chat = FaultChat::new(&server).await;
    assert_eq!(chat.send(Uuid::new_v4()).await["type"], "send_message_ack");
    fs::write(small.filler(), vec![1; 50 << 20]).unwrap();
    let refused = loop {
        let answer = chat.send(Uuid::new_v4()).await;
        if answer["type"] == "error" {
            break answer["payload"].clone();
        }
    };
    check_unavailable(&refused);
    assert_eq!(refused["details"]["limit"], "store.min_free_mib");
    assert_eq!(server.call(Method::GET, "/readyz", None).await.status, 200);
    chat.bob.get(&format!("/chats/{}/messages", chat.chat_id)).await.data(200);
    small.make_room();
    let deadline = Instant::now() + PATIENCE;
    while chat.send(Uuid::new_v4()).await["type"] == "error" {
        assert!(Instant::now() < deadline, "sends are still refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that the server is alive, and soon reports that it is degraded, with the reason. It stays ready: reads work.
async fn check_failing(server: &TestServer, reason: &str) {
    let says = |ready: &RestResponse| {
        ready.body["dependencies"]["store"]["reason"].as_str().is_some_and(|r| r.contains(reason))
    };
    let ready = readiness(server, says).await;
    assert_eq!(ready.status, 200, "{ready:?}");
    assert_eq!(ready.body["status"], "degraded");
    let store = &ready.body["dependencies"]["store"];
    assert_eq!(store["status"], "failing");
    assert!(store["since"].is_string(), "{store}");
    assert_eq!(server.call(Method::GET, "/healthz", None).await.status, 200);
}

async fn until_ready(server: &TestServer) {
    readiness(server, |ready| ready.body["status"] == "ready").await;
}

/// Polls `/readyz` until it returns the expected response.
async fn readiness(server: &TestServer, expected: impl Fn(&RestResponse) -> bool) -> RestResponse {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ready = server.call(Method::GET, "/readyz", None).await;
        if expected(&ready) {
            return ready;
        }
        assert!(Instant::now() < deadline, "the server still says {ready:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A direct chat with its expected contents.
struct FaultChat {
    ann: TestDevice,
    bob: TestDevice,
    socket: TestSocket,
    chat_id: String,
    /// Every acknowledged send by its sequence: content and message id.
    acked: BTreeMap<u64, (Uuid, String)>,
    refused: Vec<Uuid>,
}

impl FaultChat {
    async fn new(server: &TestServer) -> Self {
        let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
        let chat_id = ann.direct_chat(&bob).await;
        let socket = ann.connect().await;
        Self { ann, bob, socket, chat_id, acked: BTreeMap::new(), refused: Vec::new() }
    }

    async fn reconnect(&mut self) {
        self.socket = self.ann.connect().await;
    }

    async fn send(&mut self, id: Uuid) -> Value {
        let payload = json!({ "client_message_id": id, "chat_id": self.chat_id, "content": id });
        self.socket.ask("send_message", payload).await
    }

    /// Sends messages that must be acknowledged.
    async fn send_some(&mut self, count: usize) {
        for _ in 0..count {
            let id = Uuid::new_v4();
            let answer = self.send(id).await;
            assert_eq!(answer["payload"]["deduplicated"], false, "{answer}");
            self.note(id, &answer);
        }
    }

    /// Sends messages that must be temporarily refused, over WebSocket and REST.
    async fn send_refused(&mut self, count: usize) {
        for _ in 0..count {
            let id = Uuid::new_v4();
            let answer = self.send(id).await;
            check_unavailable(&answer["payload"]);
            self.refused.push(id);
        }
        let id = Uuid::new_v4();
        let body = json!({ "client_message_id": id, "content": id });
        let answer = self.ann.post(&format!("/chats/{}/messages", self.chat_id), body).await;
        check_unavailable(&answer.refused(503, "SERVICE_UNAVAILABLE"));
        self.refused.push(id);
    }

    /// Sends long messages, many at a time, until the disk is full.
    async fn send_until_refused(&mut self) {
        while self.refused.is_empty() {
            assert!(self.acked.len() < LONG_SENDS_MAX, "{LONG_SENDS_MAX} long messages fit on a small disk");
            let ids: Vec<Uuid> = (0..100).map(|_| Uuid::new_v4()).collect();
            let frames = ids.iter().map(|id| {
                // Random throughout, so that the store cannot compress it.
                let rest: String = (1..CONTENT_BYTES_MAX / UUID_LEN).map(|_| Uuid::new_v4().to_string()).collect();
                let content = format!("{id}{rest}");
                let payload = json!({ "client_message_id": id, "chat_id": self.chat_id, "content": content });
                json!({ "type": "send_message", "request_id": id, "payload": payload })
            });
            self.socket.send_all(frames).await;
            for id in ids {
                let answer = self.socket.answer(&id.to_string()).await;
                if answer["type"] == "error" {
                    check_unavailable(&answer["payload"]);
                    self.refused.push(id);
                } else {
                    self.note(id, &answer);
                }
            }
        }
    }

    /// Sends refused messages again. They may have been stored, and must be one message either way.
    async fn retry_refused(&mut self) {
        for id in std::mem::take(&mut self.refused) {
            let first = self.send(id).await;
            self.note(id, &first);
            let again = self.send(id).await;
            assert_eq!(again["payload"]["deduplicated"], true, "{again}");
            assert_eq!(again["payload"]["sequence"], first["payload"]["sequence"]);
        }
    }

    fn note(&mut self, id: Uuid, ack: &Value) {
        assert_eq!(ack["type"], "send_message_ack", "{ack}");
        let (sequence, message_id) = place(&ack["payload"]);
        assert_eq!(self.acked.insert(sequence, (id, message_id)), None, "a sequence is given once");
    }

    /// Checks that all read paths work and agree, for both users: every ack is at its sequence, every sequence up to
    /// the head and every send exists exactly once. Only a refused send may exist without an ack.
    async fn check(&mut self) {
        let (found, head) = self.history().await;
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), (1..=head).collect::<Vec<_>>());
        let ids: BTreeSet<_> = found.values().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), found.len(), "every send is there once");
        for (sequence, row) in &found {
            let known = self.acked.get(sequence);
            assert!(known == Some(row) || (known.is_none() && self.refused.contains(&row.0)), "{sequence}: {row:?}");
        }
        assert!(self.acked.keys().all(|sequence| found.contains_key(sequence)), "an ack is not kept");

        self.reconnect().await;
        let newest = head.saturating_sub(10);
        let question = json!({ "chat_id": self.chat_id, "last_acked_sequence": newest, "limit": 500 });
        let page = self.socket.ask("sync_request", question).await;
        let synced: BTreeMap<_, _> = page["payload"]["messages"].as_array().unwrap().iter().map(row).collect();
        assert_eq!(synced, found.into_iter().filter(|(sequence, _)| *sequence > newest).collect());
        let inbox = self.bob.get("/chats").await.data(200);
        assert_eq!(inbox["chats"][0]["chat_id"], self.chat_id.as_str());
        assert_eq!(inbox["chats"][0]["last_message"]["sequence"], head, "{inbox}");
    }

    /// The whole chat over REST, and its head.
    async fn history(&self) -> (BTreeMap<u64, (Uuid, String)>, u64) {
        let mut found = BTreeMap::new();
        loop {
            let after = found.last_key_value().map_or(0, |(sequence, _)| *sequence);
            let page =
                self.bob.get(&format!("/chats/{}/messages?after={after}&limit=100", self.chat_id)).await.data(200);
            let messages = page["messages"].as_array().unwrap();
            if messages.is_empty() {
                return (found, page["head_sequence"].as_u64().unwrap());
            }
            found.extend(messages.iter().map(row));
        }
    }

    /// Checks that refused sends succeed, that new sends succeed, and that a crash loses nothing.
    async fn check_recovered(&mut self, server: &mut TestServer) {
        self.retry_refused().await;
        self.send_some(5).await;
        self.check().await;
        server.kill().await;
        server.set_env("LD_PRELOAD", "");
        server.restart().await;
        self.check().await;
    }
}

/// Sequence, send id in the content, and message id.
fn row(message: &Value) -> (u64, (Uuid, String)) {
    let (sequence, message_id) = place(message);
    (sequence, (message["content"].as_str().unwrap()[..UUID_LEN].parse().unwrap(), message_id))
}

/// Sequence and message id.
fn place(message: &Value) -> (u64, String) {
    (message["sequence"].as_u64().unwrap(), message["message_id"].as_str().unwrap().to_owned())
}

fn check_unavailable(error: &Value) {
    assert_eq!(error["code"], "SERVICE_UNAVAILABLE", "{error}");
    assert!(error["details"]["retry_after_seconds"].as_u64().unwrap() >= 1, "{error}");
}

/// Leaves out the tests that mount a file system, where neither this user nor `sudo` may.
const WITHOUT_MOUNT: &str = "TIDINGS_WITHOUT_MOUNT";

/// A separate file system over a directory, small enough to fill.
struct SmallDisk {
    path: PathBuf,
    /// The start of a command that may mount and unmount it.
    privileged: &'static [&'static str],
}

impl SmallDisk {
    /// `None` if the environment leaves such tests out.
    ///
    /// # Panics
    /// If it cannot be mounted: a test without its precondition shows nothing.
    fn mount(path: &Path) -> Option<Self> {
        if std::env::var_os(WITHOUT_MOUNT).is_some() {
            eprintln!("{WITHOUT_MOUNT} is set: a file system without space is not tested");
            return None;
        }
        let owner = path.metadata().unwrap();
        let options = format!("size=80m,mode=0700,uid={},gid={}", owner.uid(), owner.gid());
        let mut failures = vec![];
        for privileged in [&[][..], &["sudo", "-n"]] {
            let mount = ["mount", "-t", "tmpfs", "-o", &options, "tidings-test"];
            let words: Vec<&str> = privileged.iter().copied().chain(mount).collect();
            match Command::new(words[0]).args(&words[1..]).arg(path).output() {
                Ok(output) if output.status.success() => return Some(Self { path: path.to_owned(), privileged }),
                refused => failures.push(refused),
            }
        }
        panic!("no file system can be mounted: run as root, or set {WITHOUT_MOUNT}=1: {failures:?}");
    }

    /// Reserves space that [`make_room`](Self::make_room) frees.
    fn reserve(&self) {
        fs::write(self.filler(), vec![1; RESERVED_BYTES]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server still has files open, and releases them when it ends.
        let words: Vec<&str> = self.privileged.iter().copied().chain(["umount", "--lazy"]).collect();
        let unmounted = Command::new(words[0]).args(&words[1..]).arg(&self.path).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking(), "it was mounted");
    }
}
