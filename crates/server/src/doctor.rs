//! Looks at everything a service needs and says in plain words what is wrong and what to do.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use embedded::EmbeddedStore;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use ports::{RandomIds, SystemClock};
use serde::Serialize;

use crate::config::Config;
use crate::outward::receiver;

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
    let (verdict, message) = data_directory(&config.data_dir).await;
    note("data_dir", verdict, message);
    if verdict == Verdict::Good {
        let (verdict, message) = space(&config.data_dir);
        note("disk space", verdict, message);
        let (verdict, message) = fsync(&config.data_dir);
        note("fsync", verdict, message);
    }
    let (verdict, message) = open_files();
    note("open files", verdict, message);
    for (key, url, secret_file) in config.receivers() {
        match receiver(key, url, secret_file, Arc::new(SystemClock)) {
            Ok(_) => note(key, Verdict::Good, format!("calls are signed with the secret in `{secret_file}`")),
            Err(error) => note(key, Verdict::Bad, format!("{error:#}")),
        }
    }
    if config.dev {
        note("dev", Verdict::Warning, "--dev lets anybody sign in with the code 000000".to_owned());
    }
    findings
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
