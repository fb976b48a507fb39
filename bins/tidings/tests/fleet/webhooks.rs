use std::collections::{BTreeMap, BTreeSet};

use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::receiver::WebhookReceiver;
use crate::server::TestServer;
use crate::webhook::{group_with, heard, said, secret_file, server, tidings, words};

/// The events of each chat as a consumer orders them, by their numbers. In arrival order, the events of each topic have
/// ascending numbers.
fn by_number(events: &[Value]) -> BTreeMap<String, BTreeMap<u64, Value>> {
    let mut chats = BTreeMap::<String, BTreeMap<u64, Value>>::new();
    let mut last = BTreeMap::new();
    for event in events {
        let chat_id = event["partition_key"].as_str().unwrap().to_owned();
        let number = event["event_number"].as_u64().unwrap_or_else(|| panic!("{event} has no number"));
        let topic = match event["event_type"].as_str().unwrap() {
            "MessagePersisted" => "message",
            "MembershipChanged" => "member",
            _ => "chat",
        };
        let before = last.insert((chat_id.clone(), topic), number);
        assert!(before.is_none_or(|before| before < number), "{event} comes after number {before:?} of its topic");
        let other = chats.entry(chat_id).or_default().insert(number, event.clone());
        assert!(other.is_none(), "{event} has the number of {other:?}");
    }
    chats
}

/// The events of one chat in the order of their numbers, from its creation on and without a gap.
fn whole_chat(events: &[Value]) -> Vec<Value> {
    let chats = by_number(events);
    let [chat] = &*chats.values().collect::<Vec<_>>() else { panic!("{} chats", chats.len()) };
    assert!(chat.keys().copied().eq(1..=events.len() as u64), "{:?}", chat.keys());
    chat.values().map(words).collect()
}

#[tokio::test]
async fn every_event_is_posted_in_the_order_of_its_chat() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let bob = server.sign_up("Bob").await;
    let ann = server.sign_up("Ann").await;
    let expected = [
        json!("ChatCreated"),
        json!([1, "one"]),
        json!([2, "two"]),
        json!("MembershipChanged"),
        json!("ChatRenamed"),
        json!("MessageTtlChanged"),
        json!([3, "three"]),
    ];
    let (mut tries, mut ids) = (0, BTreeSet::new());
    let chat_id = loop {
        tries += 1;
        let before = excuses(&server).await;
        let chat_id = group_with(&ann, &[]).await;
        // The first event of a chat is held for a second only.
        let mut posted = heard_once(&mut receiver, &mut ids, 1).await;
        ann.send(&chat_id, "one").await;
        ann.send(&chat_id, "two").await;
        ann.post(&format!("/chats/{chat_id}/members"), json!({ "user_id": bob.user_id })).await.data(201);
        ann.patch(&format!("/chats/{chat_id}"), json!({ "name": "crew", "message_ttl_seconds": 60 })).await.data(200);
        ann.send(&chat_id, "three").await;
        posted.extend(heard_once(&mut receiver, &mut ids, 6).await);
        assert_eq!(whole_chat(&posted), expected);
        let order: Vec<_> = posted.iter().map(words).collect();
        if order == expected {
            break chat_id;
        }
        // On a slow machine an event may come later than its successors are held. That is counted, and rare.
        assert!(excuses(&server).await > before && tries < 5, "{order:?}");
        server.fleet.settled().await;
    };

    said(&tidings(&server, &["log", "webhook", "replay", "--chat", &chat_id, "--sequence", "2"]).await);
    let mut replayed = vec![];
    while replayed.len() < 2 {
        // Events of the log, which may come twice, have a position.
        replayed.extend(heard(&mut receiver, 1).await.into_iter().filter(|event| event["position"].is_null()));
    }
    assert_eq!(replayed.iter().map(words).collect::<Vec<_>>(), [json!([2, "two"]), json!([3, "three"])]);
}

/// How often the webhook may have delivered events out of order: after a gap, or because a partition got another
/// consumer.
async fn excuses(server: &TestServer) -> f64 {
    let metrics = server.metrics().await;
    let gaps = metrics.lines().find_map(|line| line.strip_prefix("tidings_webhook_gaps_total ")?.parse().ok());
    let gaps: f64 = gaps.unwrap_or(0.0);
    let moved = |log: String| log.matches("group=\"webhook\" partitions=").count();
    let moves: usize = server.fleet.processes().map(|process| moved(process.log())).sum();
    gaps + moves as f64
}

/// Events that are not in `ids` yet, in the order of their first delivery. When a partition changes its consumer,
/// events may be delivered twice.
async fn heard_once(receiver: &mut WebhookReceiver, ids: &mut BTreeSet<String>, count: usize) -> Vec<Value> {
    let mut events = vec![];
    while events.len() < count {
        let event = receiver.next().await.json();
        if ids.insert(event["event_id"].as_str().unwrap().to_owned()) {
            events.push(event);
        }
    }
    events
}

#[tokio::test]
async fn a_replay_moves_the_consumers_of_both_api_processes() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    // Both processes have a partition with some of these. All events of the first half are in the log before any of the
    // second.
    let (mut chats, mut all, mut ids) = (vec![], vec![], BTreeSet::new());
    for _ in 0..2 {
        for _ in 0..4 {
            chats.push(group_with(&ann, &["one", "two"]).await);
        }
        all.extend(heard_once(&mut receiver, &mut ids, 12).await);
    }
    let behind = async || -> Value {
        serde_json::from_str(said(&tidings(&server, &["log", "webhook", "status", "--json"]).await)).unwrap()
    };
    // From the creation of the fifth chat on.
    let is_fifth = |event: &&Value| event["payload"]["chat_id"] == *chats[4] && event["event_type"] == "ChatCreated";
    let from = all.iter().find(is_fifth).expect("it was delivered").clone();
    let time = from["event_time"].as_str().unwrap().to_owned();
    let since = all.iter().filter(|event| event["event_time"].as_str().unwrap() >= &*time).count();
    assert_eq!(since, 12, "the second half: {all:?}");
    let first = by_number(&all);
    let (position, mut replays) = (from["position"].to_string(), 1);
    for (arguments, expected) in
        [(vec!["--oldest"], 24), (vec!["--time", &*time], since), (vec!["--position", &*position], since)]
    {
        server.until(async || behind().await["lag_events"] == 0).await;
        receiver.rest();
        said(&tidings(&server, &[&["log", "webhook", "replay"][..], &arguments].concat()).await);
        let again = heard_once(&mut receiver, &mut BTreeSet::new(), expected).await;
        // A consumer that sorts by the numbers gets the same chats again: whole ones, because all of these replays begin
        // between two chats.
        let replayed = by_number(&again);
        assert_eq!(replayed.len(), expected / 3, "{arguments:?}: {again:?}");
        for (chat_id, events) in replayed {
            assert!(events.keys().copied().eq(1..=3), "{arguments:?} {chat_id}: {events:?}");
            assert_eq!(events, first[&chat_id], "{arguments:?} {chat_id}");
        }
        let other = server.fleet.process(ProcessRole::Api, 1);
        server.until(async || other.log().matches("webhook resumed").count() == replays).await;
        replays += 1;
    }
    // Both deliver again.
    server.until(async || behind().await["lag_events"] == 0).await;
    server.fleet.settled().await;
    for chat_id in &chats {
        ann.send(chat_id, "three").await;
    }
    let later = heard_once(&mut receiver, &mut BTreeSet::new(), 8).await;
    assert!(later.iter().all(|event| event["payload"]["sequence"] == 3), "{later:?}");
}

#[tokio::test]
async fn an_unavailable_receiver_misses_nothing_even_if_the_fleet_is_killed() {
    // The socket keeps its port from other tests, and refuses connections until it listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let secret = secret_file();
    let mut server = server(&format!("http://{address}/hook"), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = group_with(&ann, &["one", "two"]).await;
    let failed = "tidings_webhook_deliveries_total{outcome=\"unavailable\"}";
    server.until(async || server.metrics().await.contains(failed)).await;
    server.kill().await;
    server.restart().await;
    ann.send(&chat_id, "three").await;

    let mut receiver = WebhookReceiver::start_on(socket.listen(128).unwrap());
    let events = heard_once(&mut receiver, &mut BTreeSet::new(), 4).await;
    let expected = [json!("ChatCreated"), json!([1, "one"]), json!([2, "two"]), json!([3, "three"])];
    assert_eq!(whole_chat(&events), expected);
}
