use std::sync::Arc;

use tidings_kafka::KafkaProducer;

use crate::fixtures::{World, chat, member_added, messages, read, renamed, sequences};

#[tokio::test]
async fn every_kind_of_event_is_read_as_it_was_published() {
    let world = World::start().await;
    let chat_id = chat();
    let mut events = messages(chat_id, 1..=2);
    events.extend([Arc::new(member_added(chat_id)), Arc::new(renamed(chat_id))]);
    world.publish(&events).await;
    let mut records = read(&mut *world.consumer("group").await, 4).await;
    // There is no order between kinds; positions sort chats before members before messages.
    records.sort_by_key(|record| record.position);
    let read: Vec<_> = records.into_iter().map(|record| record.event).collect();
    assert_eq!(read, [events[3].clone(), events[2].clone(), events[0].clone(), events[1].clone()]);
}

#[tokio::test]
async fn a_chat_keeps_its_order_over_restarts_of_publishers_and_brokers() {
    let mut world = World::start().await;
    let chats = [chat(), chat(), chat(), chat()];
    for round in 0..3 {
        for step in 0..10 {
            let first = round * 100 + step * 10 + 1;
            let events: Vec<_> = chats.iter().flat_map(|chat_id| messages(*chat_id, first..first + 10)).collect();
            world.publish(&events).await;
        }
        world.producer = KafkaProducer::open(world.config.clone(), world.clock.clone()).unwrap();
        world.broker.stop().await;
        world.broker.start_again().await;
    }
    let records = read(&mut *world.consumer("group").await, 1200).await;
    for chat_id in chats {
        assert_eq!(sequences(&records, chat_id), (1..=300).collect::<Vec<_>>());
    }
}
