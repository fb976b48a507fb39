//! Client histories satisfy the guarantees under faults of a server and its network.

use std::time::Duration;

use domain::Invariant;
use nix::sys::signal::Signal;

use crate::history::{Crowd, FaultyProxy, Keeps};
use crate::server::TestServer;

/// Time between two faults.
const WHILE: Duration = Duration::from_millis(700);
/// Clients of this server detect a silent server within two seconds.
const ATTENTIVE: [(&str, &str); 1] = [("TIDINGS_GATEWAY__HEARTBEAT_INTERVAL_MS", "500")];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_leaves_a_history_that_fits() {
    let mut server = TestServer::start().await;
    let mut crowd = Crowd::gather(&server.base_url(), &server.base_url(), Keeps::Order).await;
    for _ in 0..6 {
        crowd.go_on(WHILE).await;
        server.kill().await;
        server.restart().await;
    }
    crowd.go_on(WHILE).await;
    crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_and_started_in_order_leaves_a_history_that_fits() {
    let mut server = TestServer::start().await;
    let mut crowd = Crowd::gather(&server.base_url(), &server.base_url(), Keeps::NoOrder).await;
    for _ in 0..4 {
        crowd.go_on(WHILE).await;
        let (status, _) = server.stop().await;
        assert_eq!(status.code(), Some(0));
        server.restart().await;
    }
    crowd.go_on(WHILE).await;
    crowd.part(&[]).await;
}

/// Pauses that are shorter than the clients' timeout, and pauses after which they have dropped the connection while the
/// server has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_paused_leaves_a_history_that_fits() {
    let server = TestServer::start_with(&ATTENTIVE).await;
    let mut crowd = Crowd::gather(&server.base_url(), &server.base_url(), Keeps::Order).await;
    for pause_ms in [300, 3_000, 800, 3_000] {
        crowd.go_on(WHILE).await;
        server.signal(Signal::SIGSTOP);
        crowd.go_on(Duration::from_millis(pause_ms)).await;
        server.signal(Signal::SIGCONT);
    }
    crowd.go_on(WHILE).await;
    crowd.part(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_stalled_and_robbed_of_answers_leave_a_history_that_fits() {
    let server = TestServer::start_with(&ATTENTIVE).await;
    let proxy = FaultyProxy::start(server.address()).await;
    let mut crowd = Crowd::gather(&server.base_url(), &proxy.url(), Keeps::Order).await;
    for round in 0..8 {
        crowd.go_on(WHILE).await;
        match round % 4 {
            0 => proxy.cut(),
            // Requests arrive, but their responses are lost.
            1 => proxy.swallow(Duration::from_millis(300)).await,
            // Stalled chunks are cut in the middle.
            2 => {
                proxy.stall(true);
                crowd.go_on(Duration::from_millis(200)).await;
                proxy.cut();
                proxy.stall(false);
            }
            // Longer than the clients' timeout.
            _ => {
                proxy.stall(true);
                crowd.go_on(Duration::from_secs(2)).await;
                proxy.stall(false);
                proxy.delay(Duration::from_millis(round));
            }
        }
    }
    proxy.delay(Duration::ZERO);
    crowd.go_on(WHILE).await;
    crowd.part(&[Invariant::ReconnectHeals]).await;
}
