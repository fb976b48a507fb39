use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{ChatCommand, Sequence};
use ports::{ChatWriter, Clock, Ingest, IngestError, MessageReader, SystemClock};
use tidings_ingest::Config;
use tokio::time::Instant;

use crate::world::{OPEN, World, request};

#[tokio::test]
async fn g1_no_answer_before_the_commit() {
    let world = World::new(0, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let mut sent = tokio::spawn(world.ingest.send(request(chat, user, "hi")));
    tokio::select! {
        biased;
        early = &mut sent => panic!("answered before the commit: {early:?}"),
        () = async { while world.writer.batch_len.load(Ordering::SeqCst) == 0 { tokio::task::yield_now().await } } => {}
    }
    world.writer.gate.add_permits(1);
    let sent = sent.await.unwrap().unwrap();
    assert_eq!((sent.receipt.sequence, sent.deduplicated), (Sequence(1), false));
    assert_eq!(world.store.head(chat).await.unwrap().unwrap().sequence, Sequence(1));
}

#[tokio::test]
async fn g2_a_retry_gets_the_first_answer_and_other_content_is_refused() {
    let world = World::new(OPEN, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let first = request(chat, user, "hi");
    let sent = world.ingest.send(first.clone()).await.unwrap();
    let again = world.ingest.send(first.clone()).await.unwrap();
    assert_eq!(again.receipt, sent.receipt);
    assert!(again.deduplicated);
    let other = ports::SendRequest { content: "other".to_owned().try_into().unwrap(), ..first };
    assert!(matches!(world.ingest.send(other).await, Err(IngestError::IdempotencyKeyReused)));
    assert_eq!(world.store.head(chat).await.unwrap().unwrap().sequence, Sequence(1));
}

#[tokio::test]
async fn g3_sends_are_sequenced_in_the_order_of_the_calls_whenever_their_answers_are_awaited() {
    let world = World::new(OPEN, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let sends: Vec<_> = (0..100).map(|n| world.ingest.send(request(chat, user, &n.to_string()))).collect();
    for (n, send) in sends.into_iter().enumerate().rev() {
        assert_eq!(send.await.unwrap().receipt.sequence, Sequence(n as u64 + 1));
    }
}

#[tokio::test]
async fn sends_that_wait_share_one_commit() {
    let world = World::new(0, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let first = tokio::spawn(world.ingest.send(request(chat, user, "first")));
    while world.writer.batch_len.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let waiting: Vec<_> = (0..50).map(|_| world.ingest.send(request(chat, user, "waiting"))).collect();
    world.writer.gate.add_permits(2);
    first.await.unwrap().unwrap();
    for send in waiting {
        send.await.unwrap();
    }
    assert_eq!(world.writer.batch_len.load(Ordering::SeqCst), 50);
}

#[tokio::test]
async fn g4_only_members_send_and_a_removed_member_is_refused_at_once() {
    let world = World::new(OPEN, Config::default());
    let (owner, member, outsider) = (world.user(), world.user(), world.user());
    let chat = world.group(owner, &[member]).await;
    world.ingest.send(request(chat, member, "hi")).await.unwrap();
    let refused = world.ingest.send(request(chat, outsider, "hi")).await;
    assert!(matches!(refused, Err(IngestError::NotAMember)));
    let remove = ChatCommand::RemoveMember { user_id: member };
    world.store.apply(chat, owner, remove, SystemClock.now()).await.unwrap().unwrap();
    let refused = world.ingest.send(request(chat, member, "hi")).await;
    assert!(matches!(refused, Err(IngestError::NotAMember)));
    assert_eq!(world.store.head(chat).await.unwrap().unwrap().sequence, Sequence(1));
}

#[tokio::test]
async fn a_chat_that_does_not_exist_is_not_found() {
    let world = World::new(OPEN, Config::default());
    let nowhere = domain::ChatId::from_bytes([7; 16]);
    let refused = world.ingest.send(request(nowhere, world.user(), "hi")).await;
    assert!(matches!(refused, Err(IngestError::ChatNotFound)));
}

#[tokio::test]
async fn g5_a_full_queue_is_answered_busy_at_once() {
    let world = World::new(0, Config { queue_len_max: 2, ..Config::default() });
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let first = tokio::spawn(world.ingest.send(request(chat, user, "under way")));
    while world.writer.batch_len.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let queued: Vec<_> = (0..2).map(|_| world.ingest.send(request(chat, user, "queued"))).collect();
    assert!(matches!(world.ingest.send(request(chat, user, "too many")).await, Err(IngestError::Busy)));
    world.writer.gate.add_permits(OPEN);
    first.await.unwrap().unwrap();
    for send in queued {
        send.await.unwrap();
    }
    assert_eq!(world.store.head(chat).await.unwrap().unwrap().sequence, Sequence(3));
}

#[tokio::test]
async fn g5_a_store_that_fails_is_no_ack_and_the_retry_succeeds_after_recovery() {
    let world = World::new(OPEN, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let send = request(chat, user, "hi");
    world.writer.broken.store(true, Ordering::SeqCst);
    let refused = world.ingest.send(send.clone()).await;
    assert!(matches!(refused, Err(IngestError::Unavailable { .. })));
    world.writer.broken.store(false, Ordering::SeqCst);
    assert_eq!(world.ingest.send(send).await.unwrap().receipt.sequence, Sequence(1));
}

#[tokio::test(start_paused = true)]
async fn g5_a_store_that_hangs_is_answered_within_five_seconds_for_those_who_wait_too() {
    let world = World::new(0, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let begin = Instant::now();
    let first = tokio::spawn(world.ingest.send(request(chat, user, "first")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = tokio::spawn(world.ingest.send(request(chat, user, "second")));
    assert!(matches!(first.await.unwrap(), Err(IngestError::Unavailable { .. })));
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    assert!(matches!(second.await.unwrap(), Err(IngestError::Unavailable { .. })));
    assert_eq!(begin.elapsed(), Duration::from_secs(6));
}

#[tokio::test]
async fn several_lanes_keep_the_order_of_each_chat() {
    let world = World::new(OPEN, Config { lanes: 4, ..Config::default() });
    let user = world.user();
    let mut sends = Vec::new();
    for _ in 0..8 {
        let chat = world.group(user, &[]).await;
        sends.extend((1..=20).map(|n| (n, world.ingest.send(request(chat, user, "hi")))));
    }
    for (n, send) in sends {
        assert_eq!(send.await.unwrap().receipt.sequence, Sequence(n));
    }
}
