use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tidings_metrics::{HistogramBuckets, Scrape};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// All rate limits of a server, which a load disables.
const LIMITS: [&str; 25] = [
    "OTP_REQUEST_PER_PHONE",
    "OTP_REQUEST_PER_IP",
    "OTP_REQUEST_PER_COUNTRY",
    "OTP_REQUEST_TOTAL",
    "OTP_VERIFY",
    "OTP_VERIFY_PER_IP",
    "PASSKEY_CHALLENGE_PER_IP",
    "PASSKEY_VERIFY_PER_IP",
    "PASSKEY_REGISTRATION",
    "REFRESH",
    "REST_READ",
    "REST_WRITE",
    "LOOKUP_NUMBERS",
    "CONNECTIONS_LIVE",
    "CONNECTIONS_NEW",
    "SEND_PER_CHAT",
    "SEND_PER_USER",
    "SYNC",
    "TYPING",
    "FRAMES_PER_CONNECTION",
    "GROUPS_CREATED",
    "MEMBERS_ADDED",
    "CHATS_PER_USER",
    "MESSAGE_MIB",
    "UNAUTHENTICATED_PER_IP",
];
/// Longer than any realistic start: the time to open a full store is a result, not a failure.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Logs warnings, and the addresses the server listens on.
const LOG_LEVEL: &str = "warn,tidings_server::run=info";
/// Subdirectory of the server's data.
const DATA: &str = "data";
/// Clock ticks per second in `/proc/<pid>/stat`, on every Linux we support.
const TICKS_PER_SECOND: f64 = 100.0;

/// The server under load.
pub(super) enum LoadTarget {
    /// An external server. Its resource use is unknown.
    Running { base_url: String },
    /// A server of this load, started from this binary, with an empty store that is removed afterwards.
    Own(Box<OwnServer>),
}

pub(super) struct OwnServer {
    process: TargetProcess,
    directory: TempDir,
}

impl LoadTarget {
    /// The server at `url`, which must be on this machine unless `allow_remote`.
    pub(super) fn running(url: &str, allow_remote: bool) -> anyhow::Result<Self> {
        check_host(url, allow_remote)?;
        Ok(Self::Running { base_url: url.trim_end_matches('/').to_owned() })
    }

    /// Starts a server with an empty store in a new directory under `parent`.
    pub(super) async fn start(parent: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("tidings-load-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a directory in `{}`", parent.display()))?;
        let process = TargetProcess::start(directory.path()).await?;
        Ok(Self::Own(Box::new(OwnServer { process, directory })))
    }

    /// Stops the load's own server, changes its store, and starts it again. Returns the result of the change, and the
    /// time that the server took to become ready.
    pub(super) async fn restart<T>(
        &mut self,
        meanwhile: impl AsyncFnOnce(&Path) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, Duration)> {
        let Self::Own(server) = self else {
            bail!("a server that runs already is not stopped for a load; leave out --url");
        };
        let OwnServer { process, directory } = &mut **server;
        process.stop().await?;
        let done = meanwhile(&directory.path().join(DATA)).await?;
        let started = Instant::now();
        *process = TargetProcess::start(directory.path()).await?;
        Ok((done, started.elapsed()))
    }

    pub(super) fn base_url(&self) -> &str {
        match self {
            Self::Running { base_url } => base_url,
            Self::Own(server) => &server.process.base_url,
        }
    }

    /// CPU seconds used by the server, if this load started it.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let Self::Own(server) = self else { return None };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.pid)).ok()?;
        cpu_seconds(&stat)
    }

    /// Resident memory of the server in KiB, if this load started it.
    pub(super) fn memory_kib(&self) -> Option<u64> {
        let Self::Own(server) = self else { return None };
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Commit latencies of the server so far, if this load started it.
    pub(super) async fn commits(&self) -> anyhow::Result<Option<HistogramBuckets>> {
        let Self::Own(server) = self else { return Ok(None) };
        let url = format!("{}/metrics", server.process.admin_url);
        let metrics = reqwest::get(&url).await.and_then(reqwest::Response::error_for_status);
        let metrics = metrics.with_context(|| format!("the server does not respond at {url}"))?;
        Ok(Some(Scrape::of(&metrics.text().await?).buckets("tidings_store_commit_seconds")))
    }

    /// Stops the load's own server gracefully, and removes its data.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self::Own(server) = self else { return Ok(()) };
        let OwnServer { mut process, directory } = *server;
        process.stop().await?;
        directory.close().context("cannot remove what the server stored")
    }
}

/// A running server process.
struct TargetProcess {
    base_url: String,
    admin_url: String,
    child: Child,
    pid: u32,
}

impl TargetProcess {
    /// Starts a server with its data in `directory`, and waits until it is ready.
    async fn start(directory: &Path) -> anyhow::Result<Self> {
        let log_path = directory.join("server.log");
        let log = std::fs::File::create(&log_path)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory.join(DATA))
            .env("TIDINGS_LOG__LEVEL", LOG_LEVEL)
            .envs(LIMITS.map(|limit| (format!("TIDINGS_LIMITS__{limit}"), "0")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot start a server")?;
        let stdout = child.stdout.take().context("the server has no standard output")?;
        let Ok(Some(base_url)) = timeout(START_TIMEOUT, address(stdout)).await else {
            let log = std::fs::read_to_string(log_path).unwrap_or_default();
            bail!("the server did not start:\n{log}");
        };
        let log = std::fs::read_to_string(log_path).context("the server's log cannot be read")?;
        let admin_url = admin_url(&log).context("the server did not log its admin address")?;
        let pid = child.id().context("the server has ended already")?;
        Ok(Self { base_url, admin_url, child, pid })
    }

    /// Stops the process gracefully.
    async fn stop(&mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.pid as i32), Signal::SIGTERM).context("cannot stop the server")?;
        let status = timeout(STOP_TIMEOUT, self.child.wait()).await.context("the server did not stop")??;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

/// Refuses a URL of another machine, unless `allow_remote`.
pub(super) fn check_host(url: &str, allow_remote: bool) -> anyhow::Result<()> {
    let parsed = reqwest::Url::parse(url).with_context(|| format!("`{url}` is not a URL"))?;
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    ensure!(
        is_loopback || allow_remote,
        "`{host}` is not this machine; a load can bring down a service (--allow-remote if it is meant)"
    );
    Ok(())
}

/// Waits for the line with the address.
async fn address(stdout: tokio::process::ChildStdout) -> Option<String> {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(base_url) = line.strip_prefix("listening on ") {
            return Some(base_url.to_owned());
        }
    }
    None
}

/// The admin address, from the server's log at startup.
fn admin_url(log: &str) -> Option<String> {
    let (_, rest) = log.rsplit_once("admin_address=")?;
    Some(format!("http://{}", rest.split_whitespace().next()?))
}

/// User and system time in the text of `/proc/<pid>/stat`. The process name may contain any characters, so the fields
/// are counted after it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(|field| field.parse::<f64>().ok());
    Some((times.next()?? + times.next()??) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_is_refused_unless_it_is_meant() {
        for url in ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:8080"] {
            assert!(LoadTarget::running(url, false).is_ok(), "{url}");
        }
        assert!(LoadTarget::running("http://192.0.2.1:8080", false).is_err());
        assert!(LoadTarget::running("http://127.0.0.1.example.org", false).is_err());
        assert!(LoadTarget::running("http://192.0.2.1:8080", true).is_ok());
        assert!(LoadTarget::running("here", true).is_err());
    }

    #[test]
    fn operators_look_where_the_server_says_that_it_is_ready() {
        let log = "WARN --dev\nINFO ready public_address=127.0.0.1:1 admin_address=127.0.0.1:2 data_dir=/d\n";
        assert_eq!(admin_url(log).as_deref(), Some("http://127.0.0.1:2"));
        assert_eq!(admin_url("WARN --dev"), None);
    }

    #[test]
    fn cpu_time_is_parsed_after_any_process_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("12 (a"), None);
    }
}
