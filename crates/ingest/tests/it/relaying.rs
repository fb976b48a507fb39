//! The relay over an outbox and a log that can fail, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use contract::Violations;
use domain::{
    Body, ChatId, ContentType, Event, EventBody, EventId, Message, MessageId, MessageState, Sequence, Timestamp, UserId,
};
use ports::{Clock, Committed, EventProducer, Outbox, PendingChange, StoreError};
use tidings_ingest::Relay;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

fn chat(n: u8) -> ChatId {
    ChatId::from_bytes([n; 16])
}

/// The time of the test's runtime, as wall clock time.
struct RelayTestClock(Instant);

impl Clock for RelayTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000) + self.0.elapsed()
    }
}

/// An outbox with committed events and a log that can fail.
struct World {
    clock: RelayTestClock,
    state: Mutex<RelayTestState>,
    told: Notify,
}

#[derive(Default)]
struct RelayTestState {
    commits: VecDeque<Committed>,
    /// All messages of a chat, from the first.
    messages: BTreeMap<ChatId, Vec<Arc<Event>>>,
    changes: BTreeMap<ChatId, Vec<PendingChange>>,
    published: BTreeMap<ChatId, Sequence>,
    dirty_since: BTreeMap<ChatId, Timestamp>,
    /// Number of reads of messages from the store.
    reads: usize,
    marks: usize,
    log: Vec<Arc<Event>>,
    log_is_down: bool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { clock: RelayTestClock(Instant::now()), state: Mutex::default(), told: Notify::new() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, RelayTestState> {
        self.state.lock().unwrap()
    }

    /// Commits messages; `told` says whether this process is notified.
    fn commit(&self, chat_id: ChatId, count: u64, told: bool) {
        let mut state = self.state();
        let messages = state.messages.entry(chat_id).or_default();
        let first = messages.len() as u64 + 1;
        let committed: Vec<_> = (first..first + count).map(|sequence| message(chat_id, sequence)).collect();
        messages.extend(committed.clone());
        state.dirty_since.entry(chat_id).or_insert(self.clock.now());
        if told {
            state.commits.push_back(Committed { chat_id, messages: committed });
            self.told.notify_one();
        }
    }

    fn change(&self, chat_id: ChatId, n: u8, told: bool) {
        let body = EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(n.into())] };
        let event =
            Event { event_id: EventId::from_bytes([n; 16]), event_time: self.clock.now(), event_number: None, body };
        let mut state = self.state();
        state.changes.entry(chat_id).or_default().push(PendingChange { key: n.to_string(), event: Arc::new(event) });
        if told {
            state.commits.push_back(Committed { chat_id, messages: vec![] });
            self.told.notify_one();
        }
    }

    /// The sequences of a chat's messages in the log.
    fn logged(&self, chat_id: ChatId) -> Vec<u64> {
        let sequence = |event: &Arc<Event>| match &event.body {
            EventBody::MessagePersisted { message, .. } if message.chat_id == chat_id => Some(message.sequence.0),
            _ => None,
        };
        self.state().log.iter().filter_map(sequence).collect()
    }

    fn logged_changes(&self) -> Vec<EventId> {
        let log = &self.state().log;
        let changes = log.iter().filter(|event| matches!(event.body, EventBody::MessagesExpired { .. }));
        changes.map(|event| event.event_id).collect()
    }
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

#[async_trait]
impl Outbox for World {
    async fn committed(&self) -> Vec<Committed> {
        loop {
            let commits: Vec<_> = self.state().commits.drain(..).collect();
            if !commits.is_empty() {
                return commits;
            }
            self.told.notified().await;
        }
    }

    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError> {
        let state = self.state();
        let dirty = state.dirty_since.iter().filter(|(_, since)| **since < before).map(|(chat_id, _)| *chat_id);
        let old = |changes: &[PendingChange]| changes.iter().any(|waiting| waiting.event.event_time < before);
        let changed = state.changes.iter().filter(|(_, changes)| old(changes)).map(|(chat_id, _)| *chat_id);
        Ok(dirty.chain(changed).collect())
    }

    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError> {
        let mut state = self.state();
        state.reads += 1;
        let end = state.published.get(&chat_id).copied().unwrap_or_default().0 as usize;
        Ok(state
            .messages
            .get(&chat_id)
            .map(|messages| messages[end..].iter().take(3).cloned().collect())
            .unwrap_or_default())
    }

    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError> {
        let state = &mut *self.state();
        state.marks += 1;
        let end = state.published.entry(chat_id).or_default();
        *end = through.max(*end);
        if end.0 == state.messages[&chat_id].len() as u64 {
            state.dirty_since.remove(&chat_id);
        } else {
            state.dirty_since.insert(chat_id, self.clock.now());
        }
        Ok(())
    }

    async fn pending_changes(&self, chat_id: ChatId) -> Result<Vec<PendingChange>, StoreError> {
        Ok(self
            .state()
            .changes
            .get(&chat_id)
            .map(|changes| changes.iter().take(2).cloned().collect())
            .unwrap_or_default())
    }

    async fn confirm_changes(&self, chat_id: ChatId, keys: &[String]) -> Result<(), StoreError> {
        self.state().changes.entry(chat_id).or_default().retain(|waiting| !keys.contains(&waiting.key));
        Ok(())
    }
}

#[async_trait]
impl EventProducer for World {
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.log_is_down {
            return Err(StoreError::unavailable("the log is down"));
        }
        state.log.extend(events.iter().cloned());
        Ok(())
    }
}

/// Starts a relay that runs until the sender is used or dropped.
fn start(world: &Arc<World>) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let clock = Arc::new(RelayTestClock(world.clock.0));
    let relay = Relay { outbox: world.clone(), producer: world.clone(), clock };
    let (stop, stopped) = oneshot::channel();
    (stop, tokio::spawn(async move { relay.run(async { drop(stopped.await) }).await }))
}

async fn moments(count: u32) {
    tokio::time::sleep(Duration::from_secs(1) * count).await;
}

#[tokio::test(start_paused = true)]
async fn notified_commits_are_published_once_and_marked_without_a_read() {
    let world = World::new();
    let _relay = start(&world);
    for _ in 0..40 {
        world.commit(chat(1), 2, true);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    moments(1).await;
    assert_eq!(world.logged(chat(1)), (1..=80).collect::<Vec<_>>());
    let state = world.state();
    assert_eq!((state.published[&chat(1)], state.reads), (Sequence(80), 0));
    assert!(state.marks <= 4, "40 commits in 0.8 s took {} marks", state.marks);
}

#[tokio::test(start_paused = true)]
async fn published_eventually_without_a_commit_notification() {
    let world = World::new();
    world.commit(chat(1), 10, false);
    world.change(chat(2), 1, false);
    let _relay = start(&world);
    moments(1).await;
    assert!(world.logged(chat(1)).is_empty());
    moments(3).await;
    assert_eq!(world.logged(chat(1)), (1..=10).collect::<Vec<_>>());
    assert_eq!(world.logged_changes(), [EventId::from_bytes([1; 16])]);
    assert!(world.overdue(Timestamp::MAX).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ordering_preserved_where_another_process_has_committed_in_between() {
    let world = World::new();
    let _relay = start(&world);
    world.commit(chat(1), 1, true);
    tokio::task::yield_now().await;
    // Commits of another process that crashes before it publishes them.
    world.commit(chat(1), 2, false);
    world.commit(chat(1), 1, true);
    world.commit(chat(1), 1, true);
    moments(1).await;
    let first_seen = first_occurrences(&world.logged(chat(1)));
    assert_eq!(first_seen, [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_log_delays_no_send_and_receives_all_events_in_order_afterwards() {
    let world = World::new();
    let _relay = start(&world);
    world.commit(chat(1), 3, true);
    moments(1).await;
    world.state().log_is_down = true;
    for n in 1..=5 {
        world.commit(chat(1), 2, true);
        world.commit(chat(2), 1, true);
        world.change(chat(1), n, false);
        moments(1).await;
    }
    assert_eq!(world.logged(chat(1)), [1, 2, 3]);
    world.state().log_is_down = false;
    moments(4).await;
    assert_eq!(first_occurrences(&world.logged(chat(1))), (1..=13).collect::<Vec<_>>());
    assert_eq!(first_occurrences(&world.logged(chat(2))), [1, 2, 3, 4, 5]);
    assert_eq!(world.logged_changes().len(), 5);
    world.commit(chat(1), 1, true);
    moments(1).await;
    assert_eq!(world.logged(chat(1)).last(), Some(&14));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_chat_does_not_publish_its_messages_again() {
    let world = World::new();
    let _relay = start(&world);
    moments(1).await;
    world.commit(chat(1), 2, true);
    world.change(chat(1), 1, true);
    world.change(chat(1), 2, true);
    world.change(chat(1), 3, true);
    moments(1).await;
    assert_eq!(world.logged(chat(1)), [1, 2]);
    assert_eq!(world.logged_changes(), [1, 2, 3].map(|n| EventId::from_bytes([n; 16])));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_relay_publishes_and_marks_all_earlier_commits() {
    let world = World::new();
    let (stop, relay) = start(&world);
    moments(1).await;
    world.commit(chat(1), 4, true);
    stop.send(()).unwrap();
    relay.await.unwrap();
    assert_eq!(world.logged(chat(1)), [1, 2, 3, 4]);
    assert_eq!(world.state().published[&chat(1)], Sequence(4));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_not_one_run_of_its_chat_is_read_from_the_store_instead() {
    for lie in [vec![message(chat(1), 1), message(chat(1), 3)], vec![message(chat(1), 1), message(chat(2), 2)]] {
        let violations = Violations::default();
        let _watched = violations.watch();
        let world = World::new();
        let _relay = start(&world);
        moments(1).await;
        world.commit(chat(1), 3, false);
        world.state().commits.push_back(Committed { chat_id: chat(1), messages: lie });
        world.told.notify_one();
        moments(1).await;
        assert_eq!(world.logged(chat(1)), [1, 2, 3]);
        assert_eq!(violations.seen(), [("ordering_preserved".to_owned(), 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_unpublished_messages_are_out_of_order_gets_none_of_them_into_the_log() {
    for lie in [[message(chat(1), 2), message(chat(1), 1)], [message(chat(1), 1), message(chat(2), 2)]] {
        let violations = Violations::default();
        let _watched = violations.watch();
        let world = World::new();
        let _relay = start(&world);
        world.commit(chat(1), 2, false);
        world.state().messages.insert(chat(1), lie.to_vec());
        moments(4).await;
        assert_eq!(world.state().log, []);
        assert!(matches!(&violations.seen()[..], [(name, 1..)] if name == "ordering_preserved"));
    }
}

fn first_occurrences(sequences: &[u64]) -> Vec<u64> {
    let mut seen = vec![];
    for sequence in sequences {
        if !seen.contains(sequence) {
            seen.push(*sequence);
        }
    }
    seen
}
