use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use ports::{BoxError, Clock, EngineHealth, HealthCell, StoreError};
use redis::{FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::Semaphore;
use tokio::time;

use crate::call::SlotCommand;
use crate::config::{Config, Url};
use crate::link::NodeConnections;

/// A client of a Redis or a Redis Cluster, with its health.
///
/// The first command opens a connection, and the client reconnects automatically. A command takes at most its timeout,
/// and fails at once when a single Redis refuses the connection: callers decide how to continue without Redis. All
/// commands are idempotent, so a command is retried if its connection breaks. Clones share the same connections.
#[derive(Clone)]
pub struct Redis(Arc<RedisClientState>);

struct RedisClientState {
    link: NodeConnections,
    clock: Arc<dyn Clock>,
    permits: Semaphore,
    health: HealthCell,
}

/// Why Redis cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum RedisOpenError {
    /// A setting is invalid.
    #[error("the redis settings cannot be used")]
    Settings(#[source] RedisError),
    /// The list of URLs is empty.
    #[error("no redis url is given")]
    NoUrl,
    /// A CA certificate is given for a URL without TLS.
    #[error("a certificate authority is given and `{}` is without tls; write rediss://", .0.as_str())]
    PlainUrl(Url),
}

/// Why a command has no answer, apart from errors of Redis.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("redis did not answer within {0:?}")]
    TooLate(Duration),
    #[error("{0} redis commands are already pending")]
    TooMany(usize),
}

impl Redis {
    /// Creates the client without connecting. Must run within a Tokio runtime.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, RedisOpenError> {
        let permits = Semaphore::new(config.commands_max);
        let link = NodeConnections::new(config)?;
        Ok(Self(Arc::new(RedisClientState { link, clock, permits, health: HealthCell::new() })))
    }

    /// Pings Redis, or each master of a cluster.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.answer(self.0.link.run_at_each("PING")).await.map(drop)
    }

    /// The `INFO` text of each master. It does not affect health, since the ACL user may lack the permission.
    pub(crate) async fn infos(&self) -> Result<Vec<String>, BoxError> {
        let values = self.within_bounds(self.0.link.run_at_each("INFO")).await?;
        Ok(values.into_iter().map(String::from_redis_value).collect::<Result<_, _>>()?)
    }

    /// Health according to the last command.
    pub fn health(&self) -> EngineHealth {
        self.0.health.get()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn config(&self) -> &Config {
        self.0.link.config()
    }

    /// Runs one command.
    pub(crate) async fn run_one<T: FromRedisValue>(&self, call: SlotCommand) -> Result<T, StoreError> {
        let mut values = self.run(&[call]).await?;
        // Redis gives one answer to one command.
        values.pop().ok_or_else(|| StoreError::unavailable("redis gave no answer"))
    }

    /// Runs commands in one round trip per node, and returns their answers in the same order. They are not a
    /// transaction; commands on one slot run in order.
    pub(crate) async fn run<T: FromRedisValue>(&self, calls: &[SlotCommand]) -> Result<Vec<T>, StoreError> {
        let values = self.answer(self.0.link.run(calls)).await?;
        values.into_iter().map(|value| T::from_redis_value(value).map_err(StoreError::unavailable)).collect()
    }

    /// Waits for answers within the limits, and records the health.
    async fn answer(&self, work: impl Future<Output = RedisResult<Vec<Value>>>) -> Result<Vec<Value>, StoreError> {
        let outcome = self.within_bounds(work).await;
        match &outcome {
            Ok(_) => self.0.health.set_ok(),
            Err(error) => self.0.health.set_failing(self.now(), &error.to_string()),
        }
        outcome.map_err(StoreError::Unavailable)
    }

    async fn within_bounds(&self, work: impl Future<Output = RedisResult<Vec<Value>>>) -> Result<Vec<Value>, BoxError> {
        let Config { command_timeout, commands_max, .. } = *self.config();
        let Ok(_permit) = self.0.permits.try_acquire() else {
            return Err(Unanswered::TooMany(commands_max).into());
        };
        match time::timeout(command_timeout, work).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => {
                // Another node may have replaced the silent one.
                self.0.link.forget_slots();
                Err(Unanswered::TooLate(command_timeout).into())
            }
        }
    }
}
