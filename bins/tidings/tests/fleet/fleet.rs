use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ports::ProcessRole;

use crate::balancer::Balancer;
use crate::credentials::Credentials;
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
    pub(crate) credentials: Credentials,
    environment: Vec<(String, String)>,
}

impl TestFleet {
    /// Starts a fleet with a secret for each role, and waits until its processes know each other.
    pub(crate) async fn start(environment: Vec<(String, String)>) -> Self {
        Self::start_program(this_release(), Credentials::role_secrets(), environment).await
    }

    /// A fleet of a release, with these credentials.
    pub(crate) async fn start_program(
        program: PathBuf,
        credentials: Credentials,
        environment: Vec<(String, String)>,
    ) -> Self {
        let base = Base { engines: FleetEngines::start().await, credentials, environment };
        let all = SIZES.into_iter().flat_map(|(role, count)| (0..count).map(move |n| (role, n)));
        let start = async |(role, n)| (role, n, Process::start_program(program.clone(), base.environment(role)).await);
        let processes = join_all(all.map(start)).await;
        let addresses = |of: ProcessRole| -> Vec<SocketAddr> {
            processes.iter().filter(|(role, ..)| *role == of).map(|(.., process)| process.address()).collect()
        };
        let balancer = Balancer::start(addresses(ProcessRole::Gateway), addresses(ProcessRole::Api)).await;
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

    /// Where other processes call a process.
    pub(crate) fn rpc_address(&self, of: ProcessRole, number: usize) -> String {
        let log = self.process(of, number).last_log();
        let joined = log.lines().find(|line| line.contains("member of the fleet")).expect("it has joined the fleet");
        let (_, rest) = joined.split_once(" address=\"").expect("it logs where others find it");
        rest.split_once('"').unwrap().0.to_owned()
    }

    pub(crate) fn process_mut(&mut self, of: ProcessRole, number: usize) -> &mut Process {
        let found = self.processes.iter_mut().find(|(role, n, _)| (*role, *n) == (of, number));
        found.map(|(.., process)| process).expect("there is such a process")
    }

    /// All processes with their roles and numbers.
    pub(crate) fn members(&self) -> impl Iterator<Item = (ProcessRole, usize, &Process)> {
        self.processes.iter().map(|(role, number, process)| (*role, *number, process))
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
        environment.push(("TIDINGS_ROLES".to_owned(), role.name().to_owned()));
        environment.push(("TIDINGS_RPC__LISTEN".to_owned(), "127.0.0.1:0".to_owned()));
        environment.extend(self.credentials.environment(role));
        environment.extend(self.environment.iter().cloned());
        environment
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
