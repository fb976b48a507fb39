//! Tests of [`Outbox`](ports::Outbox), and of the rule that every commit of a writing port marks its event as pending.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    ChatCommand, ChatId, ChatUpdate, Event, EventBody, EventNumber, MembershipChange, Role, Sequence, Timestamp, Ttl,
    UpdateAction, UserId,
};
use futures_util::FutureExt;

use super::StoresWithOutbox;
use super::fixtures::{ExpectNew, WORKS, at_once, chat_name, expired, fresh, new_group, new_message, now, retry_of};
use super::updates::{edit, new_update, react};
use ports::{AppendOutcome, Committed, NewMessage, PendingChange};

/// Maximum time to wait for a commit that must arrive. It elapses only if the adapter is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// A message event is pending until the log is confirmed to have it.
pub async fn a_message_is_pending_until_it_is_published(subject: StoresWithOutbox) {
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

/// Only commits become pending: a refused or repeated send adds nothing, nor does another chat.
pub async fn only_commits_are_pending(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let sent = new_message(chat_id, owner, "once");
    subject.stores.send(sent.clone()).await.expect_new();
    subject.stores.send(retry_of(&sent)).await;
    subject.stores.send(new_message(chat_id, fresh(), "refused")).await;
    assert_eq!(subject.unpublished(chat_id).await, [event_of(&sent, 1)]);
    assert_eq!(subject.unpublished(fresh()).await, []);
    assert_eq!(subject.pending_changes(fresh()).await, []);
}

/// Several publishers may confirm in any order; the highest sequence counts.
pub async fn the_published_sequence_only_moves_forward(subject: StoresWithOutbox) {
    let (chat_id, _) = subject.stores.chat_with_head(8).await;
    subject.published(chat_id, 5).await;
    subject.published(chat_id, 2).await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, [6, 7, 8]);
    at_once([6, 8, 3, 7, 1].map(|through| {
        let subject = subject.clone();
        async move { subject.published(chat_id, through).await }
    }))
    .await;
    assert!(subject.unpublished_sequences(chat_id).await.is_empty());
}

/// If one answer cannot hold all messages, the next ones follow without a gap.
pub async fn many_messages_are_published_step_by_step(subject: StoresWithOutbox) {
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

/// Changes of a chat and its members are pending in commit order, with complete events.
pub async fn changes_are_pending_in_commit_order(subject: StoresWithOutbox) {
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
    let waiting = subject.pending_changes(chat_id).await;
    let bodies: Vec<_> = waiting.iter().map(|waiting| waiting.event.body.clone()).collect();
    assert_eq!(bodies, [group.opening(|_| true).events.as_slice(), &changes].concat());
    assert_eq!(subject.pending_changes(chat_id).await, waiting, "an event keeps its place and its id");
}

/// A confirmed change is no longer pending; the others keep their order.
pub async fn a_confirmed_change_is_not_pending(subject: StoresWithOutbox) {
    let owner = fresh();
    let [chat_id, other] = [subject.stores.group(owner, &[]).await, subject.stores.group(owner, &[]).await];
    for name in ["one", "two"] {
        subject.rename(chat_id, owner, name).await;
    }
    let waiting = subject.pending_changes(chat_id).await;
    assert_eq!(waiting.len(), 3);
    subject.confirm_changes(chat_id, &waiting[..2]).await;
    assert_eq!(subject.pending_changes(chat_id).await, waiting[2..]);
    subject.confirm_changes(chat_id, &waiting).await;
    assert_eq!(subject.pending_changes(chat_id).await, []);
    assert_eq!(subject.pending_changes(other).await.len(), 1);
    subject.rename(chat_id, owner, "three").await;
    assert_eq!(subject.pending_changes(chat_id).await.len(), 1);
}

/// The longest pending chats come first, whether a message or a change is pending, and each chat once. Chats that have
/// not been pending long enough are left out.
pub async fn overdue_chats_are_longest_pending_first(subject: StoresWithOutbox) {
    let owner: UserId = fresh();
    let minutes_ago = |minutes: u64| now().minus(Duration::from_secs(60 * minutes));
    let mut chats = vec![];
    for opened in [20, 50, 30] {
        let group = ports::NewGroup { created_at: minutes_ago(opened), ..new_group(owner, &[]) };
        chats.push(group.chat_id);
        subject.stores.chat_writer.create_group(group).await.expect(WORKS);
    }
    // The creation of the third chat is confirmed; of its two messages, the older one counts.
    subject.confirm_changes(chats[2], &subject.pending_changes(chats[2]).await).await;
    for sent in [40, 10] {
        let message = NewMessage { created_at: minutes_ago(sent), ..new_message(chats[2], owner, "hello") };
        subject.stores.send(message).await.expect_new();
    }
    let overdue = async |minutes| subject.overdue_since(minutes_ago(minutes)).await;
    assert_eq!(overdue(5).await, [chats[1], chats[2], chats[0]]);
    assert_eq!(overdue(35).await, [chats[1], chats[2]]);
    assert_eq!(overdue(60).await, []);
}

/// A chat is overdue until all its events are confirmed, and again with the next commit.
pub async fn a_published_chat_is_not_overdue(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_with_head(2).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.confirm_changes(chat_id, &subject.pending_changes(chat_id).await).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    // A message that was committed in the meantime is still pending.
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

/// `committed` returns messages, as events, and changes; nothing else.
pub async fn committed_returns_the_commits_of_this_process(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let sends = [(); 2].map(|()| new_message(chat_id, owner, "hello"));
    subject.stores.message_writer.append(sends.to_vec()).await.expect(WORKS);
    subject.stores.send(retry_of(&sends[0])).await;
    subject.stores.apply(chat_id, owner, ChatCommand::Mute { until: None }).await.expect("members mute");
    subject.rename(chat_id, owner, "new").await;
    let mut found = vec![];
    while found.iter().filter(|commit: &&Committed| commit.messages.is_empty()).count() < 2 {
        let committed = tokio::time::timeout(PATIENCE, subject.outbox.committed());
        found.extend(committed.await.expect("the commits are returned"));
    }
    assert!(found.iter().all(|commit| commit.chat_id == chat_id));
    let messages: Vec<_> = found.iter().flat_map(|commit| &commit.messages).map(|event| (**event).clone()).collect();
    assert_eq!(messages, [event_of(&sends[0], 1), event_of(&sends[1], 2)]);
    assert_eq!(subject.outbox.committed().now_or_never(), None);
}

/// A dropped call loses no commit and repeats none.
pub async fn a_dropped_call_of_committed_loses_nothing(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let mut found = vec![];
    for _ in 0..20 {
        // Polled once before the send and once after it, then dropped.
        found.extend(subject.outbox.committed().now_or_never().unwrap_or_default());
        subject.stores.send(new_message(chat_id, owner, "hello")).await.expect_new();
        found.extend(subject.outbox.committed().now_or_never().unwrap_or_default());
    }
    let sequences: Vec<_> = found.iter().flat_map(|commit| sequences(&commit.messages)).collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
}

/// An expired message is not published, purged or not; the messages around it are.
pub async fn g11_an_expired_message_is_not_published(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let message = || new_message(chat_id, owner, "hello");
    let batch = vec![expired(message()), message(), expired(message()), message(), expired(message())];
    subject.stores.message_writer.append(batch).await.expect(WORKS);
    assert_eq!(subject.unpublished_sequences(chat_id).await, [2, 4]);
    subject.stores.sabotage.purge_expired().await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, [2, 4]);
    subject.published(chat_id, 4).await;
    assert!(subject.unpublished_sequences(chat_id).await.is_empty());
}

/// A chat with only expired messages has nothing to publish, and stops being overdue after `unpublished` was called.
pub async fn g11_a_chat_of_expired_messages_stops_being_overdue(subject: StoresWithOutbox) {
    let owner = fresh();
    let chats = [subject.stores.group(owner, &[]).await, subject.stores.group(owner, &[]).await];
    let batch = chats.map(|chat_id| (0..250).map(move |_| expired(new_message(chat_id, owner, "gone"))));
    subject.stores.message_writer.append(batch.into_iter().flatten().collect()).await.expect(WORKS);
    assert_eq!(subject.unpublished(chats[0]).await, []);
    subject.stores.sabotage.purge_expired().await;
    assert_eq!(subject.unpublished(chats[1]).await, []);
    for chat_id in chats {
        subject.confirm_changes(chat_id, &subject.pending_changes(chat_id).await).await;
    }
    assert_eq!(subject.overdue().await, []);
    let next = new_message(chats[0], owner, "next");
    subject.stores.send(next.clone()).await.expect_new();
    assert_eq!(subject.unpublished(chats[0]).await, [event_of(&next, 251)]);
}

/// A purge is pending like any other event: once, with the purged sequences, ascending.
pub async fn g11_a_purge_is_pending_once(subject: StoresWithOutbox) {
    let (chat_id, owner) = subject.stores.chat_of_one().await;
    let message = || new_message(chat_id, owner, "hello");
    subject.stores.message_writer.append(vec![expired(message()), message(), expired(message())]).await.expect(WORKS);
    at_once([subject.clone(), subject.clone()].map(|subject| async move {
        subject.stores.sabotage.purge_expired().await;
    }))
    .await;
    subject.stores.sabotage.purge_expired().await;
    let found: Vec<_> = subject.pending_changes(chat_id).await.into_iter().skip(1).collect();
    let sequences = found.iter().flat_map(|waiting| match &waiting.event.body {
        EventBody::MessagesExpired { chat_id: of, sequences } if *of == chat_id => sequences.clone(),
        other => panic!("expected a purge, got {other:?}"),
    });
    assert_eq!(sequences.collect::<Vec<_>>(), [1, 3].map(Sequence));
    subject.published(chat_id, 3).await;
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.confirm_changes(chat_id, &subject.pending_changes(chat_id).await).await;
    assert_eq!(subject.overdue().await, []);
}

/// Updates are pending with messages, in the order of their sequences and with numbers of their own. Each has its message
/// as the update left it or later.
pub async fn updates_are_pending_like_messages(subject: StoresWithOutbox) {
    let stores = &subject.stores;
    let (chat_id, owner) = stores.chat_of_one().await;
    let sent = new_message(chat_id, owner, "first");
    stores.send(sent.clone()).await.expect_new();
    let updates = [new_update(chat_id, owner, 1, edit("second")), new_update(chat_id, owner, 1, react("👍"))];
    for update in &updates {
        stores.update(update.clone()).await.expect_new();
    }
    stores.send(new_message(chat_id, owner, "next")).await.expect_new();
    let refused = stores.update(new_update(chat_id, owner, 1, react("👍"))).await;
    assert!(matches!(refused, AppendOutcome::Refused(_)), "{refused:?}");
    assert!(matches!(stores.update(updates[0].clone()).await, AppendOutcome::Duplicate(_)));

    let pending = subject.unpublished(chat_id).await;
    assert_eq!(
        pending.iter().map(|event| event.body.sequence()).collect::<Vec<_>>(),
        [1, 2, 3, 4].map(|n| Some(Sequence(n)))
    );
    let numbers: Vec<_> = pending.iter().map(|event| event.event_number).collect();
    assert_eq!(numbers, [2, 3, 4, 5].map(|n| Some(EventNumber(n))), "the creation of the chat is the first event");
    for (event, new) in pending[1..3].iter().zip(&updates) {
        let EventBody::MessageUpdated { update, message: Some(message) } = &event.body else { panic!("{event:?}") };
        let committed = new.at(update.sequence, message);
        assert_eq!((update, event.event_time), (&committed, new.created_at));
        assert_eq!(event.event_id.to_bytes(), new.update_id.to_bytes());
        assert_eq!((message.message_id, message.body.content.as_str()), (sent.message_id, "second"));
        assert!(message.state.revision >= update.sequence, "{message:?}");
    }
    assert_eq!(subject.overdue().await, [chat_id]);
    subject.published(chat_id, 2).await;
    assert_eq!(subject.unpublished_sequences(chat_id).await, [3, 4]);
    subject.published(chat_id, 4).await;
    assert!(subject.unpublished_sequences(chat_id).await.is_empty());
    stores.update(new_update(chat_id, owner, 1, edit("third"))).await.expect_new();
    assert_eq!(subject.unpublished_sequences(chat_id).await, [5]);
}

/// Updates of a message that was deleted before they were published are published without it, and the deletion with
/// them. The message itself is not published.
pub async fn g11_an_update_is_published_without_its_deleted_message(subject: StoresWithOutbox) {
    let stores = &subject.stores;
    let (chat_id, owner) = stores.chat_of_one().await;
    stores.send(new_message(chat_id, owner, "goes")).await.expect_new();
    for action in [edit("gone"), react("👍"), UpdateAction::Delete] {
        stores.update(new_update(chat_id, owner, 1, action)).await.expect_new();
    }
    for _ in 0..2 {
        let pending = subject.unpublished(chat_id).await;
        let kinds = pending.iter().map(|event| match &event.body {
            EventBody::MessageUpdated { update, message: None } => (update.sequence.0, update.kind.as_str()),
            other => panic!("expected an update without its message, got {other:?}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [(2, "edited"), (3, "reacted"), (4, "deleted")]);
        stores.sabotage.purge_expired().await;
    }
}

impl StoresWithOutbox {
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

    async fn pending_changes(&self, chat_id: ChatId) -> Vec<PendingChange> {
        self.outbox.pending_changes(chat_id).await.expect(WORKS)
    }

    async fn confirm_changes(&self, chat_id: ChatId, waiting: &[PendingChange]) {
        let keys: Vec<_> = waiting.iter().map(|waiting| waiting.key.clone()).collect();
        self.outbox.confirm_changes(chat_id, &keys).await.expect(WORKS);
    }

    /// All chats with a pending event.
    async fn overdue(&self) -> Vec<ChatId> {
        self.overdue_since(Timestamp::MAX).await
    }

    async fn overdue_since(&self, before: Timestamp) -> Vec<ChatId> {
        self.stores.sabotage.indexed().await;
        self.outbox.overdue(before).await.expect(WORKS)
    }

    async fn rename(&self, chat_id: ChatId, owner: UserId, name: &str) {
        let rename = ChatCommand::Update(ChatUpdate::name(chat_name(name)));
        self.stores.apply(chat_id, owner, rename).await.expect("owners rename");
    }
}

/// The event of a send that was committed with this sequence, to a chat that has not changed since it was created.
fn event_of(send: &NewMessage, sequence: u64) -> Event {
    Event::message_persisted(send.clone().at(Sequence(sequence), None), send.origin_connection_id)
        .numbered(Some(EventNumber(sequence + 1)))
}

fn sequences(messages: &[Arc<Event>]) -> Vec<u64> {
    let sequence = |event: &Arc<Event>| event.body.sequence().expect("it is the event of an entry").0;
    messages.iter().map(sequence).collect()
}
