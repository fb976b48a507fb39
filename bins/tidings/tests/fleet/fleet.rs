use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ports::ProcessRole;
use tempfile::TempDir;

use crate::balancer::Balancer;
use crate::engine::FleetEngines;
use crate::process::{PATIENCE, TestServer as Process, this_release};

/// Number of processes of each role.
pub(crate) const SIZES: [(ProcessRole, usize); 4] =
    [(ProcessRole::Ingest, 2), (ProcessRole::Fanout, 2), (ProcessRole::Api, 1), (ProcessRole::Gateway, 2)];

/// The processes of a fleet and their engines. All of them end with the test.
pub(crate) struct TestFleet {
    // First, so that the processes are dropped before their engines.
    processes: Vec<(ProcessRole, usize, Process)>,
    balancer: Balancer,
    pub(crate) base: Base,
}

/// State shared by the processes of a fleet.
pub(crate) struct Base {
    pub(crate) engines: FleetEngines,
    /// Files with secrets.
    secrets: TempDir,
    environment: Vec<(String, String)>,
}

impl TestFleet {
    /// Starts a fleet, and waits until its processes know each other.
    pub(crate) async fn start(environment: Vec<(String, String)>) -> Self {
        Self::start_program(this_release(), environment).await
    }

    /// A fleet of another release.
    pub(crate) async fn start_program(program: PathBuf, environment: Vec<(String, String)>) -> Self {
        let base = Base { engines: FleetEngines::start().await, secrets: secrets(), environment };
        let all = SIZES.into_iter().flat_map(|(role, count)| (0..count).map(move |n| (role, n)));
        let start = async |(role, n)| (role, n, Process::start_program(program.clone(), base.environment(role)).await);
        let processes = join_all(all.map(start)).await;
        let addresses = |of: ProcessRole| -> Vec<SocketAddr> {
            processes.iter().filter(|(role, ..)| *role == of).map(|(.., process)| process.address()).collect()
        };
        let balancer = Balancer::start(addresses(ProcessRole::Gateway), addresses(ProcessRole::Api)[0]).await;
        let fleet = Self { processes, balancer, base };
        fleet.settled().await;
        fleet
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.balancer.address()
    }

    pub(crate) fn process(&self, of: ProcessRole, number: usize) -> &Process {
        let found = self.processes.iter().find(|(role, n, _)| (*role, *n) == (of, number));
        found.map(|(.., process)| process).expect("there is such a process")
    }

    pub(crate) fn process_mut(&mut self, of: ProcessRole, number: usize) -> &mut Process {
        let found = self.processes.iter_mut().find(|(role, n, _)| (*role, *n) == (of, number));
        found.map(|(.., process)| process).expect("there is such a process")
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().map(|(.., process)| process)
    }

    pub(crate) fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut().map(|(.., process)| process)
    }

    /// Waits until every process knows all others, and both fanout processes have partitions of the log.
    pub(crate) async fn settled(&self) {
        let deadline = Instant::now() + PATIENCE;
        let lack = || self.processes.iter().find_map(|(role, n, process)| lack(*role, *n, &process.last_log()));
        while let Some(lack) = lack() {
            assert!(Instant::now() < deadline, "{lack}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Base {
    /// The environment of a role, which limits its access: a gateway has no table and no topic.
    pub(crate) fn environment(&self, role: ProcessRole) -> Vec<(String, String)> {
        let mut environment = self.engines.environment(role);
        environment.extend(self.environment.iter().cloned());
        let secret = |name: &str| self.secrets.path().join(name).to_str().unwrap().to_owned();
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        set("TIDINGS_ROLES", role.name().to_owned());
        set("TIDINGS_RPC__LISTEN", "127.0.0.1:0".to_owned());
        set("TIDINGS_RPC__SECRET_FILE", secret("rpc"));
        if role == ProcessRole::Api {
            set("TIDINGS_AUTH__SECRET_FILE", secret("auth"));
        }
        environment
    }

    /// A secret of the fleet, by its name.
    pub(crate) fn secret(&self, name: &str) -> String {
        fs::read_to_string(self.secrets.path().join(name)).unwrap()
    }
}

/// A peer or assignment that is missing, according to the log of a process.
fn lack(role: ProcessRole, n: usize, log: &str) -> Option<String> {
    for (other, count) in SIZES {
        let known = log.rsplit_once(&format!("role={other} processes=")).map_or("0", |(_, rest)| rest);
        if !known.starts_with(&count.to_string()) {
            return Some(format!("{role} {n} does not know all of {other}"));
        }
    }
    // The second is how the release before logs it.
    let assigned = ["event log partitions assigned", "partitions of the log are assigned"];
    let has_part = assigned.iter().any(|line| log.contains(&format!("{line} group=\"fanout\"")));
    (role == ProcessRole::Fanout && !has_part).then(|| format!("{role} {n} has no part of the log"))
}

fn secrets() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["rpc", "auth"] {
        fs::write(directory.path().join(name), name.repeat(32)).unwrap();
    }
    directory
}
