use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ports::ProcessRole;

use crate::balancer::Balancer;
use crate::credentials::Credentials;
use crate::engine::FleetEngines;
use crate::network::FleetNetwork;
use crate::process::{PATIENCE, TestServer as Process, this_release};

/// Number of processes of each role.
pub(crate) const SIZES: [(ProcessRole, usize); 4] =
    [(ProcessRole::Ingest, 2), (ProcessRole::Fanout, 2), (ProcessRole::Api, 2), (ProcessRole::Gateway, 2)];

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
    /// Proxies between the processes and to their engines; `None` if they are connected directly.
    pub(crate) network: Option<FleetNetwork>,
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
        let base = Base { engines: FleetEngines::start().await, credentials, network: None, environment };
        Self::start_base(program, base).await
    }

    /// A fleet of a release on these engines.
    pub(crate) async fn start_base(program: PathBuf, base: Base) -> Self {
        let start = async |(role, n)| {
            (role, n, Process::start_program(program.clone(), base.member_environment(role, n)).await)
        };
        let processes = join_all(members().map(start)).await;
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

    /// Waits until every process knows all others, and every consumer has partitions of the log.
    pub(crate) async fn settled(&self) {
        let deadline = Instant::now() + PATIENCE;
        let groups = |role| match role {
            ProcessRole::Fanout => &["fanout"][..],
            ProcessRole::Api if self.base.has_webhook() => &["notify", "webhook"],
            ProcessRole::Api => &["notify"],
            ProcessRole::Gateway | ProcessRole::Ingest => &[],
        };
        let lack =
            || self.processes.iter().find_map(|(role, n, process)| lack(*role, *n, groups(*role), &process.last_log()));
        while let Some(lack) = lack() {
            assert!(Instant::now() < deadline, "{lack}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// All processes of a fleet, by role and number.
pub(crate) fn members() -> impl Iterator<Item = (ProcessRole, usize)> {
    SIZES.into_iter().flat_map(|(role, count)| (0..count).map(move |n| (role, n)))
}

impl Base {
    /// State for a fleet that connects to these engines.
    pub(crate) fn on(engines: FleetEngines, environment: Vec<(String, String)>) -> Self {
        Self { engines, credentials: Credentials::role_secrets(), network: None, environment }
    }

    /// The environment of one process, with its addresses in the network.
    fn member_environment(&self, role: ProcessRole, number: usize) -> Vec<(String, String)> {
        let mut environment = self.environment(role);
        environment.extend(self.network.iter().flat_map(|network| network.environment(role, number)));
        environment
    }

    fn has_webhook(&self) -> bool {
        self.environment.iter().any(|(name, _)| name == "TIDINGS_WEBHOOK__URL")
    }

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
fn lack(role: ProcessRole, n: usize, groups: &[&str], log: &str) -> Option<String> {
    for (other, count) in SIZES {
        let known = log.rsplit_once(&format!("role={other} processes=")).map_or("0", |(_, rest)| rest);
        if !known.starts_with(&count.to_string()) {
            return Some(format!("{role} {n} does not know all of {other}"));
        }
    }
    // The second is how the release before logs it.
    let assigned = ["event log partitions assigned", "partitions of the log are assigned"];
    // A consumer whose partitions were revoked for another one waits for its new ones.
    let has_part = |group: &str| {
        let of_group = format!("group=\"{group}\" partitions=");
        let last = log.lines().rev().find(|line| line.contains(&of_group));
        last.is_some_and(|line| assigned.iter().any(|words| line.contains(words)))
    };
    let without = groups.iter().find(|group| !has_part(group));
    without.map(|group| format!("{role} {n} has no part of the log as {group}"))
}
