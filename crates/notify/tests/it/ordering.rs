//! A log that keeps the order for each kind of event only, as that of a fleet.

use std::sync::Arc;
use std::time::Duration;

use domain::{ChatCommand, ChatId, ChatUpdate, Event, EventKind};
use memory::MemoryLog;
use ports::{EventLog, EventProducer};
use serde_json::Value;
use tidings_notify::{EventWebhook, EventWebhookConfig};

use crate::receiver::ReceivedRequest;
use crate::webhook_world::{WebhookWorld, config, run};

/// The events of a new chat in the store's log: its creation, two messages, a new name, a message.
async fn events(world: &WebhookWorld) -> (ChatId, Vec<Arc<Event>>) {
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 2).await;
    let name = ChatUpdate::name("new name".to_owned().try_into().unwrap());
    world.apply(chat_id, ada, ChatCommand::Update(name)).await;
    world.send(chat_id, ada, "message 3").await;
    let mut consumer = world.store.consumer("test").await.unwrap();
    let mut events = vec![];
    while events.len() < 5 {
        let records = consumer.next().await.unwrap();
        events.extend(records.into_iter().map(|record| record.event).filter(|event| event.body.chat_id() == chat_id));
    }
    (chat_id, events)
}

fn all_kinds() -> EventWebhookConfig {
    EventWebhookConfig { kinds: vec![EventKind::Message, EventKind::Member, EventKind::Chat], ..config() }
}

fn numbers(requests: &[ReceivedRequest]) -> Vec<Value> {
    requests.iter().map(|request| request.json()["event_number"].clone()).collect()
}

#[tokio::test]
async fn events_of_all_kinds_are_delivered_in_the_order_of_their_numbers() {
    let mut world = WebhookWorld::new().await;
    let (_, events) = events(&world).await;
    let log = Arc::new(MemoryLog::new(world.clock.clone()));
    run(&Arc::new(world.webhook_on(log.clone(), all_kinds())));
    // Messages come first: the relays of the two kinds do not wait for each other.
    for part in [&events[1..3], &events[4..], &events[..1], &events[3..4]] {
        log.publish(part).await.unwrap();
        tokio::task::yield_now().await;
    }
    let requests = world.receiver.until(|request| request.json()["event_number"] == 5).await;
    assert_eq!(numbers(&requests), [1, 2, 3, 4, 5]);
    // A commit waits until nothing is held; now everything is committed.
    while log.lag(EventWebhook::GROUP).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_held_event_is_not_committed_and_delivered_again_after_a_restart() {
    let mut world = WebhookWorld::new().await;
    let (_, events) = events(&world).await;
    let log = Arc::new(MemoryLog::new(world.clock.clone()));
    log.publish(&events[..1]).await.unwrap();
    let running = run(&Arc::new(world.webhook_on(log.clone(), all_kinds())));
    world.receiver.until(|request| request.json()["event_number"] == 1).await;
    while log.lag(EventWebhook::GROUP).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    // The event of another chat shows that the log was read up to the held one.
    let (other, _) = world.chat().await;
    let mut created = world.store.consumer("other").await.unwrap();
    let created =
        created.next().await.unwrap().into_iter().find(|record| record.event.body.chat_id() == other).unwrap();
    log.publish(&events[3..4]).await.unwrap();
    log.publish(&[created.event]).await.unwrap();
    world.receiver.until(|request| request.json()["partition_key"] == other.to_string().as_str()).await;
    assert_eq!(log.lag(EventWebhook::GROUP).await.unwrap(), 2);
    running.abort();

    log.publish(&events[1..3]).await.unwrap();
    run(&Arc::new(world.webhook_on(log.clone(), all_kinds())));
    let requests = world.receiver.until(|request| request.json()["event_number"] == 4).await;
    let of_chat: Vec<_> =
        requests.into_iter().filter(|it| it.json()["partition_key"] != other.to_string().as_str()).collect();
    assert_eq!(numbers(&of_chat), [2, 3, 4]);
}

#[tokio::test]
async fn an_event_whose_predecessor_never_comes_is_delivered() {
    let mut world = WebhookWorld::new().await;
    let (_, events) = events(&world).await;
    let log = Arc::new(MemoryLog::new(world.clock.clone()));
    let before = tokio::time::Instant::now();
    run(&Arc::new(world.webhook_on(log.clone(), all_kinds())));
    log.publish(&events[3..]).await.unwrap();
    let requests = world.receiver.until(|request| request.json()["event_number"] == 5).await;
    assert_eq!(numbers(&requests), [4, 5]);
    assert!(before.elapsed() >= Duration::from_secs(1));
}
