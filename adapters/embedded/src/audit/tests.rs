use std::sync::Arc;
use std::time::{Duration, Instant};

use audit::{AtOnce, AuditOptions, AuditPacer, AuditProgress, CHECKED, Checkpoint, Findings};
use contract::SampleData;
use domain::Invariant::{self, *};
use domain::limits::RETENTION;
use domain::{Body, ChatCommand, MessageId, Role, SessionId, Timestamp, Ttl, UpdateAction, UserId, Watermarks};
use ports::{
    AppendOutcome, ChatWriter, Clock, EventLog, Ids, MessageWriter, NewEntry, NewMessage, NewUpdate, RandomIds,
    Receipt, SystemClock,
};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::Config;
use crate::keys::Expiring;
use crate::records::{encode_message, encode_update};
use crate::tx::Tx;

struct World {
    store: EmbeddedStore,
    people: SampleData,
    _directory: TempDir,
}

impl World {
    /// A store with rows in all tables, and a consumer that has read the whole log.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
        let store = store.unwrap();
        let people = SampleData::make(&store, SystemClock.now()).await;
        let mut consumer = store.consumer("fanout").await.unwrap();
        consumer.next().await.unwrap();
        consumer.commit().await.unwrap();
        Self { store, people, _directory: directory }
    }

    async fn audit(&self, pace: &dyn AuditPacer) -> Findings {
        let options = AuditOptions::new(Arc::new(SystemClock));
        self.audit_with(AuditOptions { page_len: 3, overdue_after: Duration::ZERO, ..options }, pace).await
    }

    async fn audit_with(&self, options: AuditOptions, pace: &dyn AuditPacer) -> Findings {
        audit::audit(&self.store, Some(&self.store), &options, pace, None).await.unwrap()
    }
}

fn violated(findings: &Findings) -> Vec<Invariant> {
    findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
}

#[tokio::test]
async fn a_whole_store_has_nothing_wrong_with_it_and_every_rule_was_used() {
    let world = World::new().await;
    let findings = world.audit(&AtOnce).await;
    assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
    let unused: Vec<_> = CHECKED.iter().filter(|invariant| findings.tally(**invariant).checked == 0).collect();
    assert_eq!(unused, [] as [&Invariant; 0]);
    world.store.close().await;
}

/// Damage that a defect or a disk might do to the rows of a store.
type RowBreak = fn(&mut Tx<'_>, &BreakFixtures);

/// Fixtures that a break refers to.
struct BreakFixtures {
    group: ChatId,
    direct: ChatId,
    owner: UserId,
    member: UserId,
    sends: Vec<NewMessage>,
    receipts: Vec<Receipt>,
    session_id: SessionId,
    expires_at: Timestamp,
}

impl BreakFixtures {
    fn of(people: &SampleData) -> Self {
        let expires_at = people.sends[0].created_at + Duration::from_secs(3600);
        let SampleData { group, direct, owner, member, session_id, .. } = *people;
        let (sends, receipts) = (people.sends.clone(), people.receipts.clone());
        Self { group, direct, owner, member, sends, receipts, session_id, expires_at }
    }

    fn location(&self, sequence: u64) -> MessageLocation {
        MessageLocation { chat_id: self.group, sequence: Sequence(sequence) }
    }

    fn send_key(&self, n: usize) -> [u8; 48] {
        let send = &self.sends[n];
        keys::send(send.chat_id, send.sender_id, send.client_message_id)
    }

    /// The second message under another id.
    fn other(&self, sequence: u64) -> Vec<u8> {
        let message = self.sends[1].clone().at(Sequence(sequence), None);
        encode_message(&Message { message_id: MessageId::from_bytes([9; 16]), ..message })
    }

    fn head(&self, sequence: u64) -> Head {
        Head::at(&self.sends[4].clone().at(Sequence(sequence), None), None, 1)
    }
}

macro_rules! found {
    ($($name:ident: $damage:expr => [$($invariant:ident),+];)+) => {$(
        #[tokio::test]
        async fn $name() {
            let damage: RowBreak = $damage;
            let world = World::new().await;
            let seen = BreakFixtures::of(&world.people);
            let spoil = world.store.write(move |tx| {
                damage(tx, &seen);
                Ok(())
            });
            spoil.await.unwrap();
            let findings = world.audit(&AtOnce).await;
            let said: Vec<_> = findings.violations().collect();
            assert_eq!(violated(&findings), [$($invariant),+], "{said:?}");
            world.store.close().await;
        }
    )+};
}

found! {
    a_lost_head_is_found: |tx, seen| tx.delete(Table::Heads, &keys::chat(seen.group)) => [CounterMustExist];
    a_head_that_cannot_be_read_is_found:
        |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), vec![])
        => [StoreIsAuthoritative];
    a_head_below_its_messages_is_found:
        |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), seen.head(4).encode())
        => [SequenceMonotonicity, CounterLowerBound];
    a_head_above_its_messages_is_found:
        |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), seen.head(6).encode())
        => [SequenceContiguous];
    a_lost_message_is_found:
        |tx, seen| tx.delete(Table::Messages, &keys::message(seen.location(2)))
        => [SequenceContiguous, LogReflectsStore];
    the_last_message_lost_is_found:
        |tx, seen| tx.delete(Table::Messages, &keys::message(seen.location(5)))
        => [SequenceContiguous, LogReflectsStore];
    a_message_that_cannot_be_read_is_found:
        |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.location(2)), vec![0xff; 3])
        => [StoreIsAuthoritative];
    a_message_in_the_place_of_another_is_found:
        |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.location(2)), seen.other(2))
        => [StoreIsAuthoritative, SequenceUniqueness, IdempotencySequenceConsistency];
    a_message_at_sequence_0_is_found:
        |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.location(0)), seen.other(0))
        => [StoreIsAuthoritative, IdempotencySequenceConsistency, NoZeroSequence];
    an_id_that_leads_nowhere_is_found:
        |tx, seen| tx.delete(Table::MessagePlaces, &seen.receipts[0].message_id.to_bytes())
        => [StoreIsAuthoritative];
    a_send_that_is_forgotten_is_found:
        |tx, seen| tx.delete(Table::SendKeys, &seen.send_key(0))
        => [IdempotencySequenceConsistency];
    a_send_key_of_another_message_is_found: |tx, seen| {
        let receipt = Receipt { sequence: Sequence(3), ..seen.receipts[0] };
        tx.put(Table::SendKeys, &seen.send_key(0), &SendKey { receipt, fingerprint: [0; 16] });
    } => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_send_key_above_the_head_is_found: |tx, seen| {
        let receipt = Receipt { sequence: Sequence(9), ..seen.receipts[0] };
        tx.put(Table::SendKeys, &seen.send_key(0), &SendKey { receipt, fingerprint: [0; 16] });
    } => [CounterLowerBound, IdempotencySequenceConsistency];
    a_watermark_above_the_head_is_found: |tx, seen| {
        let marks = Watermarks { delivered: Sequence(6), read: Sequence(2) };
        tx.put(Table::Watermarks, &keys::membership(seen.member, seen.group), &DeliveryState::from(marks));
    } => [WatermarkBoundedByHead];
    read_above_delivered_is_found: |tx, seen| {
        let marks = Watermarks { delivered: Sequence(2), read: Sequence(3) };
        tx.put(Table::Watermarks, &keys::membership(seen.member, seen.group), &DeliveryState::from(marks));
    } => [ReadImpliesDelivered];
    lost_watermarks_are_found:
        |tx, seen| tx.delete(Table::Watermarks, &keys::membership(seen.member, seen.group))
        => [DeliveryWatermarkMonotonic];
    a_member_whom_nobody_removed_is_found:
        |tx, seen| tx.delete(Table::Members, &keys::member(seen.group, seen.member))
        => [GroupSizeBounded, OnlyMembersReceive];
    a_chat_that_its_member_does_not_find_is_found:
        |tx, seen| tx.delete(Table::Memberships, &keys::membership(seen.member, seen.group))
        => [NoSilentLoss];
    a_group_without_an_owner_is_found: |tx, seen| {
        let member = Member::new(seen.owner, Role::Admin, seen.sends[0].created_at);
        tx.put(Table::Members, &keys::member(seen.group, seen.owner), &member);
        tx.put(Table::Memberships, &keys::membership(seen.owner, seen.group), &member);
    } => [OwnerAlwaysExists];
    two_rows_of_a_member_that_differ_are_found: |tx, seen| {
        let member = Member::new(seen.member, Role::Admin, seen.sends[0].created_at);
        tx.put(Table::Members, &keys::member(seen.group, seen.member), &member);
    } => [StoreIsAuthoritative];
    more_members_than_a_group_may_have_are_found: |tx, seen| {
        for n in 0..1000u128 {
            let member = Member::new(UserId::from_bytes(n.to_be_bytes()), Role::Member, seen.expires_at);
            tx.put(Table::Members, &keys::member(seen.group, member.user_id), &member);
            tx.put(Table::Memberships, &keys::membership(member.user_id, seen.group), &member);
            let marks = Watermarks::at(Sequence::ZERO);
            tx.put(Table::Watermarks, &keys::membership(member.user_id, seen.group), &DeliveryState::from(marks));
        }
    } => [GroupSizeBounded];
    a_lost_chat_is_found: |tx, seen| tx.delete(Table::Chats, &keys::chat(seen.group)) => [LogReflectsStore];
    a_pair_that_leads_to_a_group_is_found: |tx, seen| {
        let pair = DirectPair::new(seen.owner, seen.member).unwrap();
        tx.put(Table::DirectChats, &keys::direct(pair), &seen.group);
    } => [DirectChatUniqueness];
    a_pair_that_is_forgotten_is_found: |tx, seen| {
        let pair = DirectPair::new(seen.owner, seen.member).unwrap();
        tx.delete(Table::DirectChats, &keys::direct(pair));
    } => [DirectChatUniqueness];
    a_message_that_nobody_will_purge_is_found: |tx, seen| {
        let location = MessageLocation { chat_id: seen.direct, sequence: Sequence(2) };
        tx.delete(Table::Expiries, &keys::expiry(seen.expires_at, Expiring::Message(location)));
    } => [TtlBoundedTables];
    a_session_that_never_ends_is_found:
        |tx, seen| tx.delete(Table::Expiries, &keys::expiry(seen.expires_at, Expiring::Session(seen.session_id)))
        => [TtlBoundedTables];
    a_row_that_is_too_long_is_found:
        |tx, _| tx.put_new(Table::Requests, &[1; 32], vec![1; ROW_BYTES_MAX])
        => [StoreIsAuthoritative, ItemSizeBounded];
    a_user_who_cannot_be_read_is_found:
        |tx, seen| tx.put_new(Table::Users, &keys::user(seen.owner), vec![0xff; 3])
        => [StoreIsAuthoritative];
    a_lost_event_is_found: |tx, _| tx.delete(Table::Log, &keys::offset(5)) => [PublishedEventually];
    the_last_event_lost_is_found: |tx, _| tx.delete(Table::Log, &keys::offset(8)) => [PublishedEventually];
    an_event_that_cannot_be_read_is_found:
        |tx, _| tx.put_new(Table::Log, &keys::offset(5), vec![0xff; 3])
        => [StoreIsAuthoritative, PublishedEventually];
    events_out_of_order_are_found: |tx, _| {
        let [one, other] = [5, 6].map(|n| tx.get_bytes(Table::Log, &keys::offset(n)).unwrap().unwrap());
        tx.put_new(Table::Log, &keys::offset(5), other.to_vec());
        tx.put_new(Table::Log, &keys::offset(6), one.to_vec());
    } => [OrderingPreserved];
    a_consumer_beyond_the_end_is_found:
        |tx, _| tx.put(Table::Consumers, b"webhook", &100u64)
        => [CommitAfterProcess];
}

/// Damage to the rows of updates.
type UpdateBreak = fn(&mut Tx<'_>, &UpdateFixtures);

/// Fixtures that a break of updates refers to.
struct UpdateFixtures {
    group: ChatId,
    member: UserId,
    updates: Vec<NewUpdate>,
}

impl UpdateFixtures {
    fn location(&self, sequence: u64) -> MessageLocation {
        MessageLocation { chat_id: self.group, sequence: Sequence(sequence) }
    }

    /// The key of an update, a message or the reactions to one.
    fn key(&self, sequence: u64) -> [u8; 24] {
        keys::message(self.location(sequence))
    }

    /// The key of a send of the updates, by their sequence.
    fn send_key(&self, sequence: usize) -> [u8; 48] {
        let update = &self.updates[sequence - 6];
        keys::send(update.chat_id, update.user_id, update.client_message_id)
    }

    /// Changes the row of a message.
    fn change(&self, tx: &mut Tx<'_>, sequence: u64, change: impl FnOnce(&mut Message)) {
        let row = tx.get_bytes(Table::Messages, &self.key(sequence)).unwrap().unwrap();
        let mut message = decode_message(self.location(sequence), &row).unwrap();
        change(&mut message);
        tx.put_new(Table::Messages, &self.key(sequence), encode_message(&message));
    }

    /// Changes the row of an update.
    fn change_update(&self, tx: &mut Tx<'_>, sequence: u64, change: impl FnOnce(&mut MessageUpdate)) {
        let row = tx.get_bytes(Table::Updates, &self.key(sequence)).unwrap().unwrap();
        let mut update = decode_update(self.location(sequence), &row).unwrap();
        change(&mut update);
        tx.put_new(Table::Updates, &self.key(sequence), encode_update(&update));
    }
}

macro_rules! found_in_updates {
    ($($name:ident: $damage:expr => [$($invariant:ident),*];)+) => {$(
        #[tokio::test]
        async fn $name() {
            let damage: UpdateBreak = $damage;
            let world = World::new().await;
            let updates = world.people.update(&world.store, SystemClock.now()).await;
            let seen = UpdateFixtures { group: world.people.group, member: world.people.member, updates };
            let spoil = world.store.write(move |tx| {
                damage(tx, &seen);
                Ok(())
            });
            spoil.await.unwrap();
            let findings = world.audit(&AtOnce).await;
            let said: Vec<_> = findings.violations().collect();
            let expected: &[Invariant] = &[$($invariant),*];
            assert_eq!(violated(&findings), expected, "{said:?}");
            world.store.close().await;
        }
    )+};
}

found_in_updates! {
    updates_have_nothing_wrong_with_them: |_, _| {} => [];
    an_update_in_the_place_of_a_message_is_found: |tx, seen| {
        let row = tx.get_bytes(Table::Updates, &seen.key(6)).unwrap().unwrap();
        tx.put_new(Table::Updates, &seen.key(5), row.to_vec());
    } => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_lost_update_is_found:
        |tx, seen| tx.delete(Table::Updates, &seen.key(7))
        => [SequenceContiguous, LogReflectsStore];
    an_update_that_cannot_be_read_is_found:
        |tx, seen| tx.put_new(Table::Updates, &seen.key(7), vec![0xff; 3])
        => [StoreIsAuthoritative];
    an_update_of_an_update_is_found:
        |tx, seen| seen.change_update(tx, 8, |update| update.target = Sequence(6))
        => [StoreIsAuthoritative];
    an_update_of_itself_is_found:
        |tx, seen| seen.change_update(tx, 8, |update| update.target = Sequence(8))
        => [StoreIsAuthoritative];
    // The log does not reach back to the message.
    an_update_without_its_message_is_found: |tx, seen| {
        for offset in 4..=6 {
            tx.delete(Table::Log, &keys::offset(offset));
        }
        tx.delete(Table::Messages, &seen.key(2));
    } => [SequenceContiguous, LogReflectsStore];
    an_update_that_nobody_will_purge_is_found:
        |tx, seen| seen.change_update(tx, 6, |update| update.expires_at = Some(update.created_at + RETENTION))
        => [TtlBoundedTables];
    a_revision_below_an_update_is_found:
        |tx, seen| seen.change(tx, 1, |message| message.state.revision = Sequence(8))
        => [StoreIsAuthoritative];
    a_revision_that_is_an_update_of_another_message_is_found:
        |tx, seen| seen.change(tx, 2, |message| message.state.revision = Sequence(8))
        => [StoreIsAuthoritative];
    a_revision_above_the_head_is_found:
        |tx, seen| seen.change(tx, 1, |message| message.state.revision = Sequence(11))
        => [SequenceMonotonicity];
    an_edit_that_is_not_counted_is_found:
        |tx, seen| seen.change(tx, 1, |message| message.state.edited.as_mut().unwrap().count = 1)
        => [StoreIsAuthoritative];
    a_reaction_that_is_not_counted_is_found:
        |tx, seen| seen.change(tx, 2, |message| message.state.reactions[0].count = 1)
        => [StoreIsAuthoritative];
    reactions_of_a_member_that_are_lost_are_found:
        |tx, seen| tx.delete(Table::Reactions, &keys::reactions(seen.location(2), seen.member))
        => [StoreIsAuthoritative];
    a_deleted_message_that_did_not_expire_is_found:
        |tx, seen| seen.change(tx, 3, |message| message.expires_at = None)
        => [StoreIsAuthoritative];
    the_send_key_of_an_update_that_is_lost_is_found:
        |tx, seen| tx.delete(Table::SendKeys, &seen.send_key(6))
        => [IdempotencySequenceConsistency];
    a_send_key_of_another_update_is_found: |tx, seen| {
        let NewUpdate { update_id, created_at, .. } = seen.updates[0];
        let receipt = Receipt { message_id: update_id, sequence: Sequence(8), created_at };
        tx.put(Table::SendKeys, &seen.send_key(6), &SendKey { receipt, fingerprint: [0; 16] });
    } => [SequenceUniqueness, IdempotencySequenceConsistency];
    a_lost_event_of_an_update_is_found: |tx, _| tx.delete(Table::Log, &keys::offset(11)) => [PublishedEventually];
}

/// The purge of a deleted message leaves the entries of its updates.
#[tokio::test]
async fn an_audit_does_not_report_the_updates_of_purged_messages() {
    let world = World::new().await;
    let hour_ago = SystemClock.now().minus(Duration::from_secs(3601));
    world.people.update(&world.store, hour_ago).await;
    crate::trim::purge_all(world.store.link().clone(), Arc::new(SystemClock)).await;
    let rows = world.store.updates(world.people.group, Sequence(9), 1).await.unwrap();
    assert_eq!((rows[0].sequence, rows[0].message.as_ref()), (Sequence(9), None));
    for page_len in [2, 200] {
        let options =
            AuditOptions { page_len, overdue_after: Duration::ZERO, ..AuditOptions::new(Arc::new(SystemClock)) };
        let findings = world.audit_with(options, &AtOnce).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0], "{page_len}");
    }
    world.store.close().await;
}

#[test]
fn a_bookmark_of_the_log_has_the_position_of_the_audit() {
    for round in [
        LogAuditProgress { came_since: false, next: 3, end: 9 },
        LogAuditProgress { came_since: true, next: 9, end: 12 },
    ] {
        assert_eq!(LogAuditProgress::parse(&round.to_string()), Some(round));
    }
    for text in ["", "first", "third 1 2", "first 1 x"] {
        assert_eq!(LogAuditProgress::parse(text), None, "{text}");
    }
}

#[tokio::test]
async fn an_audit_does_not_report_purged_messages_as_missing() {
    let world = World::new().await;
    let expired = |n: usize| NewMessage {
        ttl: Ttl::from_secs(60),
        created_at: SystemClock.now().minus(Duration::from_secs(61)),
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        ..world.people.sends[n].clone()
    };
    world.store.append((0..5).map(expired).collect()).await.unwrap();
    crate::trim::purge_all(world.store.link().clone(), Arc::new(SystemClock)).await;
    let options = AuditOptions { overdue_after: Duration::ZERO, ..AuditOptions::new(Arc::new(SystemClock)) };
    // The records and the purge event are in one page, or in several.
    for page_len in [2, 200] {
        let findings = world.audit_with(AuditOptions { page_len, ..options.clone() }, &AtOnce).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0], "{page_len}");
    }
    world.store.close().await;
}

#[tokio::test]
async fn an_audit_does_not_report_purged_updates_as_missing() {
    let world = World::new().await;
    let SampleData { group: chat_id, owner: user_id, .. } = world.people;
    let created_at = SystemClock.now().minus(Duration::from_secs(61));
    let message = |ttl| NewMessage {
        ttl,
        created_at,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        ..world.people.sends[0].clone()
    };
    let update = |target, action| NewUpdate {
        chat_id,
        user_id,
        client_message_id: Uuid::new_v4().into(),
        update_id: RandomIds.ulid().into(),
        target: Sequence(target),
        action,
        window: None,
        ttl_max: None,
        created_at,
    };
    let react = || UpdateAction::React("👍".parse().unwrap());
    let edit = || UpdateAction::Edit(Body::new("new".to_owned().try_into().unwrap(), Default::default()));
    // The last message stays, and the entry at the head expires.
    let batch: Vec<NewEntry> = vec![
        message(Ttl::from_secs(60)).into(),
        message(None).into(),
        update(7, react()).into(),
        update(6, edit()).into(),
        update(6, react()).into(),
    ];
    let outcomes = world.store.commit(batch).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))), "{outcomes:?}");
    let options = AuditOptions { overdue_after: Duration::ZERO, ..AuditOptions::new(Arc::new(SystemClock)) };
    for is_purged in [false, true] {
        if is_purged {
            crate::trim::purge_all(world.store.link().clone(), Arc::new(SystemClock)).await;
            let updates = world.store.read(|tables| Ok(tables.view().range::<&[u8]>(Table::Updates, ..).count()));
            assert_eq!(updates.await.unwrap(), 1);
        }
        let findings = world.audit_with(options.clone(), &AtOnce).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0], "{is_purged}");
    }
    world.store.close().await;
}

/// Waits as for a running service.
struct ServicePace;

#[async_trait]
impl AuditPacer for ServicePace {
    async fn read(&self, _: AuditProgress) {}

    async fn moment(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    async fn reached(&self, _: &Checkpoint) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_under_load_raises_no_false_alarm() {
    let world = World::new().await;
    let until = Instant::now() + Duration::from_secs(3);
    let sender = |store: EmbeddedStore, chat_id: ChatId, sender_id: UserId| async move {
        while Instant::now() < until {
            let send = |n| NewMessage {
                chat_id,
                sender_id,
                client_message_id: Uuid::new_v4().into(),
                message_id: RandomIds.ulid().into(),
                body: Body::new("hello".to_owned().try_into().unwrap(), Default::default()),
                // Every second message is purged immediately.
                ttl: Ttl::from_secs(60).filter(|_| n % 2 == 0),
                ttl_max: None,
                created_at: SystemClock.now().minus(Duration::from_secs(if n % 2 == 0 { 61 } else { 0 })),
                origin_connection_id: None,
            };
            store.append((0..20).map(send).collect()).await.unwrap();
        }
    };
    let churn = |store: EmbeddedStore, chat_id: ChatId, owner: UserId| async move {
        while Instant::now() < until {
            let user_id = RandomIds.ulid().into();
            let add = ChatCommand::AddMember { user_id, role: Role::Member };
            store.apply(chat_id, owner, add, SystemClock.now()).await.unwrap().unwrap();
            let remove = ChatCommand::RemoveMember { user_id };
            store.apply(chat_id, owner, remove, SystemClock.now()).await.unwrap().unwrap();
        }
    };
    // Each round reacts to the first message of the chat, edits a message, and deletes another.
    let updater = |store: EmbeddedStore, chat_id: ChatId, user_id: UserId, sample: NewMessage| async move {
        while Instant::now() < until {
            let send = || NewMessage {
                chat_id,
                sender_id: user_id,
                client_message_id: Uuid::new_v4().into(),
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
            let update = |target, action| {
                NewEntry::Update(NewUpdate {
                    chat_id,
                    user_id,
                    client_message_id: Uuid::new_v4().into(),
                    update_id: RandomIds.ulid().into(),
                    target,
                    action,
                    window: None,
                    ttl_max: None,
                    created_at: SystemClock.now(),
                })
            };
            let react = || UpdateAction::React("👍".parse().unwrap());
            let unreact = || UpdateAction::Unreact("👍".parse().unwrap());
            let edit = || UpdateAction::Edit(Body::new("new".to_owned().try_into().unwrap(), Default::default()));
            let updates = vec![
                update(Sequence(1), react()),
                update(stays.sequence, react()),
                update(goes.sequence, react()),
                update(ends.sequence, edit()),
                update(stays.sequence, edit()),
                update(goes.sequence, UpdateAction::Delete),
                update(stays.sequence, unreact()),
                update(Sequence(1), unreact()),
            ];
            let outcomes = store.commit(updates).await.unwrap();
            assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))), "{outcomes:?}");
        }
    };
    let SampleData { group, direct, owner, member, ref sends, .. } = world.people;
    let tasks = [
        tokio::spawn(sender(world.store.clone(), group, owner)),
        tokio::spawn(sender(world.store.clone(), direct, owner)),
        tokio::spawn(updater(world.store.clone(), group, owner, sends[0].clone())),
        tokio::spawn(updater(world.store.clone(), group, member, sends[0].clone())),
        tokio::spawn(churn(world.store.clone(), group, owner)),
    ];
    let mut audits = 0;
    while Instant::now() < until {
        let findings = world.audit_with(AuditOptions::new(Arc::new(SystemClock)), &ServicePace).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
        audits += 1;
    }
    assert!(audits > 0);
    for task in tasks {
        task.await.unwrap();
    }
    world.store.close().await;
}
