//! Crashes at the critical points of a commit.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::server::{TestDevice, TestSocket};
use crate::shim::{DiskFault, Shim};

const ROUNDS: usize = 10;
/// Sends and updates of a round, all in flight when the process dies.
const BURST: usize = 20;
/// Updates of a round, each of another message of the round before it, so that their order does not matter.
const UPDATES: usize = 8;
/// The actions of these updates, in turn.
const ACTIONS: [UpdateAction; 4] = [UpdateAction::Edit, UpdateAction::React, UpdateAction::Delete, UpdateAction::React];

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpdateAction {
    Edit,
    React,
    Delete,
}

/// A send, or an update of the message at a sequence. Its id is also the content that it gives.
#[derive(Clone, Copy, Debug)]
struct Operation {
    id: Uuid,
    update: Option<(UpdateAction, u64)>,
}

/// Sequence and id of an entry.
type Place = (u64, String);

/// Kills the process at a point of its commits, round after round, and retries every operation after the restart.
/// Returns the number of operations that were committed without an ack.
async fn die_and_retry(fault: DiskFault) -> usize {
    let shim = Shim::build();
    let mut server = shim.start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut places: BTreeMap<Place, Operation> = BTreeMap::new();
    let mut targets = vec![];
    let mut deduplicated_unacked = 0;
    for round in 1..=ROUNDS {
        let operations = operations(&targets);
        let mut socket = ann.connect().await;
        shim.fail(fault, &server);
        for operation in &operations {
            // The process may die in an earlier commit, and then the rest cannot be written.
            socket.try_send_raw(Message::text(operation.frame(&chat_id).to_string())).await;
        }
        let acked = acks_until_the_end(&mut socket).await;
        assert_eq!(server.exited().await.signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(shim.hits(), round as u64, "it died of the fault");
        shim.heal();
        server.restart().await;

        let mut socket = ann.connect().await;
        targets.clear();
        for operation in operations {
            let frame = operation.frame(&chat_id);
            let ack = socket.ask(frame["type"].as_str().unwrap(), frame["payload"].clone()).await;
            assert_eq!(ack["type"], "send_message_ack", "{ack}");
            let place = place(&ack["payload"]);
            let deduplicated = ack["payload"]["deduplicated"] == true;
            match acked.get(&operation.id) {
                Some(first) => assert_eq!((&place, deduplicated), (first, true), "an ack was not kept"),
                None => deduplicated_unacked += usize::from(deduplicated),
            }
            if operation.update.is_none() {
                targets.push(place.0);
            }
            assert!(places.insert(place, operation).is_none(), "a place is given once");
        }
    }
    everything_is_there_once(&bob, &chat_id, &places).await;
    deduplicated_unacked
}

/// The operations of a round: sends, and updates of these messages in between.
fn operations(targets: &[u64]) -> Vec<Operation> {
    let mut updates = ACTIONS.into_iter().cycle().zip(targets.iter().copied()).take(UPDATES);
    let operation = |n: usize| Operation { id: Uuid::new_v4(), update: if n % 2 == 1 { updates.next() } else { None } };
    (0..BURST).map(operation).collect()
}

impl Operation {
    fn frame(self, chat_id: &str) -> Value {
        let Self { id, update } = self;
        let mut payload = json!({ "client_message_id": id, "chat_id": chat_id });
        let Some((action, target)) = update else {
            payload["content"] = json!(id);
            return json!({ "type": "send_message", "request_id": id, "payload": payload });
        };
        payload["sequence"] = target.into();
        match action {
            UpdateAction::Edit => {
                payload["action"] = "edit".into();
                payload["content"] = json!(id);
            }
            UpdateAction::React => {
                payload["action"] = "react".into();
                payload["reaction"] = "+1".into();
            }
            UpdateAction::Delete => payload["action"] = "delete".into(),
        }
        json!({ "type": "update_message", "request_id": id, "payload": payload })
    }
}

/// Sequence and id.
fn place(entry: &Value) -> Place {
    (entry["sequence"].as_u64().unwrap(), entry["message_id"].as_str().unwrap().to_owned())
}

async fn acks_until_the_end(socket: &mut TestSocket) -> BTreeMap<Uuid, Place> {
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

/// Checks that each message is there once in the state that its updates leave, and each update once.
async fn everything_is_there_once(reader: &TestDevice, chat_id: &str, places: &BTreeMap<Place, Operation>) {
    let question = json!({ "chat_id": chat_id, "last_acked_sequence": 0, "limit": 500 });
    let page = reader.connect().await.ask("sync_request", question).await;
    let [messages, updates] = ["messages", "updates"].map(|name| page["payload"][name].as_array().unwrap());

    let (mut expected, mut expected_updates) = (BTreeMap::new(), BTreeMap::new());
    for ((sequence, message_id), operation) in places.iter().filter(|(_, operation)| operation.update.is_none()) {
        expected.insert(*sequence, (message_id.clone(), operation.id.to_string(), None, None));
    }
    for ((sequence, _), operation) in places {
        let Some((action, target)) = operation.update else { continue };
        let kind = match action {
            UpdateAction::Edit => {
                let (_, content, edits, _) = expected.get_mut(&target).unwrap();
                (*content, *edits) = (operation.id.to_string(), Some(1));
                "edited"
            }
            UpdateAction::React => {
                expected.get_mut(&target).unwrap().3 = Some(1);
                "reacted"
            }
            UpdateAction::Delete => {
                expected.remove(&target);
                "deleted"
            }
        };
        expected_updates.insert(*sequence, (target, kind));
    }
    let found = messages.iter().map(|message| {
        let (sequence, message_id) = place(message);
        let content = message["content"].as_str().unwrap().to_owned();
        let (edits, reactions) = (&message["state"]["edit_count"], &message["state"]["reactions"][0]["count"]);
        (sequence, (message_id, content, edits.as_u64(), reactions.as_u64()))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    let found = updates.iter().map(|update| {
        let target = update["target_sequence"].as_u64().unwrap();
        (update["sequence"].as_u64().unwrap(), (target, update["kind"].as_str().unwrap()))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected_updates);
    assert_eq!((messages.len(), updates.len()), (expected.len(), expected_updates.len()), "each is there once");
    let sequences: Vec<u64> = places.keys().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (1..=(ROUNDS * BURST) as u64).collect::<Vec<_>>());
    assert_eq!(page["payload"]["head_sequence"], (ROUNDS * BURST) as u64);
}
