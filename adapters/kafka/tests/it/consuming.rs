use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, Event, EventBody};
use futures_util::FutureExt;
use ports::{Clock, EventLog, Record};
use tidings_kafka::Config;

use crate::fixtures::{World, chat, first_sequences, message, messages, read, sequences, soon};

#[tokio::test]
async fn a_group_continues_after_its_last_commit() {
    let world = World::start().await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=5)).await;
    let mut first = world.consumer("group").await;
    read(&mut *first, 5).await;
    first.commit().await.unwrap();
    world.publish(&messages(chat_id, 6..=8)).await;
    // These records are returned, but not committed.
    read(&mut *first, 3).await;
    drop(first);
    for _ in 0..2 {
        let again = read(&mut *world.consumer("group").await, 3).await;
        assert_eq!(sequences(&again, chat_id), [6, 7, 8]);
    }
}

#[tokio::test]
async fn a_commit_covers_returned_events_and_no_queued_ones() {
    let world = World::with(|config| Config { buffer_len_max: 10, ..config }).await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=100)).await;
    let mut seen = vec![];
    while seen.len() < 100 {
        let mut consumer = world.consumer("group").await;
        let batch = soon(consumer.next()).await.unwrap();
        assert!(batch.len() <= 10, "{} records were in the buffer", batch.len());
        seen.extend(batch);
        consumer.commit().await.unwrap();
    }
    assert_eq!(sequences(&seen, chat_id), (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn members_of_a_group_share_the_log_and_hand_over_without_loss() {
    let world = World::start().await;
    let chats: Vec<ChatId> = (0..20).map(|_| chat()).collect();
    let publish = async |sequences: std::ops::RangeInclusive<u64>| {
        let events: Vec<_> = chats.iter().flat_map(|chat_id| messages(*chat_id, sequences.clone())).collect();
        world.publish(&events).await;
    };
    publish(1..=5).await;
    let mut staying = world.consumer("group").await;
    let mut by_staying = read(&mut *staying, 100).await;
    staying.commit().await.unwrap();
    let mut leaving = world.consumer("group").await;
    // It returns records once it has partitions.
    let mut by_leaving = vec![];
    let mut next = 6;
    while by_leaving.is_empty() {
        publish(next..=next).await;
        next += 1;
        tokio::select! {
            records = leaving.next() => by_leaving.extend(records.unwrap()),
            records = soon(staying.next()) => {
                by_staying.extend(records.unwrap());
                staying.commit().await.unwrap();
            }
        }
    }
    // The dropped consumer has not committed its records, so they are read again.
    drop(leaving);
    publish(next..=next).await;
    while !is_complete(&by_staying, &chats, next) {
        by_staying.extend(soon(staying.next()).await.unwrap());
    }
    for chat_id in chats {
        assert_eq!(first_sequences(&by_staying, chat_id), (1..=next).collect::<Vec<_>>());
    }
}

/// The member's thread takes part in the rebalance even while `next` is not called, so the other member gets its share.
#[tokio::test]
async fn a_slow_member_keeps_its_place_in_the_group_and_loses_nothing() {
    let world = World::with(|config| Config { buffer_len_max: 8, ..config }).await;
    let chats: Vec<ChatId> = (0..12).map(|_| chat()).collect();
    let events: Vec<_> = chats.iter().flat_map(|chat_id| messages(*chat_id, 1..=10)).collect();
    world.publish(&events).await;
    let mut slow = world.consumer("group").await;
    let mut seen = soon(slow.next()).await.unwrap();
    let mut other = world.consumer("group").await;
    let by_other = soon(other.next()).await.unwrap();
    assert!(!by_other.is_empty());
    seen.extend(by_other);
    while !is_complete(&seen, &chats, 10) {
        let records = soon(async {
            tokio::select! {
                records = slow.next() => records,
                records = other.next() => records,
            }
        });
        let records = records.await.unwrap();
        assert!(records.len() <= 9, "{} records were in the buffer", records.len());
        seen.extend(records);
    }
}

#[tokio::test]
async fn a_dropped_call_of_next_loses_nothing_and_repeats_nothing() {
    let world = World::start().await;
    let chat_id = chat();
    let mut consumer = world.consumer("group").await;
    let mut seen = vec![];
    for sequence in 1..=20 {
        seen.extend(consumer.next().now_or_never().transpose().unwrap().unwrap_or_default());
        world.publish(&messages(chat_id, [sequence])).await;
        seen.extend(consumer.next().now_or_never().transpose().unwrap().unwrap_or_default());
    }
    let left = 20 - seen.len();
    seen.extend(read(&mut *consumer, left).await);
    assert_eq!(sequences(&seen, chat_id), (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn g11_an_expired_message_is_left_out() {
    let world = World::start().await;
    let chat_id = chat();
    let expiring = |sequence, after| {
        let mut event = message(chat_id, sequence, world.clock.now());
        if let EventBody::MessagePersisted { message, .. } = &mut event.body {
            message.expires_at = Some(world.clock.now() + Duration::from_secs(after));
        }
        Arc::new(event)
    };
    let last: Arc<Event> = Arc::new(message(chat_id, 4, world.clock.now()));
    world.publish(&[expiring(1, 1000), expiring(2, 10), expiring(3, 10), last]).await;
    let all = read(&mut *world.consumer("before").await, 4).await;
    assert_eq!(sequences(&all, chat_id), [1, 2, 3, 4]);

    world.clock.advance(Duration::from_secs(10));
    let left = read(&mut *world.consumer("after").await, 2).await;
    assert_eq!(sequences(&left, chat_id), [1, 4]);
    assert_eq!(world.log.event(all[1].position).await.unwrap(), None);
    assert_eq!(world.log.event(all[0].position).await.unwrap(), Some(all[0].event.clone()));
}

/// Runs on a single thread, so that a blocking drop would be noticed.
#[tokio::test]
async fn dropping_a_consumer_does_not_block_while_the_broker_hangs() {
    let world = World::start().await;
    world.publish(&messages(chat(), 1..=1)).await;
    let mut consumer = world.consumer("group").await;
    read(&mut *consumer, 1).await;
    world.broker.pause();
    let began = Instant::now();
    drop(consumer);
    // A close that waits for the broker takes as long as the broker hangs.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    world.broker.resume();
}

fn is_complete(records: &[Record], chats: &[ChatId], last: u64) -> bool {
    let complete: BTreeSet<u64> = (1..=last).collect();
    chats.iter().all(|chat_id| sequences(records, *chat_id).into_iter().collect::<BTreeSet<_>>() == complete)
}
