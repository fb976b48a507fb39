use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use embedded::EmbeddedStore;
use nix::sys::statvfs::statvfs;
use ports::{RandomIds, SystemClock, error_chain};

use super::{CheckFinding, CheckResult, RunningService, nearest_existing, tempfile_in};
use crate::config::Config;
use crate::embedded_config::store_key;

/// Less free space than this will soon be a problem for a data directory.
const SPACE_BYTES_MIN: u64 = 1 << 30;
/// A slower fsync noticeably delays every send.
const FSYNC_SLOW: Duration = Duration::from_millis(20);

/// Checks the data directory of one machine.
pub(crate) async fn examine(config: &Config, running: Option<&RunningService>) -> Vec<CheckFinding> {
    let directory = &config.data_dir;
    // Checked first: to open the store restricts its files.
    let was_open = embedded::mode_open_to_others(directory);
    let mut findings = vec![CheckFinding::new("data_dir", data_directory(config, running).await)];
    if findings[0].verdict == CheckResult::Good {
        findings.push(CheckFinding::new("access", access(directory, was_open)));
        findings.push(CheckFinding::new("disk space", space(directory)));
        findings.push(CheckFinding::new("fsync", fsync(directory)));
    }
    findings
}

/// Opens the store as the service would, unless the running service has it open. If the directory does not exist yet,
/// checks that it can be created.
async fn data_directory(config: &Config, running: Option<&RunningService>) -> (CheckResult, String) {
    let directory = &config.data_dir;
    let key = match store_key(config) {
        Ok(key) => key,
        Err(error) => return (CheckResult::Bad, format!("{error:#}")),
    };
    let encrypted = key.as_ref().map(|key| format!(", encrypted with key {}", key.id())).unwrap_or_default();
    let shown = directory.display();
    if running.is_some() {
        return (CheckResult::Good, format!("the running service uses `{shown}`{encrypted}"));
    }
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

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
