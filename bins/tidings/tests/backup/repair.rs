//! A journal that was damaged after its sync: the service refuses the store, and a repair saves the rest.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::TestServer;
use crate::tidings;

/// Enough for several kilobytes, so that a damaged byte is inside one message.
const WORDS: usize = 3000;

/// Changes the byte in the middle of a text that occurs once in a file, and returns its position.
fn damage(file: &Path, text: &str) -> usize {
    let mut bytes = fs::read(file).unwrap();
    let found: Vec<_> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    let [at] = found[..] else { panic!("it is there {} times", found.len()) };
    bytes[at + text.len() / 2] ^= 0xff;
    fs::write(file, bytes).unwrap();
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_is_refused_by_name_and_repaired_but_for_the_damaged_commit() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = ann.connect().await;
    let content = |n: u64| format!("message {n} {}", "x".repeat(WORDS));
    for n in 1..=5 {
        let ack = socket.send_message(&chat_id, &content(n)).await;
        assert_eq!(ack["sequence"], n, "{ack}");
    }
    drop(socket);
    server.stop().await;

    let journal = server.data_dir().join("db").join("1.jnl");
    let at = damage(&journal, &content(3));
    server.spawn();
    assert_eq!(server.exited().await.code(), Some(1));
    let log = server.last_log();
    let named = format!("journal `{}` is damaged at byte ", journal.display());
    let offset = log.split(&named).nth(1).unwrap_or_else(|| panic!("{log}"));
    let offset: usize = offset.split(':').next().unwrap().parse().unwrap();
    assert!((at - 1000..at).contains(&offset), "{offset} for {at}");
    assert!(log.contains("tidings store repair"), "{log}");

    let into = server.data_dir().with_extension("repaired");
    let arguments = ["store", "repair", "--json", "--into", into.to_str().unwrap()];
    let repaired = tidings(&arguments, &server.data_dir()).await;
    assert_eq!(repaired.status.code(), Some(1), "{}", String::from_utf8_lossy(&repaired.stderr));
    let answer: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(answer["missing"], json!([{ "chat_id": chat_id, "lost": [], "lost_or_expired": [3] }]));
    assert_eq!(answer["unreadable"][0]["file"], journal.to_str().unwrap());
    let lines = answer["verify"]["invariants"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["violated"] == 0), "{answer}");
    let again = tidings(&arguments, &server.data_dir()).await;
    assert!(String::from_utf8_lossy(&again.stderr).contains("a repair overwrites nothing"));

    fs::rename(server.data_dir(), server.data_dir().with_extension("damaged")).unwrap();
    fs::rename(&into, server.data_dir()).unwrap();
    server.restart().await;
    let messages = bob.get(&format!("/chats/{chat_id}/messages")).await.data(200);
    let messages = messages["messages"].as_array().unwrap();
    let found: Vec<_> = messages.iter().map(|message| message["sequence"].as_u64().unwrap()).collect();
    assert_eq!(found, [5, 4, 2, 1]);
    for message in messages {
        assert_eq!(message["content"], content(message["sequence"].as_u64().unwrap()).as_str());
    }
    let ack = ann.connect().await.send_message(&chat_id, "after").await;
    assert_eq!(ack["sequence"], 6, "{ack}");
}
