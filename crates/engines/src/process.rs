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

/// How long a server may take to say what it is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The oldest lines of a log are forgotten beyond this.
const LOG_LINES_MAX: usize = 1000;

/// One process of a server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The lines so far. Closed when the process has ended.
    log: watch::Receiver<VecDeque<String>>,
}

/// A process has not said what it was waited for.
#[derive(Debug, Error)]
pub(crate) enum Silence {
    #[error("ended, having said:\n{log}")]
    Ended { log: String },
    #[error("took more than {} s, having said:\n{log}", PATIENCE.as_secs())]
    TimedOut { log: String },
}

impl Process {
    /// Starts it on a thread of its own, which then reads its log, and so lives as long as the process does: the kernel
    /// kills it together with the thread that started it (see `program::command`), and a test may start its server
    /// on a thread that ends before the test does.
    pub(crate) async fn start(mut command: Command) -> io::Result<Self> {
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let (log, log_receiver) = watch::channel(VecDeque::new());
        let (started, is_started) = oneshot::channel();
        thread::spawn(move || {
            let child = command.spawn();
            // The log ends with the process only if nobody else can write to it.
            drop(command);
            drop(started.send(child));
            keep(&log, output);
        });
        let child = is_started.await.expect("the thread says how the start went")?;
        Ok(Self { child, log: log_receiver })
    }

    /// Waits until the process has logged a line like this.
    pub(crate) async fn says(&self, is_it: impl Fn(&str) -> bool) -> Result<(), Silence> {
        let mut log = self.log.clone();
        match timeout(PATIENCE, log.wait_for(|lines| lines.iter().any(|line| is_it(line)))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Silence::Ended { log: self.log() }),
            Err(_) => Err(Silence::TimedOut { log: self.log() }),
        }
    }

    /// Ends it without a chance to say goodbye.
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        while self.log.changed().await.is_ok() {}
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Its number is not given to anybody else before we have waited for it, which is when it is dropped.
        let pid = Pid::from_raw(self.child.id().try_into().expect("the kernel's numbers of processes fit"));
        signal::kill(pid, signal).expect("a process of ours takes signals");
    }

    fn log(&self) -> String {
        self.log.borrow().iter().map(|line| format!("    {line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither fails for a child of ours that was not waited for, whether it has ended or not.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Keeps the log up to date until it ends. What nobody waits for is read too, or the process would block.
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
