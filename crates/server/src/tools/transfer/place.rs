use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use domain::Timestamp;
use embedded::EmbeddedStore;
use notify::EventWebhook;
use ports::{AuditLog, AuditSource, ExportSource, ImportTarget, Outbox, Peers, ProcessRole, RandomIds, SystemClock};
use tidings_kafka::KafkaAudit;
use tidings_redis::{Redis, RedisPeers};

use super::{Left, ensure_finished};
use crate::config::{Config, Engine};
use crate::engines;
use crate::tools::opened::dynamo_store;

/// A service that stands still, from which or to which things move.
pub(super) struct Place {
    /// What its store is made of.
    pub(super) engine: &'static str,
    pub(super) source: Arc<dyn ExportSource>,
    pub(super) target: Arc<dyn ImportTarget>,
    pub(super) audit: Arc<dyn AuditSource>,
    pub(super) log: Arc<dyn AuditLog>,
    /// What waits for the log, where that is beside the store.
    outbox: Option<Arc<dyn Outbox>>,
    embedded: Option<EmbeddedStore>,
}

impl Place {
    pub(super) async fn to_export(config: &Config) -> anyhow::Result<Self> {
        let directory = &config.data_dir;
        ensure!(
            config.store.engine != Engine::Embedded || directory.exists(),
            "there is no data directory `{}`; name it with --data-dir",
            directory.display()
        );
        let place = Self::open(config).await?;
        match place.target.is_unfinished().await.map_err(Into::into).and_then(ensure_finished) {
            Ok(()) => Ok(place),
            Err(failure) => {
                place.close().await;
                Err(failure)
            }
        }
    }

    pub(super) async fn to_import(config: &Config) -> anyhow::Result<Self> {
        let place = Self::open(config).await?;
        if config.store.engine == Engine::Dynamodb {
            place.ensure_log_is_empty().await?;
        }
        Ok(place)
    }

    async fn open(config: &Config) -> anyhow::Result<Self> {
        match config.store.engine {
            Engine::Embedded => Self::embedded(config),
            Engine::Dynamodb => Self::fleet(config).await,
        }
    }

    fn embedded(config: &Config) -> anyhow::Result<Self> {
        // What is past its time is left as it is: whether it moves is decided row by row, at one moment.
        let settings = embedded::Config { forgets: false, ..embedded::Config::default() };
        let store = EmbeddedStore::open(&config.data_dir, settings, Arc::new(SystemClock), Arc::new(RandomIds))
            .context("one process holds a data directory at a time; stop the service")?;
        let shared = Arc::new(store.clone());
        Ok(Self {
            engine: "embedded",
            source: shared.clone(),
            target: shared.clone(),
            audit: shared.clone(),
            log: shared,
            outbox: None,
            embedded: Some(store),
        })
    }

    async fn fleet(config: &Config) -> anyhow::Result<Self> {
        ensure_stopped(config).await?;
        let store = Arc::new(dynamo_store(config).await);
        let groups = vec![EventWebhook::GROUP.to_owned()];
        let log = KafkaAudit::open(engines::kafka(config)?, Arc::new(SystemClock), groups);
        Ok(Self {
            engine: "dynamodb",
            source: store.clone(),
            target: store.clone(),
            audit: store.clone(),
            log: Arc::new(log.context("Kafka cannot be used")?),
            outbox: Some(store),
            embedded: None,
        })
    }

    /// What is on its way somewhere and stays behind.
    pub(super) async fn left(&self) -> anyhow::Result<Left> {
        let places = self.log.consumers().await.context("the log does not say where its consumers are")?;
        let of_webhook = places.iter().filter(|place| place.group == EventWebhook::GROUP);
        let webhook_events = of_webhook.map(|place| place.end.saturating_sub(place.next)).sum();
        let unpublished_chats = match &self.outbox {
            Some(outbox) => outbox.overdue(Timestamp::MAX).await.context("the store cannot be read")?.len() as u64,
            None => 0,
        };
        Ok(Left { webhook_events, unpublished_chats })
    }

    /// A log that tells of chats which are not in the store would be of another one.
    async fn ensure_log_is_empty(&self) -> anyhow::Result<()> {
        let mut after = None;
        loop {
            let page = self.log.records(after.as_ref(), 1).await.context("Kafka cannot be used")?;
            if let Some(record) = page.rows.first() {
                bail!(
                    "the log has records of another store, the first at {} of `{}`; set `kafka.topic_prefix` to a name \
                     of its own, and make the topics with `tidings schema apply`",
                    record.key,
                    record.table
                );
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    pub(super) async fn close(self) {
        let Self { source, target, audit, log, outbox, embedded, .. } = self;
        drop((source, target, audit, log, outbox));
        if let Some(store) = embedded {
            store.close().await;
        }
    }
}

/// A store in which others write has no moment that could move.
async fn ensure_stopped(config: &Config) -> anyhow::Result<()> {
    let redis = Redis::open(engines::redis(config)?, Arc::new(SystemClock)).context("Redis cannot be used")?;
    let peers = RedisPeers::new(redis);
    for role in ProcessRole::ALL {
        let found = peers.peers(role).await.context(
            "Redis does not say whether the fleet stands still; an empty one will do, once all processes are stopped",
        )?;
        if let Some(peer) = found.first() {
            let address = &peer.address;
            bail!(
                "a process of the fleet is running, {role} at {address}; stop all of them, and wait 15 s if one was killed"
            );
        }
    }
    Ok(())
}
