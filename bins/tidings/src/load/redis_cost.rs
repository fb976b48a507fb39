use std::time::Duration;

use tokio::time::{sleep, sleep_until};

use super::measure::MeasurementWindow;
use super::redis::{RedisCounters, RedisInfo};
use super::report::LoadReport;

/// Longest baseline measurement before clients connect.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Redis operations per heartbeat of a connection in ADR-010 §3.1, and the share of them that is allowed here.
const ADR_COMMANDS: f64 = 5.0;
const SHARE_MAX: f64 = 0.1;
/// Bytes per connection in ADR-010 §3.1, which uses one key per connection.
const ADR_BYTES: f64 = 500.0;
const MIB: f64 = (1 << 20) as f64;

/// Measures the cost of connections in Redis, from its own counters.
pub(super) struct RedisCost {
    redis: RedisInfo,
    pub(super) seen: RedisSamples,
}

/// Redis counters at successive moments, in the order of the fields.
#[derive(Clone, Copy)]
pub(super) struct RedisSamples {
    first: RedisCounters,
    before_connecting: RedisCounters,
    connected: RedisCounters,
    from: RedisCounters,
    until: RedisCounters,
}

impl RedisCost {
    /// Starts to measure the Redis at `url`, which must be on this machine unless `allow_remote`.
    pub(super) async fn of(url: &str, allow_remote: bool) -> anyhow::Result<Self> {
        let mut redis = RedisInfo::connect(url, allow_remote).await?;
        let now = redis.counts().await?;
        let seen = RedisSamples { first: now, before_connecting: now, connected: now, from: now, until: now };
        Ok(Self { redis, seen })
    }

    /// Measures the baseline without connections, for at most [`QUIET_MAX`].
    pub(super) async fn watch_quiet(&mut self, time: Duration) -> anyhow::Result<()> {
        self.seen.first = self.redis.counts().await?;
        sleep(time.min(QUIET_MAX)).await;
        self.seen.before_connecting = self.redis.counts().await?;
        Ok(())
    }

    /// Measures the cost of idle connections, until the window is over.
    pub(super) async fn watch_held(&mut self, window: MeasurementWindow) -> anyhow::Result<()> {
        self.seen.connected = self.redis.counts().await?;
        sleep_until(window.from.into()).await;
        self.seen.from = self.redis.counts().await?;
        sleep_until(window.until.into()).await;
        self.seen.until = self.redis.counts().await?;
        Ok(())
    }
}

impl RedisSamples {
    /// Adds the counts to a report, next to the estimates of ADR-010 §3.1.
    pub(super) fn add_to(&self, report: &mut LoadReport, connections: usize, heartbeat_interval: Duration) {
        let Self { first, before_connecting: before, connected, from, until } = self;
        let connections = connections as f64;
        let beats = connections / heartbeat_interval.as_secs_f64();
        let held = until.commands_per_second_since(from);
        report.figure("Redis commands before connecting", before.commands_per_second_since(first), "commands/s");
        let each = |commands: u64| commands as f64 / connections;
        report.figure("Redis commands to connect one", each(connected.commands_since(before)), "commands");
        report.figure("Redis commands in the warm-up for each", each(from.commands_since(connected)), "commands");
        report.figure("Redis commands while holding", held, "commands/s");
        report.figure("ADR-010: beats x 5", beats * ADR_COMMANDS, "commands/s");
        report.figure("Redis commands per connection and beat", held / beats, "commands");
        report.figure("ADR-010: per connection and beat", ADR_COMMANDS, "commands");
        report.figure("share of ADR-010's commands", 100.0 * held / beats / ADR_COMMANDS, "%");
        report.figure("share of them that is allowed", 100.0 * SHARE_MAX, "%");
        let grown = until.memory_bytes.saturating_sub(before.memory_bytes) as f64;
        report.figure("Redis memory before connecting", before.memory_bytes as f64 / MIB, "MiB");
        report.figure("Redis memory while holding", until.memory_bytes as f64 / MIB, "MiB");
        report.figure("Redis memory per connection", grown / connections, "bytes");
        report.figure("ADR-010: memory per connection", ADR_BYTES, "bytes");
        report.figure("Redis keys before connecting", before.keys as f64, "keys");
        report.figure("Redis keys while holding", until.keys as f64, "keys");
        report.figure("ADR-010: keys", connections, "keys");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use expect_test::expect;

    use super::*;
    use crate::load::Workload;

    #[test]
    fn each_phase_counts_its_own_events() {
        let start = Instant::now();
        let at = |seconds: u64, commands, memory_bytes, keys| RedisCounters {
            at: start + Duration::from_secs(seconds),
            commands,
            memory_bytes,
            keys,
        };
        let seen = RedisSamples {
            first: at(0, 100, 1 << 20, 5),
            before_connecting: at(10, 121, 2 << 20, 5),
            connected: at(12, 8_122, 3 << 20, 3_000),
            from: at(14, 10_000, 3 << 20, 3_000),
            until: at(74, 16_001, 4 << 20, 3_005),
        };
        let mut report = LoadReport::new(Workload::Connections, "1000 connections".to_owned(), 60.0);
        seen.add_to(&mut report, 1000, Duration::from_secs(5));
        let figures: Vec<String> = report
            .figures
            .iter()
            .map(|figure| format!("{}: {:.2} {}", figure.name, figure.value, figure.unit))
            .collect();
        expect![[r#"
            Redis commands before connecting: 2.00 commands/s
            Redis commands to connect one: 8.00 commands
            Redis commands in the warm-up for each: 1.88 commands
            Redis commands while holding: 100.00 commands/s
            ADR-010: beats x 5: 1000.00 commands/s
            Redis commands per connection and beat: 0.50 commands
            ADR-010: per connection and beat: 5.00 commands
            share of ADR-010's commands: 10.00 %
            share of them that is allowed: 10.00 %
            Redis memory before connecting: 2.00 MiB
            Redis memory while holding: 4.00 MiB
            Redis memory per connection: 2097.15 bytes
            ADR-010: memory per connection: 500.00 bytes
            Redis keys before connecting: 5.00 keys
            Redis keys while holding: 3005.00 keys
            ADR-010: keys: 1000.00 keys"#]]
        .assert_eq(&figures.join("\n"));
    }
}
