use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::SampleData;
use domain::Invariant::{self, *};
use domain::{
    Body, ChatId, ClientMessageId, ContentType, Edited, Message, MessageId, MessageUpdate, Sequence, Timestamp, Ttl,
    UpdateAction, UserId,
};
use memory::{Damage, ManualClock, MemoryLog, MemoryOutbox, MemoryStore, SequentialIds};
use ports::{
    AppendOutcome, AuditSource, Clock, EventProducer, Ids, MessageReader, MessageWriter, NewEntry, NewMessage,
    NewUpdate, Outbox, Position, RandomIds, Receipt, SystemClock,
};
use tidings_audit::{AuditOptions, AuditPacer, AuditProgress, Checkpoint, Violation, audit};

use crate::world::{World, violated};

/// The updates of [`SampleData::update`], by sequence and position in the log.
const REACTION_OF_OWNER: Sequence = Sequence(6);
const REACTION_OF_MEMBER: Sequence = Sequence(7);
const EDIT: Sequence = Sequence(8);
const LAST_EDIT: Sequence = Sequence(10);
const EVENT_OF_EDIT: Position = Position(11);
const LAST_EVENT: Position = Position(13);
/// The events of the first three messages of the group.
const EVENTS_OF_TARGETS: [Position; 3] = [Position(4), Position(5), Position(6)];

/// The stored message at a sequence of the group, changed.
async fn message(world: &World, sequence: u64, change: impl FnOnce(&mut Message)) -> Damage {
    let rows = world.store.messages(world.people.group, Sequence(sequence), 1).await.unwrap();
    let mut message = rows[0].message.row.clone().unwrap();
    change(&mut message);
    Damage::Message(Box::new(message))
}

/// The stored update at a sequence of the group, changed.
async fn update(world: &World, sequence: Sequence, change: impl FnOnce(&mut MessageUpdate)) -> Damage {
    let rows = world.store.updates(world.people.group, sequence, 1).await.unwrap();
    let mut update = rows[0].update.row.clone().unwrap();
    change(&mut update);
    Damage::Update(Box::new(update))
}

/// Asserts that the damage violates exactly these invariants.
async fn finds(broken: &[Invariant], world: &World, damage: Damage) {
    assert_eq!(world.broken_by(damage.clone()).await, broken, "{damage:?}");
}

#[tokio::test]
async fn updates_have_nothing_wrong_with_them() {
    let (world, _) = World::updated().await;
    let findings = world.audit().await;
    assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&Violation; 0]);
}

#[tokio::test]
async fn a_sequence_is_that_of_a_message_or_of_an_update() {
    let (world, _) = World::updated().await;
    let damage = update(&world, REACTION_OF_OWNER, |update| update.sequence = Sequence(5)).await;
    finds(&[SequenceUniqueness, IdempotencySequenceConsistency], &world, damage).await;
}

#[tokio::test]
async fn an_update_changes_an_earlier_message() {
    for target in [EDIT, REACTION_OF_OWNER] {
        let (world, _) = World::updated().await;
        let damage = update(&world, EDIT, |update| update.target = target).await;
        finds(&[StoreIsAuthoritative], &world, damage).await;
    }
}

/// The log does not reach back to the message.
#[tokio::test]
async fn the_message_of_an_update_is_stored_or_was_purged() {
    let (world, _) = World::updated().await;
    EVENTS_OF_TARGETS.into_iter().for_each(|position| world.store.spoil(Damage::NoEvent(position)));
    assert_eq!(violated(&world.audit().await), []);
    finds(&[SequenceContiguous, LogReflectsStore], &world, Damage::NoMessage(world.people.group, Sequence(2))).await;

    let (world, _) = World::updated().await;
    EVENTS_OF_TARGETS.into_iter().for_each(|position| world.store.spoil(Damage::NoEvent(position)));
    world.clock.advance(Duration::from_secs(3601));
    world.store.purge_expired(world.clock.now());
    let left = world.store.updates(world.people.group, Sequence(9), 1).await.unwrap();
    assert_eq!(
        (left[0].sequence, left[0].message.as_ref()),
        (Sequence(9), None),
        "the deletion stays without its message"
    );
    assert_eq!(violated(&world.audit().await), []);
}

#[tokio::test]
async fn an_update_is_at_most_at_the_head() {
    let (world, _) = World::updated().await;
    finds(&[SequenceMonotonicity, CounterLowerBound], &world, Damage::Head(world.people.group, EDIT)).await;
}

#[tokio::test]
async fn a_lost_update_is_missing() {
    let (world, _) = World::updated().await;
    let damage = Damage::NoUpdate(world.people.group, REACTION_OF_MEMBER);
    finds(&[SequenceContiguous, LogReflectsStore], &world, damage).await;
}

#[tokio::test]
async fn a_revision_is_the_last_update_of_its_message() {
    let cases = [
        // The last update of the message is 10.
        (1, EDIT, StoreIsAuthoritative),
        (1, Sequence(11), SequenceMonotonicity),
        // The last update of the message is 7, and 8 is one of another message.
        (2, EDIT, StoreIsAuthoritative),
        // The message has no update, and 3 is a message.
        (4, LAST_EDIT, StoreIsAuthoritative),
        (4, Sequence(3), StoreIsAuthoritative),
    ];
    for (sequence, revision, broken) in cases {
        let (world, _) = World::updated().await;
        let damage = message(&world, sequence, |message| message.state.revision = revision).await;
        finds(&[broken], &world, damage).await;
    }
}

#[tokio::test]
async fn a_message_counts_its_edits() {
    let (world, _) = World::updated().await;
    let at = world.clock.now();
    // There are two edits, in two pages of the audit, and at most nine updates after the message.
    let cases = [(None, true), (Some(1), true), (Some(2), false), (Some(9), false), (Some(10), true)];
    for (count, is_found) in cases {
        let edited = count.map(|count| Edited { at, count });
        let damage = message(&world, 1, |message| message.state.edited = edited).await;
        let expected = if is_found { &[StoreIsAuthoritative][..] } else { &[] };
        finds(expected, &world, damage).await;
    }
}

#[tokio::test]
async fn only_the_author_of_a_message_has_edited_it() {
    let (world, _) = World::updated().await;
    let member = world.people.member;
    let damage = message(&world, 1, |message| message.sender_id = member).await;
    let broken = world.broken_by(damage).await;
    assert!(broken.contains(&StoreIsAuthoritative), "{broken:?}");
}

#[tokio::test]
async fn counts_of_reactions_equal_the_rows_of_members() {
    let (world, _) = World::updated().await;
    let damage = message(&world, 2, |message| message.state.reactions[0].count = 1).await;
    finds(&[StoreIsAuthoritative], &world, damage).await;
    for rows in [vec![], vec!["ok"], vec!["+1", "ok"]] {
        let (world, _) = World::updated().await;
        let rows = rows.into_iter().map(|reaction| reaction.parse().unwrap()).collect();
        let damage = Damage::Reactions(world.people.group, Sequence(2), world.people.member, rows);
        finds(&[StoreIsAuthoritative], &world, damage).await;
    }
}

#[tokio::test]
async fn a_deleted_message_has_expired() {
    let (world, _) = World::updated().await;
    let damage = message(&world, 3, |message| message.expires_at = None).await;
    finds(&[StoreIsAuthoritative], &world, damage).await;
}

#[tokio::test]
async fn the_send_key_of_an_update_names_it() {
    let (world, updates) = World::updated().await;
    let NewUpdate { chat_id, user_id, client_message_id, .. } = updates[0];
    finds(&[IdempotencySequenceConsistency], &world, Damage::NoSendKey(chat_id, user_id, client_message_id)).await;

    let (world, updates) = World::updated().await;
    let NewUpdate { chat_id, user_id, client_message_id, update_id, created_at, .. } = updates[0];
    let receipt = Receipt { message_id: update_id, sequence: EDIT, created_at };
    let damage = Damage::SendKey(chat_id, user_id, client_message_id, receipt);
    finds(&[SequenceUniqueness, IdempotencySequenceConsistency], &world, damage).await;
}

#[tokio::test]
async fn the_log_has_every_update() {
    for position in [EVENT_OF_EDIT, LAST_EVENT] {
        finds(&[PublishedEventually], &World::updated().await.0, Damage::NoEvent(position)).await;
    }
}

fn fresh_client_message_id() -> ClientMessageId {
    ClientMessageId::from_bytes(RandomIds.ulid().to_bytes())
}

fn new_update(chat_id: ChatId, user_id: UserId, target: Sequence, action: UpdateAction) -> NewUpdate {
    NewUpdate {
        chat_id,
        user_id,
        client_message_id: fresh_client_message_id(),
        update_id: RandomIds.ulid().into(),
        target,
        action,
        window: None,
        ttl_max: None,
        created_at: SystemClock.now(),
    }
}

fn react(reaction: &str) -> UpdateAction {
    UpdateAction::React(reaction.parse().unwrap())
}

/// The message stays, and the entry that is its revision does not. No row but the head has the sequence of the last one.
#[tokio::test]
async fn expired_updates_are_not_reported_as_missing() {
    let (world, _) = World::updated().await;
    let SampleData { group, owner, ref sends, .. } = world.people;
    let created_at = world.clock.now();
    let expiring = NewMessage {
        ttl: Ttl::from_secs(60),
        client_message_id: fresh_client_message_id(),
        message_id: MessageId::from_bytes([200; 16]),
        ..sends[0].clone()
    };
    let of_lasting =
        NewUpdate { ttl_max: Ttl::from_secs(60), created_at, ..new_update(group, owner, Sequence(2), react("ok")) };
    let of_expiring = NewUpdate { created_at, ..new_update(group, owner, Sequence(11), react("ok")) };
    let batch = vec![expiring.into(), of_lasting.into(), of_expiring.into()];
    let outcomes = world.store.commit(batch).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))), "{outcomes:?}");
    world.clock.advance(Duration::from_secs(61));
    world.store.purge_expired(world.clock.now());
    assert_eq!(world.store.head(group).await.unwrap().unwrap().sequence, Sequence(13));
    assert_eq!(world.store.updates(group, Sequence(11), 9).await.unwrap(), []);
    assert_eq!(violated(&world.audit().await), []);
}

/// Purges and publishes while an audit reads: the event comes after the page in which the audit looks for it.
struct LatePurge<'a> {
    store: &'a MemoryStore,
    log: &'a MemoryLog,
    outbox: MemoryOutbox,
    clock: &'a ManualClock,
    group: ChatId,
}

#[async_trait::async_trait]
impl AuditPacer for LatePurge<'_> {
    async fn read(&self, progress: AuditProgress) {
        if progress.stage == "log" {
            self.store.purge_expired(self.clock.now());
            publish(self.log, &self.outbox, self.group).await;
        }
    }

    async fn moment(&self) {}

    async fn reached(&self, _: &Checkpoint) {}
}

/// Publishes the pending events of a chat.
async fn publish(log: &MemoryLog, outbox: &MemoryOutbox, chat_id: ChatId) {
    let messages = outbox.unpublished(chat_id).await.unwrap();
    log.publish(&messages).await.unwrap();
    if let Some(sequence) = messages.last().and_then(|event| event.body.sequence()) {
        outbox.published(chat_id, sequence).await.unwrap();
    }
    let changes = outbox.pending_changes(chat_id).await.unwrap();
    log.publish(&changes.iter().map(|change| change.event.clone()).collect::<Vec<_>>()).await.unwrap();
    let keys: Vec<_> = changes.into_iter().map(|change| change.key).collect();
    outbox.confirm_changes(chat_id, &keys).await.unwrap();
}

#[tokio::test]
async fn a_purge_that_is_published_behind_the_audit_is_not_reported() {
    let store = MemoryStore::beside_a_log(Arc::new(SequentialIds::default()));
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let people = SampleData::make(&store, clock.now()).await;
    people.update(&store, clock.now()).await;
    let log = MemoryLog::new(clock.clone());
    let outbox = || MemoryOutbox::new(store.clone(), clock.clone());
    publish(&log, &outbox(), people.group).await;
    publish(&log, &outbox(), people.direct).await;
    clock.advance(Duration::from_secs(3601));
    let pace = LatePurge { store: &store, log: &log, outbox: outbox(), clock: &clock, group: people.group };
    let findings = audit(&store, Some(&log), &AuditOptions::new(clock.clone()), &pace, None).await.unwrap();
    assert_eq!(violated(&findings), []);
    let left = store.messages(people.group, Sequence(3), 1).await.unwrap();
    assert_eq!(left[0].sequence, Sequence(4), "the message was purged meanwhile");
}

/// Waits as for a running service.
struct ServicePace;

#[async_trait::async_trait]
impl AuditPacer for ServicePace {
    async fn read(&self, _: AuditProgress) {}

    async fn moment(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    async fn reached(&self, _: &Checkpoint) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_under_load_raises_no_false_alarm() {
    let store = MemoryStore::new(Arc::new(SequentialIds::default()));
    let people = SampleData::make(&store, SystemClock.now()).await;
    let until = Instant::now() + Duration::from_secs(2);
    let writer = |store: MemoryStore, chat_id: ChatId, user_id: UserId, sample: NewMessage| async move {
        while Instant::now() < until {
            let send = || NewMessage {
                chat_id,
                sender_id: user_id,
                client_message_id: fresh_client_message_id(),
                message_id: RandomIds.ulid().into(),
                created_at: SystemClock.now(),
                ..sample.clone()
            };
            // It expires in a second.
            let created_at = SystemClock.now().minus(Duration::from_secs(59));
            let expiring = NewMessage { ttl: Ttl::from_secs(60), created_at, ..send() };
            let sent = store.append(vec![send(), send(), expiring]).await.unwrap();
            let [AppendOutcome::New(stays), AppendOutcome::New(goes), AppendOutcome::New(ends)] = sent[..] else {
                panic!("{sent:?}")
            };
            let edit = || UpdateAction::Edit(Body::new("new".to_owned().try_into().unwrap(), ContentType::Text));
            let update = |of: Receipt, action| NewEntry::from(new_update(chat_id, user_id, of.sequence, action));
            // The first message is busy.
            let busy = Receipt { sequence: Sequence(1), ..stays };
            let unreact = || UpdateAction::Unreact("a".parse().unwrap());
            let batch = vec![
                update(stays, react("a")),
                update(busy, react("a")),
                update(goes, react("a")),
                update(ends, edit()),
                update(stays, edit()),
                update(goes, UpdateAction::Delete),
                update(stays, unreact()),
                update(busy, unreact()),
            ];
            store.commit(batch).await.unwrap();
            store.purge_expired(SystemClock.now());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let SampleData { group, direct, owner, member, ref sends, .. } = people;
    let tasks = [(group, owner), (group, member), (direct, owner)]
        .map(|(chat_id, user_id)| tokio::spawn(writer(store.clone(), chat_id, user_id, sends[0].clone())));
    let mut audits = 0;
    while Instant::now() < until {
        let options = AuditOptions { page_len: 50, ..AuditOptions::new(Arc::new(SystemClock)) };
        let findings = audit(&store, Some(&store), &options, &ServicePace, None).await.unwrap();
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&Violation; 0]);
        audits += 1;
    }
    assert!(audits > 0);
    for task in tasks {
        task.await.unwrap();
    }
}
