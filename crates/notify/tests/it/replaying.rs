use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Backoff, Body, ContentType, EventKind, Sequence, Ttl, UpdateAction};
use ports::{EventLog, NewMessage, Position, Start, StoreError, WebhookPause};
use tidings_notify::{EventWebhook, EventWebhookConfig, Replay, ReplayError};

use crate::receiver::{CannedResponse, ReceivedRequest};
use crate::webhook_world::{WebhookWorld, config, message, run, taken};
use crate::world::{seconds, start};

fn event_ids(requests: &[ReceivedRequest]) -> Vec<&str> {
    requests.iter().map(|request| request.header("tidings-event-id")).collect()
}

#[tokio::test]
async fn all_events_from_a_position_or_a_time_are_delivered_again() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    for minute in 1..=5 {
        let created_at = start() + seconds(60 * minute);
        world.append(NewMessage { created_at, ..world.message(chat_id, ada, "hello") }).await;
    }
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    let first = world.until_taken(chat_id, 5).await;
    assert_eq!(taken(&first, chat_id), [1, 2, 3, 4, 5]);
    let third = Position(first[2].json()["position"].as_u64().unwrap());
    for (from, expected) in [
        (Start::Oldest, &[1, 2, 3, 4, 5][..]),
        (Start::At(third), &[3, 4, 5]),
        (Start::Time(start() + seconds(60 * 4)), &[4, 5]),
        (Start::Time(start() + seconds(60 * 4 + 1)), &[5]),
    ] {
        world.caught_up().await;
        webhook.replay(Replay::From(from)).await.unwrap();
        let again = world.until_taken(chat_id, 5).await;
        assert_eq!(taken(&again, chat_id), expected, "{from:?}");
        assert_eq!(event_ids(&again), event_ids(&first)[5 - expected.len()..], "the same events");
    }
}

#[tokio::test]
async fn a_chat_is_delivered_again_from_a_sequence_as_the_same_events() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    let other = world.group(ada, &[]).await;
    // More than one page.
    world.send_numbered(chat_id, ada, 250).await;
    world.send_numbered(other, ada, 1).await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    let first = world.receiver.until(|request| message(request) == Some((chat_id, 250))).await;
    world.caught_up().await;
    world.receiver.rest();
    webhook.replay(Replay::Chat { chat_id, from: Sequence(11) }).await.unwrap();
    let again = world.until_taken(chat_id, 250).await;
    assert_eq!(taken(&again, chat_id), (11..=250).collect::<Vec<_>>());
    let of_chat = |requests: &[ReceivedRequest]| -> Vec<ReceivedRequest> {
        requests.iter().filter(|request| message(request).is_some_and(|(chat, _)| chat == chat_id)).cloned().collect()
    };
    assert_eq!(event_ids(&again), event_ids(&of_chat(&first))[10..], "the same events, and of this chat only");
    assert!(again.iter().all(|request| request.json().get("position").is_none()), "they do not come from the log");

    // From the start of the chat, and from beyond its end.
    webhook.replay(Replay::Chat { chat_id: other, from: Sequence(0) }).await.unwrap();
    assert_eq!(message(&world.receiver.next().await), Some((other, 1)));
    webhook.replay(Replay::Chat { chat_id: other, from: Sequence(u64::MAX) }).await.unwrap();
    world.send(other, ada, "new").await;
    let request = world.receiver.next().await;
    assert_eq!((message(&request), request.json()["position"].is_u64()), (Some((other, 2)), true));
}

#[tokio::test]
async fn a_replay_of_a_chat_waits_for_its_batch_and_the_next_batch_for_it() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 4).await;
    world.receiver.answer(|_| CannedResponse::Status(503));
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.receiver.next().await;
    // A batch of four messages is in progress. The replay follows it, and the new message follows the replay.
    webhook.replay(Replay::Chat { chat_id, from: Sequence(2) }).await.unwrap();
    world.send(chat_id, ada, "five").await;
    world.receiver.answer(|_| CannedResponse::Status(200));
    let mut sequences = vec![];
    while sequences.len() < 9 {
        sequences.extend(taken(&[world.receiver.next().await], chat_id));
    }
    assert_eq!(sequences, [1, 2, 3, 4, 2, 3, 4, 5, 5]);
}

#[tokio::test]
async fn a_seek_does_not_wait_for_an_unavailable_receiver() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 3).await;
    world.receiver.answer(|request| match message(request) {
        Some((_, 2)) => CannedResponse::Status(503),
        _ => CannedResponse::Status(200),
    });
    let backoff = Backoff { first: seconds(3600), longest: seconds(3600) };
    let webhook = Arc::new(world.webhook_with(EventWebhookConfig { backoff, ..config() }));
    run(&webhook);
    let requests = world.receiver.until(|request| message(request) == Some((chat_id, 2))).await;
    assert_eq!(taken(&requests, chat_id), [1]);
    while webhook.status().await.unwrap().failed == 0 {
        tokio::task::yield_now().await;
    }
    world.receiver.answer(|_| CannedResponse::Status(200));
    webhook.replay(Replay::From(Start::Oldest)).await.unwrap();
    assert_eq!(taken(&world.until_taken(chat_id, 3).await, chat_id), [1, 2, 3]);
}

#[tokio::test]
async fn a_replay_of_a_chat_survives_a_beginning_elsewhere() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 3).await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.until_taken(chat_id, 3).await;
    world.caught_up().await;
    world.receiver.answer(|_| CannedResponse::Status(503));
    webhook.replay(Replay::Chat { chat_id, from: Sequence(2) }).await.unwrap();
    world.receiver.next().await;
    webhook.replay(Replay::From(Start::Oldest)).await.unwrap();
    world.receiver.answer(|_| CannedResponse::Status(200));
    let mut sequences = vec![];
    while sequences.len() < 5 {
        sequences.extend(taken(&[world.receiver.next().await], chat_id));
    }
    assert_eq!(sequences, [2, 3, 1, 2, 3]);
}

#[tokio::test]
async fn expired_messages_are_not_redelivered() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    let created_at = start().minus(seconds(60));
    let expired = NewMessage { ttl: Ttl::from_secs(1), created_at, ..world.message(chat_id, ada, "gone") };
    world.append(expired).await;
    world.send(chat_id, ada, "stays").await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.until_taken(chat_id, 2).await;
    webhook.replay(Replay::Chat { chat_id, from: Sequence(1) }).await.unwrap();
    assert_eq!(taken(&world.until_taken(chat_id, 2).await, chat_id), [2]);
}

#[tokio::test]
async fn a_chat_is_delivered_again_with_its_updates_and_the_current_state_of_its_messages() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    for text in ["frist", "goes"] {
        world.send(chat_id, ada, text).await;
    }
    let edit = Body::new("first".to_owned().try_into().unwrap(), ContentType::Text);
    let react = UpdateAction::React("ok".parse().unwrap());
    for (target, action) in [(1, UpdateAction::Edit(edit)), (2, react.clone()), (2, UpdateAction::Delete), (1, react)] {
        world.update(chat_id, ada, Sequence(target), action).await;
    }
    world.send(chat_id, ada, "last").await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    let first = world.until_taken(chat_id, 7).await;
    world.caught_up().await;
    for from in [1, 2, 4] {
        webhook.replay(Replay::Chat { chat_id, from: Sequence(from) }).await.unwrap();
        let again = world.until_taken(chat_id, 7).await;
        // The second message was deleted, so it is not delivered.
        let entries: Vec<_> = [1, 3, 4, 5, 6, 7].into_iter().filter(|sequence| *sequence >= from).collect();
        assert_eq!(taken(&again, chat_id), entries);
        let is_again =
            |request: &&ReceivedRequest| message(request).is_some_and(|(_, sequence)| entries.contains(&sequence));
        let before: Vec<ReceivedRequest> = first.iter().filter(is_again).cloned().collect();
        assert_eq!(event_ids(&again), event_ids(&before), "the same events, from {from} on");
    }
    webhook.replay(Replay::Chat { chat_id, from: Sequence(1) }).await.unwrap();
    let states = world
        .until_taken(chat_id, 7)
        .await
        .iter()
        .map(|request| {
            let event = request.json();
            let (payload, edited) = (&event["payload"], "first");
            let content = [&payload["content"], &payload["message"]["content"]].map(|content| content == edited);
            (payload["kind"].as_str().map(str::to_owned), content)
        })
        .collect::<Vec<_>>();
    let update = |kind: &str, of_edited| (Some(kind.to_owned()), [false, of_edited]);
    let expected = [
        (None, [true, false]),
        update("edited", true),
        update("reacted", false),
        update("deleted", false),
        update("reacted", true),
        (None, [false, false]),
    ];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn a_retry_of_a_replayed_update_has_no_content_of_a_message_that_was_deleted_meanwhile() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "a secret").await;
    world.update(chat_id, ada, Sequence(1), UpdateAction::React("ok".parse().unwrap())).await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.until_taken(chat_id, 2).await;
    world.caught_up().await;
    world.receiver.answer(|_| CannedResponse::Status(503));
    webhook.replay(Replay::Chat { chat_id, from: Sequence(2) }).await.unwrap();
    assert_eq!(world.receiver.next().await.json()["payload"]["message"]["content"], "a secret");
    world.update(chat_id, ada, Sequence(1), UpdateAction::Delete).await;
    // An attempt that was made before the deletion may follow.
    world.receiver.until(|request| request.json()["payload"]["message"].is_null()).await;
    world.receiver.answer(|_| CannedResponse::Status(200));
    let rest = world.until_taken(chat_id, 3).await;
    assert!(rest.iter().all(|request| request.json()["payload"]["message"].is_null()), "{rest:?}");
}

#[tokio::test]
async fn a_replay_that_cannot_be_is_refused() {
    let world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "hello").await;
    world.receiver.answer(|_| CannedResponse::Status(503));
    let chat = Replay::Chat { chat_id, from: Sequence(1) };
    let webhook = Arc::new(world.webhook());
    assert!(matches!(webhook.replay(chat).await, Err(ReplayError::NotRunning)));
    assert!(matches!(webhook.replay(Replay::From(Start::Oldest)).await, Err(ReplayError::NotRunning)));

    let running = run(&webhook);
    while webhook.status().await.unwrap().failed == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..16 {
        webhook.replay(chat).await.unwrap();
    }
    let error = webhook.replay(chat).await.unwrap_err();
    assert_eq!(error.to_string(), "16 chat replays are already queued; try again when one is done");
    running.abort();
    while !matches!(webhook.replay(chat).await, Err(ReplayError::NotRunning)) {
        tokio::task::yield_now().await;
    }

    let chats_only = EventWebhookConfig { kinds: vec![EventKind::Chat], ..config() };
    let webhook = Arc::new(world.webhook_with(chats_only));
    run(&webhook);
    tokio::task::yield_now().await;
    assert!(matches!(webhook.replay(chat).await, Err(ReplayError::NoMessages)));
}

#[tokio::test]
async fn a_paused_webhook_has_no_consumer_until_the_pause_ends() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 2).await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.until_taken(chat_id, 2).await;
    world.caught_up().await;
    for end in [Some(Duration::ZERO), None] {
        let time = if end.is_some() { Duration::from_secs(3600) } else { Duration::from_millis(50) };
        webhook.pause(time).await.unwrap();
        // A consumer would continue after the second message, and commit that.
        world.store.seek(EventWebhook::GROUP, Start::Oldest).await.unwrap();
        if let Some(end) = end {
            webhook.pause(end).await.unwrap();
        }
        assert_eq!(taken(&world.until_taken(chat_id, 2).await, chat_id), [1, 2], "{end:?}");
        world.caught_up().await;
    }
}

/// The other processes of a fleet. They can be made to refuse a pause.
struct PeerRecorder {
    pauses: Mutex<Vec<Duration>>,
    refuses: bool,
}

#[async_trait]
impl WebhookPause for PeerRecorder {
    async fn pause(&self, time: Duration) -> Result<(), StoreError> {
        self.pauses.lock().unwrap().push(time);
        if self.refuses { Err(StoreError::unavailable("no answer")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_replay_pauses_the_other_processes_and_moves_nothing_if_one_is_not_paused() {
    for refuses in [false, true] {
        let mut world = WebhookWorld::new().await;
        let (chat_id, ada) = world.chat().await;
        world.send_numbered(chat_id, ada, 2).await;
        let peers = Arc::new(PeerRecorder { pauses: Mutex::default(), refuses });
        let webhook = Arc::new(world.webhook_beside(peers.clone()));
        run(&webhook);
        world.until_taken(chat_id, 2).await;
        world.caught_up().await;
        let replayed = webhook.replay(Replay::From(Start::Oldest)).await;
        assert_eq!(replayed.is_err(), refuses, "{replayed:?}");
        let pauses = peers.pauses.lock().unwrap().clone();
        assert!(matches!(&pauses[..], [begun, Duration::ZERO] if *begun >= Duration::from_secs(10)), "{pauses:?}");
        world.send(chat_id, ada, "new").await;
        let delivered = taken(&world.until_taken(chat_id, 3).await, chat_id);
        let expected: &[u64] = if refuses { &[3] } else { &[1, 2, 3] };
        assert_eq!(delivered, expected);
    }
}
