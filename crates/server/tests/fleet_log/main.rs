//! The log of a fleet keeps the promises of the port: commits of DynamoDB, brought into Kafka by the relay.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use domain::{ChatId, Timestamp};
use dynamodb::{DynamoStore, schema};
use engines::{Dynamo, Kafka};
use ingest::Relay;
use ports::contract::{Sabotage, Stores};
use ports::{Clock, Outbox, RandomIds, SystemClock};
use tidings_kafka::topics::{self, Size};
use tidings_kafka::{KafkaLog, KafkaProducer};
use tokio::task::JoinSet;

ports::contract_tests!(log: stores().await);

async fn stores() -> Stores {
    let dynamo = Dynamo::start().await;
    let config = dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() };
    let client = client(&dynamo.endpoint());
    schema::apply(&client, &config).await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(DynamoStore::new(client, &config, clock.clone(), Arc::new(RandomIds)));

    let kafka = Kafka::start().await;
    let config = tidings_kafka::Config::new(vec![kafka.bootstrap()]);
    topics::apply(&config, Size { partitions: 2, replication: 1 }).await.unwrap();
    let producer = Arc::new(KafkaProducer::open(config.clone(), clock.clone()).unwrap());
    let log = Arc::new(KafkaLog::burying(config, clock.clone(), store.clone()).unwrap());
    let relay = Relay { outbox: store.clone(), producer, clock };
    let mut relays = JoinSet::new();
    relays.spawn(async move { relay.run(std::future::pending()).await });
    Stores {
        message_writer: store.clone(),
        message_reader: store.clone(),
        chat_writer: store.clone(),
        chat_reader: store.clone(),
        user_writer: store.clone(),
        user_reader: store.clone(),
        contacts: store.clone(),
        blocks: store.clone(),
        reports: store.clone(),
        last_seen: store.clone(),
        sessions: store.clone(),
        codes: store.clone(),
        watermarks: store.clone(),
        log,
        requests: store.clone(),
        push_devices: store.clone(),
        notices: store.clone(),
        dead_letters: store.clone(),
        accounts: store.clone(),
        expirer: store.clone(),
        sabotage: Arc::new(Engines { store, _relays: relays, _dynamo: dynamo, _kafka: kafka }),
    }
}

fn client(endpoint: &str) -> Client {
    let credentials = Credentials::new("test", "test", None, None, "test");
    let sdk = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build();
    Client::new(&sdk)
}

/// What a store under contract needs to live.
struct Engines {
    store: Arc<DynamoStore>,
    _relays: JoinSet<()>,
    _dynamo: Dynamo,
    _kafka: Kafka,
}

#[async_trait]
impl Sabotage for Engines {
    async fn drop_head(&self, chat_id: ChatId) {
        panic!("the suite of the log leaves the head of `{chat_id}` alone");
    }

    async fn purge_expired(&self) {
        while self.store.purge_expired(SystemClock.now()).await.unwrap() > 0 {}
    }

    async fn published(&self) {
        while !self.store.overdue(Timestamp::MAX).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
