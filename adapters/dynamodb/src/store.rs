use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use domain::ChatId;
use ports::{Clock, CommitQueue, Health, Ids};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use crate::Config;
use crate::commit::Counter;
use crate::config::{CALL_DEADLINE, CONNECT_TIMEOUT, REQUEST_ATTEMPTS, REQUEST_PAUSE, REQUEST_TIMEOUT};
use crate::db::Db;
use crate::lane::Lanes;
use crate::meter::Tries;

/// Chats that are committed to at once, at the most; the others wait. It bounds the connections to the service.
const COMMITS_MAX: usize = 256;
/// Chats whose counters are remembered, so that a busy chat costs one round trip for each commit.
const COUNTERS_MAX: usize = 100_000;

/// All durable ports, and the outbox of the log, on DynamoDB. Clones are handles on the same store.
#[derive(Clone)]
pub struct DynamoStore {
    db: Db,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    lanes: Lanes,
    commits: Arc<Semaphore>,
    counters: Arc<Cache<ChatId, Counter>>,
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

/// A client that gives up within our deadline.
pub(crate) fn client(sdk: &SdkConfig) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(REQUEST_TIMEOUT)
        .operation_timeout(CALL_DEADLINE)
        .build();
    let retries = RetryConfig::standard().with_max_attempts(REQUEST_ATTEMPTS).with_initial_backoff(REQUEST_PAUSE);
    let config = aws_sdk_dynamodb::config::Builder::from(sdk).timeout_config(timeouts).retry_config(retries);
    let config = config.interceptor(Tries);
    Client::from_conf(config.build())
}

impl DynamoStore {
    /// The store in the tables that [`schema::apply`](crate::schema::apply) has made. Events get their ids from `ids`.
    pub fn new(client: Client, config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            db: Db::new(client, &config.table_prefix, clock.clone()),
            clock,
            ids,
            lanes: Lanes::default(),
            commits: Arc::new(Semaphore::new(COMMITS_MAX)),
            counters: Arc::new(Cache::new(COUNTERS_MAX)),
            queue: Arc::default(),
        }
    }

    /// What the last request has met.
    pub fn health(&self) -> Health {
        self.db.health()
    }

    /// The same store, asked through another client.
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

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn commits(&self) -> &Semaphore {
        &self.commits
    }

    pub(crate) fn counters(&self) -> &Cache<ChatId, Counter> {
        &self.counters
    }

    /// Messages and changes that this process has committed and its relay has not taken yet.
    pub fn waiting_for_relay(&self) -> usize {
        self.queue().waiting()
    }

    pub(crate) fn queue(&self) -> &CommitQueue {
        &self.queue
    }
}
