use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{ChatCommand, ChatId, IngestError, Sequence, UserId};
use ports::{ChatWriter, Clock, Ingest, MessageReader, SystemClock};
use tidings_ingest::{Config, Grouping};
use tokio::time::Instant;

use crate::world::{OPEN, World, content, request};

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
    let other = ports::SendRequest { content: content("other"), ..first };
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
    let nowhere = ChatId::from_bytes([7; 16]);
    let refused = world.ingest.send(request(nowhere, world.user(), "hi")).await;
    assert!(matches!(refused, Err(IngestError::ChatNotFound)));
}

#[tokio::test]
async fn g5_a_full_queue_is_answered_busy_at_once() {
    let world = World::new(0, Config { queue_len_max: 3, ..Config::default() });
    let user = world.user();
    let chat = world.group(user, &[]).await;
    let first = tokio::spawn(world.ingest.send(request(chat, user, "under way")));
    while world.writer.batch_len.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let other = world.group(user, &[]).await;
    let queued: Vec<_> =
        [chat, chat, other].into_iter().map(|chat| world.ingest.send(request(chat, user, "queued"))).collect();
    assert!(matches!(world.ingest.send(request(other, user, "too many")).await, Err(IngestError::Busy)));
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
async fn g5_a_hanging_store_fails_running_and_queued_sends_within_five_seconds() {
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
    assert_eq!(begin.elapsed(), Duration::from_secs(5), "committed later, it would overtake the retry of the first");
}

/// A commit for each chat, `commits_max` at a time.
fn by_chat(commits_max: usize) -> Config {
    Config { grouping: Grouping::ByChat { commits_max }, ..Config::default() }
}

#[tokio::test]
async fn concurrent_commits_keep_the_order_of_each_chat() {
    let world = World::new(OPEN, by_chat(4));
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

#[tokio::test(start_paused = true)]
async fn a_chat_whose_commit_hangs_delays_no_other_chat() {
    let world = World::new(OPEN, by_chat(2));
    let user = world.user();
    let (stuck, other) = (world.group(user, &[]).await, world.group(user, &[]).await);
    *world.writer.stuck.lock().unwrap() = Some(stuck);
    let begin = Instant::now();
    let hanging = world.ingest.send(request(stuck, user, "hanging"));
    let behind = world.ingest.send(request(stuck, user, "behind"));
    for n in 1..=10 {
        let sent = world.ingest.send(request(other, user, "hi")).await.unwrap();
        assert_eq!(sent.receipt.sequence, Sequence(n));
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(matches!(hanging.await, Err(IngestError::Unavailable { .. })));
    assert!(matches!(behind.await, Err(IngestError::Unavailable { .. })));
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn sends_after_a_failed_one_fail_too_so_that_retries_keep_the_order() {
    let world = World::new(0, Config::default());
    let user = world.user();
    let (failing, other) = (world.group(user, &[]).await, world.group(user, &[]).await);
    let [first, second] = ["first", "second"].map(|text| request(failing, user, text));
    let committing = tokio::spawn(world.ingest.send(first.clone()));
    while world.writer.batch_len.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let behind = world.ingest.send(second.clone());
    let elsewhere = world.ingest.send(request(other, user, "elsewhere"));
    world.writer.broken.store(true, Ordering::SeqCst);
    world.writer.gate.add_permits(1);
    assert!(matches!(committing.await.unwrap(), Err(IngestError::Unavailable { .. })));
    world.writer.broken.store(false, Ordering::SeqCst);
    let retries = [first, second].map(|send| world.ingest.send(send));
    world.writer.gate.add_permits(OPEN);
    assert!(matches!(behind.await, Err(IngestError::Unavailable { .. })));
    assert_eq!(elsewhere.await.unwrap().receipt.sequence, Sequence(1), "another chat has nothing to retry");
    for (n, retry) in (1..).zip(retries) {
        assert_eq!(retry.await.unwrap().receipt.sequence, Sequence(n));
    }
}

#[tokio::test]
async fn a_chat_fills_at_most_half_of_the_queue() {
    let world = World::new(0, Config { queue_len_max: 4, ..by_chat(1) });
    let user = world.user();
    let (busy, other) = (world.group(user, &[]).await, world.group(user, &[]).await);
    let first = tokio::spawn(world.ingest.send(request(busy, user, "under way")));
    while world.writer.batch_len.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let queued: Vec<_> = (0..2).map(|_| world.ingest.send(request(busy, user, "queued"))).collect();
    assert!(matches!(world.ingest.send(request(busy, user, "too many")).await, Err(IngestError::Busy)));
    let elsewhere = world.ingest.send(request(other, user, "elsewhere"));
    world.writer.gate.add_permits(OPEN);
    first.await.unwrap().unwrap();
    for send in queued.into_iter().chain([elsewhere]) {
        send.await.unwrap();
    }
}

#[tokio::test]
async fn queued_sends_are_committed_after_the_ingester_is_dropped() {
    let World { ingest, writer, mut commits, .. } = World::new(0, Config::default());
    let user = UserId::from_bytes([1; 16]);
    let sends: Vec<_> = (0..3).map(|_| ingest.send(request(ChatId::from_bytes([2; 16]), user, "late"))).collect();
    drop(ingest);
    writer.gate.add_permits(OPEN);
    commits.join_next().await.unwrap().unwrap();
    for send in sends {
        assert!(matches!(send.await, Err(IngestError::ChatNotFound)), "decided by the store");
    }
}
