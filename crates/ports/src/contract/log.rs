//! What [`EventLog`](crate::EventLog) promises, and the writing ports with it: an event for every commit.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatCommand, ChatId, Event, EventBody, MembershipChange, MessageId, Role, Sequence, UserId};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::Stores;
use super::fixtures::{WORKS, at_once, chat_name, fresh, new_group, new_message, retry_of};
use crate::{EventConsumer, NewMessage};

/// How long a contract waits for an event that must come. It passes only when the contract is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every commit leaves its events, once and in order, with all that happened; what was refused or repeated leaves none.
pub async fn every_commit_leaves_its_events_once_in_order(stores: Stores) {
    let (owner, member, added) = (fresh(), fresh(), fresh());
    let group = new_group(owner, &[member]);
    let chat_id = group.chat_id;
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    let sent = NewMessage { origin_connection_id: Some(fresh()), ..new_message(chat_id, owner, "hello") };
    stores.send(sent.clone()).await.expect_new();
    stores.send(retry_of(&sent)).await;
    stores.send(new_message(chat_id, fresh(), "refused")).await;
    stores.apply(chat_id, member, ChatCommand::Rename(chat_name("refused"))).await.expect_err("members do not rename");
    stores.apply(chat_id, owner, ChatCommand::Rename(chat_name("new"))).await.expect("owners rename");
    let add = ChatCommand::AddMember { user_id: added, role: Role::Member };
    stores.apply(chat_id, owner, add).await.expect("owners add");
    stores.apply(chat_id, member, ChatCommand::Leave).await.expect("members leave");
    let last = new_message(chat_id, added, "goodbye");
    stores.send(last.clone()).await.expect_new();

    let events = read_until(&mut *consumer(&stores, "all").await, last.message_id).await;
    let membership = |user_id, change, changed_by| EventBody::MembershipChanged {
        chat_id,
        user_id,
        change,
        role: Role::Member,
        changed_by,
    };
    let persisted = |send: &NewMessage, sequence| EventBody::MessagePersisted {
        message: send.clone().at(Sequence(sequence)),
        origin_connection_id: send.origin_connection_id,
    };
    let created = group.opening().events;
    let changed = [
        persisted(&sent, 1),
        EventBody::ChatRenamed { chat_id, name: chat_name("new"), changed_by: owner },
        membership(added, MembershipChange::Added, owner),
        membership(member, MembershipChange::Removed, member),
        persisted(&last, 2),
    ];
    let bodies: Vec<_> = events.iter().map(|event| event.body.clone()).collect();
    assert_eq!(bodies, [created.as_slice(), &changed].concat());
    assert_eq!(events.iter().map(|event| event.event_id).collect::<BTreeSet<_>>().len(), events.len());
}

/// However writers interleave, the log has every acknowledged message, per chat in the order of sequences.
pub async fn g1_every_acknowledged_message_is_in_the_log_in_order(stores: Stores) {
    let owner = fresh();
    let chats = [stores.group(owner, &[]).await, stores.group(owner, &[]).await];
    at_once((0..6).map(|_| {
        let stores = stores.clone();
        async move {
            for n in 0..20 {
                stores.send(new_message(chats[n % 2], owner, "racing")).await.expect_new();
            }
        }
    }))
    .await;
    let last = chats.map(|chat_id| new_message(chat_id, owner, "last"));
    stores.message_writer.append(last.to_vec()).await.expect(WORKS);

    // One after the other, because the order between chats is nobody's promise.
    for (chat_id, last) in chats.into_iter().zip(last) {
        let events = read_until(&mut *consumer(&stores, "racing").await, last.message_id).await;
        assert_eq!(message_sequences(&events, chat_id), (1..=61).collect::<Vec<_>>());
    }
}

/// A group that committed goes on behind that place, and one that did not begins again where it began.
pub async fn a_consumer_goes_on_behind_its_last_commit(stores: Stores) {
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

/// A commit covers what was returned and nothing more.
pub async fn a_commit_before_anything_was_returned_skips_nothing(stores: Stores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = send(&stores, chat_id, sender_id).await;
    consumer(&stores, "group").await.commit().await.expect(WORKS);
    let events = read_until(&mut *consumer(&stores, "group").await, sent).await;
    assert_eq!(message_sequences(&events, chat_id), [1]);
}

/// Groups do not consume for each other.
pub async fn each_group_has_its_own_place(stores: Stores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = send(&stores, chat_id, sender_id).await;
    let mut one = consumer(&stores, "one").await;
    read_until(&mut *one, sent).await;
    one.commit().await.expect(WORKS);
    let events = read_until(&mut *consumer(&stores, "other").await, sent).await;
    assert_eq!(message_sequences(&events, chat_id), [1]);
}

/// A consumer that waits is woken by the next commit.
pub async fn a_waiting_consumer_is_woken(stores: Stores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut consumer = consumer(&stores, "group").await;
    read_until(&mut *consumer, send(&stores, chat_id, sender_id).await).await;
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
    // The patience is outside the task: a timer inside it would wake the consumer too.
    let woken = tokio::time::timeout(PATIENCE, waiting).await.expect("the consumer is woken");
    let events = woken.expect("the task runs to its end").expect(WORKS);
    assert_eq!(message_sequences(&events, chat_id), [2]);
}

/// A call of `next` that is dropped loses no event and repeats none.
pub async fn a_dropped_call_of_next_loses_nothing(stores: Stores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut consumer = consumer(&stores, "group").await;
    let mut events = vec![];
    let mut last = None;
    for _ in 0..20 {
        // Polled once before the send and once after it; whatever it has not returned by then is dropped.
        events.extend(consumer.next().now_or_never().transpose().expect(WORKS).into_iter().flatten());
        last = Some(send(&stores, chat_id, sender_id).await);
        events.extend(consumer.next().now_or_never().transpose().expect(WORKS).into_iter().flatten());
    }
    if message_sequences(&events, chat_id).last() != Some(&20) {
        events.extend(read_until(&mut *consumer, last.expect("there were sends")).await);
    }
    assert_eq!(message_sequences(&events, chat_id), (1..=20).collect::<Vec<_>>());
}

async fn consumer(stores: &Stores, group: &str) -> Box<dyn EventConsumer> {
    stores.log.consumer(group).await.expect(WORKS)
}

async fn send(stores: &Stores, chat_id: ChatId, sender_id: UserId) -> MessageId {
    stores.send(new_message(chat_id, sender_id, "hello")).await.expect_new().message_id
}

/// Reads the log up to the event of a message, and what came with it.
async fn read_until(consumer: &mut dyn EventConsumer, message_id: MessageId) -> Vec<Arc<Event>> {
    let is_last = |event: &Arc<Event>| matches!(&event.body, EventBody::MessagePersisted { message, .. } if message.message_id == message_id);
    let mut events = vec![];
    while !events.iter().any(is_last) {
        let next = tokio::time::timeout(PATIENCE, consumer.next()).await.expect("the event comes").expect(WORKS);
        assert!(!next.is_empty(), "`next` returns something");
        events.extend(next);
    }
    events
}

/// The sequences of a chat's messages among events, in their order.
fn message_sequences(events: &[Arc<Event>], chat_id: ChatId) -> Vec<u64> {
    let sequence = |event: &Arc<Event>| match &event.body {
        EventBody::MessagePersisted { message, .. } if message.chat_id == chat_id => Some(message.sequence.0),
        _ => None,
    };
    events.iter().filter_map(sequence).collect()
}
