use std::path::Path;
use std::sync::Arc;

use dynamodb::schema;
use keyfile::MasterSecret;
use ports::{ProcessRole, SystemClock, error_chain};
use tidings_kafka::topics::{self, TopicSize};
use tidings_redis::Redis;

use super::{CheckFinding, CheckResult, nearest_existing, tempfile_in};
use crate::config::Config;
use crate::engines;
use crate::health::need;

/// Checks the dependencies of a fleet's process, as far as its roles need them.
pub(crate) async fn examine(config: &Config) -> Vec<CheckFinding> {
    let roles = match config.roles() {
        Ok(roles) => roles,
        Err(error) => return vec![CheckFinding::new("roles", (CheckResult::Bad, error.to_string()))],
    };
    let mut findings = vec![CheckFinding::new("data_dir", token_directory(&config.data_dir))];
    if roles != [ProcessRole::Gateway] {
        findings.push(CheckFinding::new("dynamodb", tables(config).await));
        findings.push(CheckFinding::new("kafka", log(config).await));
    }
    findings.push(CheckFinding::new("redis", redis(config).await));
    for finding in &mut findings {
        if finding.verdict == CheckResult::Bad
            && let Some(row) = need(&roles, finding.check)
        {
            finding.message.push_str(&format!(". Meanwhile: {}", row.meanwhile));
        }
    }
    findings.push(CheckFinding::new(
        "rpc",
        or_bad(engines::security(config), "the credentials for calls between processes can be read"),
    ));
    if let Some(read) = engines::assertion_key(config).transpose() {
        findings.push(CheckFinding::new(
            "rpc.assertion_secret_file",
            or_bad(read, "the key of assertions is derived from it"),
        ));
    }
    if roles.contains(&ProcessRole::Api) {
        let path = Path::new(&config.auth.secret_file);
        let secret = MasterSecret::read(path).map_err(anyhow::Error::from);
        findings
            .push(CheckFinding::new("auth.secret_file", or_bad(secret, "the keys of the fleet are derived from it")));
    }
    findings
}

/// Checks the directory of a fleet's process, which holds its admin token.
fn token_directory(directory: &Path) -> (CheckResult, String) {
    let shown = directory.display();
    match (tempfile_in(nearest_existing(directory)), embedded::mode_open_to_others(directory)) {
        (Ok(_), Ok(None)) => {
            (CheckResult::Good, format!("`{shown}` can be written; it holds the token of operators and no messages"))
        }
        (Ok(_), Ok(Some(mode))) => {
            (CheckResult::Warning, format!("`{shown}` has mode {mode:04o}; restrict it to its owner with `chmod 700`"))
        }
        (Err(error), _) | (_, Err(error)) => {
            (CheckResult::Bad, format!("`{shown}` cannot be written: {error}; choose another --data-dir"))
        }
    }
}

async fn tables(config: &Config) -> (CheckResult, String) {
    let settings = engines::dynamodb(config);
    match schema::diff(&dynamodb::connect(&settings).await, &settings).await {
        Ok(drifts) => drift(&drifts, "all tables exist and match their definition"),
        // A role may use tables without the right to describe them, which must not prevent a start.
        Err(error) if error_chain(&error).to_string().contains("AccessDenied") => (
            CheckResult::Warning,
            "it answers, and these credentials may not describe tables; run `tidings store schema diff` with yours"
                .to_owned(),
        ),
        Err(error) => (
            CheckResult::Bad,
            format!(
                "{}; look at `dynamodb.endpoint`, `dynamodb.region`, the credentials and the network",
                error_chain(&error)
            ),
        ),
    }
}

async fn log(config: &Config) -> (CheckResult, String) {
    let settings = match engines::kafka(config) {
        Ok(settings) => settings,
        Err(error) => return (CheckResult::Bad, format!("{error:#}")),
    };
    let size = TopicSize { partitions: config.kafka.partitions, replication: config.kafka.replication };
    match topics::diff(&settings, size).await {
        Ok(drifts) => drift(&drifts, "all topics exist and match their definition"),
        Err(error) => (
            CheckResult::Bad,
            format!(
                "{}; look at `kafka.brokers` (`{}`), `kafka.security` and the network",
                error_chain(&error),
                config.kafka.brokers
            ),
        ),
    }
}

/// A missing table or topic keeps a process from working. A difference may be intended.
fn drift(drifts: &[impl std::fmt::Display], well: &str) -> (CheckResult, String) {
    let texts: Vec<String> = drifts.iter().map(ToString::to_string).collect();
    match texts.len() {
        0 => (CheckResult::Good, well.to_owned()),
        _ if texts.iter().any(|text| text.ends_with("is missing")) => {
            (CheckResult::Bad, format!("{}; run `tidings store schema apply`", texts.join(", ")))
        }
        _ => (CheckResult::Warning, format!("{}; see `tidings store schema diff`", texts.join(", "))),
    }
}

async fn redis(config: &Config) -> (CheckResult, String) {
    let opened = engines::redis(config).and_then(|settings| Ok(Redis::open(settings, Arc::new(SystemClock))?));
    let redis = match opened {
        Ok(redis) => redis,
        Err(error) => return (CheckResult::Bad, format!("{error:#}")),
    };
    match redis.ping().await {
        Ok(()) => (CheckResult::Good, "it answers; see that its `maxmemory-policy` is volatile-ttl".to_owned()),
        Err(error) => (
            CheckResult::Bad,
            format!(
                "{}; look at `redis.url` (`{}`), the user, its password and the network",
                error_chain(&error),
                config.redis.url
            ),
        ),
    }
}

fn or_bad<T>(outcome: anyhow::Result<T>, well: &str) -> (CheckResult, String) {
    match outcome {
        Ok(_) => (CheckResult::Good, well.to_owned()),
        Err(error) => (CheckResult::Bad, format!("{error:#}")),
    }
}
