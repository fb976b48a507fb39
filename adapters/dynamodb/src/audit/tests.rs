use std::sync::Arc;
use std::time::{Duration, Instant};

use audit::{AtOnce, AuditOptions, AuditPacer, AuditProgress, CHECKED, Checkpoint, Findings};
use aws_sdk_dynamodb::types::AttributeValue;
use contract::SampleData;
use domain::Invariant::{self, *};
use domain::{ChatCommand, Role, UpdateAction, Watermarks};
use memory::MemoryLog;
use ports::{
    AppendOutcome, ChatWriter, Clock, EventLog, EventProducer, Ids, MessageWriter, NewEntry, NewUpdate, Outbox,
    RandomIds, SystemClock,
};

use super::*;
use crate::item::{EXPIRES_AT, item, text};
use crate::testing::{DynamoServer, message, update};
use crate::updates::{REVISION, reactions_key};
use crate::watermarks::delivery_state_item;

/// A store with rows in every table, and with its events in a log.
struct World {
    server: DynamoServer,
    store: DynamoStore,
    log: MemoryLog,
    people: SampleData,
}

impl World {
    async fn new() -> Self {
        let server = DynamoServer::with_tables().await;
        let (store, log) = (server.store(), MemoryLog::new(Arc::new(SystemClock)));
        let people = SampleData::make(&store, SystemClock.now()).await;
        let world = Self { server, store, log, people };
        world.publish().await;
        let mut consumer = world.log.consumer("fanout").await.unwrap();
        consumer.next().await.unwrap();
        consumer.commit().await.unwrap();
        world
    }

    /// Publishes all pending events to the log.
    async fn publish(&self) {
        for chat_id in self.store.overdue(Timestamp::MAX).await.unwrap() {
            let messages = self.store.unpublished(chat_id).await.unwrap();
            self.log.publish(&messages).await.unwrap();
            if let Some(sequence) = messages.last().and_then(|event| event.body.sequence()) {
                self.store.published(chat_id, sequence).await.unwrap();
            }
            let waiting = self.store.pending_changes(chat_id).await.unwrap();
            let events: Vec<_> = waiting.iter().map(|waiting| waiting.event.clone()).collect();
            self.log.publish(&events).await.unwrap();
            let keys: Vec<_> = waiting.into_iter().map(|waiting| waiting.key).collect();
            self.store.confirm_changes(chat_id, &keys).await.unwrap();
        }
    }

    async fn audit(&self, pace: &dyn AuditPacer, overdue_after: Duration) -> Findings {
        let options = AuditOptions { page_len: 3, overdue_after, ..AuditOptions::new(Arc::new(SystemClock)) };
        audit::audit(&self.store, Some(&self.log), &options, pace, None).await.unwrap()
    }

    async fn lose(&self, key: ItemKey) {
        let name = self.server.name(key.table);
        let delete = self.server.client.delete_item().table_name(name).set_key(Some(key.attributes()));
        delete.send().await.unwrap();
    }

    /// Changes or removes one attribute of an item.
    async fn set(&self, key: ItemKey, name: &str, value: Option<AttributeValue>) {
        let mut item = self.store.db().get(&key).await.unwrap().unwrap();
        item.remove(name);
        item.extend(value.map(|value| (name.to_owned(), value)));
        self.server.put(key, item).await;
    }

    fn counter(&self) -> ItemKey {
        ItemKey::one(Table::ChatCounters, self.people.group)
    }

    fn message(&self, sequence: u64) -> ItemKey {
        message_key(self.people.group, Sequence(sequence))
    }

    fn update(&self, sequence: u64) -> ItemKey {
        update_key(self.people.group, Sequence(sequence))
    }

    fn send(&self, n: usize) -> ItemKey {
        let send = &self.people.sends[n];
        key_of_send(send.chat_id, send.sender_id, send.client_message_id)
    }

    fn location(&self, n: usize) -> ItemKey {
        location_key(self.people.sends[n].message_id)
    }

    fn state(&self) -> ItemKey {
        ItemKey::of(Table::DeliveryState, self.people.member, self.people.group)
    }

    fn place(&self, user_id: UserId) -> ItemKey {
        ItemKey::of(Table::ChatMemberships, self.people.group, user_id)
    }

    fn pair(&self) -> ItemKey {
        pair_key(DirectPair::new(self.people.owner, self.people.member).unwrap())
    }

    fn session(&self) -> ItemKey {
        ItemKey::one(Table::Sessions, self.people.session_id)
    }
}

fn violated(findings: &Findings) -> Vec<Invariant> {
    findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
}

#[tokio::test]
async fn a_whole_store_has_nothing_wrong_with_it_and_every_rule_was_used() {
    let world = World::new().await;
    let findings = world.audit(&AtOnce, Duration::ZERO).await;
    assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
    let unused: Vec<_> = CHECKED.iter().filter(|invariant| findings.tally(**invariant).checked == 0).collect();
    assert_eq!(unused, [] as [&Invariant; 0]);
}

#[tokio::test]
async fn a_deleted_message_counts_as_missing_only_after_its_announcement() {
    let world = World::new().await;
    let SampleData { group, owner, .. } = world.people;
    let long_gone = SystemClock.now().minus(Duration::from_secs(120));
    let expired = ports::NewMessage { ttl: domain::Ttl::from_secs(60), created_at: long_gone, ..message(group, owner) };
    world.store.append(vec![expired, message(group, owner)]).await.unwrap();
    world.server.database.sweep_ttl().unwrap();
    world.publish().await;
    assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "it waits to be purged");
    assert_eq!(world.store.purge_expired(SystemClock.now()).await.unwrap(), 1);
    assert_eq!(violated(&world.audit(&AtOnce, Duration::from_secs(600)).await), [], "it waits to be told");
    world.publish().await;
    assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "it was told");
}

#[tokio::test]
async fn sequences_that_a_restore_has_passed_over_are_not_missing() {
    for (range, expected) in [(Some("6-8"), vec![]), (None, vec![SequenceContiguous])] {
        let world = World::new().await;
        for name in ["sequence_counter", "published_sequence"] {
            world.set(world.counter(), name, Some(number(8))).await;
        }
        world.set(world.counter(), "passed_over", range.map(text)).await;
        let SampleData { group, owner, .. } = world.people;
        // Another process, which has not cached the counter.
        world.server.store().append(vec![message(group, owner)]).await.unwrap();
        world.publish().await;
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), expected, "{range:?}");
    }
}

macro_rules! found {
    ($($name:ident: |$world:ident| $damage:expr => [$($invariant:ident),+];)+) => {$(
        #[tokio::test]
        async fn $name() {
            let $world = World::new().await;
            $damage;
            let findings = $world.audit(&AtOnce, Duration::ZERO).await;
            let said: Vec<_> = findings.violations().collect();
            assert_eq!(violated(&findings), [$($invariant),+], "{said:?}");
        }
    )+};
}

found! {
    a_lost_counter_is_found: |world| world.lose(world.counter()).await => [CounterMustExist];
    a_counter_that_cannot_be_read_is_found:
        |world| world.set(world.counter(), "sequence_counter", Some(text("five"))).await
        => [StoreIsAuthoritative];
    a_counter_below_its_messages_is_found:
        |world| world.set(world.counter(), "sequence_counter", Some(number(4))).await
        => [SequenceMonotonicity, CounterLowerBound];
    a_counter_above_its_messages_is_found:
        |world| world.set(world.counter(), "sequence_counter", Some(number(6))).await
        => [SequenceContiguous];
    a_lost_message_is_found: |world| world.lose(world.message(2)).await
        => [SequenceContiguous, LogReflectsStore];
    a_message_that_cannot_be_read_is_found:
        |world| world.set(world.message(2), "content", Some(number(7))).await => [StoreIsAuthoritative];
    a_message_in_the_place_of_another_is_found:
        |world| world.set(world.message(2), "message_id", Some(text(MESSAGE))).await
        => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_message_at_sequence_0_is_found:
        |world| {
            let item = world.store.db().get(&world.message(2)).await.unwrap().unwrap();
            let item = item.into_iter().filter(|(name, _)| name != "sequence").collect();
            world.server.put(world.message(0), item).await
        }
        => [StoreIsAuthoritative, IdempotencySequenceConsistency, NoZeroSequence];
    a_forgotten_send_is_found: |world| world.lose(world.send(0)).await => [IdempotencySequenceConsistency];
    a_location_of_another_message_is_found:
        |world| world.set(world.location(0), "sequence", Some(number(3))).await => [StoreIsAuthoritative];
    a_location_that_cannot_be_read_is_found:
        |world| world.set(world.location(0), "sequence", Some(text("one"))).await => [StoreIsAuthoritative];
    a_send_key_of_another_message_is_found:
        |world| world.set(world.send(0), "sequence", Some(number(3))).await
        => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_send_key_above_the_counter_is_found:
        |world| world.set(world.send(0), "sequence", Some(number(9))).await
        => [CounterLowerBound, IdempotencySequenceConsistency];
    a_send_key_that_stays_for_ever_is_found:
        |world| world.set(world.send(0), TTL, None).await => [TtlBoundedTables];
    a_watermark_above_the_counter_is_found:
        |world| {
            let marks = Watermarks { delivered: Sequence(6), read: Sequence(2) };
            world.server.put(world.state(), delivery_state_item(marks, Timestamp::default())).await
        }
        => [WatermarkBoundedByHead];
    read_above_delivered_is_found:
        |world| {
            let marks = Watermarks { delivered: Sequence(2), read: Sequence(3) };
            world.server.put(world.state(), delivery_state_item(marks, Timestamp::default())).await
        }
        => [ReadImpliesDelivered];
    a_chat_that_its_member_does_not_find_is_found: |world| world.lose(world.state()).await
        => [DeliveryWatermarkMonotonic, NoSilentLoss];
    a_member_whom_nobody_removed_is_found: |world| world.lose(world.place(world.people.member)).await
        => [GroupSizeBounded, OnlyMembersReceive];
    a_group_without_an_owner_is_found:
        |world| world.set(world.place(world.people.owner), "role", Some(text("admin"))).await
        => [OwnerAlwaysExists];
    a_count_that_is_not_that_of_the_rows_is_found:
        |world| world.set(ItemKey::one(Table::Chats, world.people.group), "member_count", Some(number(7))).await
        => [GroupSizeBounded];
    a_pair_that_leads_to_a_group_is_found:
        |world| world.set(world.pair(), "chat_id", Some(text(world.people.group))).await
        => [DirectChatUniqueness];
    a_forgotten_pair_is_found: |world| world.lose(world.pair()).await => [DirectChatUniqueness];
    a_session_that_never_ends_is_found: |world| world.set(world.session(), TTL, None).await => [TtlBoundedTables];
    a_session_that_cannot_be_read_is_found:
        |world| world.set(world.session(), "user_id", Some(number(1))).await => [StoreIsAuthoritative];
    a_message_that_nobody_will_purge_is_found:
        |world| world.set(message_key(world.people.direct, Sequence(2)), TTL, None).await => [TtlBoundedTables];
    an_item_near_the_bound_is_no_more_than_the_bound:
        |world| {
            let key = ItemKey::of(Table::Contacts, world.people.owner, world.people.member);
            let padding = ITEM_BYTES_MAX - 1024;
            world.server.put(key.clone(), item([("padding", Some(text("x".repeat(padding))))])).await;
            let found = world.store.db().get(&key).await.unwrap().unwrap();
            assert!((padding..ITEM_BYTES_MAX).contains(&item_bytes(&found)));
            world.lose(world.send(0)).await
        }
        => [IdempotencySequenceConsistency];
    an_item_above_the_bound_is_found:
        |world| {
            let key = ItemKey::of(Table::Contacts, world.people.owner, world.people.member);
            world.server.put(key, item([("padding", Some(text("x".repeat(ITEM_BYTES_MAX))))])).await
        }
        => [ItemSizeBounded];
    what_waits_for_the_log_for_too_long_is_found:
        |world| {
            let SampleData { group, owner, .. } = world.people;
            let old = SystemClock.now().minus(Duration::from_secs(60));
            let late = ports::NewMessage { created_at: old, ..message(group, owner) };
            world.store.append(vec![late]).await.unwrap()
        }
        => [PublishedEventually];
    what_is_published_without_its_event_is_found:
        |world| {
            let SampleData { group, owner, .. } = world.people;
            world.store.append(vec![message(group, owner)]).await.unwrap();
            world.store.published(group, Sequence(6)).await.unwrap()
        }
        => [PublishedEventually];
    events_out_of_order_are_found:
        |world| {
            let SampleData { group, owner, .. } = world.people;
            world.store.append(vec![message(group, owner), message(group, owner)]).await.unwrap();
            let mut events = world.store.unpublished(group).await.unwrap();
            events.reverse();
            world.log.publish(&events).await.unwrap();
            world.store.published(group, Sequence(7)).await.unwrap()
        }
        => [OrderingPreserved];
}

macro_rules! found_in_updates {
    ($($name:ident: |$world:ident, $updates:pat_param| $damage:expr => [$($invariant:ident),*];)+) => {$(
        #[tokio::test]
        async fn $name() {
            let $world = World::new().await;
            let $updates = $world.people.update(&$world.store, SystemClock.now()).await;
            $world.publish().await;
            $damage;
            let findings = $world.audit(&AtOnce, Duration::ZERO).await;
            let said: Vec<_> = findings.violations().collect();
            let expected: &[Invariant] = &[$($invariant),*];
            assert_eq!(violated(&findings), expected, "{said:?}");
        }
    )+};
}

found_in_updates! {
    updates_have_nothing_wrong_with_them: |world, _| {} => [];
    an_update_in_the_place_of_a_message_is_found:
        |world, _| {
            let item = world.store.db().get(&world.update(6)).await.unwrap().unwrap();
            let item = item.into_iter().filter(|(name, _)| name != "sequence").collect();
            world.server.put(world.update(5), item).await
        }
        => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_lost_update_is_found: |world, _| world.lose(world.update(7)).await => [SequenceContiguous, LogReflectsStore];
    an_update_that_cannot_be_read_is_found:
        |world, _| world.set(world.update(7), "kind", Some(text("strange"))).await => [StoreIsAuthoritative];
    an_update_of_an_update_is_found:
        |world, _| world.set(world.update(8), "target_sequence", Some(number(6))).await => [StoreIsAuthoritative];
    an_update_of_itself_is_found:
        |world, _| world.set(world.update(8), "target_sequence", Some(number(8))).await => [StoreIsAuthoritative];
    a_revision_below_an_update_is_found:
        |world, _| world.set(world.message(1), REVISION, Some(number(8))).await => [StoreIsAuthoritative];
    a_revision_that_is_an_update_of_another_message_is_found:
        |world, _| world.set(world.message(2), REVISION, Some(number(8))).await => [StoreIsAuthoritative];
    a_revision_above_the_counter_is_found:
        |world, _| world.set(world.message(1), REVISION, Some(number(11))).await => [SequenceMonotonicity];
    an_edit_that_is_not_counted_is_found:
        |world, _| world.set(world.message(1), "edit_count", Some(number(1))).await => [StoreIsAuthoritative];
    reactions_that_are_not_counted_are_found:
        |world, _| world.set(world.message(2), "reactions", None).await => [StoreIsAuthoritative];
    reactions_of_a_member_that_are_lost_are_found:
        |world, _| world.lose(reactions_key(world.people.receipts[1].message_id, world.people.member)).await
        => [StoreIsAuthoritative];
    a_deleted_message_that_did_not_expire_is_found:
        |world, _| {
            world.set(world.message(3), EXPIRES_AT, None).await;
            world.set(world.message(3), TTL, None).await
        }
        => [StoreIsAuthoritative];
    the_send_key_of_an_update_that_is_lost_is_found:
        |world, updates| world.lose(key_of_update(&updates[0])).await => [IdempotencySequenceConsistency];
    a_send_key_of_another_update_is_found:
        |world, updates| world.set(key_of_update(&updates[0]), "sequence", Some(number(8))).await
        => [SequenceUniqueness, IdempotencySequenceConsistency];
}

fn key_of_update(update: &NewUpdate) -> ItemKey {
    key_of_send(update.chat_id, update.user_id, update.client_message_id)
}

/// The log does not reach back to the message.
#[tokio::test]
async fn the_message_of_an_update_is_stored_or_was_purged() {
    for is_purged in [true, false] {
        let mut world = World::new().await;
        let is_target = |event: &domain::Event| match &event.body {
            EventBody::MessagePersisted { message, .. } => {
                message.chat_id == world.people.group && message.sequence.0 <= 3
            }
            _ => false,
        };
        let events = world.log.records().into_iter().map(|record| record.event).filter(|event| !is_target(event));
        let log = MemoryLog::new(Arc::new(SystemClock));
        log.publish(&events.collect::<Vec<_>>()).await.unwrap();
        world.log = log;
        let hour_ago = SystemClock.now().minus(Duration::from_secs(3601));
        world.people.update(&world.store, hour_ago).await;
        world.publish().await;
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "the message has expired");
        let expected: &[Invariant] = if is_purged {
            assert_eq!(world.store.purge_expired(SystemClock.now()).await.unwrap(), 1);
            let findings = world.audit(&AtOnce, Duration::from_secs(600)).await;
            assert_eq!(violated(&findings), [], "the event of the purge is pending");
            world.publish().await;
            &[]
        } else {
            world.lose(world.message(2)).await;
            &[SequenceContiguous, LogReflectsStore]
        };
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), expected, "{is_purged}");
    }
}

#[tokio::test]
async fn expired_updates_are_not_reported_as_missing() {
    let world = World::new().await;
    let SampleData { group, owner, .. } = world.people;
    let long_gone = SystemClock.now().minus(Duration::from_secs(120));
    let expiring =
        ports::NewMessage { ttl: domain::Ttl::from_secs(60), created_at: long_gone, ..message(group, owner) };
    let react = |target| {
        let reaction = UpdateAction::React("+1".parse().unwrap());
        NewUpdate {
            created_at: long_gone,
            ttl_max: domain::Ttl::from_secs(60),
            ..update(group, owner, target, reaction)
        }
    };
    // The message of the last update stays.
    let batch = vec![expiring.into(), react(6).into(), react(1).into()];
    let outcomes = world.store.commit(batch).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))), "{outcomes:?}");
    // They were published before they expired.
    let rows = world.store.updates(group, Sequence(7), 2).await.unwrap();
    let updates = rows.into_iter().map(|rows| Arc::new(domain::Event::message_updated(rows.update.row.unwrap(), None)));
    world.log.publish(&updates.collect::<Vec<_>>()).await.unwrap();
    world.store.append(vec![message(group, owner)]).await.unwrap();
    world.publish().await;
    for is_swept in [false, true] {
        if is_swept {
            world.server.database.sweep_ttl().unwrap();
            assert_eq!(world.store.updates(group, Sequence::ZERO, 9).await.unwrap(), []);
        }
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "{is_swept}");
    }
}

/// A message id that the tests do not use.
const MESSAGE: &str = "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV";

#[tokio::test]
async fn a_repeated_event_after_later_ones_is_harmless() {
    let world = World::new().await;
    let events: Vec<_> = world.log.records().into_iter().map(|record| record.event).collect();
    world.log.publish(&events).await.unwrap();
    assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), []);
}

/// Waits between reads, as an audit of a running service does.
struct PatientPace;

#[async_trait]
impl AuditPacer for PatientPace {
    async fn read(&self, _: AuditProgress) {}

    async fn moment(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    async fn reached(&self, _: &Checkpoint) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_under_load_raises_no_false_alarm() {
    let world = World::new().await;
    let until = Instant::now() + Duration::from_secs(4);
    let SampleData { group, owner, .. } = world.people;
    let (sending, churning) = (world.server.store(), world.server.store());
    let sender = tokio::spawn(async move {
        while Instant::now() < until {
            // The members change without a pause, so a commit may use up its attempts; a client then retries.
            let sends: Vec<_> = (0..5).map(|_| message(group, owner)).collect();
            while sending.append(sends.clone()).await.is_err() && Instant::now() < until {}
        }
    });
    // Each round reacts to the first message, edits a message, and deletes another.
    let updating = world.server.store();
    let updater = tokio::spawn(async move {
        let thumb = || "+1".parse().unwrap();
        let edit = || UpdateAction::Edit(message(group, owner).body);
        while Instant::now() < until {
            let sends: Vec<NewEntry> = (0..2).map(|_| message(group, owner).into()).collect();
            let [stays, goes] = commit(&updating, sends, until).await[..] else { return };
            let updates = [
                update(group, owner, 1, UpdateAction::React(thumb())),
                update(group, owner, goes, UpdateAction::React(thumb())),
                update(group, owner, stays, edit()),
                update(group, owner, goes, UpdateAction::Delete),
                update(group, owner, stays, edit()),
                update(group, owner, 1, UpdateAction::Unreact(thumb())),
            ];
            commit(&updating, updates.map(NewEntry::Update).to_vec(), until).await;
        }
    });
    let churn = tokio::spawn(async move {
        while Instant::now() < until {
            let user_id = RandomIds.ulid().into();
            let add = ChatCommand::AddMember { user_id, role: Role::Member };
            churning.apply(group, owner, add, SystemClock.now()).await.unwrap().unwrap();
            let remove = ChatCommand::RemoveMember { user_id };
            churning.apply(group, owner, remove, SystemClock.now()).await.unwrap().unwrap();
        }
    });
    let mut audits = 0;
    while Instant::now() < until {
        world.store.purge_expired(SystemClock.now()).await.unwrap();
        world.publish().await;
        let findings = world.audit(&PatientPace, Duration::from_secs(600)).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
        audits += 1;
    }
    assert!(audits > 0);
    for task in [sender, updater, churn] {
        task.await.unwrap();
    }
}

/// Commits entries beside other writers, with retries after lost races until some time. Returns their sequences, or
/// nothing if that time has come.
async fn commit(store: &DynamoStore, entries: Vec<NewEntry>, until: Instant) -> Vec<u64> {
    while Instant::now() < until {
        let Ok(outcomes) = store.commit(entries.clone()).await else { continue };
        let sequence = |outcome| match outcome {
            AppendOutcome::New(receipt) | AppendOutcome::Duplicate(receipt) => receipt.sequence.0,
            AppendOutcome::Refused(refusal) => panic!("{refusal:?}"),
        };
        return outcomes.into_iter().map(sequence).collect();
    }
    vec![]
}
