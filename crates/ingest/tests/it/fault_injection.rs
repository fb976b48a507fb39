//! Fault injection: implausible results of a store are not passed on, and violations are counted.

use std::sync::Arc;

use async_trait::async_trait;
use contract::Violations;
use domain::{
    Advance, ChatId, DeliveryState, IngestError, Invariant, Message, MessageId, Reaction, Sequence, Timestamp,
    UpdateAction, UpdateKind, UserId, WatermarkKind, Watermarks,
};
use memory::{MemoryStore, SequentialIds};
use ports::{
    AdvanceRequest, AppendOutcome, ChatWriter, Clock, Head, Ids, Ingest, MemberReactions, MessageKey, MessageReader,
    MessageWriter, NewEntry, NewGroup, Page, PageBounds, SendRefusal, StoreError, SyncRequest, SystemClock,
    UnreadCount, UnreadQuery, WatermarkStore,
};
use tidings_ingest::{Config, Ingester, Ports};
use tokio::task::JoinSet;

use crate::world::{SignalRecorder, request, update};

/// Modifies a correct result.
type Injection<T> = fn(&mut T);

/// Modifications of a store's results.
#[derive(Clone, Copy)]
struct Faults {
    outcomes: Injection<Vec<AppendOutcome>>,
    page: Injection<Page>,
    advance: Injection<Advance>,
}

const NONE: Faults = Faults { outcomes: |_| {}, page: |_| {}, advance: |_| {} };

struct FaultyStore {
    store: Arc<MemoryStore>,
    faults: Faults,
}

#[async_trait]
impl MessageWriter for FaultyStore {
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
        let mut outcomes = self.store.commit(batch).await?;
        (self.faults.outcomes)(&mut outcomes);
        Ok(outcomes)
    }
}

#[async_trait]
impl MessageReader for FaultyStore {
    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let mut page = self.store.after(chat_id, after, bounds, now).await?;
        (self.faults.page)(&mut page);
        Ok(page)
    }

    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        self.store.head(chat_id).await
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        self.store.heads(chat_ids).await
    }

    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        self.store.before(chat_id, before, count, now).await
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError> {
        self.store.unread(of, now).await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        self.store.by_id(message_id, now).await
    }

    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
        self.store.own_reactions(messages, user_id).await
    }

    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        self.store.reactions(message, after, count).await
    }
}

#[async_trait]
impl WatermarkStore for FaultyStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
        at: Timestamp,
    ) -> Result<Advance, StoreError> {
        let mut advance = self.store.advance(user_id, chat_id, kind, to, at).await?;
        (self.faults.advance)(&mut advance);
        Ok(advance)
    }

    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError> {
        self.store.delivery_states(of).await
    }
}

/// A chat with three messages of one user, over a store that returns modified results from then on.
struct FaultyIngest {
    ingest: Ingester,
    chat_id: ChatId,
    user_id: UserId,
    _commits: JoinSet<()>,
}

async fn faulty_ingest(faults: Faults) -> FaultyIngest {
    let ids = Arc::new(SequentialIds::default());
    let store = Arc::new(MemoryStore::new(ids.clone()));
    let (chat_id, user_id) = (ids.ulid().into(), ids.ulid().into());
    let group = NewGroup {
        chat_id,
        name: "group".to_owned().try_into().unwrap(),
        created_by: user_id,
        members: vec![],
        created_at: SystemClock.now(),
    };
    store.create_group(group).await.unwrap();
    let mut tasks = JoinSet::new();
    let mut start = |faults| {
        let faulty = Arc::new(FaultyStore { store: store.clone(), faults });
        let ports = Ports {
            writer: faulty.clone(),
            messages: faulty.clone(),
            chats: store.clone(),
            watermarks: faulty,
            signals: Arc::new(SignalRecorder::default()),
            clock: Arc::new(SystemClock),
            ids: ids.clone(),
        };
        Ingester::start(Config::default(), ports, &mut tasks)
    };
    let honest = start(NONE);
    for text in ["one", "two", "three"] {
        honest.send(request(chat_id, user_id, text)).await.unwrap();
    }
    FaultyIngest { ingest: start(faults), chat_id, user_id, _commits: tasks }
}

#[track_caller]
fn assert_seen(violations: &Violations, expected: Invariant) {
    assert_eq!(violations.seen(), [(expected.name().to_owned(), 1)]);
}

/// Sends two messages in one commit and returns the acknowledged sequences.
async fn send_two(fault: Injection<Vec<AppendOutcome>>) -> [Result<Sequence, IngestError>; 2] {
    let FaultyIngest { ingest, chat_id, user_id, _commits } = faulty_ingest(Faults { outcomes: fault, ..NONE }).await;
    let (first, second) =
        (ingest.send(request(chat_id, user_id, "four")), ingest.send(request(chat_id, user_id, "five")));
    [first.await, second.await].map(|sent| sent.map(|sent| sent.receipt.sequence))
}

fn receipt(outcome: &mut AppendOutcome) -> &mut ports::Receipt {
    match outcome {
        AppendOutcome::New(receipt) | AppendOutcome::Duplicate(receipt) => receipt,
        AppendOutcome::Refused(_) => panic!("it was committed"),
    }
}

#[tokio::test]
async fn correct_results_are_returned_without_violations() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|_| {}).await;
    assert!(matches!(sent, [Ok(Sequence(4)), Ok(Sequence(5))]), "{sent:?}");
    assert_eq!(violations.seen(), []);
}

#[tokio::test]
async fn a_missing_outcome_acknowledges_no_send_of_the_commit() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|outcomes| outcomes.truncate(1)).await;
    assert!(matches!(sent, [Err(IngestError::Unavailable { .. }), Err(IngestError::Unavailable { .. })]), "{sent:?}");
    assert_seen(&violations, Invariant::AckImpliesPersistence);
}

#[tokio::test]
async fn another_message_is_not_acknowledged_in_the_place_of_the_one_that_was_sent() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|outcomes| receipt(&mut outcomes[0]).message_id = MessageId::from_bytes([9; 16])).await;
    assert!(matches!(sent, [Err(IngestError::Unavailable { .. }), Ok(Sequence(5))]), "{sent:?}");
    assert_seen(&violations, Invariant::AckImpliesPersistence);
}

#[tokio::test]
async fn no_message_is_acknowledged_at_sequence_zero_whether_it_is_new_or_a_retry() {
    for fault in [
        (|outcomes| receipt(&mut outcomes[1]).sequence = Sequence::ZERO) as Injection<Vec<AppendOutcome>>,
        |outcomes| {
            outcomes[1] =
                AppendOutcome::Duplicate(ports::Receipt { sequence: Sequence::ZERO, ..*receipt(&mut outcomes[1]) })
        },
    ] {
        let violations = Violations::default();
        let _watched = violations.watch();
        let sent = send_two(fault).await;
        assert!(matches!(sent, [Ok(Sequence(4)), Err(IngestError::Unavailable { .. })]), "{sent:?}");
        assert_seen(&violations, Invariant::NoZeroSequence);
    }
}

#[tokio::test]
async fn a_later_send_is_not_acknowledged_at_the_place_of_an_earlier_one_or_before_it() {
    for fault in
        [(|outcomes| receipt(&mut outcomes[1]).sequence = Sequence(4)) as Injection<Vec<AppendOutcome>>, |outcomes| {
            receipt(&mut outcomes[1]).sequence = Sequence(3)
        }]
    {
        let violations = Violations::default();
        let _watched = violations.watch();
        let sent = send_two(fault).await;
        assert!(matches!(sent, [Ok(Sequence(4)), Err(IngestError::Unavailable { .. })]), "{sent:?}");
        assert_seen(&violations, Invariant::WriteOrderPreserved);
    }
}

#[tokio::test]
async fn a_chat_without_its_head_row_is_counted() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|outcomes| outcomes[0] = AppendOutcome::Refused(SendRefusal::CounterMissing)).await;
    assert!(matches!(sent, [Err(IngestError::CounterMissing), Ok(Sequence(5))]), "{sent:?}");
    assert_seen(&violations, Invariant::CounterMustExist);
}

#[tokio::test]
async fn implausible_pages_are_not_returned() {
    let faults: [(Injection<Page>, Invariant); 7] = [
        (|page| page.messages.swap(0, 1), Invariant::SyncCompleteness),
        (|page| page.messages[0].sequence = Sequence(1), Invariant::SyncCompleteness),
        (|page| page.examined = Sequence(2), Invariant::SyncCompleteness),
        (|page| page.examined = Sequence(4), Invariant::SyncCompleteness),
        (|page| page.messages[1].expires_at = Some(Timestamp::from_millis(1)), Invariant::ExpiredNeverRead),
        (|page| page.messages[1].chat_id = ChatId::from_bytes([9; 16]), Invariant::OnlyMembersReceive),
        (|page| (page.messages, page.examined) = (vec![], Sequence::ZERO), Invariant::SyncCompleteness),
    ];
    for (fault, expected) in faults {
        let violations = Violations::default();
        let _watched = violations.watch();
        let FaultyIngest { ingest, chat_id, user_id, _commits } = faulty_ingest(Faults { page: fault, ..NONE }).await;
        let page = ingest.sync(SyncRequest { user_id, chat_id, after: Sequence(1), limit: 10, assertion: None }).await;
        assert!(matches!(page, Err(IngestError::Unavailable { .. })), "{page:?}");
        assert_seen(&violations, expected);
    }
}

/// Three messages, and above them updates of the second and the first one.
async fn faulty_ingest_with_updates(fault: Injection<Page>) -> FaultyIngest {
    let faulty = faulty_ingest(Faults { page: fault, ..NONE }).await;
    for target in [2, 1] {
        let react = UpdateAction::React("ok".parse().unwrap());
        faulty.ingest.send(update(faulty.chat_id, faulty.user_id, target, react)).await.unwrap();
    }
    faulty
}

#[tokio::test]
async fn pages_with_implausible_updates_are_not_returned() {
    let faults: [(Injection<Page>, Option<Invariant>); 9] = [
        (|_| {}, None),
        (|page| page.updates.swap(0, 1), Some(Invariant::SyncCompleteness)),
        (|page| page.updates[0].sequence = Sequence(1), Some(Invariant::SyncCompleteness)),
        (|page| page.updates[1].sequence = Sequence(6), Some(Invariant::SyncCompleteness)),
        (|page| page.updates[1].chat_id = ChatId::from_bytes([9; 16]), Some(Invariant::SyncCompleteness)),
        (|page| page.updates[1].expires_at = Some(Timestamp::from_millis(1)), Some(Invariant::SyncCompleteness)),
        (|page| page.updated[0].expires_at = Some(Timestamp::from_millis(1)), Some(Invariant::ExpiredNeverRead)),
        (|page| page.updated[0].chat_id = ChatId::from_bytes([9; 16]), Some(Invariant::ExpiredNeverRead)),
        (|page| page.examined = Sequence(4), Some(Invariant::SyncCompleteness)),
    ];
    for (n, (fault, expected)) in faults.into_iter().enumerate() {
        let violations = Violations::default();
        let _watched = violations.watch();
        let FaultyIngest { ingest, chat_id, user_id, _commits } = faulty_ingest_with_updates(fault).await;
        let page = ingest.sync(SyncRequest { user_id, chat_id, after: Sequence(1), limit: 10, assertion: None }).await;
        match expected {
            None => {
                let page = page.unwrap();
                assert_eq!((page.messages.len(), page.updates.len(), page.updated.len()), (2, 2, 1));
            }
            Some(expected) => {
                assert!(matches!(page, Err(IngestError::Unavailable { .. })), "fault {n}: {page:?}");
                assert_seen(&violations, expected);
            }
        }
    }
}

/// A deletion is committed after the request has begun, and before the page is read.
#[tokio::test]
async fn a_page_with_the_deletion_of_a_message_is_without_the_message() {
    let all_are_deletions =
        |page: &mut Page| page.updates.iter_mut().for_each(|update| update.kind = UpdateKind::Deleted);
    let FaultyIngest { ingest, chat_id, user_id, _commits } = faulty_ingest_with_updates(all_are_deletions).await;
    let page = ingest.sync(SyncRequest { user_id, chat_id, after: Sequence(1), limit: 10, assertion: None }).await;
    let page = page.unwrap();
    let sequences: Vec<_> = page.messages.iter().map(|message| message.sequence).collect();
    assert_eq!((sequences, page.updated, page.updates.len()), (vec![Sequence(3)], vec![], 2));
}

#[tokio::test]
async fn implausible_watermarks_are_not_returned() {
    fn moved(delivered: u64, read: u64) -> Advance {
        Advance::Moved(Watermarks { delivered: Sequence(delivered), read: Sequence(read) })
    }
    let faults: [(Injection<Advance>, Invariant); 4] = [
        (|advance| *advance = moved(2, 3), Invariant::ReadImpliesDelivered),
        (|advance| *advance = moved(1, 1), Invariant::DeliveryWatermarkMonotonic),
        (|advance| *advance = Advance::Unchanged(Watermarks::at(Sequence(1))), Invariant::DeliveryWatermarkMonotonic),
        (|advance| *advance = moved(3, 3), Invariant::WatermarkBoundedByHead),
    ];
    for (fault, expected) in faults {
        let violations = Violations::default();
        let _watched = violations.watch();
        let FaultyIngest { ingest, chat_id, user_id, _commits } =
            faulty_ingest(Faults { advance: fault, ..NONE }).await;
        let kind = WatermarkKind::Read;
        let advanced = AdvanceRequest { user_id, chat_id, kind, to: Sequence(2), assertion: None };
        let advanced = ingest.advance(advanced).await;
        assert!(matches!(advanced, Err(IngestError::Unavailable { .. })), "{advanced:?}");
        assert_seen(&violations, expected);
    }
}
