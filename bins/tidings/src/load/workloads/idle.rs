use anyhow::Context;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::super::bench::{Bench, Observed};
use super::super::measure::{LoadTally, MeasurementWindow};
use super::super::peer::LoadPeer;
use super::super::report::LoadReport;
use super::super::users::sign_up;
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// Idle connections: server memory per connection.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let users = sign_up(bench.base_url(), arguments.users_or(5000), &bench.progress).await?;
    let before = bench.target().memory_kib().context("the memory of a server is known only if it is started here")?;
    let peers = connect_all(bench, &users).await?;
    let window = bench.window();
    let mut tasks = JoinSet::new();
    for peer in peers {
        tasks.spawn(stay(peer, window));
    }
    let Observed { server, .. } = bench.observe(window).await?;
    let after = bench.target().memory_kib().context("the server has ended")?;
    join(tasks).await?;
    let setup = format!("{} idle connections", users.len());
    let mut report = LoadReport::new(Workload::Idle, setup, window.seconds());
    report.server = server;
    report.server_memory(before, after, users.len());
    Ok(report)
}

async fn stay(mut peer: LoadPeer, window: MeasurementWindow) -> anyhow::Result<LoadTally> {
    let mut beats = LoadPeer::beats();
    loop {
        tokio::select! {
            heard = peer.next() => {
                heard?;
            }
            _ = beats.tick() => peer.heartbeat()?,
            () = sleep_until(window.until.into()) => break,
        }
    }
    peer.close().await;
    Ok(LoadTally::default())
}
