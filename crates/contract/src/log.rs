//! Tests of [`EventLog`](ports::EventLog), and of the rule that every commit of a writing port leaves its events.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ChatCommand, ChatId, ChatUpdate, Event, EventBody, EventKind, MembershipChange, MessageId, Role, Sequence,
    Timestamp, Ttl, UserId,
};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, at_once, chat_name, expired, fresh, new_group, new_message, now, retry_of};
use ports::{EventConsumer, NewMessage, Position, Record, Start};

/// Maximum time to wait for an event that must arrive. It elapses only if the adapter is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every commit leaves complete events, in order for each kind. A refused or repeated operation leaves none.
pub async fn every_commit_leaves_its_events_in_order(stores: ContractStores) {
    let (owner, member, added) = (fresh(), fresh(), fresh());
    let group = new_group(owner, &[member]);
    let chat_id = group.chat_id;
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    let sent = NewMessage { origin_connection_id: Some(fresh()), ..new_message(chat_id, owner, "hello") };
    stores.send(sent.clone()).await.expect_new();
    stores.send(retry_of(&sent)).await;
    stores.send(new_message(chat_id, fresh(), "refused")).await;
    stores
        .apply(chat_id, member, ChatCommand::Update(ChatUpdate::name(chat_name("refused"))))
        .await
        .expect_err("members do not rename");
    stores.apply(chat_id, owner, ChatCommand::Update(ChatUpdate::name(chat_name("new")))).await.expect("owners rename");
    let add = ChatCommand::AddMember { user_id: added, role: Role::Member };
    stores.apply(chat_id, owner, add).await.expect("owners add");
    let message_ttl = Ttl::from_secs(600);
    stores.apply(chat_id, owner, ChatCommand::Update(ChatUpdate::message_ttl(message_ttl))).await.expect("owners may");
    stores.apply(chat_id, member, ChatCommand::Leave).await.expect("members leave");
    let last = new_message(chat_id, added, "goodbye");
    stores.send(last.clone()).await.expect_new();

    stores.sabotage.published().await;
    let events = distinct(&mut *consumer(&stores, "all").await, 7).await;
    let membership = |user_id, change, changed_by| EventBody::MembershipChanged {
        chat_id,
        user_id,
        change,
        role: Role::Member,
        changed_by,
    };
    let persisted = |send: &NewMessage, sequence, message_ttl| EventBody::MessagePersisted {
        message: send.clone().at(Sequence(sequence), message_ttl),
        origin_connection_id: send.origin_connection_id,
    };
    let created = group.opening(|_| true).events;
    let changed = [
        persisted(&sent, 1, None),
        EventBody::ChatRenamed { chat_id, name: chat_name("new"), changed_by: owner },
        membership(added, MembershipChange::Added, owner),
        EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by: owner },
        membership(member, MembershipChange::Removed, member),
        persisted(&last, 2, message_ttl),
    ];
    let expected = [created.as_slice(), &changed].concat();
    for kind in [EventKind::Message, EventKind::Member, EventKind::Chat] {
        let of_kind = |body: &&EventBody| body.kind() == kind;
        let logged: Vec<_> = events.iter().map(|record| &record.event.body).filter(of_kind).collect();
        assert_eq!(logged, expected.iter().filter(of_kind).collect::<Vec<_>>());
    }
}

/// Every message and change of any kind has the next number of its chat. A purge has no number and uses none.
pub async fn events_are_numbered_in_commit_order_across_kinds(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_of_one().await;
    let (member, message) = (fresh(), || new_message(chat_id, owner, "hello"));
    stores.send(message()).await.expect_new();
    let both = ChatUpdate { name: Some(chat_name("new")), message_ttl: Some(Ttl::from_secs(600)) };
    stores.apply(chat_id, owner, ChatCommand::Update(both)).await.expect("owners may");
    stores.apply(chat_id, owner, ChatCommand::Mute { until: None }).await.expect("members mute");
    let batch = vec![message(), expired(message()), message()];
    stores.message_writer.append(batch).await.expect(WORKS);
    stores.sabotage.purge_expired().await;
    stores
        .apply(chat_id, owner, ChatCommand::AddMember { user_id: member, role: Role::Member })
        .await
        .expect("may add");
    stores.send(new_message(chat_id, member, "hello")).await.expect_new();
    stores.apply(chat_id, owner, ChatCommand::RemoveMember { user_id: member }).await.expect("may remove");
    stores.send(new_message(chat_id, member, "refused")).await;
    stores.send(message()).await.expect_new();
    assert_eq!(stores.head(chat_id).await.changes, 5);

    stores.sabotage.published().await;
    let events = distinct(&mut *consumer(&stores, "numbers").await, 11).await;
    let mut numbered: Vec<_> =
        events.iter().filter_map(|record| Some((record.event.event_number?.0, record))).collect();
    numbered.sort_by_key(|(number, _)| *number);
    let found = numbered.iter().map(|(number, record)| match &record.event.body {
        EventBody::MessagePersisted { message, .. } => format!("{number} message {}", message.sequence),
        EventBody::MessageUpdated { update, .. } => format!("{number} update {}", update.sequence),
        EventBody::MembershipChanged { change, .. } => format!("{number} {change:?}"),
        EventBody::ChatCreated { .. } => format!("{number} created"),
        EventBody::ChatRenamed { .. } => format!("{number} renamed"),
        EventBody::MessageTtlChanged { .. } => format!("{number} ttl"),
        EventBody::MessagesExpired { .. } => format!("{number} purge"),
    });
    let expected = [
        "1 created",
        "2 message 1",
        "3 renamed",
        "4 ttl",
        "5 message 2",
        // 6 was the expired message.
        "7 message 4",
        "8 Added",
        "9 message 5",
        "10 Removed",
        "11 message 6",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Messages and changes that race for one chat get all numbers from 1 on, each once. Messages are numbered in the order of
/// their sequences.
pub async fn concurrent_commits_of_every_kind_get_different_numbers(stores: ContractStores) {
    const ROUNDS: u64 = 10;
    let (chat_id, owner) = stores.chat_of_one().await;
    let sends = {
        let stores = stores.clone();
        async move {
            for _ in 0..2 * ROUNDS {
                stores.append_racing(vec![new_message(chat_id, owner, "racing")]).await;
            }
        }
    };
    let renames = {
        let stores = stores.clone();
        async move {
            for n in 0..ROUNDS {
                let rename = ChatCommand::Update(ChatUpdate::name(chat_name(&format!("name {n}"))));
                stores.apply(chat_id, owner, rename).await.expect("owners rename");
            }
        }
    };
    at_once([sends.boxed(), renames.boxed()]).await;

    stores.sabotage.published().await;
    let events = distinct(&mut *consumer(&stores, "racing").await, 3 * ROUNDS as usize + 1).await;
    let number = |record: &Record| record.event.event_number.expect("it is numbered").0;
    let mut numbers: Vec<_> = events.iter().map(number).collect();
    numbers.sort();
    assert_eq!(numbers, (1..=3 * ROUNDS + 1).collect::<Vec<_>>());
    for kind in [EventKind::Message, EventKind::Chat] {
        let of_kind: Vec<_> = events.iter().filter(|record| record.event.body.kind() == kind).map(number).collect();
        assert!(of_kind.is_sorted(), "{kind:?}: {of_kind:?}");
    }
}

/// A chat that has lost its head row counts nothing, so a change has an event without a number.
pub async fn a_change_of_a_chat_without_its_head_has_no_number(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_of_one().await;
    stores.sabotage.drop_head(chat_id).await;
    let rename = ChatCommand::Update(ChatUpdate::name(chat_name("new")));
    stores.apply(chat_id, owner, rename).await.expect("owners rename");
    stores.sabotage.published().await;
    let events = distinct(&mut *consumer(&stores, "headless").await, 2).await;
    let numbers: Vec<_> = events.iter().map(|record| record.event.event_number.map(|number| number.0)).collect();
    assert_eq!(numbers, [Some(1), None]);
}

/// With concurrent writers, the log has every acknowledged message, in sequence order per chat.
pub async fn g1_every_acknowledged_message_is_in_the_log_in_order(stores: ContractStores) {
    let owner = fresh();
    let chats = [stores.group(owner, &[]).await, stores.group(owner, &[]).await];
    at_once((0..6).map(|_| {
        let stores = stores.clone();
        async move {
            for n in 0..20 {
                stores.append_racing(vec![new_message(chats[n % 2], owner, "racing")]).await;
            }
        }
    }))
    .await;
    let last = chats.map(|chat_id| new_message(chat_id, owner, "last"));
    stores.message_writer.append(last.to_vec()).await.expect(WORKS);

    // Sequentially, because the order between chats is undefined.
    for (chat_id, last) in chats.into_iter().zip(last) {
        let events = read_until(&mut *consumer(&stores, "racing").await, last.message_id).await;
        assert_eq!(message_sequences(&events, chat_id), (1..=61).collect::<Vec<_>>());
    }
}

/// A group with a commit continues after that position; a group without one starts again at its first position.
pub async fn a_consumer_continues_after_its_last_commit(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut first = consumer(&stores, "group").await;
    read_until(&mut *first, send(&stores, chat_id, sender_id).await).await;
    first.commit().await.expect(WORKS);
    read_until(&mut *first, send(&stores, chat_id, sender_id).await).await;
    drop(first);

    let third = send(&stores, chat_id, sender_id).await;
    for _ in 0..2 {
        let repeated = read_until(&mut *consumer(&stores, "group").await, third).await;
        assert_eq!(message_sequences(&repeated, chat_id), [2, 3]);
    }
}

/// A commit covers the returned events and no others.
pub async fn a_commit_before_anything_was_returned_skips_nothing(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = send(&stores, chat_id, sender_id).await;
    consumer(&stores, "group").await.commit().await.expect(WORKS);
    let events = read_until(&mut *consumer(&stores, "group").await, sent).await;
    assert_eq!(message_sequences(&events, chat_id), [1]);
}

/// Consumer groups have independent positions.
pub async fn each_group_has_its_own_position(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = send(&stores, chat_id, sender_id).await;
    let mut one = consumer(&stores, "one").await;
    read_until(&mut *one, sent).await;
    one.commit().await.expect(WORKS);
    let events = read_until(&mut *consumer(&stores, "other").await, sent).await;
    assert_eq!(message_sequences(&events, chat_id), [1]);
}

/// A waiting consumer is woken by the next commit.
pub async fn a_waiting_consumer_is_woken(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut consumer = consumer(&stores, "group").await;
    send(&stores, chat_id, sender_id).await;
    // The event of the new chat, and the message.
    distinct(&mut *consumer, 2).await;
    let (polled, was_polled) = oneshot::channel();
    let mut polled = Some(polled);
    let waiting = tokio::spawn(async move {
        let mut next = consumer.next();
        poll_fn(|context| {
            let poll = next.as_mut().poll(context);
            if let Some(polled) = polled.take() {
                polled.send(poll.is_pending()).expect("the contract waits for it");
            }
            poll
        })
        .await
    });
    assert!(was_polled.await.expect("the consumer is polled"), "nothing was sent, so there is nothing to return");
    send(&stores, chat_id, sender_id).await;
    // The timeout is outside the task: a timer inside it would also wake the consumer.
    let woken = tokio::time::timeout(PATIENCE, waiting).await.expect("the consumer is woken");
    let events = events(woken.expect("the task runs to its end").expect(WORKS));
    assert_eq!(message_sequences(&events, chat_id), [2]);
}

/// A dropped call of `next` loses no event and repeats none.
pub async fn a_dropped_call_of_next_loses_nothing(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut consumer = consumer(&stores, "group").await;
    let mut seen = vec![];
    let mut last = None;
    for _ in 0..20 {
        // Polled once before the send and once after it, then dropped.
        seen.extend(consumer.next().now_or_never().transpose().expect(WORKS).map(events).unwrap_or_default());
        last = Some(send(&stores, chat_id, sender_id).await);
        seen.extend(consumer.next().now_or_never().transpose().expect(WORKS).map(events).unwrap_or_default());
    }
    if message_sequences(&seen, chat_id).last() != Some(&20) {
        seen.extend(read_until(&mut *consumer, last.expect("there were sends")).await);
    }
    assert_eq!(message_sequences(&seen, chat_id), (1..=20).collect::<Vec<_>>());
}

/// An event has the same position on every read, positions of one kind grow, and the event is found at its position.
pub async fn an_event_keeps_its_position(stores: ContractStores) {
    stores.chat_with_head(4).await;
    stores.sabotage.published().await;
    let records = distinct(&mut *consumer(&stores, "one").await, 5).await;
    let messages: Vec<_> = records.iter().filter(|record| record.event.body.kind() == EventKind::Message).collect();
    assert!(messages.is_sorted_by_key(|record| record.position));
    assert_eq!(records.iter().map(|record| record.position).collect::<BTreeSet<_>>().len(), records.len());
    let again = distinct(&mut *consumer(&stores, "other").await, 5).await;
    assert!(again.iter().all(|record| records.contains(record)));
    for Record { position, event } in &records {
        assert_eq!(stores.log.event(*position).await.expect(WORKS).as_ref(), Some(event));
    }
    let behind = Position(messages[3].position.0 + 1);
    assert_eq!(stores.log.event(behind).await.expect(WORKS), None);
}

/// After a seek to an event, the group starts with that event; after a seek to the oldest, it starts from the
/// beginning.
pub async fn a_seek_to_an_event_starts_with_that_event(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(5).await;
    let last = send(&stores, chat_id, sender_id).await;
    let mut first = consumer(&stores, "group").await;
    let records = distinct(&mut *first, 7).await;
    first.commit().await.expect(WORKS);
    drop(first);

    let begins_at = async |group: &str, from: u64| {
        let record =
            records.iter().find(|record| message_sequences(std::slice::from_ref(&record.event), chat_id) == [from]);
        let position = record.expect("every message is in the log").position;
        stores.log.seek(group, Start::At(position)).await.expect(WORKS);
        let events = read_until(&mut *consumer(&stores, group).await, last).await;
        assert_eq!(message_sequences(&events, chat_id), (from..=6).collect::<Vec<_>>());
    };
    for from in [3, 1, 6] {
        begins_at("group", from).await;
    }
    stores.log.seek("group", Start::Oldest).await.expect(WORKS);
    assert_eq!(distinct(&mut *consumer(&stores, "group").await, 7).await.len(), 7);
    begins_at("new group", 4).await;
}

/// After a seek to a time, the group starts with the first event that is not older, or waits for the next.
pub async fn a_seek_to_a_time_starts_with_the_first_event_not_older(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    // After the event of the new chat, each one a minute later than the one before.
    let start = now();
    let minute = |n: u64| start + Duration::from_secs(60 * n);
    let batch = (1..=5).map(|n| NewMessage { created_at: minute(n), ..new_message(chat_id, sender_id, "timed") });
    stores.message_writer.append(batch.collect()).await.expect(WORKS);
    let last = NewMessage { created_at: minute(6), ..new_message(chat_id, sender_id, "last") };
    stores.send(last.clone()).await.expect_new();
    stores.sabotage.published().await;

    let second = Duration::from_secs(1);
    for (time, first) in [(minute(1) + second, 2), (minute(4), 4), (minute(6).minus(second), 6), (minute(6), 6)] {
        stores.log.seek("group", Start::Time(time)).await.expect(WORKS);
        let events = read_until(&mut *consumer(&stores, "group").await, last.message_id).await;
        assert_eq!(message_sequences(&events, chat_id), (first..=6).collect::<Vec<_>>());
    }
    stores.log.seek("group", Start::Time(Timestamp::default())).await.expect(WORKS);
    assert_eq!(distinct(&mut *consumer(&stores, "group").await, 7).await.len(), 7);
    stores.log.seek("group", Start::Time(minute(7))).await.expect(WORKS);
    let next = send(&stores, chat_id, sender_id).await;
    let events = read_until(&mut *consumer(&stores, "group").await, next).await;
    assert_eq!(message_sequences(&events, chat_id), [7]);
}

/// A group with a start position after the end of the log starts with the next event.
pub async fn a_seek_beyond_the_end_skips_no_event(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(2).await;
    stores.sabotage.published().await;
    stores.log.seek("group", Start::At(Position(1_000_000))).await.expect(WORKS);
    assert_eq!(stores.log.lag("group").await.expect(WORKS), 0);
    let next = send(&stores, chat_id, sender_id).await;
    let events = read_until(&mut *consumer(&stores, "group").await, next).await;
    assert_eq!(message_sequences(&events, chat_id), [3]);
}

/// A consumer that exists during a seek continues at its position, and its next commit overwrites the seek.
pub async fn an_existing_consumer_is_not_affected_by_a_seek(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut earlier = consumer(&stores, "group").await;
    read_until(&mut *earlier, send(&stores, chat_id, sender_id).await).await;
    earlier.commit().await.expect(WORKS);
    // Whether the seek is refused or not, it does not affect the existing consumer.
    drop(stores.log.seek("group", Start::Oldest).await);
    let second = send(&stores, chat_id, sender_id).await;
    assert_eq!(message_sequences(&read_until(&mut *earlier, second).await, chat_id), [2]);
    earlier.commit().await.expect(WORKS);
    drop(earlier);
    let third = send(&stores, chat_id, sender_id).await;
    let after = read_until(&mut *consumer(&stores, "group").await, third).await;
    assert_eq!(message_sequences(&after, chat_id), [3]);
}

/// The lag of a group counts its uncommitted events: first all, none after a commit, and one more with each event.
pub async fn lag_counts_uncommitted_events(stores: ContractStores) {
    let lag = async |group: &str| {
        stores.sabotage.published().await;
        stores.log.lag(group).await.expect(WORKS)
    };
    let (chat_id, sender_id) = stores.chat_with_head(3).await;
    assert_eq!(lag("group").await, 4);
    send(&stores, chat_id, sender_id).await;
    let mut consumer = consumer(&stores, "group").await;
    let records = distinct(&mut *consumer, 5).await;
    assert_eq!(lag("group").await, 5);
    consumer.commit().await.expect(WORKS);
    assert_eq!(lag("group").await, 0);
    drop(consumer);
    send(&stores, chat_id, sender_id).await;
    assert_eq!(lag("group").await, 1);
    let second = records.iter().find(|record| message_sequences(std::slice::from_ref(&record.event), chat_id) == [2]);
    let second = second.expect("every message is in the log").position;
    stores.log.seek("group", Start::At(second)).await.expect(WORKS);
    assert_eq!(lag("group").await, 4);
    assert_eq!(lag("other").await, 6);
}

/// A purge leaves one event per chat, with the purged sequences, ascending.
pub async fn a_purge_leaves_one_event_per_chat(stores: ContractStores) {
    let owner = fresh();
    let chats = [stores.group(owner, &[]).await, stores.group(owner, &[]).await];
    let gone = |chat_id, minutes: u64| {
        let message = expired(new_message(chat_id, owner, "gone"));
        NewMessage { created_at: message.created_at.minus(Duration::from_secs(60 * minutes)), ..message }
    };
    let kept = |chat_id| new_message(chat_id, owner, "kept");
    // In one batch, so that no purge happens in between. The last messages of the first chat expired before the others.
    let batch = vec![
        gone(chats[0], 1),
        kept(chats[0]),
        gone(chats[1], 3),
        gone(chats[0], 5),
        kept(chats[1]),
        gone(chats[0], 2),
    ];
    stores.message_writer.append(batch).await.expect(WORKS);
    stores.sabotage.purge_expired().await;
    stores.sabotage.purge_expired().await;
    stores.sabotage.published().await;
    // Two new chats, two remaining messages, and one purge event per chat.
    let events = distinct(&mut *consumer(&stores, "group").await, 6).await;
    let purges_of = |chat_id| -> Vec<_> {
        let sequences = events.iter().filter_map(|record| match &record.event.body {
            EventBody::MessagesExpired { chat_id: of, sequences } if *of == chat_id => Some(sequences.clone()),
            _ => None,
        });
        sequences.collect()
    };
    assert_eq!(purges_of(chats[0]), [[1, 3, 4].map(Sequence)]);
    assert_eq!(purges_of(chats[1]), [[1].map(Sequence)]);
}

/// The event of a purged message is no longer in the log; the events around it keep their positions.
pub async fn g11_the_event_of_a_purged_message_is_removed(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let gone = expired(new_message(chat_id, sender_id, "gone"));
    let [first, last] = [(); 2].map(|()| new_message(chat_id, sender_id, "kept"));
    let batch = vec![first.clone(), gone.clone(), last.clone()];
    stores.message_writer.append(batch).await.expect(WORKS);
    // Message events only: the position of the new chat's event among them is undefined.
    let sent = async || {
        let records = records_until(&mut *consumer(&stores, "group").await, last.message_id).await;
        let is_sent = |record: &Record| matches!(record.event.body, EventBody::MessagePersisted { .. });
        records.into_iter().filter(is_sent).collect::<Vec<_>>()
    };
    let before = sent().await;
    stores.sabotage.purge_expired().await;

    let after = sent().await;
    let without: Vec<_> = before.into_iter().filter(|record| !is_of(&record.event, gone.message_id)).collect();
    assert_eq!(after, without);
    assert_eq!(message_sequences(&events(after.clone()), chat_id), [1, 3]);
    let place = |message_id| {
        let record = after.iter().find(|record| is_of(&record.event, message_id));
        record.expect("a message that is kept is in the log").position.0
    };
    for between in place(first.message_id) + 1..place(last.message_id) {
        assert_eq!(stores.log.event(Position(between)).await.expect(WORKS), None);
    }
}

async fn consumer(stores: &ContractStores, group: &str) -> Box<dyn EventConsumer> {
    stores.log.consumer(group).await.expect(WORKS)
}

async fn send(stores: &ContractStores, chat_id: ChatId, sender_id: UserId) -> MessageId {
    stores.send(new_message(chat_id, sender_id, "hello")).await.expect_new().message_id
}

fn events(records: Vec<Record>) -> Vec<Arc<Event>> {
    records.into_iter().map(|record| record.event).collect()
}

/// Reads the log up to the event of a message, including the rest of its batch.
async fn read_until(consumer: &mut dyn EventConsumer, message_id: MessageId) -> Vec<Arc<Event>> {
    events(records_until(consumer, message_id).await)
}

async fn records_until(consumer: &mut dyn EventConsumer, message_id: MessageId) -> Vec<Record> {
    let mut seen: Vec<Record> = vec![];
    while !seen.iter().any(|record| is_of(&record.event, message_id)) {
        let next = tokio::time::timeout(PATIENCE, consumer.next()).await.expect("the event comes").expect(WORKS);
        assert!(!next.is_empty(), "`next` returns something");
        seen.extend(next);
    }
    seen
}

/// Reads the log until it has returned `count` different events, and returns each at its first occurrence. Events of
/// expired messages are not counted.
async fn distinct(consumer: &mut dyn EventConsumer, count: usize) -> Vec<Record> {
    let mut seen: Vec<Record> = vec![];
    while seen.len() < count {
        let next = tokio::time::timeout(PATIENCE, consumer.next()).await;
        for record in next.unwrap_or_else(|_| panic!("{count} events expected, got {seen:?}")).expect(WORKS) {
            let again = seen.iter().any(|earlier| earlier.event.event_id == record.event.event_id);
            if !again && !has_expired(&record.event) {
                seen.push(record);
            }
        }
    }
    assert_eq!(seen.len(), count, "{seen:?}");
    seen
}

fn has_expired(event: &Event) -> bool {
    matches!(&event.body, EventBody::MessagePersisted { message, .. } if message.is_expired(now()))
}

fn is_of(event: &Event, message_id: MessageId) -> bool {
    matches!(&event.body, EventBody::MessagePersisted { message, .. } if message.message_id == message_id)
}

/// The sequences of a chat's message events, in order, each at its first occurrence.
fn message_sequences(events: &[Arc<Event>], chat_id: ChatId) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let sequence = |event: &Arc<Event>| match &event.body {
        EventBody::MessagePersisted { message, .. } if message.chat_id == chat_id => Some(message.sequence.0),
        _ => None,
    };
    events.iter().filter_map(sequence).filter(|sequence| seen.insert(*sequence)).collect()
}
