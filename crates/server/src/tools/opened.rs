use std::sync::Arc;

use anyhow::{Context, ensure};
use dynamodb::DynamoStore;
use embedded::EmbeddedStore;
use ports::{EventLog, EventProducer, MessageReader, Outbox, RandomIds, SystemClock};
use tidings_kafka::{KafkaLog, KafkaProducer};

use crate::config::{Config, Engine};
use crate::engines;

/// Store and log of a service, on whichever engine.
pub(super) struct Opened {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) messages: Arc<dyn MessageReader>,
    /// What is between store and log where they are two.
    pub(super) between: Option<Between>,
    embedded: Option<EmbeddedStore>,
}

/// What brings events from the store into a log beside it.
pub(super) struct Between {
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) producer: Arc<dyn EventProducer>,
}

impl Opened {
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        match config.store.engine {
            Engine::Embedded => Self::embedded(config),
            Engine::Dynamodb => Self::fleet(config).await,
        }
    }

    fn embedded(config: &Config) -> anyhow::Result<Self> {
        let directory = &config.data_dir;
        // A look must not make a store where there is none.
        ensure!(directory.exists(), "there is no data directory `{}`; name it with --data-dir", directory.display());
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
        let store = EmbeddedStore::open(directory, embedded::Config::default(), clock, ids)
            .context("the log is in the data directory, which one process holds at a time")?;
        let shared = Arc::new(store.clone());
        Ok(Self { log: shared.clone(), messages: shared, between: None, embedded: Some(store) })
    }

    async fn fleet(config: &Config) -> anyhow::Result<Self> {
        let store = Arc::new(dynamo_store(config).await);
        let kafka = engines::kafka(config)?;
        let log = KafkaLog::reading(kafka.clone(), Arc::new(SystemClock)).context("Kafka cannot be used")?;
        let producer = KafkaProducer::open(kafka, Arc::new(SystemClock)).context("Kafka cannot be used")?;
        let between = Between { outbox: store.clone(), producer: Arc::new(producer) };
        Ok(Self { log: Arc::new(log), messages: store, between: Some(between), embedded: None })
    }

    /// Whether nobody writes while this is open.
    pub(super) fn is_still(&self) -> bool {
        self.embedded.is_some()
    }

    /// Makes durable what was done to the log.
    pub(super) async fn close(self) {
        if let Some(store) = self.embedded {
            drop((self.log, self.messages));
            store.close().await;
        }
    }
}

/// The store of a fleet.
pub(super) async fn dynamo_store(config: &Config) -> DynamoStore {
    let settings = engines::dynamodb(config);
    let client = dynamodb::connect(&settings).await;
    DynamoStore::new(client, &settings, Arc::new(SystemClock), Arc::new(RandomIds))
}
