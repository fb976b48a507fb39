//! Checks everything that a service needs, and reports problems and their remedies in plain words.

#[cfg(feature = "fleet")]
mod fleet;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use embedded::EmbeddedStore;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use ports::{Clock, RandomIds, SystemClock, error_chain};
use serde::Serialize;

use crate::config::{Config, StoreEngine, UnsafeSeverity};
use crate::embedded_config::store_key;
use crate::outward::receiver;
use crate::tls::CertificateFiles;

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckFinding {
    /// The checked item.
    pub check: &'static str,
    pub verdict: CheckResult,
    /// The finding and its remedy.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    Good,
    /// It works, but will cause problems under load.
    Warning,
    /// The service cannot run with it.
    Bad,
}

/// Less free space than this will soon be a problem for a data directory.
const SPACE_BYTES_MIN: u64 = 1 << 30;
/// With fewer open files than this, connections will be refused.
const FILES_MIN: u64 = 8192;
/// A slower fsync noticeably delays every send.
const FSYNC_SLOW: Duration = Duration::from_millis(20);

/// A certificate should be renewed before this much time is left.
const CERTIFICATE_TIME_MIN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Checks this machine against a configuration, without lasting changes.
pub async fn examine(config: &Config) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let mut note = |check, verdict, message| findings.push(CheckFinding { check, verdict, message });
    for (key, address) in config.addresses() {
        match TcpListener::bind(address) {
            Ok(_) => note(key, CheckResult::Good, format!("{address} is free")),
            Err(error) => note(
                key,
                CheckResult::Bad,
                format!(
                    "cannot listen on {address}: {error}; stop the process that uses it or set `{key}` to another address"
                ),
            ),
        }
    }
    match config.store.engine {
        StoreEngine::Embedded => {
            // Checked first: to open the store restricts its files.
            let open = embedded::mode_open_to_others(&config.data_dir);
            let (verdict, message) = data_directory(config).await;
            note("data_dir", verdict, message);
            if verdict == CheckResult::Good {
                let (verdict, message) = access(&config.data_dir, open);
                note("access", verdict, message);
            }
            if verdict == CheckResult::Good {
                let (verdict, message) = space(&config.data_dir);
                note("disk space", verdict, message);
                let (verdict, message) = fsync(&config.data_dir);
                note("fsync", verdict, message);
            }
        }
        #[cfg(feature = "fleet")]
        StoreEngine::Dynamodb => {
            for (check, (verdict, message)) in fleet::examine(config).await {
                note(check, verdict, message);
            }
        }
        #[cfg(not(feature = "fleet"))]
        StoreEngine::Dynamodb => note("store.engine", CheckResult::Bad, crate::config::without_fleet().to_string()),
    }
    let (verdict, message) = open_files();
    note("open files", verdict, message);
    for (key, url, secret_file) in config.receivers() {
        match receiver(key, url, secret_file, Arc::new(SystemClock)) {
            Ok(_) => note(key, CheckResult::Good, format!("calls are signed with the secret in `{secret_file}`")),
            Err(error) => note(key, CheckResult::Bad, format!("{error:#}")),
        }
    }
    for files in CertificateFiles::of(config).into_iter().flatten() {
        let (verdict, message) = certificate(&files);
        note(files.table, verdict, message);
    }
    if let Ok(Some(party)) = config.relying_party() {
        let (rp_id, origins) = (party.rp_id(), party.origins().join(", "));
        note("auth.passkeys", CheckResult::Good, format!("passkeys are bound to `{rp_id}`, for pages of {origins}"));
    }
    for setting in config.unsafe_settings() {
        let accepted = config.dev || config.insecure;
        let verdict = match setting.severity {
            UnsafeSeverity::Refused if !accepted => CheckResult::Bad,
            _ => CheckResult::Warning,
        };
        note(setting.key, verdict, setting.message);
    }
    if config.dev {
        note("dev", CheckResult::Warning, "--dev lets any user sign in with the code 000000".to_owned());
    }
    findings
}

/// The validity of a listener's certificate.
fn certificate(files: &CertificateFiles) -> (CheckResult, String) {
    match files.expires_at() {
        Ok(at) if at <= SystemClock.now() => {
            (CheckResult::Bad, format!("the certificate has expired at {at}; renew it"))
        }
        Ok(at) if at.since(SystemClock.now()) < CERTIFICATE_TIME_MIN => (
            CheckResult::Warning,
            format!("the certificate expires at {at}; renew it, and the running service takes it"),
        ),
        Ok(at) => (CheckResult::Good, format!("the certificate is good until {at}")),
        Err(error) => (CheckResult::Bad, error_chain(&error).to_string()),
    }
}

/// Opens the store as the service would. If the directory does not exist yet, checks that it can be created.
async fn data_directory(config: &Config) -> (CheckResult, String) {
    let directory = &config.data_dir;
    let key = match store_key(config) {
        Ok(key) => key,
        Err(error) => return (CheckResult::Bad, format!("{error:#}")),
    };
    let encrypted = key.as_ref().map(|key| format!(", encrypted with key {}", key.id())).unwrap_or_default();
    let shown = directory.display();
    if !directory.exists() {
        return match tempfile_in(nearest_existing(directory)) {
            Ok(_) => (CheckResult::Good, format!("`{shown}` does not exist yet and will be created")),
            Err(error) => {
                (CheckResult::Bad, format!("`{shown}` cannot be created: {error}; choose another --data-dir"))
            }
        };
    }
    let settings = embedded::Config { key, ..embedded::Config::default() };
    let store = EmbeddedStore::open(directory, settings, Arc::new(SystemClock), Arc::new(RandomIds));
    match store {
        Ok(store) => {
            store.close().await;
            (CheckResult::Good, format!("`{shown}` opens{encrypted}"))
        }
        Err(error) => (CheckResult::Bad, error_chain(&error).to_string()),
    }
}

/// Whether other users have access to the data directory. `was_open` is its mode before the store was opened, if they
/// had.
fn access(directory: &Path, was_open: std::io::Result<Option<u32>>) -> (CheckResult, String) {
    let shown = directory.display();
    match (was_open, embedded::mode_open_to_others(directory)) {
        (Ok(None), Ok(None)) => (CheckResult::Good, "only its owner can use the data directory".to_owned()),
        (Ok(Some(mode)), Ok(None)) => (
            CheckResult::Warning,
            format!("`{shown}` had mode {mode:04o}, so other users could read it; it is now restricted to its owner"),
        ),
        (_, Ok(Some(mode))) => (
            CheckResult::Warning,
            format!(
                "`{shown}` has mode {mode:04o} and belongs to another user; run `chown` to the user of the service and \
                 `chmod 700`"
            ),
        ),
        (Err(error), _) | (_, Err(error)) => {
            (CheckResult::Bad, format!("the mode of `{shown}` cannot be read: {error}"))
        }
    }
}

fn space(directory: &Path) -> (CheckResult, String) {
    match statvfs(nearest_existing(directory)) {
        Ok(stat) => {
            let free = stat.blocks_available() * stat.fragment_size();
            let message = format!("{} MiB free", free >> 20);
            if free >= SPACE_BYTES_MIN {
                (CheckResult::Good, message)
            } else {
                (
                    CheckResult::Warning,
                    format!("{message}; below 1 GiB sends will soon fail: make room or move --data-dir"),
                )
            }
        }
        Err(error) => (CheckResult::Bad, format!("free space cannot be read: {error}")),
    }
}

/// Times a few small writes with fsync, like those of a commit.
fn fsync(directory: &Path) -> (CheckResult, String) {
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
        Ok(median) if median <= FSYNC_SLOW => (CheckResult::Good, format!("one takes {:.2} ms", millis(median))),
        Ok(median) => (
            CheckResult::Warning,
            format!("one takes {:.2} ms, and every send waits for one; use a faster disk", millis(median)),
        ),
        Err(error) => (CheckResult::Bad, format!("a file in the data directory cannot be written: {error}")),
    }
}

fn open_files() -> (CheckResult, String) {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= FILES_MIN => (CheckResult::Good, format!("up to {soft}")),
        Ok((soft, _)) => (
            CheckResult::Warning,
            format!("up to {soft}, and each connection takes one; raise it with `ulimit -n 65536`"),
        ),
        Err(error) => (CheckResult::Warning, format!("the limit cannot be read: {error}")),
    }
}

/// An unnamed file, which disappears when it is closed.
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
