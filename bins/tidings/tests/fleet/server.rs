//! A fleet with the test interface of a single server process.
#![allow(dead_code, unused_imports, reason = "the interface is that of one process, of which a fleet needs a part")]

#[path = "../it/people.rs"]
#[expect(clippy::duplicate_mod, reason = "people do the same at a fleet as at one process")]
mod people;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ports::ProcessRole;

use crate::credentials::Credentials;
use crate::engine::FleetEngines;
use crate::fleet::{Base, TestFleet};
use crate::network::FleetNetwork;
pub(crate) use crate::process::{
    ATTEMPTS, BUSY, PATIENCE, RestResponse, SocketClose, TestDevice, TestSocket, sequences,
};
use crate::process::{TestServer as Process, limited, this_release, unlimited};
pub(crate) use people::next_millisecond;

/// A fleet with its own engines. It ends with the test, and the logs of its processes are printed if the test fails.
pub(crate) struct TestServer {
    pub(crate) fleet: TestFleet,
    killed_at: Option<Instant>,
    http: reqwest::Client,
    signed_up: AtomicU32,
}

/// Session timeout after which the broker reassigns the partitions of a silent consumer. A consumer that joins earlier
/// gets no partitions for a long time.
pub(crate) const CONSUMER_GONE_AFTER: Duration = Duration::from_secs(11);

/// Limits that the previous release does not have; it refuses settings for them.
const NEW_LIMITS: [&str; 10] = [
    "TIDINGS_LIMITS__EXPORTS",
    "TIDINGS_LIMITS__LOOKUP_NUMBERS",
    "TIDINGS_LIMITS__OTP_VERIFY_PER_IP",
    "TIDINGS_LIMITS__GROUPS_CREATED",
    "TIDINGS_LIMITS__MEMBERS_ADDED",
    "TIDINGS_LIMITS__CHATS_PER_USER",
    "TIDINGS_LIMITS__MESSAGE_MIB",
    "TIDINGS_LIMITS__PASSKEY_CHALLENGE_PER_IP",
    "TIDINGS_LIMITS__PASSKEY_VERIFY_PER_IP",
    "TIDINGS_LIMITS__PASSKEY_REGISTRATION",
];

impl TestServer {
    /// The checks in `/readyz` of the api.
    pub(crate) const STANDS_ON: &[&str] = &["dynamodb", "kafka", "redis"];

    /// A fleet without limits.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A fleet without limits, except for those in `environment`.
    pub(crate) async fn start_with(environment: &[(&str, &str)]) -> Self {
        Self::start_in(unlimited(environment)).await
    }

    /// A fleet with the limits of production.
    pub(crate) async fn start_with_limits() -> Self {
        Self::start_with_limits_and(&[]).await
    }

    /// A fleet with the limits of production, except for those in `environment`.
    pub(crate) async fn start_with_limits_and(environment: &[(&str, &str)]) -> Self {
        Self::start_in(limited(environment)).await
    }

    /// A fleet without limits, whose tables can be restored to a point in time.
    pub(crate) async fn start_recoverable() -> Self {
        let base = Base::on(FleetEngines::start_recoverable().await, unlimited(&[]));
        Self::of(TestFleet::start_base(this_release(), base).await)
    }

    /// A fleet in exactly this environment.
    pub(crate) async fn start_in(environment: Vec<(String, String)>) -> Self {
        Self::of(TestFleet::start(environment).await)
    }

    /// A fleet with these credentials, without limits. Its environment is applied last.
    pub(crate) async fn start_with_credentials(credentials: Credentials, environment: &[(&str, &str)]) -> Self {
        let environment = unlimited(environment);
        Self::of(TestFleet::start_program(this_release(), credentials, environment).await)
    }

    /// A fleet whose connections to Kafka and Redis are encrypted and authenticated, without limits.
    pub(crate) async fn start_encrypted() -> Self {
        let base = Base::on(FleetEngines::start_encrypted().await, unlimited(&[]));
        Self::of(TestFleet::start_base(this_release(), base).await)
    }

    /// A fleet whose connections can be stalled, without limits.
    pub(crate) async fn start_on_network() -> Self {
        let mut base = Base::on(FleetEngines::start_behind_proxy().await, unlimited(&[]));
        base.network = Some(FleetNetwork::start(&base.engines).await);
        Self::of(TestFleet::start_base(this_release(), base).await)
    }

    /// A fleet of the previous release, without limits. Its settings let it be upgraded to this release.
    pub(crate) async fn start_program(program: PathBuf) -> Self {
        let mut environment = unlimited(&[]);
        environment.retain(|(name, _)| !NEW_LIMITS.contains(&&**name));
        Self::of(TestFleet::start_program(program, Credentials::one_secret(), environment).await)
    }

    fn of(fleet: TestFleet) -> Self {
        // Each call uses its own connection, because the balancer routes connections.
        let http = reqwest::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(0).build().unwrap();
        Self { fleet, killed_at: None, http, signed_up: AtomicU32::new(0) }
    }

    /// Restarts all processes.
    pub(crate) async fn restart(&mut self) {
        if let Some(killed_at) = self.killed_at.take() {
            tokio::time::sleep_until((killed_at + CONSUMER_GONE_AFTER).into()).await;
        }
        join_all(self.fleet.processes_mut().map(|process| process.restart())).await;
        self.fleet.settled().await;
    }

    /// Stops all processes gracefully. Returns the worst exit status and the time it took.
    pub(crate) async fn stop(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let stopped = join_all(self.fleet.processes_mut().map(|process| process.stop())).await;
        let worst = stopped.into_iter().map(|(status, _)| status).max_by_key(|status| !status.success());
        (worst.expect("a fleet has processes"), start.elapsed())
    }

    /// Kills all processes.
    pub(crate) async fn kill(&mut self) {
        join_all(self.fleet.processes_mut().map(|process| process.kill())).await;
        self.killed_at = Some(Instant::now());
    }

    /// Sets an environment variable of all processes, effective at their next start.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.fleet.processes_mut().for_each(|process| process.set_env(name, value));
    }

    /// The data directory for operator commands.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.fleet.process(ProcessRole::Api, 0).data_dir()
    }

    /// Audits the whole fleet from outside, as an operator does, and asserts that it finds nothing.
    pub(crate) async fn verify_store(&self) {
        let (code, report) = crate::verify::verify(self).await;
        assert_eq!(code, Some(0), "{report}");
    }

    /// The logs of all processes.
    pub(crate) fn log(&self) -> String {
        self.fleet.processes().map(|process| process.log()).collect()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.fleet.address()
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The URLs of all processes that serve REST.
    pub(crate) fn api_urls(&self) -> Vec<String> {
        let of_api = self.fleet.members().filter(|(role, ..)| *role == ProcessRole::Api);
        of_api.map(|(.., process)| process.base_url()).collect()
    }

    pub(crate) fn admin_url(&self) -> String {
        self.fleet.process(ProcessRole::Api, 0).admin_url()
    }

    /// The process whose metrics show a series with a value.
    pub(crate) async fn showing(&self, series: &str) -> &Process {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for process in self.fleet.processes() {
                if process.metrics().await.lines().any(|line| line == series) {
                    return process;
                }
            }
            assert!(Instant::now() < deadline, "no process shows {series}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The metrics of all processes, with equal series summed.
    pub(crate) async fn metrics(&self) -> String {
        let mut sums = BTreeMap::<String, f64>::new();
        for metrics in join_all(self.fleet.processes().map(|process| process.metrics())).await {
            for (series, value) in metrics.lines().filter_map(|line| line.rsplit_once(' ')) {
                if let Ok(value) = value.parse::<f64>() {
                    *sums.entry(series.to_owned()).or_default() += value;
                }
            }
        }
        sums.into_iter().fold(String::new(), |mut text, (series, sum)| {
            writeln!(text, "{series} {sum}").unwrap();
            text
        })
    }
}
