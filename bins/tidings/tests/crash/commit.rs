//! Crashes at the critical points of a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::server::{TestDevice, TestSocket};
use crate::shim::{DiskFault, Shim};

const ROUNDS: usize = 10;
/// Sends of a round, all in flight when the process dies.
const BURST: usize = 20;

#[tokio::test]
async fn g2_sends_committed_but_not_acked_are_deduplicated_after_the_restart() {
    let deduplicated = die_and_retry(DiskFault::KillSynced).await;
    eprintln!("{deduplicated} sends were committed and not acked");
    assert!(deduplicated > 0, "no death fell between a commit of sends and their acks");
}

#[tokio::test]
async fn g1_death_between_write_and_fsync_leaves_each_send_whole_or_not_at_all() {
    die_and_retry(DiskFault::KillUnsynced).await;
}

#[tokio::test]
async fn g1_death_in_the_middle_of_a_write_leaves_each_send_whole_or_not_at_all() {
    let deduplicated = die_and_retry(DiskFault::KillTorn).await;
    assert_eq!(deduplicated, 0, "half of a commit is nothing");
}

/// Kills the process at a point of its commits, round after round, and retries every send after the restart. Returns
/// the number of sends that were committed without an ack.
async fn die_and_retry(fault: DiskFault) -> usize {
    let shim = Shim::build();
    let mut server = shim.start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut places = BTreeMap::new();
    let mut deduplicated_unacked = 0;
    for round in 1..=ROUNDS {
        let ids: Vec<Uuid> = (0..BURST).map(|_| Uuid::new_v4()).collect();
        let mut socket = ann.connect().await;
        shim.fail(fault, &server);
        for id in &ids {
            // The process may die in an earlier commit, and then the rest cannot be written.
            socket.try_send_raw(Message::text(send_frame(&chat_id, *id).to_string())).await;
        }
        let acked = acks_until_the_end(&mut socket).await;
        assert_eq!(server.exited().await.signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(shim.hits(), round as u64, "it died of the fault");
        shim.heal();
        server.restart().await;

        let mut socket = ann.connect().await;
        for id in ids {
            let ack = socket.ask("send_message", send_frame(&chat_id, id)["payload"].clone()).await;
            assert_eq!(ack["type"], "send_message_ack", "{ack}");
            let place = place(&ack["payload"]);
            let deduplicated = ack["payload"]["deduplicated"] == true;
            match acked.get(&id) {
                Some(first) => assert_eq!((&place, deduplicated), (first, true), "an ack was not kept"),
                None => deduplicated_unacked += usize::from(deduplicated),
            }
            assert_eq!(places.insert(place, id), None, "a place is given once");
        }
    }
    everything_is_there_once(&bob, &chat_id, &places).await;
    deduplicated_unacked
}

fn send_frame(chat_id: &str, id: Uuid) -> Value {
    let payload = json!({ "client_message_id": id, "chat_id": chat_id, "content": id });
    json!({ "type": "send_message", "request_id": id, "payload": payload })
}

/// Sequence and message id.
fn place(message: &Value) -> (u64, String) {
    (message["sequence"].as_u64().unwrap(), message["message_id"].as_str().unwrap().to_owned())
}

async fn acks_until_the_end(socket: &mut TestSocket) -> BTreeMap<Uuid, (u64, String)> {
    let mut acked = BTreeMap::new();
    while let Ok(frame) = socket.read().await {
        assert_ne!(frame["type"], "error", "{frame}");
        if frame["type"] == "send_message_ack" {
            let id = frame["payload"]["client_message_id"].as_str().unwrap().parse().unwrap();
            acked.insert(id, place(&frame["payload"]));
        }
    }
    acked
}

async fn everything_is_there_once(reader: &TestDevice, chat_id: &str, places: &BTreeMap<(u64, String), Uuid>) {
    let question = json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": 500 });
    let page = reader.connect().await.ask("sync_request", question).await;
    let messages = page["payload"]["messages"].as_array().unwrap();
    let found: BTreeMap<_, _> = messages
        .iter()
        .map(|message| (place(message), message["content"].as_str().unwrap().parse().unwrap()))
        .collect();
    assert_eq!(&found, places);
    let sequences: Vec<u64> = messages.iter().map(|message| place(message).0).collect();
    assert_eq!(sequences, (1..=(ROUNDS * BURST) as u64).collect::<Vec<_>>());
    assert_eq!(found.values().collect::<BTreeSet<_>>().len(), found.len(), "every send is there once");
}
