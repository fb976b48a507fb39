//! What [`Outbox`](crate::Outbox) promises, and the writing ports with it: every commit leaves its mark.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    ChatCommand, ChatId, ChatUpdate, Event, EventBody, MembershipChange, Role, Sequence, Timestamp, Ttl, UserId,
};
use futures_util::FutureExt;

use super::WithOutbox;
use super::fixtures::{WORKS, at_once, chat_name, expired, fresh, new_group, new_message, now, retry_of};
use crate::{Committed, NewMessage, Waiting};

/// How long a contract waits for what must come. It passes only when the contract is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// A message waits, as the event it is, until the log is said to have it.
pub async fn a_message_waits_until_it_is_published(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let sends = [Some(fresh()), None, Some(fresh())]
        .map(|origin| NewMessage { origin_connection_id: origin, ..new_message(chat_id, owner, "hello") });
    subject.stores.message_writer.append(sends.to_vec()).await.expect(WORKS);
    let events: Vec<Event> = sends.iter().zip(1..).map(|(send, sequence)| event_of(send, sequence)).collect();

    assert_eq!(subject.unpublished(chat_id).await, events);
    assert_eq!(subject.unpublished(chat_id).await, events, "reading publishes nothing");
    subject.published(chat_id, 2).await;
    assert_eq!(subject.unpublished(chat_id).await, events[2..]);
    subject.published(chat_id, 3).await;
    assert_eq!(subject.unpublished(chat_id).await, []);
    let next = new_message(chat_id, owner, "next");
    subject.stores.send(next.clone()).await.expect_new();
    assert_eq!(subject.unpublished(chat_id).await, [event_of(&next, 4)]);
}

/// Only what has a commit behind it waits: a refused send, a repeated one and another chat's leave nothing.
pub async fn what_was_not_committed_does_not_wait(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let sent = new_message(chat_id, owner, "once");
    subject.stores.send(sent.clone()).await.expect_new();
    subject.stores.send(retry_of(&sent)).await;
    subject.stores.send(new_message(chat_id, fresh(), "refused")).await;
    assert_eq!(subject.unpublished(chat_id).await, [event_of(&sent, 1)]);
    assert_eq!(subject.unpublished(fresh()).await, []);
    assert_eq!(subject.waiting(fresh()).await, []);
}

/// However far several publishers have come, and in whatever order they say so, the furthest place counts.
pub async fn the_published_place_only_moves_forward(subject: WithOutbox) {
    let (chat_id, _) = subject.stores.chat_with_head(8).await;
    subject.published(chat_id, 5).await;
    subject.published(chat_id, 2).await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, [6, 7, 8]);
    at_once([6, 8, 3, 7, 1].map(|through| {
        let subject = subject.clone();
        async move { subject.published(chat_id, through).await }
    }))
    .await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, []);
}

/// More messages than one answer holds are published one answer after the other, without a hole.
pub async fn many_messages_are_published_step_by_step(subject: WithOutbox) {
    const MESSAGES: u64 = 450;
    let (chat_id, _) = subject.stores.chat_with_head(MESSAGES).await;
    let mut published = vec![];
    loop {
        let sequences = subject.unpublished_sequences(chat_id).await;
        let Some(last) = sequences.last() else { break };
        subject.published(chat_id, *last).await;
        published.extend(sequences);
    }
    assert_eq!(published, (1..=MESSAGES).collect::<Vec<_>>());
}

/// Changes of a chat and its members wait in the order of their commits, with all that happened.
pub async fn changes_wait_in_the_order_of_their_commits(subject: WithOutbox) {
    let stores = &subject.stores;
    let (owner, member, added) = (fresh(), fresh(), fresh());
    let group = new_group(owner, &[member]);
    let chat_id = group.chat_id;
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    stores.chat_writer.create_group(group.clone()).await.expect(WORKS);
    stores.send(new_message(chat_id, owner, "no change")).await.expect_new();
    let message_ttl = Ttl::from_secs(600);
    let commands = [
        (owner, ChatCommand::Update(ChatUpdate::name(chat_name("new")))),
        (owner, ChatCommand::AddMember { user_id: added, role: Role::Member }),
        (added, ChatCommand::Mute { until: None }),
        (owner, ChatCommand::Update(ChatUpdate::message_ttl(message_ttl))),
        (owner, ChatCommand::ChangeRole { user_id: added, role: Role::Admin }),
        (member, ChatCommand::Leave),
    ];
    for (actor, command) in commands {
        stores.apply(chat_id, actor, command).await.expect("they may");
    }

    let membership =
        |user_id, change, role, changed_by| EventBody::MembershipChanged { chat_id, user_id, change, role, changed_by };
    let changes = [
        EventBody::ChatRenamed { chat_id, name: chat_name("new"), changed_by: owner },
        membership(added, MembershipChange::Added, Role::Member, owner),
        EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by: owner },
        membership(added, MembershipChange::RoleChanged, Role::Admin, owner),
        membership(member, MembershipChange::Removed, Role::Member, member),
    ];
    let waiting = subject.waiting(chat_id).await;
    let bodies: Vec<_> = waiting.iter().map(|waiting| waiting.event.body.clone()).collect();
    assert_eq!(bodies, [group.opening().events.as_slice(), &changes].concat());
    assert_eq!(subject.waiting(chat_id).await, waiting, "an event keeps its place and its id");
}

/// A change that is forgotten waits no more, and the others stay where they are.
pub async fn a_forgotten_change_is_gone(subject: WithOutbox) {
    let owner = fresh();
    let [chat_id, other] = [subject.stores.group(owner, &[]).await, subject.stores.group(owner, &[]).await];
    for name in ["one", "two"] {
        subject.rename(chat_id, owner, name).await;
    }
    let waiting = subject.waiting(chat_id).await;
    assert_eq!(waiting.len(), 3);
    subject.forget(chat_id, &waiting[..2]).await;
    assert_eq!(subject.waiting(chat_id).await, waiting[2..]);
    subject.forget(chat_id, &waiting).await;
    assert_eq!(subject.waiting(chat_id).await, []);
    assert_eq!(subject.waiting(other).await.len(), 1);
    subject.rename(chat_id, owner, "three").await;
    assert_eq!(subject.waiting(chat_id).await.len(), 1);
}

/// What has waited longer comes first, whether it is a message or a change, and each chat once; what has not waited
/// long enough is left out.
pub async fn what_waits_is_overdue_longest_first(subject: WithOutbox) {
    let owner: UserId = fresh();
    let minutes_ago = |minutes: u64| now().minus(Duration::from_secs(60 * minutes));
    let mut chats = vec![];
    for opened in [20, 50, 30] {
        let group = crate::NewGroup { created_at: minutes_ago(opened), ..new_group(owner, &[]) };
        chats.push(group.chat_id);
        subject.stores.chat_writer.create_group(group).await.expect(WORKS);
    }
    // The third has its opening behind it, and two messages; the older one counts.
    subject.forget(chats[2], &subject.waiting(chats[2]).await).await;
    for sent in [40, 10] {
        let message = NewMessage { created_at: minutes_ago(sent), ..new_message(chats[2], owner, "hello") };
        subject.stores.send(message).await.expect_new();
    }
    let overdue = async |minutes| subject.outbox.overdue(minutes_ago(minutes)).await.expect(WORKS);
    assert_eq!(overdue(5).await, [chats[1], chats[2], chats[0]]);
    assert_eq!(overdue(35).await, [chats[1], chats[2]]);
    assert_eq!(overdue(60).await, []);
}

/// A chat is overdue until everything of it is published, and again with the next commit.
pub async fn what_is_published_is_overdue_no_more(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_with_head(2).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.forget(chat_id, &subject.waiting(chat_id).await).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    // A message that was committed meanwhile still waits.
    subject.published(chat_id, 1).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.published(chat_id, 2).await;
    assert_eq!(subject.overdue().await, []);
    subject.stores.send(new_message(chat_id, owner, "next")).await.expect_new();
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.published(chat_id, 3).await;
    subject.rename(chat_id, owner, "new").await;
    assert_eq!(subject.overdue().await, [chat_id]);
}

/// Whoever waits for commits is told of messages, as their events, and of changes; of nothing else.
pub async fn commits_of_this_process_are_told(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let sends = [(); 2].map(|()| new_message(chat_id, owner, "hello"));
    subject.stores.message_writer.append(sends.to_vec()).await.expect(WORKS);
    subject.stores.send(retry_of(&sends[0])).await;
    subject.stores.apply(chat_id, owner, ChatCommand::Mute { until: None }).await.expect("members mute");
    subject.rename(chat_id, owner, "new").await;
    let mut told = vec![];
    while told.iter().filter(|commit: &&Committed| commit.messages.is_empty()).count() < 2 {
        let committed = tokio::time::timeout(PATIENCE, subject.outbox.committed());
        told.extend(committed.await.expect("the commits are told"));
    }
    assert!(told.iter().all(|commit| commit.chat_id == chat_id));
    let messages: Vec<_> = told.iter().flat_map(|commit| &commit.messages).map(|event| (**event).clone()).collect();
    assert_eq!(messages, [event_of(&sends[0], 1), event_of(&sends[1], 2)]);
    assert_eq!(subject.outbox.committed().now_or_never(), None);
}

/// A call that is dropped loses no commit and repeats none.
pub async fn a_dropped_call_of_committed_loses_nothing(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let mut told = vec![];
    for _ in 0..20 {
        // Polled once before the send and once after it; whatever it has not returned by then is dropped.
        told.extend(subject.outbox.committed().now_or_never().unwrap_or_default());
        subject.stores.send(new_message(chat_id, owner, "hello")).await.expect_new();
        told.extend(subject.outbox.committed().now_or_never().unwrap_or_default());
    }
    let sequences: Vec<_> = told.iter().flat_map(|commit| sequences(&commit.messages)).collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
}

/// An expired message reaches nobody, and those around it do, whether it has been purged or not.
pub async fn g11_an_expired_message_is_not_published(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let message = || new_message(chat_id, owner, "hello");
    let batch = vec![expired(message()), message(), expired(message()), message(), expired(message())];
    subject.stores.message_writer.append(batch).await.expect(WORKS);
    assert_eq!(subject.unpublished_sequences(chat_id).await, [2, 4]);
    subject.stores.sabotage.purge_expired().await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, [2, 4]);
    subject.published(chat_id, 4).await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, []);
}

/// A chat whose messages all have expired has nothing to publish, and stops to be overdue once somebody has looked.
pub async fn g11_a_chat_of_expired_messages_waits_no_longer(subject: WithOutbox) {
    let owner = fresh();
    let chats = [subject.stores.group(owner, &[]).await, subject.stores.group(owner, &[]).await];
    let batch = chats.map(|chat_id| (0..250).map(move |_| expired(new_message(chat_id, owner, "gone"))));
    subject.stores.message_writer.append(batch.into_iter().flatten().collect()).await.expect(WORKS);
    assert_eq!(subject.unpublished(chats[0]).await, []);
    subject.stores.sabotage.purge_expired().await;
    assert_eq!(subject.unpublished(chats[1]).await, []);
    for chat_id in chats {
        subject.forget(chat_id, &subject.waiting(chat_id).await).await;
    }
    assert_eq!(subject.overdue().await, []);
    let next = new_message(chats[0], owner, "next");
    subject.stores.send(next.clone()).await.expect_new();
    assert_eq!(subject.unpublished(chats[0]).await, [event_of(&next, 251)]);
}

/// A purge waits to be told like any other event: once, with the sequences that are gone, ascending.
pub async fn g11_a_purge_waits_to_be_told(subject: WithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let message = || new_message(chat_id, owner, "hello");
    subject.stores.message_writer.append(vec![expired(message()), message(), expired(message())]).await.expect(WORKS);
    at_once([subject.clone(), subject.clone()].map(|subject| async move {
        subject.stores.sabotage.purge_expired().await;
    }))
    .await;
    subject.stores.sabotage.purge_expired().await;
    let told: Vec<_> = subject.waiting(chat_id).await.into_iter().skip(1).collect();
    let sequences = told.iter().flat_map(|waiting| match &waiting.event.body {
        EventBody::MessagesExpired { chat_id: of, sequences } if *of == chat_id => sequences.clone(),
        other => panic!("expected a purge, got {other:?}"),
    });
    assert_eq!(sequences.collect::<Vec<_>>(), [1, 3].map(Sequence));
    subject.published(chat_id, 3).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.forget(chat_id, &subject.waiting(chat_id).await).await;
    assert_eq!(subject.overdue().await, []);
}

impl WithOutbox {
    async fn unpublished(&self, chat_id: ChatId) -> Vec<Event> {
        let events = self.outbox.unpublished(chat_id).await.expect(WORKS);
        events.iter().map(|event| (**event).clone()).collect()
    }

    async fn unpublished_sequences(&self, chat_id: ChatId) -> Vec<u64> {
        sequences(&self.outbox.unpublished(chat_id).await.expect(WORKS))
    }

    async fn published(&self, chat_id: ChatId, through: u64) {
        self.outbox.published(chat_id, Sequence(through)).await.expect(WORKS);
    }

    async fn waiting(&self, chat_id: ChatId) -> Vec<Waiting> {
        self.outbox.waiting(chat_id).await.expect(WORKS)
    }

    async fn forget(&self, chat_id: ChatId, waiting: &[Waiting]) {
        let places: Vec<_> = waiting.iter().map(|waiting| waiting.place.clone()).collect();
        self.outbox.forget(chat_id, &places).await.expect(WORKS);
    }

    /// Everything that waits by now.
    async fn overdue(&self) -> Vec<ChatId> {
        self.outbox.overdue(Timestamp::MAX).await.expect(WORKS)
    }

    async fn rename(&self, chat_id: ChatId, owner: UserId, name: &str) {
        let rename = ChatCommand::Update(ChatUpdate::name(chat_name(name)));
        self.stores.apply(chat_id, owner, rename).await.expect("owners rename");
    }
}

/// The event of a send that was committed at this place.
fn event_of(send: &NewMessage, sequence: u64) -> Event {
    Event::message_persisted(send.clone().at(Sequence(sequence), None), send.origin_connection_id)
}

fn sequences(messages: &[Arc<Event>]) -> Vec<u64> {
    let sequence = |event: &Arc<Event>| match &event.body {
        EventBody::MessagePersisted { message, .. } => message.sequence.0,
        other => panic!("expected a message, got {other:?}"),
    };
    messages.iter().map(sequence).collect()
}
