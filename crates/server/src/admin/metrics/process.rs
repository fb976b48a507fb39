//! Metrics of this process from the operating system.

use std::fs;
use std::time::Duration;

use metrics::{counter, gauge};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use ports::{Clock, SystemClock};
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

/// Interval between measurements.
const INTERVAL: Duration = Duration::from_secs(5);

/// Measures the process until it is stopped. Values that the operating system does not provide stay absent.
pub(crate) async fn measure() {
    gauge!("tidings_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!("tidings_process_start_time_seconds").set(now());
    if let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        gauge!("tidings_process_fds_max").set(files as f64);
    }
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        gauge!("tidings_process_time_seconds").set(now());
        let runtime = Handle::current().metrics();
        gauge!("tidings_runtime_workers").set(runtime.num_workers() as f64);
        gauge!("tidings_runtime_tasks").set(runtime.num_alive_tasks() as f64);
        gauge!("tidings_runtime_queue_tasks").set(runtime.global_queue_depth() as f64);
        if let Some(bytes) = resident_bytes() {
            gauge!("tidings_process_resident_memory_bytes").set(bytes as f64);
        }
        if let Some(threads) = status("Threads:") {
            gauge!("tidings_process_threads").set(threads as f64);
        }
        if let Some(time) = cpu_time() {
            counter!("tidings_process_cpu_seconds_total").absolute(time.as_secs());
        }
        // There are as many as connections, so they are counted on a blocking thread.
        if let Ok(Some(files)) = tokio::task::spawn_blocking(open_files).await {
            gauge!("tidings_process_open_fds").set(files as f64);
        }
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemClock.now().as_millis() as f64 / 1000.0
}

/// The resident memory of this process.
pub(crate) fn resident_bytes() -> Option<u64> {
    Some(status("VmRSS:")? << 10)
}

/// The CPU time of this process, over all threads.
pub(crate) fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(Duration::from_micros(u64::try_from(micros).ok()?))
}

fn open_files() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

/// A number from `/proc/self/status`. Reading it does not touch a disk.
fn status(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_files_and_has_computed() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(status("Threads:").unwrap() >= 1);
        assert!(open_files().unwrap() >= 3);
        assert!(cpu_time().is_some());
    }
}
