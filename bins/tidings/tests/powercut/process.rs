//! The real binary: as a server or as a command, traced or not.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::server::unlimited;
use crate::trace::TRACED;

const NO_STRACE: &str =
    "`strace` is not there; install Debian's package `strace`, or run `cargo xtask engines`, which does";

/// How long anything may take on a busy machine. A start may replay a whole journal.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that accepts requests.
pub(crate) struct TracedProcess {
    /// The server, or the `strace` that runs it.
    child: Child,
    /// The server.
    pid: Pid,
    pub(crate) base_url: String,
    pub(crate) admin_url: String,
    /// Kept open: the process cannot write to a closed pipe.
    _stdout: BufReader<ChildStdout>,
}

impl TracedProcess {
    /// Starts a server on a data directory and waits until it is ready. `log` is its log file. An error holds its
    /// output.
    pub(crate) async fn start(data_dir: &Path, log: &Path, trace: Option<&Path>) -> Result<Self, String> {
        Self::start_with(data_dir, log, trace, &[]).await
    }

    /// The same, with settings in its environment.
    pub(crate) async fn start_with(
        data_dir: &Path,
        log: &Path,
        trace: Option<&Path>,
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let any = "127.0.0.1:0";
        let mut command = tidings(["serve", "--dev", "--listen", any, "--admin-listen", any, "--data-dir"], trace);
        command.arg(data_dir).envs(unlimited(environment)).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let mut child = spawn(&mut command);
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let logged = || fs::read_to_string(log).unwrap_or_default();
        let pid = |child: &Child| {
            let id = child.id().expect("it was not waited for") as i32;
            Pid::from_raw(if trace.is_some() { traced_by(id) } else { id })
        };
        match timeout(PATIENCE, stdout.read_line(&mut line)).await {
            Ok(read) => read.unwrap(),
            Err(_) => {
                kill(pid(&child), Signal::SIGKILL).unwrap();
                return Err(format!("it is not ready after {PATIENCE:?}; it logged:\n{}", logged()));
            }
        };
        let Some(address) = line.trim_end().strip_prefix("listening on ") else {
            let status = child.wait().await.unwrap();
            return Err(format!("it did not start ({status}); it logged:\n{}", logged()));
        };
        let logged = logged();
        let (_, admin) = logged.rsplit_once("admin_address=").expect("it logs where operators look");
        let admin_url = format!("http://{}", admin.split_whitespace().next().expect("an address follows"));
        let pid = pid(&child);
        Ok(Self { child, pid, base_url: address.to_owned(), admin_url, _stdout: stdout })
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        kill(self.pid, Signal::SIGTERM).unwrap();
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap()
    }

    /// Kills it.
    pub(crate) async fn kill(mut self) {
        kill(self.pid, Signal::SIGKILL).unwrap();
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
    }
}

impl Drop for TracedProcess {
    fn drop(&mut self) {
        // The server would outlive a killed `strace`. A child that was awaited has no id.
        if self.child.id().is_some() {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}

/// Runs a command on a data directory to its end.
pub(crate) async fn run(arguments: &[&str], data_dir: &Path, trace: Option<&Path>) -> Output {
    let mut command = tidings(arguments, trace);
    command.arg("--data-dir").arg(data_dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(&mut command).wait_with_output();
    timeout(PATIENCE, output).await.expect("the command ends").unwrap()
}

fn tidings(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>, trace: Option<&Path>) -> Command {
    let binary = env!("CARGO_BIN_EXE_tidings");
    let mut command = match trace {
        None => Command::new(binary),
        Some(file) => {
            let mut strace = Command::new("strace");
            strace.args(["-f", "--seccomp-bpf", "-ttt", "-T", "-y", "-xx", "-s", "10000000", "-e"]);
            strace.arg(format!("trace={TRACED}")).arg("-o").arg(file).arg(binary);
            strace
        }
    };
    // Settings in the environment of the test are not meant for this server.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    // Names without a directory would be relative to it.
    command.args(arguments).current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => panic!("{NO_STRACE}"),
        _ => panic!("{error}"),
    })
}

/// The process that a `strace` has started.
fn traced_by(strace: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    let [child] = children.split_whitespace().collect::<Vec<_>>().try_into().expect("strace has one child");
    child.parse().unwrap()
}

/// A directory for recordings and states: in memory if possible, because a real sync would take time and prove nothing
/// here.
pub(crate) fn scratch() -> tempfile::TempDir {
    let in_memory = PathBuf::from("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("tidings-powercut-");
    builder.tempdir_in(in_memory).or_else(|_| builder.tempdir()).unwrap()
}
