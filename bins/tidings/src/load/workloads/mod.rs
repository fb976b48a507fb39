//! One file per workload: its preparation, its operations in the window, and its report.

mod catch_up;
mod connections;
mod group;
mod growth;
mod history;
mod hot_chat;
mod idle;
mod inbox;
mod mixed;
mod pairs;
mod presence;
mod storm;
mod updates;
mod witness;

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;

use super::bench::Bench;
use super::measure::LoadTally;
use super::peer::{LoadPeer, LoadUser};
use super::report::LoadReport;
use super::users::PARALLEL;
use super::{LoadArgs, Workload};

/// Runs a workload to its end.
pub(super) async fn run(bench: &mut Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    match arguments.workload {
        Workload::Pairs => pairs::run(bench, arguments, 1).await,
        Workload::PairsDeep => pairs::run(bench, arguments, 16).await,
        Workload::Group => group::run(bench, arguments).await,
        Workload::Idle => idle::run(bench, arguments).await,
        Workload::Connections => connections::run(bench, arguments).await,
        Workload::CatchUp => catch_up::run(bench, arguments).await,
        Workload::Storm => storm::run(bench, arguments).await,
        Workload::Presence => presence::run(bench, arguments).await,
        Workload::HotChat => hot_chat::run(bench, arguments).await,
        Workload::Mixed => mixed::run(bench, arguments).await,
        Workload::History => history::run(bench, arguments).await,
        Workload::Inbox => inbox::run(bench, arguments).await,
        Workload::Growth => growth::run(bench, arguments).await,
        Workload::Witness => witness::run(bench, arguments).await,
        Workload::Updates => updates::run(bench, arguments).await,
    }
}

/// Connects all users, in order.
async fn connect_all(bench: &Bench, users: &[LoadUser]) -> anyhow::Result<Vec<LoadPeer>> {
    bench.progress.set_message("connecting");
    let epoch: Instant = bench.epoch;
    stream::iter(users).map(|user| LoadPeer::connect(user, epoch)).buffered(PARALLEL).try_collect().await
}

/// Waits for every task and sums their tallies.
async fn join(mut tasks: JoinSet<anyhow::Result<LoadTally>>) -> anyhow::Result<LoadTally> {
    let mut total = LoadTally::default();
    while let Some(tally) = tasks.join_next().await {
        total.merge(&tally??);
    }
    Ok(total)
}
