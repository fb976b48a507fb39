//! Stores whose answers cannot be true: nobody is told them, and they are counted.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Advance, ChatId, Invariant, Message, MessageId, Sequence, Timestamp, UserId, WatermarkKind, Watermarks};
use memory::{MemoryStore, SequentialIds};
use ports::contract::Violations;
use ports::{
    Appended, ChatWriter, Clock, Head, Ids, Ingest, IngestError, MessageReader, MessageWriter, NewGroup, NewMessage,
    Page, PageBounds, SendRefusal, StoreError, SyncRequest, SystemClock, UnreadQuery, WatermarkStore,
};
use tidings_ingest::{Config, Ingester, Ports};
use tokio::task::JoinSet;

use crate::world::{Heard, request};

/// What becomes of an honest answer.
type Lie<T> = fn(&mut T);

/// What becomes of the answers of an honest store.
#[derive(Clone, Copy)]
struct Lies {
    outcomes: Lie<Vec<Appended>>,
    page: Lie<Page>,
    advance: Lie<Advance>,
}

const NONE: Lies = Lies { outcomes: |_| {}, page: |_| {}, advance: |_| {} };

struct Liar {
    store: Arc<MemoryStore>,
    lies: Lies,
}

#[async_trait]
impl MessageWriter for Liar {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        let mut outcomes = self.store.append(batch).await?;
        (self.lies.outcomes)(&mut outcomes);
        Ok(outcomes)
    }
}

#[async_trait]
impl MessageReader for Liar {
    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let mut page = self.store.after(chat_id, after, bounds, now).await?;
        (self.lies.page)(&mut page);
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

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<u64>, StoreError> {
        self.store.unread(of, now).await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        self.store.by_id(message_id, now).await
    }
}

#[async_trait]
impl WatermarkStore for Liar {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Advance, StoreError> {
        let mut advance = self.store.advance(user_id, chat_id, kind, to).await?;
        (self.lies.advance)(&mut advance);
        Ok(advance)
    }

    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError> {
        self.store.watermarks(of).await
    }
}

/// A chat with three messages of one user, and a store that begins to lie when they are there.
struct Scene {
    ingest: Ingester,
    chat_id: ChatId,
    user_id: UserId,
    _lanes: JoinSet<()>,
}

async fn scene(lies: Lies) -> Scene {
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
    let mut lanes = JoinSet::new();
    let mut start = |lies| {
        let liar = Arc::new(Liar { store: store.clone(), lies });
        let ports = Ports {
            writer: liar.clone(),
            messages: liar.clone(),
            chats: store.clone(),
            watermarks: liar,
            signals: Arc::new(Heard::default()),
            clock: Arc::new(SystemClock),
            ids: ids.clone(),
        };
        Ingester::start(Config::default(), ports, &mut lanes)
    };
    let honest = start(NONE);
    for text in ["one", "two", "three"] {
        honest.send(request(chat_id, user_id, text)).await.unwrap();
    }
    Scene { ingest: start(lies), chat_id, user_id, _lanes: lanes }
}

#[track_caller]
fn assert_seen(violations: &Violations, expected: Invariant) {
    assert_eq!(violations.seen(), [(expected.name().to_owned(), 1)]);
}

/// Sends two messages that get into one commit, and returns the sequences that were acknowledged.
async fn send_two(lie: Lie<Vec<Appended>>) -> [Result<Sequence, IngestError>; 2] {
    let Scene { ingest, chat_id, user_id, _lanes } = scene(Lies { outcomes: lie, ..NONE }).await;
    let (first, second) =
        (ingest.send(request(chat_id, user_id, "four")), ingest.send(request(chat_id, user_id, "five")));
    [first.await, second.await].map(|sent| sent.map(|sent| sent.receipt.sequence))
}

fn receipt(outcome: &mut Appended) -> &mut ports::Receipt {
    match outcome {
        Appended::New(receipt) | Appended::Duplicate(receipt) => receipt,
        Appended::Refused(_) => panic!("it was committed"),
    }
}

#[tokio::test]
async fn an_honest_store_is_told_on_and_nothing_is_counted() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|_| {}).await;
    assert!(matches!(sent, [Ok(Sequence(4)), Ok(Sequence(5))]), "{sent:?}");
    assert_eq!(violations.seen(), []);
}

#[tokio::test]
async fn when_an_outcome_is_missing_nobody_of_the_commit_is_acknowledged() {
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
    for lie in [(|outcomes| receipt(&mut outcomes[1]).sequence = Sequence::ZERO) as Lie<Vec<Appended>>, |outcomes| {
        outcomes[1] = Appended::Duplicate(ports::Receipt { sequence: Sequence::ZERO, ..*receipt(&mut outcomes[1]) })
    }] {
        let violations = Violations::default();
        let _watched = violations.watch();
        let sent = send_two(lie).await;
        assert!(matches!(sent, [Ok(Sequence(4)), Err(IngestError::Unavailable { .. })]), "{sent:?}");
        assert_seen(&violations, Invariant::NoZeroSequence);
    }
}

#[tokio::test]
async fn a_later_send_is_not_acknowledged_at_the_place_of_an_earlier_one_or_before_it() {
    for lie in [(|outcomes| receipt(&mut outcomes[1]).sequence = Sequence(4)) as Lie<Vec<Appended>>, |outcomes| {
        receipt(&mut outcomes[1]).sequence = Sequence(3)
    }] {
        let violations = Violations::default();
        let _watched = violations.watch();
        let sent = send_two(lie).await;
        assert!(matches!(sent, [Ok(Sequence(4)), Err(IngestError::Unavailable { .. })]), "{sent:?}");
        assert_seen(&violations, Invariant::WriteOrderPreserved);
    }
}

#[tokio::test]
async fn a_chat_without_its_head_row_is_counted() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let sent = send_two(|outcomes| outcomes[0] = Appended::Refused(SendRefusal::CounterMissing)).await;
    assert!(matches!(sent, [Err(IngestError::CounterMissing), Ok(Sequence(5))]), "{sent:?}");
    assert_seen(&violations, Invariant::CounterMustExist);
}

#[tokio::test]
async fn a_page_that_cannot_be_true_is_shown_to_nobody() {
    let lies: [(Lie<Page>, Invariant); 7] = [
        (|page| page.messages.swap(0, 1), Invariant::SyncCompleteness),
        (|page| page.messages[0].sequence = Sequence(1), Invariant::SyncCompleteness),
        (|page| page.examined = Sequence(2), Invariant::SyncCompleteness),
        (|page| page.examined = Sequence(4), Invariant::SyncCompleteness),
        (|page| page.messages[1].expires_at = Some(Timestamp::from_millis(1)), Invariant::ExpiredNeverRead),
        (|page| page.messages[1].chat_id = ChatId::from_bytes([9; 16]), Invariant::OnlyMembersReceive),
        (|page| (page.messages, page.examined) = (vec![], Sequence::ZERO), Invariant::SyncCompleteness),
    ];
    for (lie, expected) in lies {
        let violations = Violations::default();
        let _watched = violations.watch();
        let Scene { ingest, chat_id, user_id, _lanes } = scene(Lies { page: lie, ..NONE }).await;
        let page = ingest.sync(SyncRequest { user_id, chat_id, after: Sequence(1), limit: 10 }).await;
        assert!(matches!(page, Err(IngestError::Unavailable { .. })), "{page:?}");
        assert_seen(&violations, expected);
    }
}

#[tokio::test]
async fn watermarks_that_cannot_be_true_are_told_to_nobody() {
    fn moved(delivered: u64, read: u64) -> Advance {
        Advance::Moved(Watermarks { delivered: Sequence(delivered), read: Sequence(read) })
    }
    let lies: [(Lie<Advance>, Invariant); 4] = [
        (|advance| *advance = moved(2, 3), Invariant::ReadImpliesDelivered),
        (|advance| *advance = moved(1, 1), Invariant::DeliveryWatermarkMonotonic),
        (|advance| *advance = Advance::Unchanged(Watermarks::at(Sequence(1))), Invariant::DeliveryWatermarkMonotonic),
        (|advance| *advance = moved(3, 3), Invariant::WatermarkBoundedByHead),
    ];
    for (lie, expected) in lies {
        let violations = Violations::default();
        let _watched = violations.watch();
        let Scene { ingest, chat_id, user_id, _lanes } = scene(Lies { advance: lie, ..NONE }).await;
        let advanced = ingest.advance(user_id, chat_id, WatermarkKind::Read, Sequence(2)).await;
        assert!(matches!(advanced, Err(IngestError::Unavailable { .. })), "{advanced:?}");
        assert_seen(&violations, expected);
    }
}
