//! Real `redis-server` processes, each test's own: on free ports of this machine, with a directory that goes away.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use redis::{Client, FromRedisValue};
use tempfile::TempDir;
use tidings_redis::Url;

const PATIENCE: Duration = Duration::from_secs(30);
const SLOTS: u32 = 16384;

/// One server. It is killed when this is dropped.
pub(crate) struct Engine {
    port: u16,
    settings: Vec<String>,
    directory: TempDir,
    process: Option<Process>,
}

struct Process {
    child: Child,
    /// Locked because tests on several threads may hold the server.
    log: Mutex<Receiver<String>>,
}

impl Engine {
    /// A server that is up, with these settings besides the usual ones.
    pub(crate) fn start(settings: &[&str]) -> Self {
        loop {
            let mut engine = Self::prepare(settings);
            if engine.try_run() {
                return engine;
            }
        }
    }

    /// A server that is not up yet, on a port that is free now.
    pub(crate) fn prepare(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Self { port: free_port(), settings, directory: tempfile::tempdir().unwrap(), process: None }
    }

    /// Starts the server, for the first time or again.
    pub(crate) fn run(&mut self) {
        assert!(self.try_run(), "redis-server does not start on port {}", self.port);
    }

    /// Ends the server without a chance to say goodbye.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.child.kill().unwrap();
            process.child.wait().unwrap();
        }
    }

    /// Makes the server hang, and go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the server is up");
        signal::kill(Pid::from_raw(process.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> Url {
        format!("redis://127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// Runs a command of an operator.
    pub(crate) fn command<T: FromRedisValue>(&self, words: &str) -> T {
        let client = Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>()).query(&mut client.get_connection().unwrap()).unwrap()
    }

    /// Waits for the server to say something; `false` if it ends first.
    fn says(&self, text: &str) -> bool {
        let log = self.process.as_ref().expect("the server is up").log.lock().unwrap();
        loop {
            match log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return true,
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("redis-server does not say `{text}`"),
            }
        }
    }

    fn try_run(&mut self) -> bool {
        let mut child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(&self.settings)
            .current_dir(self.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server cannot be started; if it is missing: apt-get install redis-server");
        let output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let (lines, log) = mpsc::channel();
        // The thread ends with the server's output. It reads what nobody waits for too, or the server would block.
        thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line))));
        self.process = Some(Process { child, log: Mutex::new(log) });
        let up = self.says("Ready to accept connections");
        if !up {
            self.kill();
        }
        up
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three masters that share the slots, and no replicas, with these settings besides the usual ones.
pub(crate) fn start_cluster(settings: &[&str]) -> Vec<Engine> {
    let settings = [&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"], settings].concat();
    let nodes: Vec<Engine> = (0..3).map(|_| Engine::start(&settings)).collect();
    for (n, node) in (0u32..).zip(&nodes) {
        let (first, behind) = (n * SLOTS / 3, (n + 1) * SLOTS / 3);
        node.command::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {}", behind - 1));
        node.command::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
    }
    for node in &nodes[1..] {
        node.command::<()>(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port));
    }
    wait_for_cluster(&nodes);
    nodes
}

/// Waits until every node finds the cluster whole.
pub(crate) fn wait_for_cluster(nodes: &[Engine]) {
    for node in nodes {
        assert!(node.says("Cluster state changed: ok"));
    }
}

/// A port that is free, and whose bus port is. It is below those that the kernel gives to outgoing connections: one of
/// them that tries to reach a dead server could otherwise take its port, or reach itself.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = std::iter::repeat_with(|| rand::random_range(10_000..20_000));
    ports.into_iter().find(|port| is_free(port) && is_free(&(port + 10_000))).expect("the ports do not end")
}
