use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Event, Timestamp};
use memory::MemoryStore;
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, EventLog, StoreError, UndeliveredItem};
use protocol::event::EventEnvelope;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use tidings_kafka::KafkaLog;

use crate::fixtures::{World, chat, message, read, renamed, sequences, soon};

/// A key, a value, and the expected reason.
type Raw = (Option<String>, Option<Vec<u8>>, &'static str);

/// Records that cannot be read as events.
fn rubbish() -> Vec<Raw> {
    let chat_id = chat();
    let key = Some(chat_id.to_string());
    let good = encode(&message(chat_id, 1, Timestamp::default()));
    let newer = String::from_utf8(good.clone()).unwrap().replace("\"event_version\":1", "\"event_version\":2");
    vec![
        (key.clone(), Some(b"{\"event_type\":7}".to_vec()), "the event is unreadable at line 1 column 15"),
        (key.clone(), Some(vec![0xff; 100]), "the event is unreadable at line 1 column 1"),
        (key.clone(), Some(newer.into_bytes()), "event version is 2, 1 is known"),
        (key.clone(), None, "the record is empty"),
        (None, Some(good.clone()), "the record has no key, or one that is not its chat"),
        (Some(chat().to_string()), Some(good), "the record has no key, or one that is not its chat"),
        (key.clone(), Some(encode(&renamed(chat_id))), "the record belongs into another topic"),
        (key, Some(vec![b' '; (1 << 20) + 1]), "the record has 1048577 bytes, 1048576 is the limit"),
    ]
}

fn encode(event: &Event) -> Vec<u8> {
    EventEnvelope { event: Cow::Borrowed(event), position: None }.encode().to_vec()
}

#[tokio::test]
async fn an_unreadable_record_becomes_a_dead_letter_and_blocks_no_other() {
    let world = World::start().await;
    let chat_id = chat();
    produce(&world, &rubbish()).await;
    let good = message(chat_id, 1, Timestamp::default());
    produce(&world, &[(Some(chat_id.to_string()), Some(encode(&good)), "")]).await;
    let mut consumer = world.consumer("group").await;
    let records = read(&mut *consumer, 1).await;
    assert_eq!(sequences(&records, chat_id), [1]);
    consumer.commit().await.unwrap();
    assert_eq!(world.log.lag("group").await.unwrap(), 0);

    let letters = world.store.dead_letters(None, 100).await.unwrap();
    let reasons: Vec<_> = letters.iter().map(|letter| &*letter.reason).collect();
    assert_eq!(reasons, rubbish().into_iter().map(|(_, _, reason)| reason).collect::<Vec<_>>());
    for letter in letters {
        let UndeliveredItem::Unreadable { position } = letter.what else { panic!("{:?}", letter.what) };
        assert!(matches!(world.log.event(position).await, Err(StoreError::Corrupt { .. })));
    }

    let copies = dead_letters(&world, rubbish().len());
    for (offset, (copy, (key, value, reason))) in copies.iter().zip(rubbish()).enumerate() {
        let header = |wanted: &str| {
            let header = copy.headers().unwrap().iter().find(|header| header.key == wanted).unwrap();
            String::from_utf8(header.value.unwrap().to_vec()).unwrap()
        };
        assert_eq!(header("topic"), "test.messages.persisted");
        assert_eq!(header("partition"), "1");
        assert_eq!(header("offset"), offset.to_string());
        assert_eq!(header("reason"), reason);
        assert_eq!(copy.key().is_some(), key.is_some());
        // The copy omits a value that is too long.
        let expected = value.filter(|value| value.len() <= 1 << 20).map_or(0, |value| value.len());
        assert_eq!(copy.payload().map_or(0, <[u8]>::len), expected);
    }
}

#[tokio::test]
async fn a_reader_without_write_access_skips_an_unreadable_record() {
    let world = World::start().await;
    let log = KafkaLog::reading(world.config.clone(), world.clock.clone()).unwrap();
    produce(&world, &rubbish()).await;
    let chat_id = chat();
    world.publish(&[Arc::new(message(chat_id, 1, Timestamp::default()))]).await;
    let records = read(&mut *log.consumer("group").await.unwrap(), 1).await;
    assert_eq!(sequences(&records, chat_id), [1]);
    assert_eq!(world.store.dead_letters(None, 100).await.unwrap(), []);
}

#[tokio::test]
async fn a_record_is_not_passed_over_before_it_is_buried() {
    let world = World::start().await;
    let grudging = Arc::new(Grudging { store: world.store.clone(), refuses: AtomicBool::new(true) });
    let log = KafkaLog::burying(world.config.clone(), world.clock.clone(), grudging.clone()).unwrap();
    let chat_id = chat();
    produce(&world, &rubbish()[..1]).await;
    let good = message(chat_id, 1, Timestamp::default());
    produce(&world, &[(Some(chat_id.to_string()), Some(encode(&good)), "")]).await;
    let mut consumer = log.consumer("group").await.unwrap();
    for _ in 0..2 {
        let failure = soon(consumer.next()).await.unwrap_err();
        assert_eq!(std::error::Error::source(&failure).unwrap().to_string(), "full");
    }
    grudging.refuses.store(false, Ordering::Relaxed);
    let records = read(&mut *consumer, 1).await;
    assert_eq!(sequences(&records, chat_id), [1]);
    assert_eq!(world.store.dead_letters(None, 100).await.unwrap().len(), 1);
}

/// A dead-letter store that refuses writes while `refuses` is set.
struct Grudging {
    store: MemoryStore,
    refuses: AtomicBool,
}

#[async_trait]
impl DeadLetterStore for Grudging {
    async fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(StoreError::unavailable("full")),
            false => self.store.add_dead_letter(letter).await,
        }
    }

    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(after, count).await
    }

    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError> {
        self.store.dead_letter(id).await
    }

    async fn remove_dead_letter(&self, id: DeadLetterId) -> Result<bool, StoreError> {
        self.store.remove_dead_letter(id).await
    }
}

async fn produce(world: &World, records: &[Raw]) {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", world.broker.bootstrap()).set("message.max.bytes", "10000000");
    let producer: FutureProducer = settings.create().unwrap();
    for (key, value, _) in records {
        let mut record = FutureRecord::to("test.messages.persisted").partition(1);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(value) = value {
            record = record.payload(value);
        }
        producer.send(record, Duration::from_secs(5)).await.unwrap();
    }
}

fn dead_letters(world: &World, count: usize) -> Vec<OwnedMessage> {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", world.broker.bootstrap()).set("group.id", "test");
    let consumer: BaseConsumer = settings.create().unwrap();
    let mut from = TopicPartitionList::new();
    from.add_partition_offset("test.dead_letters", 0, Offset::Beginning).unwrap();
    consumer.assign(&from).unwrap();
    let next = |_| consumer.poll(Duration::from_secs(30)).expect("there is another").unwrap().detach();
    (0..count).map(next).collect()
}
