//! Deleted data leaves the files of the data directory. A copy of the disk must not have what the service has promised
//! to forget.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use crate::receiver::WebhookReceiver;
use crate::server::{RestResponse, TestDevice, TestServer};
use crate::{updates, webhook};

const ERASE_WITHIN: &str = "TIDINGS_STORE__ERASE_WITHIN_SECONDS";
const BEGUN: &str = "erasing deleted rows from the disk";
const DONE: &str = "erased deleted rows from the disk";

/// A text that no compression shortens: blocks and journals have its bytes as they are.
fn incompressible() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let random = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    let letters = random.iter().flat_map(|uuid| uuid.into_bytes());
    letters.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()] as char).collect()
}

/// The files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        // The engine may remove a file in between.
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

/// The value of a metric.
async fn metric(server: &TestServer, series: &str) -> f64 {
    let metrics = server.metrics().await;
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// A server on which data was deleted, with the texts that have to go and one that stays.
struct Deleted {
    server: TestServer,
    gone: Vec<(&'static str, String)>,
    kept: String,
    bob: TestDevice,
    chat_id: String,
}

/// Deletes an account with its messages, and lets another message expire. The erasure from the disk is due in a day.
async fn deleted() -> Deleted {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let [name, erased, last, expired, kept, edited, deleted] = std::array::from_fn(|_| incompressible());
    let cem = server.sign_in("+4915735981247", &name).await;
    let (chat_id, with_cem) = (ann.direct_chat(&bob).await, cem.direct_chat(&bob).await);
    ann.send(&chat_id, &kept).await;
    cem.send(&with_cem, &erased).await;
    cem.send(&with_cem, &last).await;
    let with_both = ann.group("Notes", &[&bob]).await;
    let mut socket = ann.connect().await;
    ann.send(&with_both, &edited).await;
    updates::done(&mut socket, updates::edit(&with_both, 1, "other words")).await;
    ann.send(&with_both, &deleted).await;
    updates::done(&mut socket, updates::update(&with_both, 3, "delete")).await;
    let send = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": expired, "ttl_seconds": 1 });
    assert_eq!(ann.connect().await.ask("send_message", send).await["payload"]["sequence"], 2);

    let delete = json!({ "confirm": cem.user_id, "erase_messages": true });
    RestResponse::of(cem.request(Method::DELETE, "/users/me").json(&delete)).await.data(202);
    server.until(async || metric(&server, "tidings_store_purged_messages_total").await == 4.0).await;
    server.until(async || server.log().contains("an account was deleted")).await;
    let gone = vec![
        ("an erased message", erased),
        ("the erased message of a preview", last),
        ("an expired message", expired),
        ("the content of a message before its edit", edited),
        ("a message that was deleted for everyone", deleted),
        ("the phone number of a deleted account", cem.phone_number),
        ("the name of a deleted account", name),
    ];
    Deleted { server, gone, kept, bob, chat_id }
}

impl Deleted {
    /// Without erasure the data is still there. This also proves that the search finds it.
    fn assert_on_disk(&self) {
        for (what, text) in self.gone.iter().chain([&("a message that stays", self.kept.clone())]) {
            assert!(!files_with(&self.server.data_dir(), text).is_empty(), "{what} is on the disk");
        }
    }

    /// The deleted data is in no file, and the search still finds other data.
    fn assert_gone(&self) {
        for (what, text) in &self.gone {
            assert_eq!(files_with(&self.server.data_dir(), text), Vec::<PathBuf>::new(), "{what} is on the disk");
        }
        assert!(!files_with(&self.server.data_dir(), &self.kept).is_empty());
    }

    /// Waits for a whole round, and searches all files.
    async fn assert_erased(&self) {
        let server = &self.server;
        server.until(async || server.last_log().contains(DONE)).await;
        assert!(metric(server, "tidings_store_erasures_total{outcome=\"done\"}").await >= 1.0);
        self.assert_gone();
        let history = self.bob.get(&format!("/chats/{}/messages", self.chat_id)).await.data(200);
        assert_eq!(history["messages"][0]["content"], self.kept);
    }
}

#[tokio::test]
async fn deleted_data_leaves_every_file_within_the_configured_time() {
    let mut deleted = deleted().await;
    deleted.assert_on_disk();
    let server = &deleted.server;
    server.until(async || metric(server, "tidings_store_erasure_lag_seconds").await > 0.0).await;
    assert_eq!(metric(server, "tidings_store_erase_within_seconds").await, 86_400.0);
    assert!(!server.log().contains(BEGUN), "it is due in half a day");
    assert!(deleted.server.stop().await.0.success());
    deleted.assert_on_disk();
    deleted.server.set_env(ERASE_WITHIN, "2");
    deleted.server.restart().await;
    deleted.assert_erased().await;
    let server = &deleted.server;
    server.until(async || metric(server, "tidings_store_erasure_lag_seconds").await == 0.0).await;

    // A restart replays the journal.
    assert!(deleted.server.stop().await.0.success());
    deleted.server.restart().await;
    deleted.assert_gone();
}

#[tokio::test]
async fn an_erasure_that_a_kill_interrupts_is_completed_after_the_restart() {
    let mut deleted = deleted().await;
    deleted.server.kill().await;
    deleted.server.set_env(ERASE_WITHIN, "2");
    deleted.server.restart().await;
    let server = &deleted.server;
    server.until(async || server.last_log().contains(BEGUN)).await;
    deleted.server.kill().await;
    assert!(!deleted.server.last_log().contains(DONE), "it was killed in the middle of a round");
    deleted.assert_on_disk();
    // A round that has begun is not put off by a longer time.
    deleted.server.set_env(ERASE_WITHIN, "86400");
    deleted.server.restart().await;
    deleted.assert_erased().await;
}

#[tokio::test]
async fn webhook_retries_do_not_have_the_content_of_a_message_that_was_deleted_meanwhile() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = webhook::secret_file();
    let server = webhook::server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = webhook::group_with(&ann, &["a secret"]).await;
    webhook::heard(&mut receiver, 2).await;
    receiver.answer(&[503, 503, 503]);
    ann.put(&format!("/chats/{chat_id}/messages/1/reactions/ok"), json!({})).await.data(200);
    assert_eq!(webhook::heard(&mut receiver, 1).await[0]["payload"]["message"]["content"], "a secret");
    ann.delete(&format!("/chats/{chat_id}/messages/1")).await.data(200);
    // The second attempt may have been read before the deletion.
    webhook::heard(&mut receiver, 1).await;
    let later = webhook::heard(&mut receiver, 3).await;
    let kinds: Vec<_> = later.iter().map(|event| event["payload"]["kind"].clone()).collect();
    assert_eq!(kinds, ["reacted", "reacted", "deleted"]);
    assert!(later.iter().all(|event| event["payload"]["message"].is_null()), "{later:?}");
}
