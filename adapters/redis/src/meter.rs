use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use metrics::{counter, gauge};
use ports::{BoxError, error_chain};
use redis::{ErrorKind, RedisError, ServerErrorKind};
use tokio::time;
use tracing::warn;

use crate::client::Redis;

/// Interval at which Redis is queried.
const INTERVAL: Duration = Duration::from_secs(15);

/// Fields of `INFO`, and our metric names.
const TOTALS: [(&str, &str); 4] = [
    ("keyspace_hits", "tidings_redis_keyspace_hits_total"),
    ("keyspace_misses", "tidings_redis_keyspace_misses_total"),
    ("expired_keys", "tidings_redis_expired_keys_total"),
    ("evicted_keys", "tidings_redis_evicted_keys_total"),
];
const LEVELS: [(&str, &str); 3] = [
    ("connected_clients", "tidings_redis_connected_clients"),
    ("pubsub_channels", "tidings_redis_pubsub_channels"),
    ("pubsub_patterns", "tidings_redis_pubsub_patterns"),
];

/// Exports the state of Redis as metrics.
///
/// The masters of a cluster are aggregated: their counts are added, and the fullest memory is reported.
pub struct RedisMetrics {
    redis: Redis,
    /// The last counts of each server, by run id, which changes with a restart.
    told: HashMap<String, [u64; TOTALS.len()]>,
    is_refused: bool,
}

impl RedisMetrics {
    /// The metrics of this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis, told: HashMap::new(), is_refused: false }
    }

    /// Queries and exports; never returns.
    pub async fn run(mut self) -> Infallible {
        loop {
            self.record().await;
            time::sleep(INTERVAL).await;
        }
    }

    async fn record(&mut self) {
        let infos = self.redis.infos().await;
        let is_available = match &infos {
            Ok(_) => true,
            // Not logged here: the components that use Redis log why it does not answer.
            Err(error) => is_refusal(error),
        };
        gauge!("tidings_redis_available").set(if is_available { 1.0 } else { 0.0 });
        match infos {
            Ok(infos) => self.record_infos(infos.iter().map(|text| Info::parse(text)).collect()),
            Err(error) if is_available && !self.is_refused => {
                self.is_refused = true;
                warn!(error = %error_chain(&*error), "redis refuses INFO; its metrics are missing until the ACL user has +info");
            }
            Err(_) => {}
        }
    }

    fn record_infos(&mut self, infos: Vec<Info<'_>>) {
        for (field, name) in LEVELS {
            gauge!(name).set(infos.iter().map(|info| info.number(field)).sum::<u64>() as f64);
        }
        if let Some(ratio) = infos.iter().filter_map(Info::memory_ratio).reduce(f64::max) {
            gauge!("tidings_redis_used_memory_ratio").set(ratio);
        }
        let mut told = HashMap::new();
        for info in infos {
            let run_id = info.0.get("run_id").copied().unwrap_or_default();
            let before = self.told.get(run_id).copied().unwrap_or_default();
            let totals = TOTALS.map(|(field, _)| info.number(field));
            for (((_, name), total), before) in TOTALS.iter().zip(totals).zip(before) {
                counter!(*name).increment(total.saturating_sub(before));
            }
            told.insert(run_id.to_owned(), totals);
        }
        self.told = told;
    }
}

/// The parsed `INFO` of one server.
struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    /// A number, zero if it is missing.
    fn number(&self, field: &str) -> u64 {
        self.0.get(field).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// The memory usage relative to its limit, if there is one.
    fn memory_ratio(&self) -> Option<f64> {
        let bound = self.number("maxmemory");
        (bound > 0).then(|| self.number("used_memory") as f64 / bound as f64)
    }
}

fn is_refusal(error: &BoxError) -> bool {
    let error = error.downcast_ref::<RedisError>();
    error.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use ports::SystemClock;

    use super::*;
    use crate::config::{Config, Nodes};

    fn info(run_id: &str, hits: u64, used: u64, bound: u64) -> String {
        format!(
            "# Server\r\nrun_id:{run_id}\r\n\r\n# Stats\r\nkeyspace_hits:{hits}\r\nconnected_clients:3\r\n\
             used_memory:{used}\r\nmaxmemory:{bound}\r\n"
        )
    }

    #[tokio::test]
    async fn counts_from_before_a_restart_still_count() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let nodes = Nodes::Single("redis://localhost".parse().unwrap());
        let mut meter = RedisMetrics::new(Redis::open(Config::new(nodes), Arc::new(SystemClock)).unwrap());
        for (one, other, expected) in [
            (info("a", 10, 1, 0), info("b", 5, 1, 0), 15),
            (info("a", 12, 1, 0), info("b", 5, 1, 0), 17),
            (info("restarted", 1, 1, 0), info("b", 6, 1, 0), 19),
        ] {
            meter.record_infos(vec![Info::parse(&one), Info::parse(&other)]);
            let told = recorder.handle().render();
            assert!(told.contains(&format!("tidings_redis_keyspace_hits_total {expected}\n")), "{told}");
            assert!(told.contains("tidings_redis_connected_clients 6\n"), "{told}");
        }
    }

    #[tokio::test]
    async fn the_fullest_memory_counts() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let nodes = Nodes::Single("redis://localhost".parse().unwrap());
        let mut meter = RedisMetrics::new(Redis::open(Config::new(nodes), Arc::new(SystemClock)).unwrap());
        let infos = [info("a", 0, 1, 4), info("b", 0, 3, 4), info("c", 0, 9, 0)];
        meter.record_infos(infos.iter().map(|text| Info::parse(text)).collect());
        let told = recorder.handle().render();
        assert!(told.contains("tidings_redis_used_memory_ratio 0.75\n"), "{told}");
    }

    #[test]
    fn malformed_numbers_are_refused() {
        let info = Info::parse("\u{0}\nkeyspace_hits\nevicted_keys:many\n:\n");
        assert_eq!(TOTALS.map(|(field, _)| info.number(field)), [0; 4]);
        assert_eq!(info.memory_ratio(), None);
    }
}
