//! The log of a fleet fulfils the contract of the port: commits to DynamoDB, published to Kafka by the relay.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::AttributeValue;
use contract::{ContractStores, FaultInjection};
use domain::{ChatId, Timestamp};
use dynamodb::{DynamoStore, schema};
use engines::{Dynamo, Kafka};
use ingest::Relay;
use ports::{Clock, Outbox, RandomIds, Stores, SystemClock};
use tidings_kafka::topics::{self, TopicSize};
use tidings_kafka::{KafkaLog, KafkaProducer};
use tokio::task::JoinSet;

contract::tests!(log: stores().await);

async fn stores() -> ContractStores {
    let dynamo = Dynamo::start().await;
    let config = dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() };
    let client = client(&dynamo.endpoint());
    schema::apply(&client, &config).await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(DynamoStore::new(client.clone(), &config, clock.clone(), Arc::new(RandomIds)));

    let kafka = Kafka::start().await;
    let config = tidings_kafka::Config::new(vec![kafka.bootstrap()]);
    topics::apply(&config, TopicSize { partitions: 2, replication: 1 }).await.unwrap();
    let producer = Arc::new(KafkaProducer::open(config.clone(), clock.clone()).unwrap());
    let log = Arc::new(KafkaLog::burying(config, clock.clone(), store.clone()).unwrap());
    let relay = Relay { outbox: store.clone(), producer, clock };
    let mut relays = JoinSet::new();
    relays.spawn(async move { relay.run(std::future::pending()).await });
    ContractStores {
        stores: Stores::on(&store),
        log,
        sabotage: Arc::new(LogEngines { store, client, _relays: relays, _dynamo: dynamo, _kafka: kafka }),
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

/// The engines and tasks that the store under test needs.
struct LogEngines {
    store: Arc<DynamoStore>,
    client: Client,
    _relays: JoinSet<()>,
    _dynamo: Dynamo,
    _kafka: Kafka,
}

#[async_trait]
impl FaultInjection for LogEngines {
    async fn drop_head(&self, chat_id: ChatId) {
        let table = format!("{}{}", dynamodb::Config::default().table_prefix, schema::Table::ChatCounters.name());
        let key = AttributeValue::S(chat_id.to_string());
        self.client.delete_item().table_name(table).key("chat_id", key).send().await.unwrap();
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
