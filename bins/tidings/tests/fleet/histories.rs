//! Client histories of a fleet satisfy the guarantees across all failures of its processes and engines.
//!
//! The drills of `drills` check this under a load with constant membership. Here members join and leave, messages
//! expire, and processes are paused as well as killed. A pause is harder: the process resumes with stale state.

use std::time::Duration;

use nix::sys::signal::Signal;
use ports::ProcessRole;

use crate::history::{Crowd, FaultyProxy, Keeps};
use crate::server::TestServer;

/// Time between two faults.
const WHILE: Duration = Duration::from_millis(1_500);
/// Longer than the longest response time (G5), so that peers have given up a paused process.
const PAUSE: Duration = Duration::from_secs(6);

/// A fleet, with clients behind a proxy that can cut the network.
struct FleetCrowd {
    server: TestServer,
    proxy: FaultyProxy,
    crowd: Crowd,
}

impl FleetCrowd {
    async fn set() -> Self {
        let server = TestServer::start().await;
        let proxy = FaultyProxy::start(server.address()).await;
        let crowd = Crowd::gather(&server.base_url(), &proxy.url(), Keeps::NoOrder).await;
        let mut scene = Self { server, proxy, crowd };
        scene.crowd.go_on(WHILE).await;
        scene
    }

    /// Pauses a process, and resumes it.
    async fn pause(&mut self, role: ProcessRole, number: usize) {
        self.server.fleet.process(role, number).signal(Signal::SIGSTOP);
        self.crowd.go_on(PAUSE).await;
        self.server.fleet.process(role, number).signal(Signal::SIGCONT);
        self.crowd.go_on(WHILE).await;
    }

    /// Kills a process, and restarts it after a while.
    async fn kill(&mut self, role: ProcessRole, number: usize) {
        self.server.fleet.process_mut(role, number).kill().await;
        self.crowd.go_on(WHILE).await;
        self.server.fleet.process_mut(role, number).restart().await;
        self.crowd.go_on(WHILE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_are_paused_killed_and_cut_off_leave_a_history_that_fits() {
    let mut scene = FleetCrowd::set().await;
    scene.pause(ProcessRole::Gateway, 0).await;
    scene.kill(ProcessRole::Gateway, 1).await;
    scene.proxy.swallow(Duration::from_millis(500)).await;
    scene.crowd.go_on(WHILE).await;
    scene.proxy.cut();
    scene.crowd.go_on(WHILE).await;
    scene.crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ingest_processes_that_are_paused_and_killed_leave_a_history_that_fits() {
    let mut scene = FleetCrowd::set().await;
    scene.pause(ProcessRole::Ingest, 0).await;
    scene.kill(ProcessRole::Ingest, 1).await;
    scene.pause(ProcessRole::Ingest, 1).await;
    scene.crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fanout_and_api_processes_that_are_paused_and_killed_leave_a_history_that_fits() {
    let mut scene = FleetCrowd::set().await;
    scene.pause(ProcessRole::Fanout, 0).await;
    scene.pause(ProcessRole::Api, 0).await;
    scene.kill(ProcessRole::Api, 0).await;
    scene.crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_are_restarted_leave_a_history_that_fits() {
    let mut scene = FleetCrowd::set().await;
    scene.server.fleet.base.engines.dynamo.stop().await;
    scene.crowd.go_on(WHILE).await;
    scene.server.fleet.base.engines.dynamo.start_again().await;
    scene.crowd.go_on(WHILE).await;
    scene.server.fleet.base.engines.redis.stop().await;
    scene.crowd.go_on(WHILE).await;
    scene.server.fleet.base.engines.redis.start_again().await;
    scene.crowd.go_on(WHILE).await;
    scene.server.fleet.base.engines.kafka.stop().await;
    scene.crowd.go_on(WHILE).await;
    scene.server.fleet.base.engines.kafka.start_again().await;
    scene.crowd.go_on(WHILE).await;
    scene.crowd.part(&[]).await;
}
