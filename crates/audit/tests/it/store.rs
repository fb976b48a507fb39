use std::time::Duration;

use domain::Invariant::{self, *};
use domain::{ChatId, DirectPair, Message, MessageId, Role, Sequence, UserId, Watermarks};
use memory::Damage;
use ports::{ChatReader, MessageReader, Position, Receipt};
use tidings_audit::{CHECKED, Checkpoint};

use crate::world::{PaceRecorder, World, violated};

#[tokio::test]
async fn a_whole_store_has_nothing_wrong_with_it_and_every_rule_was_used() {
    let world = World::new().await;
    let findings = world.audit().await;
    assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&tidings_audit::Violation; 0]);
    let unused: Vec<_> = CHECKED.iter().filter(|invariant| findings.tally(**invariant).checked == 0).collect();
    assert_eq!(unused, [] as [&Invariant; 0]);
}

#[tokio::test]
async fn expired_messages_are_not_reported_as_missing() {
    let world = World::new().await;
    world.clock.advance(Duration::from_secs(3601));
    world.store.purge_expired(ports::Clock::now(&*world.clock));
    assert_eq!(violated(&world.audit().await), []);
}

#[tokio::test]
async fn every_damage_is_found_by_name() {
    let marks = |delivered, read| Watermarks { delivered: Sequence(delivered), read: Sequence(read) };
    let world = World::new().await;
    let message = |world: &World, sequence: u64| Message {
        message_id: MessageId::from_bytes([9; 16]),
        sequence: Sequence(sequence),
        ..world.people.sends[1].clone().at(Sequence(2), None)
    };
    let receipt =
        |world: &World, of: usize, sequence: u64| Receipt { sequence: Sequence(sequence), ..world.people.receipts[of] };
    type DamageFn = Box<dyn Fn(&World) -> Damage>;
    let cases: Vec<(&str, DamageFn, &[Invariant])> = vec![
        (
            "a head below its messages",
            Box::new(|world| Damage::Head(world.people.group, Sequence(4))),
            &[SequenceMonotonicity, CounterLowerBound],
        ),
        (
            "a head above its messages",
            Box::new(|world| Damage::Head(world.people.group, Sequence(6))),
            &[SequenceContiguous],
        ),
        (
            "a message that is lost",
            Box::new(|world| Damage::NoMessage(world.people.group, Sequence(2))),
            &[SequenceContiguous, LogReflectsStore],
        ),
        (
            "the last message is lost",
            Box::new(|world| Damage::NoMessage(world.people.group, Sequence(5))),
            &[SequenceContiguous, LogReflectsStore],
        ),
        (
            "a message in the place of another",
            Box::new(move |world| Damage::Message(Box::new(message(world, 2)))),
            &[StoreIsAuthoritative, SequenceUniqueness, IdempotencySequenceConsistency],
        ),
        (
            "a message at sequence 0",
            Box::new(move |world| Damage::Message(Box::new(message(world, 0)))),
            &[StoreIsAuthoritative, IdempotencySequenceConsistency, NoZeroSequence],
        ),
        (
            "an id that leads nowhere",
            Box::new(|world| Damage::NoPlace(world.people.group, Sequence(1))),
            &[StoreIsAuthoritative],
        ),
        (
            "a send that is forgotten",
            Box::new(|world| {
                let send = &world.people.sends[0];
                Damage::NoSendKey(send.chat_id, send.sender_id, send.client_message_id)
            }),
            &[IdempotencySequenceConsistency],
        ),
        (
            "a send key of another message",
            Box::new(move |world| {
                let send = &world.people.sends[0];
                Damage::SendKey(send.chat_id, send.sender_id, send.client_message_id, receipt(world, 0, 3))
            }),
            &[SequenceUniqueness, IdempotencySequenceConsistency],
        ),
        (
            "a send key above the head",
            Box::new(move |world| {
                let send = &world.people.sends[0];
                Damage::SendKey(send.chat_id, send.sender_id, send.client_message_id, receipt(world, 0, 9))
            }),
            &[CounterLowerBound, IdempotencySequenceConsistency],
        ),
        (
            "a watermark above the head",
            Box::new(move |world| Damage::Watermarks(world.people.group, world.people.member, marks(6, 2))),
            &[WatermarkBoundedByHead],
        ),
        (
            "read above delivered",
            Box::new(move |world| Damage::Watermarks(world.people.group, world.people.member, marks(2, 3))),
            &[ReadImpliesDelivered],
        ),
        (
            "watermarks that are lost",
            Box::new(|world| Damage::NoWatermarks(world.people.group, world.people.member)),
            &[DeliveryWatermarkMonotonic],
        ),
        (
            "a member whom nobody removed",
            Box::new(|world| Damage::NoMember(world.people.group, world.people.member)),
            &[GroupSizeBounded, OnlyMembersReceive],
        ),
        (
            "a group without an owner",
            Box::new(|world| Damage::Role(world.people.group, world.people.owner, Role::Admin)),
            &[OwnerAlwaysExists],
        ),
        (
            "a chat that its member does not find",
            Box::new(|world| Damage::NoListing(world.people.group, world.people.member)),
            &[NoSilentLoss],
        ),
        (
            "a pair that leads to a group",
            Box::new(|world| {
                let pair = DirectPair::new(world.people.owner, world.people.member).unwrap();
                Damage::Pair(pair, world.people.group)
            }),
            &[DirectChatUniqueness],
        ),
        (
            "a pair whose chat is not there",
            Box::new(|world| {
                let pair = DirectPair::new(world.people.owner, UserId::from_bytes([7; 16])).unwrap();
                Damage::Pair(pair, ChatId::from_bytes([8; 16]))
            }),
            &[DirectChatUniqueness],
        ),
        ("an event that is lost", Box::new(|_| Damage::NoEvent(Position(5))), &[PublishedEventually]),
        ("the last event is lost", Box::new(|_| Damage::NoEvent(Position(8))), &[PublishedEventually]),
        ("events out of order", Box::new(|_| Damage::Swapped(Position(5), Position(6))), &[OrderingPreserved]),
        (
            "a consumer beyond the end",
            Box::new(|_| Damage::Consumer("fanout".to_owned(), Position(100))),
            &[CommitAfterProcess],
        ),
    ];
    drop(world);
    for (name, damage, expected) in cases {
        let world = World::new().await;
        assert_eq!(world.broken_by(damage(&world)).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_lost_head_is_found_by_name() {
    let world = World::new().await;
    world.store.drop_head(world.people.group);
    assert_eq!(violated(&world.audit().await), [CounterMustExist]);
}

#[tokio::test]
async fn an_audit_goes_on_where_it_stopped_and_finds_the_same() {
    let world = World::new().await;
    world.store.spoil(Damage::Role(world.people.group, world.people.owner, Role::Member));
    let send = &world.people.sends[0];
    world.store.spoil(Damage::NoSendKey(send.chat_id, send.sender_id, send.client_message_id));
    let heard = PaceRecorder::default();
    let whole = world.audit_from(None, &heard).await;
    assert_eq!(violated(&whole), [IdempotencySequenceConsistency, OwnerAlwaysExists]);
    let checkpoints = heard.checkpoints.into_inner().unwrap();
    assert!(checkpoints.len() > 6, "{checkpoints:?}");
    for checkpoint in checkpoints {
        let kept = Checkpoint::parse(&checkpoint.encode()).unwrap();
        let resumed = world.audit_from(Some(kept), &PaceRecorder::default()).await;
        // Only a complete audit has the state of the log.
        for invariant in CHECKED.iter().filter(|invariant| **invariant != PublishedEventually) {
            assert_eq!(resumed.tally(*invariant), whole.tally(*invariant), "{invariant} from {checkpoint:?}");
        }
    }
}

#[tokio::test]
async fn a_transient_inconsistency_is_not_reported() {
    let world = World::new().await;
    world.store.spoil(Damage::Role(world.people.group, world.people.owner, Role::Member));
    let healing = Healing(&world);
    assert_eq!(violated(&world.audit_from(None, &healing).await), []);
}

/// Repairs the store while an audit waits for its re-check.
struct Healing<'a>(&'a World);

#[async_trait::async_trait]
impl tidings_audit::AuditPacer for Healing<'_> {
    async fn read(&self, _: tidings_audit::AuditProgress) {}

    async fn moment(&self) {
        let World { store, people, .. } = self.0;
        store.spoil(Damage::Role(people.group, people.owner, Role::Owner));
    }

    async fn reached(&self, _: &Checkpoint) {}
}

#[tokio::test]
async fn progress_grows_to_all_that_there_is() {
    let world = World::new().await;
    let heard = PaceRecorder::default();
    world.audit_from(None, &heard).await;
    let progress = heard.progress.into_inner().unwrap();
    assert!(progress.is_sorted_by_key(|progress| progress.read));
    assert!(progress.iter().all(|progress| progress.read <= progress.all));
    assert_eq!(*heard.moments.lock().unwrap(), 0, "nothing needed a re-check");
    let first: std::collections::BTreeSet<_> = progress.iter().map(|progress| progress.stage).collect();
    assert_eq!(first.into_iter().collect::<Vec<_>>(), ["chats", "listings", "log", "others", "pairs", "send_keys"]);
}

#[tokio::test]
async fn the_audit_reads_and_changes_nothing() {
    let world = World::new().await;
    let before = world.store.head(world.people.group).await.unwrap();
    world.audit().await;
    world.audit().await;
    assert_eq!(world.store.head(world.people.group).await.unwrap(), before);
    assert_eq!(world.store.members(world.people.group).await.unwrap().len(), 3);
}
