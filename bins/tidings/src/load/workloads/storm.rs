use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::super::bench::Bench;
use super::super::measure::Latencies;
use super::super::peer::LoadPeer;
use super::super::report::LoadReport;
use super::super::users::sign_up;
use super::super::{LoadArgs, Workload};

/// Handshakes in flight.
const PARALLEL: usize = 256;

/// Users who connect at once, until the last of them can receive.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let users = sign_up(bench.base_url(), arguments.users_or(2000), &bench.progress).await?;
    bench.progress.set_message("connecting");
    let cpu_before = bench.target().cpu_seconds();
    let started = Instant::now();
    let connected: Vec<(LoadPeer, Instant, Instant)> = stream::iter(&users)
        .map(|user| async {
            let begun = Instant::now();
            LoadPeer::connect(user, bench.epoch).await.map(|peer| (peer, begun, Instant::now()))
        })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let took = started.elapsed();
    let mut latencies = Latencies::default();
    for (peer, begun, ready) in connected {
        latencies.record(ready - begun);
        peer.close().await;
    }
    let setup = format!("{} users who connect, {PARALLEL} at a time", users.len());
    let mut report = LoadReport::new(Workload::Storm, setup, took.as_secs_f64());
    report.server = bench.server_since(cpu_before);
    report.rate("connections", latencies.count(), "connections/s");
    report.latency("handshake to established", &latencies);
    Ok(report)
}
