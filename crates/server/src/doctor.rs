//! Looks at everything a service needs and says in plain words what is wrong and what to do.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dynamodb::schema;
use embedded::EmbeddedStore;
use keyfile::MasterSecret;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use ports::{Clock, ProcessRole, RandomIds, SystemClock};
use serde::Serialize;
use tidings_kafka::topics::{self, Size};
use tidings_redis::Redis;

use crate::config::{Config, Engine};
use crate::engines;
use crate::outward::receiver;
use crate::tls::Files;

/// What one look found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    pub verdict: Verdict,
    /// What was found, and what to do about it.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    /// It works, and will hurt under load.
    Warning,
    /// The service cannot run like this.
    Bad,
}

/// Free space below which a data directory will soon be in trouble.
const SPACE_BYTES_MIN: u64 = 1 << 30;
/// Open files below which connections will be refused.
const FILES_MIN: u64 = 8192;
/// An fsync slower than this is felt in every send.
const FSYNC_SLOW: Duration = Duration::from_millis(20);

/// A certificate that expires sooner should have been renewed.
const CERTIFICATE_TIME_MIN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Examines this machine for a configuration. Nothing is left behind.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |check, verdict, message| findings.push(Finding { check, verdict, message });
    for (key, address) in config.addresses() {
        match TcpListener::bind(address) {
            Ok(_) => note(key, Verdict::Good, format!("{address} is free")),
            Err(error) => note(
                key,
                Verdict::Bad,
                format!("cannot listen on {address}: {error}; stop what uses it or set `{key}` to another address"),
            ),
        }
    }
    match config.store.engine {
        Engine::Embedded => {
            let (verdict, message) = data_directory(&config.data_dir).await;
            note("data_dir", verdict, message);
            if verdict == Verdict::Good {
                let (verdict, message) = space(&config.data_dir);
                note("disk space", verdict, message);
                let (verdict, message) = fsync(&config.data_dir);
                note("fsync", verdict, message);
            }
        }
        Engine::Dynamodb => {
            for (check, (verdict, message)) in fleet(config).await {
                note(check, verdict, message);
            }
        }
    }
    let (verdict, message) = open_files();
    note("open files", verdict, message);
    for (key, url, secret_file) in config.receivers() {
        match receiver(key, url, secret_file, Arc::new(SystemClock)) {
            Ok(_) => note(key, Verdict::Good, format!("calls are signed with the secret in `{secret_file}`")),
            Err(error) => note(key, Verdict::Bad, format!("{error:#}")),
        }
    }
    for files in Files::of(config).into_iter().flatten() {
        let (verdict, message) = certificate(&files);
        note(files.table, verdict, message);
    }
    if config.dev {
        note("dev", Verdict::Warning, "--dev lets anybody sign in with the code 000000".to_owned());
    }
    findings
}

/// How long the certificate of a listener is good.
fn certificate(files: &Files) -> (Verdict, String) {
    match files.expires_at() {
        Ok(at) if at <= SystemClock.now() => (Verdict::Bad, format!("the certificate has expired at {at}; renew it")),
        Ok(at) if at.since(SystemClock.now()) < CERTIFICATE_TIME_MIN => {
            (Verdict::Warning, format!("the certificate expires at {at}; renew it, and the running service takes it"))
        }
        Ok(at) => (Verdict::Good, format!("the certificate is good until {at}")),
        Err(error) => (Verdict::Bad, chain(&error)),
    }
}

/// Looks at what a process of a fleet stands on, as far as its roles need it.
async fn fleet(config: &Config) -> Vec<(&'static str, (Verdict, String))> {
    let roles = match config.roles() {
        Ok(roles) => roles,
        Err(error) => return vec![("roles", (Verdict::Bad, error.to_string()))],
    };
    let mut findings = vec![("data_dir", token_directory(&config.data_dir))];
    if roles != [ProcessRole::Gateway] {
        findings.push(("dynamodb", tables(config).await));
        findings.push(("kafka", log(config).await));
    }
    findings.push(("redis", redis(config).await));
    findings.push(("rpc", or_bad(engines::security(config), "the processes of the fleet know this one")));
    if roles.contains(&ProcessRole::Api) {
        let path = Path::new(&config.auth.secret_file);
        let secret = MasterSecret::read(path).map_err(anyhow::Error::from);
        findings.push(("auth.secret_file", or_bad(secret, "the keys of the fleet are derived from it")));
    }
    findings
}

/// Where a process of a fleet keeps the token of its operators.
fn token_directory(directory: &Path) -> (Verdict, String) {
    let shown = directory.display();
    match tempfile_in(nearest_existing(directory)) {
        Ok(_) => (Verdict::Good, format!("`{shown}` can be written; it holds the token of operators and no messages")),
        Err(error) => (Verdict::Bad, format!("`{shown}` cannot be written: {error}; choose another --data-dir")),
    }
}

async fn tables(config: &Config) -> (Verdict, String) {
    let settings = engines::dynamodb(config);
    match schema::diff(&dynamodb::connect(&settings).await, &settings).await {
        Ok(drifts) => drift(&drifts, "all tables are there and as defined"),
        // A role may use tables and not describe them; what it may not see is no reason not to start.
        Err(error) if chain(&error).contains("AccessDenied") => (
            Verdict::Warning,
            "it answers, and these credentials may not describe tables; run `tidings schema diff` with yours"
                .to_owned(),
        ),
        Err(error) => (
            Verdict::Bad,
            format!(
                "{}; look at `dynamodb.endpoint`, `dynamodb.region`, the credentials and the network",
                chain(&error)
            ),
        ),
    }
}

async fn log(config: &Config) -> (Verdict, String) {
    let settings = match engines::kafka(config) {
        Ok(settings) => settings,
        Err(error) => return (Verdict::Bad, format!("{error:#}")),
    };
    let size = Size { partitions: config.kafka.partitions, replication: config.kafka.replication };
    match topics::diff(&settings, size).await {
        Ok(drifts) => drift(&drifts, "all topics are there and as defined"),
        Err(error) => (
            Verdict::Bad,
            format!(
                "{}; look at `kafka.brokers` (`{}`), `kafka.security` and the network",
                chain(&error),
                config.kafka.brokers
            ),
        ),
    }
}

/// What is missing keeps a process from working; what is another may be meant.
fn drift(drifts: &[impl std::fmt::Display], well: &str) -> (Verdict, String) {
    let texts: Vec<String> = drifts.iter().map(ToString::to_string).collect();
    match texts.len() {
        0 => (Verdict::Good, well.to_owned()),
        _ if texts.iter().any(|text| text.ends_with("is missing")) => {
            (Verdict::Bad, format!("{}; run `tidings schema apply`", texts.join(", ")))
        }
        _ => (Verdict::Warning, format!("{}; see `tidings schema diff`", texts.join(", "))),
    }
}

async fn redis(config: &Config) -> (Verdict, String) {
    let opened = engines::redis(config).and_then(|settings| Ok(Redis::open(settings, Arc::new(SystemClock))?));
    let redis = match opened {
        Ok(redis) => redis,
        Err(error) => return (Verdict::Bad, format!("{error:#}")),
    };
    match redis.ping().await {
        Ok(()) => (Verdict::Good, "it answers; see that its `maxmemory-policy` is volatile-ttl".to_owned()),
        Err(error) => (
            Verdict::Bad,
            format!(
                "{}; look at `redis.url` (`{}`), the user, its password and the network",
                chain(&error),
                config.redis.url
            ),
        ),
    }
}

fn or_bad<T>(outcome: anyhow::Result<T>, well: &str) -> (Verdict, String) {
    match outcome {
        Ok(_) => (Verdict::Good, well.to_owned()),
        Err(error) => (Verdict::Bad, format!("{error:#}")),
    }
}

/// Opens the store as the service would; a directory that is not there yet only has to be possible.
async fn data_directory(directory: &Path) -> (Verdict, String) {
    let shown = directory.display();
    if !directory.exists() {
        return match tempfile_in(nearest_existing(directory)) {
            Ok(_) => (Verdict::Good, format!("`{shown}` does not exist yet and will be made")),
            Err(error) => (Verdict::Bad, format!("`{shown}` cannot be made: {error}; choose another --data-dir")),
        };
    }
    let store = EmbeddedStore::open(directory, embedded::Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
    match store {
        Ok(store) => {
            store.close().await;
            (Verdict::Good, format!("`{shown}` opens"))
        }
        Err(error) => (Verdict::Bad, chain(&error)),
    }
}

fn space(directory: &Path) -> (Verdict, String) {
    match statvfs(nearest_existing(directory)) {
        Ok(stat) => {
            let free = stat.blocks_available() * stat.fragment_size();
            let message = format!("{} MiB free", free >> 20);
            if free >= SPACE_BYTES_MIN {
                (Verdict::Good, message)
            } else {
                (Verdict::Warning, format!("{message}; below 1 GiB sends will soon fail: make room or move --data-dir"))
            }
        }
        Err(error) => (Verdict::Bad, format!("free space cannot be read: {error}")),
    }
}

/// Times a few small writes with their fsync, as a commit does them.
fn fsync(directory: &Path) -> (Verdict, String) {
    let timed = || -> std::io::Result<Duration> {
        let mut file = tempfile_in(nearest_existing(directory))?;
        let mut times = Vec::new();
        for _ in 0..9 {
            let begin = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(begin.elapsed());
        }
        times.sort();
        Ok(times[times.len() / 2])
    };
    match timed() {
        Ok(median) if median <= FSYNC_SLOW => (Verdict::Good, format!("one takes {:.2} ms", millis(median))),
        Ok(median) => (
            Verdict::Warning,
            format!("one takes {:.2} ms, and every send waits for one; use a faster disk", millis(median)),
        ),
        Err(error) => (Verdict::Bad, format!("a file in the data directory cannot be written: {error}")),
    }
}

fn open_files() -> (Verdict, String) {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= FILES_MIN => (Verdict::Good, format!("up to {soft}")),
        Ok((soft, _)) => {
            (Verdict::Warning, format!("up to {soft}, and each connection takes one; raise it with `ulimit -n 65536`"))
        }
        Err(error) => (Verdict::Warning, format!("the limit cannot be read: {error}")),
    }
}

/// A file without a name, gone when it is closed.
fn tempfile_in(directory: &Path) -> std::io::Result<std::fs::File> {
    use nix::fcntl::OFlag;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).custom_flags(OFlag::O_TMPFILE.bits()).mode(0o600).open(directory)
}

fn nearest_existing(path: &Path) -> &Path {
    let mut path = path;
    while !path.exists() {
        path = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
    }
    path
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
