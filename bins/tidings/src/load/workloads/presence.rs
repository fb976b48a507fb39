use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use domain::{PresenceVisibility, UserId};
use futures_util::{StreamExt, TryStreamExt, stream};
use protocol::rest::UpdateMe;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::bench::Bench;
use super::super::measure::Latencies;
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{PARALLEL, sign_up};
use super::super::{LoadArgs, Workload};

/// How often the user connects and disconnects.
const ROUNDS: usize = 5;
/// Longest time until all subscribers are notified.
const TOLD_TIMEOUT: Duration = Duration::from_secs(60);
/// Capacity of the queue of notifications to count.
const QUEUE_LEN_MAX: usize = 1024;

/// A presence notification at a subscriber, with its time.
struct PresenceNotification {
    is_online: bool,
    at: Instant,
}

/// One user connects and disconnects with many subscribers: the time until all of them are notified.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let mut watchers = sign_up(bench.base_url(), arguments.users_or(10_000) + 1, &bench.progress).await?;
    let star = watchers.pop().context("no user has signed up")?;
    let visibility = UpdateMe { presence_visibility: Some(PresenceVisibility::Everyone), ..UpdateMe::default() };
    star.client.api().update_me(&visibility).await.context("the user cannot be made visible")?;
    let (tell, mut told) = mpsc::channel(QUEUE_LEN_MAX);
    let mut tasks = gather(bench, &watchers, star.user_id, tell).await?;

    bench.progress.set_message("coming and going");
    let cpu_before = bench.target().cpu_seconds();
    let started = Instant::now();
    let [mut first, mut came, mut went] = [(); 3].map(|()| Latencies::default());
    for round in 0..ROUNDS {
        // The first round counts separately: the server announces the connects of all subscribers before it.
        let came = if round == 0 { &mut first } else { &mut came };
        let begun = Instant::now();
        let star = LoadPeer::connect(&star, bench.epoch).await?;
        count(&mut told, watchers.len(), true, begun, came).await?;
        let begun = Instant::now();
        star.close().await;
        count(&mut told, watchers.len(), false, begun, &mut went).await?;
    }
    let took = started.elapsed();
    let server = bench.server_since(cpu_before);
    // The subscribers end when the channel closes.
    drop(told);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }

    let setup = format!("{} watchers of one user, who comes and goes {ROUNDS} times", watchers.len());
    let mut report = LoadReport::new(Workload::Presence, setup, took.as_secs_f64());
    report.server = server;
    report.rate("watchers told", first.count() + came.count() + went.count(), "watchers/s");
    report.latency("first handshake to told", &first);
    report.latency("handshake to told", &came);
    report.latency("close to told", &went);
    Ok(report)
}

/// Connects all subscribers. Each runs from then on; otherwise the server would drop the first before the last
/// connects.
async fn gather(
    bench: &Bench,
    watchers: &[LoadUser],
    user_id: UserId,
    tell: mpsc::Sender<PresenceNotification>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    bench.progress.set_message("connecting");
    let watching = |watcher| async move {
        let mut peer = LoadPeer::connect(watcher, bench.epoch).await?;
        peer.subscribe(user_id).await.map(|()| peer)
    };
    let mut connected = stream::iter(watchers).map(watching).buffer_unordered(PARALLEL);
    let mut tasks = JoinSet::new();
    while let Some(peer) = connected.try_next().await? {
        tasks.spawn(watch(peer, tell.clone()));
    }
    Ok(tasks)
}

async fn watch(mut peer: LoadPeer, tell: mpsc::Sender<PresenceNotification>) -> anyhow::Result<()> {
    let mut beats = LoadPeer::beats();
    loop {
        tokio::select! {
            heard = peer.next() => {
                if let PeerFrame::Presence { is_online } = heard? {
                    // The receiver is closed at the end, when notifications no longer count.
                    tell.send(PresenceNotification { is_online, at: Instant::now() }).await.ok();
                }
            }
            _ = beats.tick() => peer.heartbeat()?,
            () = tell.closed() => break,
        }
    }
    peer.close().await;
    Ok(())
}

/// Waits until all subscribers are notified.
async fn count(
    told: &mut mpsc::Receiver<PresenceNotification>,
    watchers: usize,
    is_online: bool,
    begun: Instant,
    latencies: &mut Latencies,
) -> anyhow::Result<()> {
    for number in 0..watchers {
        let word = timeout(TOLD_TIMEOUT, told.recv()).await.ok().flatten();
        let word = word.with_context(|| format!("only {number} of {watchers} subscribers were notified"))?;
        ensure!(word.is_online == is_online, "a subscriber was notified of the opposite state");
        latencies.record(word.at - begun);
    }
    Ok(())
}
