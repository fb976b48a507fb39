use std::sync::Arc;
use std::time::Duration;

use ports::{Clock, EventLog, Position, Start};

use crate::fixtures::{World, chat, member_added, message, messages, read, sequences};

#[tokio::test]
async fn a_group_begins_where_it_was_sent() {
    let world = World::start().await;
    let chat_id = chat();
    let start = world.clock.now();
    let minute = |n: u64| start + Duration::from_secs(60 * n);
    let events: Vec<_> = (1..=6).map(|n| Arc::new(message(chat_id, n, minute(n)))).collect();
    world.publish(&events).await;
    let mut first = world.consumer("group").await;
    let records = read(&mut *first, 6).await;
    first.commit().await.unwrap();
    drop(first);

    let second = Duration::from_secs(1);
    for (to, from) in [
        (Start::Oldest, 1),
        (Start::Time(minute(3)), 3),
        (Start::Time(minute(3) + second), 4),
        (Start::At(records[4].position), 5),
        (Start::At(records[0].position), 1),
    ] {
        for group in ["group", &format!("new group at {from}")] {
            world.log.seek(group, to).await.unwrap();
            assert_eq!(world.log.lag(group).await.unwrap(), 7 - from);
            let again = read(&mut *world.consumer(group).await, (7 - from) as usize).await;
            assert_eq!(again, records[from as usize - 1..], "{to:?}");
        }
    }
}

/// After a seek to one event, the other partitions start at the first record that is not older.
#[tokio::test]
async fn a_group_that_is_sent_to_an_event_begins_everywhere_at_its_time() {
    let world = World::start().await;
    let chats: Vec<_> = (0..12).map(|_| chat()).collect();
    let start = world.clock.now();
    for n in 1..=4 {
        let time = start + Duration::from_secs(60 * n);
        let events: Vec<_> = chats.iter().map(|chat_id| Arc::new(message(*chat_id, n, time))).collect();
        world.publish(&events).await;
    }
    let records = read(&mut *world.consumer("all").await, 48).await;
    let third = records.iter().find(|record| sequences(&[(*record).clone()], chats[0]) == [3]).unwrap();
    world.log.seek("group", Start::At(third.position)).await.unwrap();
    let again = read(&mut *world.consumer("group").await, 24).await;
    for chat_id in chats {
        assert_eq!(sequences(&again, chat_id), [3, 4]);
    }
}

#[tokio::test]
async fn a_group_moved_past_the_end_begins_with_the_next_event() {
    let world = World::start().await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=3)).await;
    let beyond = [Start::At(Position(1_000_000)), Start::At(Position(u64::MAX))];
    for (n, to) in beyond.into_iter().enumerate() {
        world.log.seek(&format!("group {n}"), to).await.unwrap();
        assert_eq!(world.log.lag(&format!("group {n}")).await.unwrap(), 0, "{to:?}");
    }
    world.publish(&messages(chat_id, [4])).await;
    for n in 0..beyond.len() {
        let next = read(&mut *world.consumer(&format!("group {n}")).await, 1).await;
        assert_eq!(sequences(&next, chat_id), [4]);
    }
}

#[tokio::test]
async fn uncommitted_events_count_as_lag() {
    let world = World::start().await;
    let chat_id = chat();
    assert_eq!(world.log.lag("group").await.unwrap(), 0);
    world.publish(&messages(chat_id, 1..=3)).await;
    world.publish(&[Arc::new(member_added(chat_id))]).await;
    assert_eq!(world.log.lag("group").await.unwrap(), 4);
    let mut consumer = world.consumer("group").await;
    read(&mut *consumer, 4).await;
    assert_eq!(world.log.lag("group").await.unwrap(), 4);
    consumer.commit().await.unwrap();
    assert_eq!(world.log.lag("group").await.unwrap(), 0);
    world.publish(&messages(chat_id, 4..=5)).await;
    assert_eq!(world.log.lag("group").await.unwrap(), 2);
    assert_eq!(world.log.lag("other").await.unwrap(), 6);
}

#[tokio::test]
async fn an_event_is_found_at_its_place_and_nowhere_else() {
    let world = World::start().await;
    let chat_id = chat();
    let mut events = messages(chat_id, 1..=3);
    events.push(Arc::new(member_added(chat_id)));
    world.publish(&events).await;
    let records = read(&mut *world.consumer("group").await, 4).await;
    for record in &records {
        assert_eq!(world.log.event(record.position).await.unwrap().as_ref(), Some(&record.event));
    }
    let last = records.iter().map(|record| record.position).max().unwrap();
    for nowhere in [Position(last.0 + 1), Position(1_000_000), Position(77 << 48), Position(u64::MAX)] {
        assert_eq!(world.log.event(nowhere).await.unwrap(), None, "{nowhere:?}");
    }
}
