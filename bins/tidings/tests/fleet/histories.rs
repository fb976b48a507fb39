//! Whatever fails in a fleet, or below it, what its clients did and saw fits the promises.
//!
//! The drills of `drills` do so too, under a load that never changes its members; here people come and go, messages expire,
//! and processes are not only killed but paused, which is worse: they go on with what they knew.

use std::time::Duration;

use nix::sys::signal::Signal;
use ports::ProcessRole;

use crate::history::{Crowd, Keeps, Proxy};
use crate::server::TestServer;

/// How long people go on between two things that are done to them.
const WHILE: Duration = Duration::from_millis(1_500);
/// Longer than an answer takes at the most (G5), so that others have given up a process that is paused.
const PAUSE: Duration = Duration::from_secs(6);

/// A fleet, and people at the other end of a network that can be cut.
struct Scene {
    server: TestServer,
    proxy: Proxy,
    crowd: Crowd,
}

impl Scene {
    async fn set() -> Self {
        let server = TestServer::start().await;
        let proxy = Proxy::start(server.address()).await;
        let crowd = Crowd::gather(&server.base_url(), &proxy.url(), Keeps::NoOrder).await;
        let mut scene = Self { server, proxy, crowd };
        scene.crowd.go_on(WHILE).await;
        scene
    }

    /// Pauses a process, and has it go on.
    async fn pause(&mut self, role: ProcessRole, number: usize) {
        self.server.fleet.process(role, number).signal(Signal::SIGSTOP);
        self.crowd.go_on(PAUSE).await;
        self.server.fleet.process(role, number).signal(Signal::SIGCONT);
        self.crowd.go_on(WHILE).await;
    }

    /// Kills a process, and starts it again after a while.
    async fn kill(&mut self, role: ProcessRole, number: usize) {
        self.server.fleet.process_mut(role, number).kill().await;
        self.crowd.go_on(WHILE).await;
        self.server.fleet.process_mut(role, number).restart().await;
        self.crowd.go_on(WHILE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_are_paused_killed_and_cut_off_leave_a_history_that_fits() {
    let mut scene = Scene::set().await;
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
    let mut scene = Scene::set().await;
    scene.pause(ProcessRole::Ingest, 0).await;
    scene.kill(ProcessRole::Ingest, 1).await;
    scene.pause(ProcessRole::Ingest, 1).await;
    scene.crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fanout_and_api_processes_that_are_paused_and_killed_leave_a_history_that_fits() {
    let mut scene = Scene::set().await;
    scene.pause(ProcessRole::Fanout, 0).await;
    scene.pause(ProcessRole::Api, 0).await;
    scene.kill(ProcessRole::Api, 0).await;
    scene.crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_are_restarted_leave_a_history_that_fits() {
    let mut scene = Scene::set().await;
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
