use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// The longest wait for an expected log line.
const PATIENCE: Duration = Duration::from_secs(60);
/// Beyond this, the oldest lines of a log are dropped.
const LOG_LINES_MAX: usize = 1000;

/// One process of a server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    /// The lines so far. The channel closes when the process has ended.
    log: watch::Receiver<VecDeque<String>>,
}

/// A process did not log an expected line.
#[derive(Debug, Error)]
pub(crate) enum Silence {
    #[error("ended, having said:\n{log}")]
    Ended { log: String },
    #[error("took more than {} s, having said:\n{log}", PATIENCE.as_secs())]
    TimedOut { log: String },
}

impl ServerProcess {
    /// Starts the process on a thread of its own, which then reads its log and so lives as long as the process does.
    /// The kernel kills the process together with the thread that started it (see `program::command`), and a test may
    /// start its server on a thread that ends before the test does.
    pub(crate) async fn start(mut command: Command) -> io::Result<Self> {
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let (log, log_receiver) = watch::channel(VecDeque::new());
        let (started, is_started) = oneshot::channel();
        thread::spawn(move || {
            let child = command.spawn();
            // `command` holds write ends of the pipe. The log ends with the process only after they are closed.
            drop(command);
            drop(started.send(child));
            keep(&log, output);
        });
        let child = is_started.await.expect("the thread says how the start went")?;
        Ok(Self { child, log: log_receiver })
    }

    /// Waits until the process has logged a line that matches.
    pub(crate) async fn says(&self, is_it: impl Fn(&str) -> bool) -> Result<(), Silence> {
        let mut log = self.log.clone();
        match timeout(PATIENCE, log.wait_for(|lines| lines.iter().any(|line| is_it(line)))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Silence::Ended { log: self.log() }),
            Err(_) => Err(Silence::TimedOut { log: self.log() }),
        }
    }

    /// Kills it without a graceful shutdown.
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        while self.log.changed().await.is_ok() {}
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // The kernel does not reuse the pid before `wait`, which happens when this is dropped.
        let pid = Pid::from_raw(self.child.id().try_into().expect("the kernel's numbers of processes fit"));
        signal::kill(pid, signal).expect("a process of ours takes signals");
    }

    fn log(&self) -> String {
        self.log.borrow().iter().map(|line| format!("    {line}\n")).collect()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Neither call fails for a child that has not been waited for, whether it has ended or not.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Appends lines to the log until the output ends. All output is read, because a full pipe would block the process.
fn keep(log: &watch::Sender<VecDeque<String>>, output: PipeReader) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        log.send_modify(|lines| {
            if lines.len() == LOG_LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(String::from_utf8_lossy(&line).into_owned());
        });
    }
}
