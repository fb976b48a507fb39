use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use dynamodb::DynamoStore;
use ports::{
    AuditLog, AuditSource, BoxError, Engine, EventLog, EventProducer, ExportSource, ImportTarget, Outbox, PeerRegistry,
    RandomIds, Stores, SystemClock,
};
use tidings_kafka::{KafkaAudit, KafkaLog, KafkaProducer};
use tidings_redis::{Redis, RedisPeers};

use crate::config::Config;
use crate::engines;
use crate::tools::events::own_groups;

/// The engine of a fleet: the store in DynamoDB, the log in Kafka, and the registry of live processes in Redis.
pub(crate) struct FleetEngine {
    config: Config,
    store: Arc<DynamoStore>,
    log: Arc<KafkaLog>,
    audit_log: Arc<KafkaAudit>,
    location: String,
}

impl FleetEngine {
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        let store = Arc::new(dynamo_store(config).await);
        let kafka = engines::kafka(config)?;
        let log = KafkaLog::reading(kafka.clone(), Arc::new(SystemClock)).context("Kafka cannot be used")?;
        let groups = own_groups().map(str::to_owned).to_vec();
        let audit_log = KafkaAudit::open(kafka, Arc::new(SystemClock), groups);
        let audit_log = audit_log.context("Kafka cannot be used")?;
        let tables = engines::dynamodb(config);
        let place = tables.endpoint.as_deref().or(tables.region.as_deref()).unwrap_or_default();
        let location = format!("dynamodb {place} {}", tables.table_prefix);
        Ok(Self { config: config.clone(), store, log: Arc::new(log), audit_log: Arc::new(audit_log), location })
    }
}

#[async_trait]
impl Engine for FleetEngine {
    fn name(&self) -> &'static str {
        "dynamodb"
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn peers(&self) -> Result<Option<Arc<dyn PeerRegistry>>, BoxError> {
        let redis = Redis::open(engines::redis(&self.config)?, Arc::new(SystemClock));
        Ok(Some(Arc::new(RedisPeers::new(redis.context("Redis cannot be used")?))))
    }

    fn stores(&self) -> Stores {
        Stores::on(&self.store)
    }

    fn log(&self) -> Arc<dyn EventLog> {
        self.log.clone()
    }

    fn outbox(&self) -> Option<Arc<dyn Outbox>> {
        Some(self.store.clone())
    }

    fn producer(&self) -> Result<Option<Arc<dyn EventProducer>>, BoxError> {
        let producer = KafkaProducer::open(engines::kafka(&self.config)?, Arc::new(SystemClock))?;
        Ok(Some(Arc::new(producer)))
    }

    fn audit(&self) -> (Arc<dyn AuditSource>, Arc<dyn AuditLog>) {
        (self.store.clone(), self.audit_log.clone())
    }

    fn transfer(&self) -> (Arc<dyn ExportSource>, Arc<dyn ImportTarget>) {
        (self.store.clone(), self.store.clone())
    }

    /// Every write of DynamoDB and Kafka is durable when it returns, so there is nothing to wait for.
    async fn close(self: Box<Self>) {}
}

/// The store of a fleet.
pub(crate) async fn dynamo_store(config: &Config) -> DynamoStore {
    let settings = engines::dynamodb(config);
    let client = dynamodb::connect(&settings).await;
    DynamoStore::new(client, &settings, Arc::new(SystemClock), Arc::new(RandomIds))
}
