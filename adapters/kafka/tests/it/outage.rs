use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, Event};
use ports::{Clock, EventLog, EventProducer, Start, StoreError, SystemClock};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tidings_kafka::{Config, EngineHealth, KafkaLog, KafkaProducer};

use crate::fixtures::{World, chat, first_sequences, long_messages, messages, read, sequences, soon};

const TIMEOUT: Duration = Duration::from_secs(3);
/// Allowance for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

async fn world() -> World {
    World::with(|config| Config { publish_timeout: TIMEOUT, ..config }).await
}

#[tokio::test]
async fn a_publish_fails_in_time_while_the_broker_is_unavailable_and_works_afterwards() {
    let mut world = world().await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=10)).await;
    assert_eq!(world.producer.health(), EngineHealth::Ok);
    world.broker.stop().await;
    let late = messages(chat_id, 11..=20);
    for _ in 0..2 {
        fails_in_time(&world, &late).await;
    }
    world.broker.start_again().await;
    soon(async { while world.producer.publish(&late).await.is_err() {} }).await;
    world.publish(&messages(chat_id, 21..=30)).await;
    assert_eq!(world.producer.health(), EngineHealth::Ok);
    order_holds(&world.log, chat_id, 30).await;
}

/// Records that a hanging broker has already received may appear when it resumes, next to their repetitions.
#[tokio::test]
async fn a_publish_fails_in_time_while_the_broker_hangs_and_the_order_holds_when_it_goes_on() {
    let world = world().await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=10)).await;
    world.broker.pause();
    let late = messages(chat_id, 11..=20);
    for _ in 0..2 {
        fails_in_time(&world, &late).await;
    }
    world.broker.resume();
    soon(async { while world.producer.publish(&late).await.is_err() {} }).await;
    world.publish(&messages(chat_id, 21..=30)).await;
    order_holds(&world.log, chat_id, 30).await;
}

#[tokio::test]
async fn a_publish_in_the_middle_of_which_the_broker_dies_is_repeated_in_order() {
    let mut world = world().await;
    let chat_id = chat();
    let mut published = 0;
    for _ in 0..5 {
        let events = messages(chat_id, published + 1..=published + 500);
        let publish = world.producer.publish(&events);
        tokio::pin!(publish);
        // Polled once, so the records are in flight.
        let early = futures_util::poll!(&mut publish);
        world.broker.stop().await;
        let outcome = if early.is_ready() { Ok(()) } else { publish.await };
        world.broker.start_again().await;
        if outcome.is_err() {
            soon(async { while world.producer.publish(&events).await.is_err() {} }).await;
        }
        published += 500;
    }
    order_holds(&world.log, chat_id, published).await;
}

#[tokio::test]
async fn a_consumer_waits_through_an_outage() {
    let mut world = world().await;
    let chat_id = chat();
    world.publish(&messages(chat_id, 1..=3)).await;
    let mut consumer = world.consumer("group").await;
    read(&mut *consumer, 3).await;
    consumer.commit().await.unwrap();
    world.broker.stop().await;
    soon(async {
        while world.log.health() == EngineHealth::Ok {
            tokio::task::yield_now().await
        }
    })
    .await;
    world.broker.start_again().await;
    soon(async { while world.producer.publish(&messages(chat_id, [4])).await.is_err() {} }).await;
    let records = read(&mut *consumer, 1).await;
    assert_eq!(first_sequences(&records, chat_id), [4]);
    consumer.commit().await.unwrap();
    assert_eq!(world.log.health(), EngineHealth::Ok);
}

async fn fails_in_time(world: &World, events: &[Arc<Event>]) {
    let began = Instant::now();
    let failure = world.producer.publish(events).await.unwrap_err();
    let took = began.elapsed();
    assert!((TIMEOUT..TIMEOUT + SLACK).contains(&took), "{took:?}");
    let StoreError::Unavailable(reason) = failure else { panic!("{failure}") };
    assert_eq!(reason.to_string(), "kafka did not confirm within 3s");
    let EngineHealth::Failing { since, .. } = world.producer.health() else { panic!("the publish has failed") };
    assert_eq!(since, world.clock.now());
}

/// Asserts that every message is in the log, and that each appears for the first time after its predecessors.
async fn order_holds(log: &KafkaLog, chat_id: ChatId, last: u64) {
    let mut consumer = log.consumer("order").await.unwrap();
    let mut records = vec![];
    while !sequences(&records, chat_id).contains(&last) {
        records.extend(soon(consumer.next()).await.unwrap());
    }
    assert_eq!(first_sequences(&records, chat_id), (1..=last).collect::<Vec<_>>());
}

mod on_demand {
    use super::*;

    const PRODUCE: RDKafkaApiKey = RDKafkaApiKey::Produce;

    fn cluster() -> (MockCluster<'static, rdkafka::producer::DefaultProducerContext>, KafkaProducer, KafkaLog) {
        let cluster = MockCluster::new(3).unwrap();
        for topic in ["messages.persisted", "memberships.changed", "chats.created"] {
            cluster.create_topic(topic, 1, 3).unwrap();
        }
        let config = Config::new(vec![cluster.bootstrap_servers()]);
        let clock = Arc::new(SystemClock);
        let producer = KafkaProducer::open(config.clone(), clock.clone()).unwrap();
        (cluster, producer, KafkaLog::reading(config, clock).unwrap())
    }

    #[tokio::test]
    async fn errors_that_pass_are_not_noticed() {
        let (cluster, producer, log) = cluster();
        let chat_id = chat();
        use RDKafkaRespErr::*;
        let errors = [
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ];
        cluster.request_errors(PRODUCE, &errors);
        producer.publish(&messages(chat_id, 1..=100)).await.unwrap();
        let records = read(&mut *log.consumer("group").await.unwrap(), 100).await;
        assert_eq!(first_sequences(&records, chat_id), (1..=100).collect::<Vec<_>>());
    }

    /// The events fill several requests, so that later ones are in flight when the first is refused.
    #[tokio::test]
    async fn records_after_a_refused_one_are_not_written_before_it() {
        let (cluster, producer, log) = cluster();
        let chat_id = chat();
        let events = long_messages(chat_id, 1..=600);
        for _ in 0..3 {
            cluster.request_errors(PRODUCE, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
            producer.publish(&events).await.unwrap_err();
        }
        producer.publish(&events).await.unwrap();
        order_holds(&log, chat_id, 600).await;
    }

    /// Real brokers refuse an external commit while a group has members; the broker of the other tests does not.
    #[tokio::test]
    async fn a_group_that_is_consumed_is_not_moved() {
        let (cluster, producer, log) = cluster();
        producer.publish(&messages(chat(), 1..=3)).await.unwrap();
        cluster
            .request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID; 100]);
        let Err(StoreError::Unavailable(refusal)) = log.seek("group", Start::Oldest).await else {
            panic!("the group is active")
        };
        assert_eq!(refusal.to_string(), "group `tidings.group` has active consumers; stop them, then move the group");
        assert_eq!(log.health(), EngineHealth::Ok);
        cluster.clear_request_errors(RDKafkaApiKey::OffsetCommit);
        log.seek("group", Start::Oldest).await.unwrap();
        assert_eq!(log.lag("group").await.unwrap(), 3);
    }
}
