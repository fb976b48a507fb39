use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use domain::ChatId;
use ports::{Clock, CommitQueue, EngineHealth, Ids};
use quick_cache::sync::Cache;

use crate::Config;
use crate::commit::ChatCounter;
use crate::config::{CALL_DEADLINE, CONNECT_TIMEOUT, REQUEST_ATTEMPTS, REQUEST_PAUSE, REQUEST_TIMEOUT};
use crate::db::Db;
use crate::meter::AttemptCounter;
use crate::restrictions::RestrictionCache;

/// Limit of cached counters. With a cached counter, a commit takes one round trip.
const COUNTERS_MAX: usize = 100_000;

/// All durable ports, and the outbox of the log, on DynamoDB. Clones share the same store.
#[derive(Clone)]
pub struct DynamoStore {
    db: Db,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    counters: Arc<Cache<ChatId, ChatCounter>>,
    restrictions: Arc<RestrictionCache>,
    queue: Arc<CommitQueue>,
}

/// A client for the service that `config` names, with the credentials of the environment.
pub async fn connect(config: &Config) -> Client {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    if let Some(endpoint) = &config.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    client(&loader.load().await)
}

/// A client with our timeouts and retries.
pub(crate) fn client(sdk: &SdkConfig) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(REQUEST_TIMEOUT)
        .operation_timeout(CALL_DEADLINE)
        .build();
    let retries = RetryConfig::standard().with_max_attempts(REQUEST_ATTEMPTS).with_initial_backoff(REQUEST_PAUSE);
    let config = aws_sdk_dynamodb::config::Builder::from(sdk).timeout_config(timeouts).retry_config(retries);
    let config = config.interceptor(AttemptCounter);
    Client::from_conf(config.build())
}

impl DynamoStore {
    /// The store in the tables that [`schema::apply`](crate::schema::apply) has created. `ids` generates the ids of
    /// events.
    pub fn new(client: Client, config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            db: Db::new(client, &config.table_prefix, clock.clone()),
            clock,
            ids,
            counters: Arc::new(Cache::new(COUNTERS_MAX)),
            restrictions: Arc::default(),
            queue: Arc::default(),
        }
    }

    /// Health according to the last request.
    pub fn health(&self) -> EngineHealth {
        self.db.health()
    }

    /// The same store with another client.
    #[cfg(test)]
    pub(crate) fn through(&self, client: Client, config: &Config) -> Self {
        Self { db: Db::new(client, &config.table_prefix, self.clock.clone()), ..self.clone() }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn ids(&self) -> &dyn Ids {
        &*self.ids
    }

    pub(crate) fn counters(&self) -> &Cache<ChatId, ChatCounter> {
        &self.counters
    }

    pub(crate) fn restriction_cache(&self) -> &RestrictionCache {
        &self.restrictions
    }

    /// Number of messages and changes that this process has committed and its relay has not taken yet.
    pub fn waiting_for_relay(&self) -> usize {
        self.queue().waiting()
    }

    pub(crate) fn queue(&self) -> &CommitQueue {
        &self.queue
    }
}
