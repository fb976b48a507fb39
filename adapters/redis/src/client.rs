use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use ports::{BoxError, Clock, Health, HealthCell, StoreError};
use redis::{FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::Semaphore;
use tokio::time;

use crate::call::Call;
use crate::config::{Config, Url};
use crate::link::Link;

/// A Redis or a Redis Cluster, and the state of the way to it.
///
/// Connecting happens with the first command, and again by itself whenever a connection is lost. A command takes no
/// longer than its timeout, and fails at once when the one Redis refuses: whoever calls decides what to do without it.
/// All commands of ours may be repeated, so one whose connection dies under it is tried again. Clones share everything.
#[derive(Clone)]
pub struct Redis(Arc<Shared>);

struct Shared {
    link: Link,
    clock: Arc<dyn Clock>,
    permits: Semaphore,
    health: HealthCell,
}

/// Why Redis cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting does not make sense.
    #[error("the redis settings cannot be used")]
    Settings(#[source] RedisError),
    /// There is nothing to connect to.
    #[error("no redis url is given")]
    NoUrl,
    /// There is a certificate authority and a URL without TLS.
    #[error("a certificate authority is given and `{}` is without tls; write rediss://", .0.as_str())]
    PlainUrl(Url),
}

/// What a command met, other than an error of Redis.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("redis did not answer within {0:?}")]
    TooLate(Duration),
    #[error("{0} commands wait for redis already")]
    TooMany(usize),
}

impl Redis {
    /// Prepares everything and connects to nothing yet. Needs a Tokio runtime to be there.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let permits = Semaphore::new(config.commands_max);
        let link = Link::new(config)?;
        Ok(Self(Arc::new(Shared { link, clock, permits, health: HealthCell::new() })))
    }

    /// Asks Redis whether it is there: each master, if it is a cluster.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.answer(self.0.link.run_at_each("PING")).await.map(drop)
    }

    /// What each master says of itself. Health does not hang on it: a user may not be allowed to ask.
    pub(crate) async fn infos(&self) -> Result<Vec<String>, BoxError> {
        let values = self.within_bounds(self.0.link.run_at_each("INFO")).await?;
        Ok(values.into_iter().map(String::from_redis_value).collect::<Result<_, _>>()?)
    }

    /// What the last command has met.
    pub fn health(&self) -> Health {
        self.0.health.get()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn config(&self) -> &Config {
        self.0.link.config()
    }

    /// Runs one command.
    pub(crate) async fn run_one<T: FromRedisValue>(&self, call: Call) -> Result<T, StoreError> {
        let mut values = self.run(&[call]).await?;
        // Redis gives one answer to one command.
        values.pop().ok_or_else(|| StoreError::unavailable("redis gave no answer"))
    }

    /// Runs commands in one round trip to each node that is concerned, and returns their answers in the same order. They
    /// are not a transaction; those on one slot run in order.
    pub(crate) async fn run<T: FromRedisValue>(&self, calls: &[Call]) -> Result<Vec<T>, StoreError> {
        let values = self.answer(self.0.link.run(calls)).await?;
        values.into_iter().map(|value| T::from_redis_value(value).map_err(StoreError::unavailable)).collect()
    }

    /// Waits for answers as long as it may, and notes what came of it.
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
                // Another node may have taken the place of one that is silent.
                self.0.link.forget_slots();
                Err(Unanswered::TooLate(command_timeout).into())
            }
        }
    }
}
