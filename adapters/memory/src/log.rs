use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::Event;
use ports::{Clock, EventConsumer, EventLog, EventProducer, LogOrder, Position, Record, Start, StoreError, lock};
use tokio::sync::Notify;

use self::group::{ConsumerGroup, GroupMember};
use self::place::{LANES, LaneOffset, LogLane};

mod audit;
mod group;
mod place;

/// Maximum number of events that one call of `next` returns.
const BATCH_LEN_MAX: usize = 256;

/// An event log separate from the store. Clones are handles on the same log.
///
/// It is partitioned by chat, and each partition has a lane for each kind of event. Events of one chat and kind are
/// ordered; between kinds there is no order. Consumers of a group share the partitions. After a rebalance, a reassigned
/// partition is read from its committed offset. Seeking a group fails while it has consumers. The log keeps every
/// event, but reads leave out expired messages (G11).
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<MemoryLogInner>,
    clock: Arc<dyn Clock>,
}

struct MemoryLogInner {
    state: Mutex<MemoryLogState>,
    /// Wakes the consumers in the order in which they began to wait, after new events or a rebalance.
    changed: Notify,
}

struct MemoryLogState {
    lanes: [Vec<PublishedEvent>; LANES],
    /// Number of events ever published.
    published: u64,
    groups: BTreeMap<String, ConsumerGroup>,
    /// Number of consumers ever created.
    consumers: u64,
}

struct PublishedEvent {
    /// Its number among all events ever published.
    nth: u64,
    event: Arc<Event>,
}

impl MemoryLog {
    /// An empty log; reads use `clock` for expiry.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = MemoryLogState { lanes: Default::default(), published: 0, groups: BTreeMap::new(), consumers: 0 };
        Self { shared: Arc::new(MemoryLogInner { state: Mutex::new(state), changed: Notify::new() }), clock }
    }

    /// The same log, read with another clock.
    pub fn read_by(&self, clock: Arc<dyn Clock>) -> Self {
        Self { shared: self.shared.clone(), clock }
    }

    /// All events ever published, by position and including expired ones, for checkers.
    pub fn records(&self) -> Vec<Record> {
        let state = self.shared.lock();
        LogLane::all().flat_map(|lane| state.records(lane, 0).collect::<Vec<_>>()).collect()
    }
}

impl MemoryLogInner {
    fn lock(&self) -> MutexGuard<'_, MemoryLogState> {
        lock(&self.state)
    }
}

#[async_trait]
impl EventProducer for MemoryLog {
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        for event in events {
            let nth = state.published;
            state.published += 1;
            state.lanes[LogLane::of(&event.body).index()].push(PublishedEvent { nth, event: event.clone() });
        }
        drop(state);
        self.shared.changed.notify_waiters();
        Ok(())
    }
}

#[async_trait]
impl EventLog for MemoryLog {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let mut state = self.shared.lock();
        state.consumers += 1;
        let member = GroupMember(state.consumers);
        state.groups.entry(group.to_owned()).or_default().join(member);
        drop(state);
        self.shared.changed.notify_waiters();
        Ok(Box::new(LogConsumer { log: self.clone(), group: group.to_owned(), member, hand: 0 }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        let starts = state.find(to);
        match state.groups.entry(group.to_owned()).or_default().seek(starts) {
            true => Ok(()),
            false => Err(StoreError::unavailable(format!("group `{group}` has active consumers"))),
        }
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        let state = self.shared.lock();
        let committed = state.groups.get(group).map(ConsumerGroup::committed).unwrap_or_default();
        Ok(state.ends().into_iter().zip(committed).map(|(end, committed)| end - committed).sum())
    }

    fn order(&self) -> LogOrder {
        LogOrder::PerKind
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        let now = self.clock.now();
        let state = self.shared.lock();
        Ok(state.at(position).and_then(|published| published.event.clone().read_at(now)))
    }
}

impl MemoryLogState {
    fn records(&self, lane: LogLane, from: u64) -> impl Iterator<Item = Record> {
        let published = self.lanes[lane.index()].iter().zip(0..).skip(from as usize);
        published.map(move |(PublishedEvent { event, .. }, offset)| {
            let position = LaneOffset { lane, offset }.position();
            Record { position, event: event.clone() }
        })
    }

    fn at(&self, position: Position) -> Option<&PublishedEvent> {
        let place = LaneOffset::of(position)?;
        self.lanes[place.lane.index()].get(place.offset as usize)
    }

    fn ends(&self) -> [u64; LANES] {
        self.lanes.each_ref().map(|lane| lane.len() as u64)
    }

    /// The start offset of each lane.
    fn find(&self, to: Start) -> [u64; LANES] {
        match to {
            Start::Oldest => [0; LANES],
            Start::Time(time) => self.first_of_each(|published| published.event.event_time >= time),
            Start::At(position) => match self.at(position) {
                Some(first) => self.first_of_each(|published| published.nth >= first.nth),
                // A position past the end is clamped to the end.
                None => self.ends(),
            },
        }
    }

    fn first_of_each(&self, is_first: impl Fn(&PublishedEvent) -> bool) -> [u64; LANES] {
        self.lanes.each_ref().map(|lane| lane.iter().position(&is_first).unwrap_or(lane.len()) as u64)
    }
}

struct LogConsumer {
    log: MemoryLog,
    group: String,
    member: GroupMember,
    /// The lane to try first, so that a busy lane does not starve the others.
    hand: usize,
}

#[async_trait]
impl EventConsumer for LogConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            // Register for notifications before reading, so that no change is missed in between.
            let shared = self.log.shared.clone();
            let changed = shared.changed.notified();
            // There is no await between taking and returning, so a dropped future has taken nothing.
            if let Some(records) = self.take() {
                return Ok(records);
            }
            changed.await;
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        if let Some(group) = self.log.shared.lock().groups.get_mut(&self.group) {
            group.commit(self.member);
        }
        Ok(())
    }
}

impl LogConsumer {
    /// The next events of the first assigned lane with unread events.
    fn take(&mut self) -> Option<Vec<Record>> {
        let now = self.log.clock.now();
        let state = &mut *self.log.shared.lock();
        for lane in LogLane::all_from(self.hand) {
            let Some(from) = state.groups.get(&self.group)?.next(self.member, lane) else { continue };
            let batch: Vec<_> = state.records(lane, from).take(BATCH_LEN_MAX).collect();
            state.groups.get_mut(&self.group)?.advance(lane, from + batch.len() as u64);
            let live = |Record { position, event }| Some(Record { position, event: event.read_at(now)? });
            let live: Vec<_> = batch.into_iter().filter_map(live).collect();
            if !live.is_empty() {
                self.hand = lane.index() + 1;
                return Some(live);
            }
        }
        None
    }
}

impl Drop for LogConsumer {
    fn drop(&mut self) {
        if let Some(group) = self.log.shared.lock().groups.get_mut(&self.group) {
            group.leave(self.member);
        }
        self.log.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{
        Body, ChatId, ContentType, EventBody, EventId, Message, MessageId, MessageState, Sequence, Timestamp, UserId,
    };
    use futures_util::FutureExt;

    use super::place::PARTS;
    use super::*;
    use crate::ManualClock;
    use crate::waking::{Woken, poll};

    fn log() -> MemoryLog {
        MemoryLog::new(Arc::new(ManualClock::default()))
    }

    /// Enough chats for every partition to have some.
    fn chats() -> Vec<ChatId> {
        (0..40).map(|n| ChatId::from_bytes([n; 16])).collect()
    }

    fn message(chat_id: ChatId, sequence: u64) -> Arc<Event> {
        let message = Message {
            message_id: MessageId::from_bytes([sequence as u8; 16]),
            chat_id,
            sequence: Sequence(sequence),
            sender_id: UserId::from_bytes([9; 16]),
            client_message_id: uuid::Uuid::from_u128(sequence.into()).into(),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::default(),
            expires_at: None,
            state: MessageState::default(),
        };
        Arc::new(Event::message_persisted(message, None))
    }

    fn renamed(chat_id: ChatId) -> Arc<Event> {
        let name = "new".to_owned().try_into().unwrap();
        let body = EventBody::ChatRenamed { chat_id, name, changed_by: UserId::from_bytes([9; 16]) };
        let event_id = EventId::from_bytes([1; 16]);
        Arc::new(Event { event_id, event_time: Timestamp::default(), event_number: None, body })
    }

    /// Publishes a message with this sequence in every chat.
    async fn publish(log: &MemoryLog, sequence: u64) {
        let events: Vec<_> = chats().into_iter().map(|chat_id| message(chat_id, sequence)).collect();
        log.publish(&events).await.unwrap();
    }

    async fn consumer(log: &MemoryLog) -> Box<dyn EventConsumer> {
        log.consumer("group").await.unwrap()
    }

    /// The chats and sequences of all events available to a consumer.
    fn read(consumer: &mut dyn EventConsumer) -> BTreeSet<(ChatId, u64)> {
        let mut seen = BTreeSet::new();
        while let Some(records) = consumer.next().now_or_never() {
            for record in records.unwrap() {
                let EventBody::MessagePersisted { message, .. } = &record.event.body else { panic!("{record:?}") };
                assert!(seen.insert((message.chat_id, message.sequence.0)), "{record:?} came twice");
            }
        }
        seen
    }

    fn all(sequence: u64) -> BTreeSet<(ChatId, u64)> {
        chats().into_iter().map(|chat_id| (chat_id, sequence)).collect()
    }

    #[tokio::test]
    async fn consumers_of_a_group_share_the_log() {
        let log = log();
        let [mut one, mut other] = [consumer(&log).await, consumer(&log).await];
        publish(&log, 1).await;
        let [of_one, of_other] = [read(&mut *one), read(&mut *other)];
        assert!(of_one.is_disjoint(&of_other));
        assert_eq!(&of_one | &of_other, all(1));
        assert!(!of_one.is_empty() && !of_other.is_empty());
    }

    #[tokio::test]
    async fn a_consumer_too_many_waits_for_a_part() {
        let log = log();
        let mut others = vec![];
        for _ in 0..PARTS {
            others.push(consumer(&log).await);
        }
        let mut spare = consumer(&log).await;
        publish(&log, 1).await;
        assert_eq!(read(&mut *spare), BTreeSet::new());
        drop(others.remove(0));
        assert!(!read(&mut *spare).is_empty());
    }

    #[tokio::test]
    async fn uncommitted_events_of_a_dropped_consumer_are_read_by_another() {
        let log = log();
        let [mut one, mut other] = [consumer(&log).await, consumer(&log).await];
        publish(&log, 1).await;
        let [_, first] = [read(&mut *one), read(&mut *other)];
        other.commit().await.unwrap();
        one.commit().await.unwrap();
        publish(&log, 2).await;
        let [of_one, of_other] = [read(&mut *one), read(&mut *other)];
        drop(one);
        assert_eq!(read(&mut *other), of_one, "from the last committed place on, and nothing of its own again");
        assert_eq!(of_other.len(), first.len());
    }

    #[tokio::test]
    async fn a_reassigned_partition_is_not_committed_by_its_former_consumer() {
        let log = log();
        let mut earlier = consumer(&log).await;
        publish(&log, 1).await;
        assert_eq!(read(&mut *earlier), all(1));
        let mut later = consumer(&log).await;
        let handed_over = read(&mut *later);
        earlier.commit().await.unwrap();
        assert!(!handed_over.is_empty());
        drop((earlier, later));
        assert_eq!(log.lag("group").await.unwrap(), handed_over.len() as u64);
        assert_eq!(read(&mut *consumer(&log).await), handed_over);
    }

    #[tokio::test]
    async fn a_consumer_that_gets_a_partition_is_woken() {
        let log = log();
        let [one, mut other] = [consumer(&log).await, consumer(&log).await];
        publish(&log, 1).await;
        read(&mut *other);
        let woken = Woken::default();
        let mut next = other.next();
        assert!(poll(&mut next, &woken, 0).is_pending());
        drop(one);
        assert_eq!(woken.take(), [0]);
        assert!(poll(&mut next, &woken, 0).is_ready());
    }

    #[tokio::test]
    async fn consumers_are_woken_in_the_order_they_waited() {
        let log = log();
        let mut consumers = vec![];
        for n in 0..20 {
            consumers.push(log.consumer(&format!("group {n}")).await.unwrap());
        }
        let woken = Woken::default();
        let mut waiting: Vec<_> = consumers.iter_mut().map(|consumer| consumer.next()).collect();
        for (n, next) in waiting.iter_mut().enumerate() {
            assert!(poll(next, &woken, n).is_pending());
        }
        publish(&log, 1).await;
        assert_eq!(woken.take(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_busy_kind_of_event_keeps_no_other_waiting() {
        let log = log();
        let chat_id = ChatId::from_bytes([1; 16]);
        let messages: Vec<_> = (1..=2000).map(|sequence| message(chat_id, sequence)).collect();
        log.publish(&messages).await.unwrap();
        let mut consumer = consumer(&log).await;
        assert_eq!(consumer.next().await.unwrap()[0].event, messages[0]);
        log.publish(&[renamed(chat_id)]).await.unwrap();
        let records = consumer.next().await.unwrap();
        assert_eq!(records.into_iter().map(|record| record.event).collect::<Vec<_>>(), [renamed(chat_id)]);
    }

    #[tokio::test]
    async fn a_group_that_is_consumed_is_not_moved() {
        let log = log();
        let consumer = consumer(&log).await;
        let refused = log.seek("group", Start::Oldest).await.unwrap_err();
        let StoreError::Unavailable(reason) = refused else { panic!("{refused:?}") };
        assert_eq!(reason.to_string(), "group `group` has active consumers");
        drop(consumer);
        log.seek("group", Start::Oldest).await.unwrap();
    }
}
