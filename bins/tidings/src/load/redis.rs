#[cfg(feature = "fleet")]
use std::time::Duration;
use std::time::Instant;

use anyhow::{Context, ensure};
#[cfg(feature = "fleet")]
use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};

use super::target::check_host;

/// Longest wait for a connection, and for an answer.
#[cfg(feature = "fleet")]
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to Redis for INFO. A node of a cluster reports only its own share.
pub(super) struct RedisInfo {
    connection: InfoConnection,
}

#[cfg(feature = "fleet")]
type InfoConnection = MultiplexedConnection;
/// Only a binary with fleet support connects to Redis.
#[cfg(not(feature = "fleet"))]
enum InfoConnection {}

/// Counters of Redis at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedisCounters {
    pub(super) at: Instant,
    /// Commands processed since its start, including those inside scripts.
    pub(super) commands: u64,
    pub(super) memory_bytes: u64,
    pub(super) keys: u64,
}

impl RedisInfo {
    /// Connects to the Redis at `url`, which must be on this machine unless `allow_remote`.
    pub(super) async fn connect(url: &str, allow_remote: bool) -> anyhow::Result<Self> {
        // Reports contain the command line, and so must not contain a password.
        ensure!(
            url.starts_with("redis://") && !url.contains('@'),
            "--redis takes redis://HOST:PORT, without TLS, user and password"
        );
        check_host(url, allow_remote)?;
        Ok(Self { connection: open(url).await? })
    }

    /// Reads the counters. The INFO command itself is included in the next counts.
    pub(super) async fn counts(&mut self) -> anyhow::Result<RedisCounters> {
        let info = info(&mut self.connection).await?;
        RedisCounters::read(&info, Instant::now()).context("the answer of Redis to INFO lacks a count")
    }
}

#[cfg(feature = "fleet")]
async fn open(url: &str) -> anyhow::Result<InfoConnection> {
    let patience =
        AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
    let client = Client::open(url).with_context(|| format!("`{url}` is not the URL of a Redis"))?;
    let connection = client.get_multiplexed_async_connection_with_config(&patience).await;
    connection.with_context(|| format!("no Redis is at `{url}`"))
}

#[cfg(feature = "fleet")]
async fn info(connection: &mut InfoConnection) -> anyhow::Result<String> {
    redis::cmd("INFO").query_async(connection).await.context("Redis does not answer INFO")
}

#[cfg(not(feature = "fleet"))]
async fn open(_: &str) -> anyhow::Result<InfoConnection> {
    Err(server::config::without_fleet())
}

#[cfg(not(feature = "fleet"))]
async fn info(connection: &mut InfoConnection) -> anyhow::Result<String> {
    match *connection {}
}

impl RedisCounters {
    fn read(info: &str, at: Instant) -> Option<Self> {
        let count = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim_end().parse().ok());
        // A database without keys has no line.
        let databases = info.lines().filter_map(|line| line.strip_prefix("db")?.split_once(":keys="));
        let keys = databases.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum();
        let (commands, memory_bytes) = (count("total_commands_processed:")?, count("used_memory:")?);
        Some(Self { at, commands, memory_bytes, keys })
    }

    /// Commands of other clients since then: one INFO command after `earlier` was ours.
    pub(super) fn commands_since(&self, earlier: &Self) -> u64 {
        self.commands.saturating_sub(earlier.commands + 1)
    }

    /// Commands per second of other clients since then.
    pub(super) fn commands_per_second_since(&self, earlier: &Self) -> f64 {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        self.commands_since(earlier) as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const INFO: &str = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\n\r\n# Stats\r\n\
        total_connections_received:7\r\ntotal_commands_processed:120\r\n\r\n# Keyspace\r\n\
        db0:keys=12,expires=3,avg_ttl=0,subexpiry=0\r\ndb7:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n\r\n";

    #[test]
    fn counts_are_read_from_an_answer_to_info() {
        let at = Instant::now();
        let expected = RedisCounters { at, commands: 120, memory_bytes: 1 << 20, keys: 13 };
        assert_eq!(RedisCounters::read(INFO, at), Some(expected));
        let empty = INFO.split_once("db0").unwrap().0;
        assert_eq!(RedisCounters::read(empty, at), Some(RedisCounters { keys: 0, ..expected }));
        for lacking in ["", "used_memory:1\r\n", "used_memory:1\r\ntotal_commands_processed:many\r\n"] {
            assert_eq!(RedisCounters::read(lacking, at), None, "{lacking:?}");
        }
    }

    #[test]
    fn the_question_itself_is_not_counted() {
        let earlier = RedisCounters { at: Instant::now(), commands: 100, memory_bytes: 0, keys: 0 };
        let later = RedisCounters { at: earlier.at + Duration::from_secs(4), commands: 121, ..earlier };
        assert_eq!((later.commands_since(&earlier), later.commands_per_second_since(&earlier)), (20, 5.0));
    }
}
