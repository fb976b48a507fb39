//! The real binary, started for one test: its process, and the users and sockets that connect to it.
#![allow(dead_code, unused_imports, reason = "several test binaries share this file, and each uses its own part of it")]

#[path = "device.rs"]
mod device;
#[path = "people.rs"]
mod people;
#[path = "socket.rs"]
mod socket;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) use device::{RestResponse, TestDevice};
pub(crate) use people::next_millisecond;
pub(crate) use socket::{SocketClose, TestSocket, sequences};

/// Longest wait for an immediate effect on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// Allowance for a busy machine in an upper bound of a measured time.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Attempts of which one has to keep a promise about time: a busy machine delays some of them, and a regression all.
pub(crate) const ATTEMPTS: usize = 5;

/// All rate limits of the API.
const LIMITS: [&str; 26] = [
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
    "EXPORTS",
    "GROUPS_CREATED",
    "MEMBERS_ADDED",
    "CHATS_PER_USER",
    "MESSAGE_MIB",
    "UNAUTHENTICATED_PER_IP",
];

/// The settings that the previous release does not have. It refuses settings that it does not know.
const NEW_SETTINGS: [&str; 13] = [
    "RPC__ASSERTION_SECRET_FILE",
    "RPC__UPGRADING",
    "OTP_REQUEST_PER_COUNTRY",
    "OTP_REQUEST_TOTAL",
    "FRAMES_PER_CONNECTION",
    "UNAUTHENTICATED_PER_IP",
    "GROUPS_CREATED",
    "MEMBERS_ADDED",
    "CHATS_PER_USER",
    "MESSAGE_MIB",
    "PASSKEY_CHALLENGE_PER_IP",
    "PASSKEY_VERIFY_PER_IP",
    "PASSKEY_REGISTRATION",
];

/// A `tidings serve --dev` with its own data directory. It ends with the test, and its log is printed if the test
/// fails.
pub(crate) struct TestServer {
    directory: TempDir,
    /// The executable: this release, unless another is given.
    program: PathBuf,
    environment: Vec<(String, String)>,
    /// Port 0 at the first start, the assigned port afterwards.
    address: SocketAddr,
    child: Child,
    /// Length of the log at the last start.
    log_len: usize,
    stdout: Option<BufReader<ChildStdout>>,
    http: reqwest::Client,
    signed_up: AtomicU32,
}

impl TestServer {
    /// The checks in `/readyz`.
    pub(crate) const STANDS_ON: &[&str] = &["store"];

    /// A server without limits.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A server without limits, except for those in `environment`.
    pub(crate) async fn start_with(environment: &[(&str, &str)]) -> Self {
        Self::start_in(unlimited(environment)).await
    }

    /// A server with the limits of production.
    pub(crate) async fn start_with_limits() -> Self {
        Self::start_with_limits_and(&[]).await
    }

    /// A server with the limits of production, except for those in `environment`.
    pub(crate) async fn start_with_limits_and(environment: &[(&str, &str)]) -> Self {
        Self::start_in(limited(environment)).await
    }

    /// A server in exactly this environment.
    pub(crate) async fn start_in(environment: Vec<(String, String)>) -> Self {
        Self::start_program(this_release(), environment).await
    }

    /// The server of another release.
    pub(crate) async fn start_program(program: PathBuf, environment: Vec<(String, String)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let child = spawn(&program, &directory, &environment, address);
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let signed_up = AtomicU32::new(0);
        let mut server =
            Self { directory, program, environment, address, child, log_len: 0, stdout: None, http, signed_up };
        server.ready().await;
        server
    }

    /// Restarts the process, on the same data and at the same address.
    pub(crate) async fn restart(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        self.spawn();
        // Between two runs of the process its port is free, and another process may take it.
        while let Err(said) = self.try_ready().await {
            self.exited().await;
            let is_taken = self.last_log().contains("Address already in use");
            assert!(is_taken && Instant::now() < deadline, "it said {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.spawn();
        }
    }

    /// Spawns the process again. It is not ready yet.
    pub(crate) fn spawn(&mut self) {
        assert!(self.child.try_wait().unwrap().is_some(), "the process before has ended");
        self.stdout = None;
        self.log_len = self.log().len();
        self.child = spawn(&self.program, &self.directory, &self.environment, self.address);
    }

    /// Waits until the process reports its address.
    pub(crate) async fn ready(&mut self) {
        self.try_ready().await.unwrap_or_else(|said| panic!("it said {said:?}"));
    }

    /// The same; an error holds the output of a process that printed something else or ended.
    async fn try_ready(&mut self) -> Result<(), String> {
        let mut stdout = BufReader::new(self.child.stdout.take().expect("it was spawned and not awaited yet"));
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).map(|_| (line, stdout))
        });
        let (line, stdout) = tokio::time::timeout(PATIENCE, reading).await.expect("it starts").unwrap().unwrap();
        let address = line.trim_end().strip_prefix("listening on http://");
        self.address = address.and_then(|address| address.parse().ok()).ok_or(line)?;
        // Kept open: the process cannot write to a closed pipe.
        self.stdout = Some(stdout);
        Ok(())
    }

    /// Sets an environment variable of the process, effective at its next start.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.environment.retain(|(set, _)| set != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Sets the executable, effective at the next start.
    pub(crate) fn set_program(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Stops the process gracefully. Returns its exit status and the time it took.
    pub(crate) async fn stop(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        self.signal(Signal::SIGTERM);
        (self.exited().await, start.elapsed())
    }

    /// Kills the process.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        assert_eq!(self.exited().await.signal(), Some(Signal::SIGKILL as i32), "nothing else ended it before");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).unwrap();
    }

    /// Waits for the process to end.
    pub(crate) async fn exited(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Resident memory of the process.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Peak resident memory of the process.
    pub(crate) fn resident_bytes_max(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        self.status_number(name) << 10
    }

    /// The threads of the process.
    pub(crate) fn threads(&self) -> u64 {
        self.status_number("Threads:")
    }

    fn status_number(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).expect("it is running");
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(&self.directory)
    }

    /// Audits the store of the running service, and asserts that it finds nothing.
    pub(crate) async fn verify_store(&self) {
        let admin = self.admin_url();
        let verify = tokio::process::Command::new(&self.program)
            .args(["store", "verify", "--admin-listen", admin.strip_prefix("http://").unwrap(), "--rate", "100000"])
            .arg("--data-dir")
            .arg(self.data_dir())
            .output();
        let verify = verify.await.unwrap();
        assert_eq!(verify.status.code(), Some(0), "{verify:?}");
    }

    /// The log of the process, over all its starts.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.path().join("log")).unwrap()).into_owned()
    }

    /// The log since the last start.
    pub(crate) fn last_log(&self) -> String {
        self.log().split_off(self.log_len)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The URLs of all processes that serve REST: here, of the one there is.
    pub(crate) fn api_urls(&self) -> Vec<String> {
        vec![self.base_url()]
    }

    /// The URL of the admin listener, from the log.
    pub(crate) fn admin_url(&self) -> String {
        let log = self.log();
        let (_, rest) = log.rsplit_once("admin_address=").expect("it logs where operators look");
        format!("http://{}", rest.split_whitespace().next().unwrap())
    }

    /// The process whose metrics show a series with a value: here, the one there is.
    pub(crate) async fn showing(&self, _: &str) -> &Self {
        self
    }

    pub(crate) async fn metrics(&self) -> String {
        self.http.get(format!("{}/metrics", self.admin_url())).send().await.unwrap().text().await.unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server at {} logged:\n{}", self.address, self.log());
        }
    }
}

/// An environment with the limits of production, except for those in `environment`. `--dev` has others by default.
pub(crate) fn limited(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let limits = serde_json::to_value(server::config::Config::default().limits).unwrap();
    let limits = limits.as_object().unwrap().iter();
    let limits = limits.map(|(name, value)| (format!("TIDINGS_LIMITS__{}", name.to_uppercase()), value.to_string()));
    let set = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    limits.chain(set).collect()
}

/// An environment without limits, except for those in `environment`.
pub(crate) fn unlimited(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let unlimited = LIMITS.iter().map(|limit| (format!("TIDINGS_LIMITS__{limit}"), "0".to_owned()));
    let set = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    unlimited.chain(set).collect()
}

fn data_dir(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

/// The binary under test.
pub(crate) fn this_release() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tidings"))
}

fn spawn(program: &Path, directory: &TempDir, environment: &[(String, String)], address: SocketAddr) -> Child {
    let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    let mut command = Command::new(program);
    // Settings in the environment of the test are not meant for this server.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    let is_known =
        |name: &str| program == this_release() || !NEW_SETTINGS.iter().any(|setting| name.ends_with(setting));
    command
        .args(["serve", "--dev", "--admin-listen", "127.0.0.1:0", "--listen", &address.to_string()])
        .arg("--data-dir")
        .arg(data_dir(directory))
        .envs(environment.iter().filter(|(name, _)| is_known(name)).map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    command.spawn().unwrap()
}
