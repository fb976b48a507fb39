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
use super::super::peer::{Heard, LoadUser, Peer};
use super::super::report::Report;
use super::super::users::{PARALLEL, sign_up};
use super::super::{LoadArgs, Workload};

/// How often the user comes, and goes.
const ROUNDS: usize = 5;
/// How long all watchers may wait for the word of it.
const TOLD_TIMEOUT: Duration = Duration::from_secs(60);
/// Words that wait to be counted.
const QUEUE_LEN_MAX: usize = 1024;

/// What a watcher was told, and when.
struct Told {
    is_online: bool,
    at: Instant,
}

/// One user comes and goes before the eyes of many: how soon all of them are told.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<Report> {
    let mut watchers = sign_up(bench.base_url(), arguments.users_or(10_000) + 1, &bench.progress).await?;
    let star = watchers.pop().context("nobody has signed up")?;
    let visibility = UpdateMe { presence_visibility: Some(PresenceVisibility::Everyone), display_name: None };
    star.client.api().update_me(&visibility).await.context("the user cannot be made visible")?;
    let (tell, mut told) = mpsc::channel(QUEUE_LEN_MAX);
    let mut tasks = gather(bench, &watchers, star.user_id, tell).await?;

    bench.progress.set_message("coming and going");
    let cpu_before = bench.target().cpu_seconds();
    let started = Instant::now();
    let [mut first, mut came, mut went] = [(); 3].map(|()| Latencies::default());
    for round in 0..ROUNDS {
        // Before the first of them is told, it is announced that all of them have come.
        let came = if round == 0 { &mut first } else { &mut came };
        let begun = Instant::now();
        let star = Peer::connect(&star, bench.epoch).await?;
        count(&mut told, watchers.len(), true, begun, came).await?;
        let begun = Instant::now();
        star.close().await;
        count(&mut told, watchers.len(), false, begun, &mut went).await?;
    }
    let took = started.elapsed();
    let server = bench.server_since(cpu_before);
    // That nobody listens any more is the watchers' end.
    drop(told);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }

    let setup = format!("{} watchers of one user, who comes and goes {ROUNDS} times", watchers.len());
    let mut report = Report::new(Workload::Presence, setup, took.as_secs_f64());
    report.server = server;
    report.rate("watchers told", first.count() + came.count() + went.count(), "watchers/s");
    report.latency("first handshake to told", &first);
    report.latency("handshake to told", &came);
    report.latency("close to told", &went);
    Ok(report)
}

/// Connects all watchers. Each listens from then on, or the first would be given up before the last is there.
async fn gather(
    bench: &Bench,
    watchers: &[LoadUser],
    user_id: UserId,
    tell: mpsc::Sender<Told>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    bench.progress.set_message("connecting");
    let watching = |watcher| async move {
        let mut peer = Peer::connect(watcher, bench.epoch).await?;
        peer.subscribe(user_id).await.map(|()| peer)
    };
    let mut connected = stream::iter(watchers).map(watching).buffer_unordered(PARALLEL);
    let mut tasks = JoinSet::new();
    while let Some(peer) = connected.try_next().await? {
        tasks.spawn(watch(peer, tell.clone()));
    }
    Ok(tasks)
}

async fn watch(mut peer: Peer, tell: mpsc::Sender<Told>) -> anyhow::Result<()> {
    let mut beats = Peer::beats();
    loop {
        tokio::select! {
            heard = peer.next() => {
                if let Heard::Presence { is_online } = heard? {
                    // At the end nobody counts.
                    tell.send(Told { is_online, at: Instant::now() }).await.ok();
                }
            }
            _ = beats.tick() => peer.beat()?,
            () = tell.closed() => break,
        }
    }
    peer.close().await;
    Ok(())
}

/// Waits until all watchers were told.
async fn count(
    told: &mut mpsc::Receiver<Told>,
    watchers: usize,
    is_online: bool,
    begun: Instant,
    latencies: &mut Latencies,
) -> anyhow::Result<()> {
    for number in 0..watchers {
        let word = timeout(TOLD_TIMEOUT, told.recv()).await.ok().flatten();
        let word = word.with_context(|| format!("only {number} of {watchers} watchers were told"))?;
        ensure!(word.is_online == is_online, "a watcher was told the opposite of what is");
        latencies.record(word.at - begun);
    }
    Ok(())
}
