use std::time::Duration;

use domain::{Advance, ChatCommand, ChatUpdate, EventBody, GroupInvites, Sequence, Ttl, WatermarkKind, Watermarks};
use ports::{
    AppendOutcome, ChatReader, ChatWriter, Clock, EventConsumer, EventLog, Ids, MessageReader, MessageWriter, NewUser,
    PageBounds, Position, RandomIds, Start, StoreError, SystemClock, UserKey, UserReader, UserWriter, WatermarkStore,
};
use tidings_embedded::{EmbeddedStore, EngineHealth};

use crate::fixtures::{group, message, open};

const UNBOUNDED: PageBounds = PageBounds { count: 1000, bytes: usize::MAX };

async fn sequences_of(consumer: &mut dyn EventConsumer, until: u64) -> Vec<u64> {
    let mut sequences = vec![];
    while sequences.last() != Some(&until) {
        for record in consumer.next().await.unwrap() {
            if let EventBody::MessagePersisted { message, .. } = &record.event.body {
                sequences.push(message.sequence.0);
            }
        }
    }
    sequences
}

#[tokio::test]
async fn sequences_continue_and_retries_are_recognized_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = RandomIds.ulid().into();
    let chat_id = store.create_group(group(owner, &[])).await.unwrap().chat().chat_id;
    let first = message(chat_id, owner, "first");
    let AppendOutcome::New(receipt) = store.append(vec![first.clone()]).await.unwrap()[0] else { panic!("not new") };
    store.close().await;

    let store = open(dir.path());
    assert_eq!(store.append(vec![first]).await.unwrap(), [AppendOutcome::Duplicate(receipt)]);
    let second = store.append(vec![message(chat_id, owner, "second")]).await.unwrap();
    let AppendOutcome::New(second) = second[0] else { panic!("not new: {second:?}") };
    assert_eq!(second.sequence, Sequence(2));
    let page = store.after(chat_id, Sequence::ZERO, UNBOUNDED, SystemClock.now()).await.unwrap();
    let contents: Vec<_> = page.messages.iter().map(|message| message.body.content.as_str()).collect();
    assert_eq!(contents, ["first", "second"]);
    assert_eq!(page.head, Sequence(2));
    store.close().await;
}

#[tokio::test]
async fn users_members_and_watermarks_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let phone_number: domain::PhoneNumber = "+15551234567".parse().unwrap();
    let new = NewUser {
        user_id: RandomIds.ulid().into(),
        display_name: "Ada".to_owned().try_into().unwrap(),
        group_invites: GroupInvites::default(),
        created_at: SystemClock.now(),
        proven_at: SystemClock.now(),
    };
    let (user, created) = store.find_or_create(UserKey::Phone(phone_number.clone()), new.clone()).await.unwrap();
    assert!(created);
    let chat_id = store.create_group(group(user.user_id, &[])).await.unwrap().chat().chat_id;
    store.append(vec![message(chat_id, user.user_id, "hello")]).await.unwrap();
    store.advance(user.user_id, chat_id, WatermarkKind::Read, Sequence(1), SystemClock.now()).await.unwrap();
    let members = store.members(chat_id).await.unwrap();
    store.close().await;

    let store = open(dir.path());
    assert_eq!(store.by_phone(std::slice::from_ref(&phone_number)).await.unwrap(), [Some(user.clone())]);
    assert_eq!(store.find_or_create(UserKey::Phone(phone_number), new).await.unwrap(), (user.clone(), false));
    assert_eq!(store.members(chat_id).await.unwrap(), members);
    let again =
        store.advance(user.user_id, chat_id, WatermarkKind::Delivered, Sequence(1), SystemClock.now()).await.unwrap();
    assert_eq!(again, Advance::Unchanged(Watermarks::at(Sequence(1))));
    store.close().await;
}

#[tokio::test]
async fn a_consumer_resumes_after_its_commit_and_reads_earlier_events_from_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = RandomIds.ulid().into();
    let chat_id = store.create_group(group(owner, &[])).await.unwrap().chat().chat_id;
    let batch = |len: u64| (0..len).map(|n| message(chat_id, owner, &n.to_string())).collect();
    store.append(batch(3)).await.unwrap();
    let mut consumer = store.consumer("group").await.unwrap();
    assert_eq!(sequences_of(&mut *consumer, 3).await, [1, 2, 3]);
    consumer.commit().await.unwrap();
    store.append(batch(2)).await.unwrap();
    drop(consumer);
    store.close().await;

    let store = open(dir.path());
    store.append(batch(1)).await.unwrap();
    let mut resumed = store.consumer("group").await.unwrap();
    assert_eq!(sequences_of(&mut *resumed, 6).await, [4, 5, 6]);
    let mut other = store.consumer("other").await.unwrap();
    assert_eq!(sequences_of(&mut *other, 6).await, [1, 2, 3, 4, 5, 6]);
    store.close().await;
}

#[tokio::test]
async fn a_seek_survives_a_crash_and_no_older_offset_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = RandomIds.ulid().into();
    let chat_id = store.create_group(group(owner, &[])).await.unwrap().chat().chat_id;
    store.append((0..3).map(|n| message(chat_id, owner, &n.to_string())).collect()).await.unwrap();
    let mut consumer = store.consumer("group").await.unwrap();
    assert_eq!(sequences_of(&mut *consumer, 3).await, [1, 2, 3]);
    // The committed offset waits for the next commit, which is the seek.
    consumer.commit().await.unwrap();
    drop(consumer);
    store.seek("group", Start::At(Position(2))).await.unwrap();
    copy_files(dir.path(), copy.path());
    store.append(vec![message(chat_id, owner, "last")]).await.unwrap();
    store.close().await;

    for (path, until) in [(copy.path(), 3), (dir.path(), 4)] {
        let store = open(path);
        let mut consumer = store.consumer("group").await.unwrap();
        assert_eq!(sequences_of(&mut *consumer, until).await, (2..=until).collect::<Vec<_>>());
        drop(consumer);
        store.close().await;
    }
}

#[tokio::test]
async fn a_message_ttl_holds_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = RandomIds.ulid().into();
    let chat_id = store.create_group(group(owner, &[])).await.unwrap().chat().chat_id;
    let update = ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(600)));
    store.apply(chat_id, owner, update, SystemClock.now()).await.unwrap().unwrap();
    store.close().await;

    let store = open(dir.path());
    let sent = message(chat_id, owner, "for ten minutes");
    store.append(vec![sent.clone()]).await.unwrap();
    let found = store.by_id(sent.message_id, SystemClock.now()).await.unwrap().unwrap();
    assert_eq!(found.expires_at, Some(sent.created_at + Duration::from_secs(600)));
    store.close().await;
}

#[tokio::test]
async fn calls_on_a_clone_of_a_closed_store_fail() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let held = store.clone();
    let mut consumer = held.consumer("group").await.unwrap();
    store.close().await;

    let expect_closed = |outcome: Result<(), StoreError>| match outcome {
        Err(StoreError::Unavailable(reason)) => assert_eq!(reason.to_string(), "the store is closed"),
        other => panic!("expected a closed store, got {other:?}"),
    };
    let owner = RandomIds.ulid().into();
    expect_closed(held.append(vec![]).await.map(drop));
    expect_closed(held.create_group(group(owner, &[])).await.map(drop));
    expect_closed(held.chat(RandomIds.ulid().into()).await.map(drop));
    expect_closed(consumer.next().await.map(drop));
    assert!(matches!(held.health(), EngineHealth::Failing { .. }));
    open(dir.path()).close().await;
}

#[tokio::test]
async fn a_store_that_was_not_closed_has_everything_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = RandomIds.ulid().into();
    let chat_id = store.create_group(group(owner, &[])).await.unwrap().chat().chat_id;
    store.append((0..100).map(|n| message(chat_id, owner, &n.to_string())).collect()).await.unwrap();
    // A copy of the files at this moment equals the files of a killed process.
    copy_files(dir.path(), copy.path());
    store.close().await;

    let store: EmbeddedStore = open(copy.path());
    let page = store.after(chat_id, Sequence::ZERO, UNBOUNDED, SystemClock.now()).await.unwrap();
    assert_eq!(page.messages.len(), 100);
    assert_eq!(page.head, Sequence(100));
    store.close().await;
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
