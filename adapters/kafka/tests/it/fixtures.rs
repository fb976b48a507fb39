use std::sync::Arc;
use std::time::Duration;

use domain::{
    Body, ChatId, ContentType, Event, EventBody, MembershipChange, Message, MessageState, Role, Sequence, Timestamp,
    UserId,
};
use engines::Kafka;
use memory::{ManualClock, MemoryStore};
use ports::{Clock, EventConsumer, EventLog, EventProducer, Ids, RandomIds, Record, SystemClock};
use tidings_kafka::topics::{self, TopicSize};
use tidings_kafka::{Config, KafkaLog, KafkaProducer};
use tokio::time;
use uuid::Uuid;

/// Enough partitions to distinguish their offsets.
pub(crate) const SIZE: TopicSize = TopicSize { partitions: 3, replication: 1 };

/// A broker with the topics, a producer and a log.
pub(crate) struct World {
    pub(crate) broker: Kafka,
    pub(crate) config: Config,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
    pub(crate) producer: KafkaProducer,
    pub(crate) log: KafkaLog,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|config| config).await
    }

    pub(crate) async fn with(change: impl FnOnce(Config) -> Config) -> Self {
        let broker = Kafka::start().await;
        let config = Config { topic_prefix: "test.".to_owned(), ..Config::new(vec![broker.bootstrap()]) };
        let config = change(config);
        topics::apply(&config, SIZE).await.unwrap();
        let clock = Arc::new(ManualClock::at(SystemClock.now()));
        let store = MemoryStore::new(Arc::new(RandomIds));
        let producer = KafkaProducer::open(config.clone(), clock.clone()).unwrap();
        let log = KafkaLog::burying(config.clone(), clock.clone(), Arc::new(store.clone())).unwrap();
        Self { broker, config, clock, store, producer, log }
    }

    pub(crate) async fn publish(&self, events: &[Arc<Event>]) {
        self.producer.publish(events).await.unwrap();
    }

    pub(crate) async fn consumer(&self, group: &str) -> Box<dyn EventConsumer> {
        self.log.consumer(group).await.unwrap()
    }
}

/// Fails the test if the event does not happen in time.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    time::timeout(Duration::from_secs(30), event).await.expect("it happens soon")
}

/// Reads until at least `count` records have arrived.
pub(crate) async fn read(consumer: &mut dyn EventConsumer, count: usize) -> Vec<Record> {
    let mut records = vec![];
    while records.len() < count {
        records.extend(soon(consumer.next()).await.unwrap());
    }
    records
}

/// The sequences of a chat's messages, in record order.
pub(crate) fn sequences(records: &[Record], chat_id: ChatId) -> Vec<u64> {
    let sequence = |record: &Record| match &record.event.body {
        EventBody::MessagePersisted { message, .. } if message.chat_id == chat_id => Some(message.sequence.0),
        _ => None,
    };
    records.iter().filter_map(sequence).collect()
}

/// Like [`sequences`], with only the first occurrence of each.
pub(crate) fn first_sequences(records: &[Record], chat_id: ChatId) -> Vec<u64> {
    let mut seen = vec![];
    for sequence in sequences(records, chat_id) {
        if !seen.contains(&sequence) {
            seen.push(sequence);
        }
    }
    seen
}

pub(crate) fn chat() -> ChatId {
    RandomIds.ulid().into()
}

pub(crate) fn user() -> UserId {
    RandomIds.ulid().into()
}

/// The events of a chat's messages.
pub(crate) fn messages(chat_id: ChatId, sequences: impl IntoIterator<Item = u64>) -> Vec<Arc<Event>> {
    sequences.into_iter().map(|sequence| Arc::new(message(chat_id, sequence, SystemClock.now()))).collect()
}

/// Like [`messages`], each with the longest content.
pub(crate) fn long_messages(chat_id: ChatId, sequences: impl IntoIterator<Item = u64>) -> Vec<Arc<Event>> {
    let mut events = messages(chat_id, sequences);
    for event in &mut events {
        if let EventBody::MessagePersisted { message, .. } = &mut Arc::make_mut(event).body {
            message.body.content = "x".repeat(4096).try_into().unwrap();
        }
    }
    events
}

pub(crate) fn message(chat_id: ChatId, sequence: u64, created_at: Timestamp) -> Event {
    let message = Message {
        message_id: RandomIds.ulid().into(),
        chat_id,
        sequence: Sequence(sequence),
        sender_id: user(),
        client_message_id: Uuid::new_v4().into(),
        body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
        created_at,
        expires_at: None,
        state: MessageState::default(),
    };
    Event::message_persisted(message, None)
}

pub(crate) fn member_added(chat_id: ChatId) -> Event {
    let change = MembershipChange::Added;
    let body =
        EventBody::MembershipChanged { chat_id, user_id: user(), change, role: Role::Member, changed_by: user() };
    Event { event_id: RandomIds.ulid().into(), event_time: SystemClock.now(), event_number: None, body }
}

pub(crate) fn renamed(chat_id: ChatId) -> Event {
    let body = EventBody::ChatRenamed { chat_id, name: "new".to_owned().try_into().unwrap(), changed_by: user() };
    Event { event_id: RandomIds.ulid().into(), event_time: SystemClock.now(), event_number: None, body }
}
