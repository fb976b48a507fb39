use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::bench::{Bench, Observed};
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::redis_cost::RedisCost;
use super::super::report::LoadReport;
use super::super::target::check_host;
use super::super::users::{PARALLEL, phone_numbers, sign_in};
use super::super::{LoadArgs, Workload};

/// Longest wait for the response to the last heartbeat.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Idle connections with heartbeats: their load on Redis.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    ensure!(
        arguments.redis.is_some() || arguments.url.is_none(),
        "for a running service, the cost of connections can only be read from its Redis; name that with --redis"
    );
    let gateways = gateways(bench, arguments)?;
    let mut redis = match &arguments.redis {
        Some(url) => Some(RedisCost::of(url, arguments.allow_remote).await?),
        None => None,
    };
    let devices = sign_in_devices(bench, arguments.users_or(5000)).await?;
    let memory_before = bench.target().memory_kib();

    if let Some(redis) = &mut redis {
        bench.progress.set_message("watching Redis");
        redis.watch_quiet(bench.time()).await?;
    }
    let (over, is_over) = watch::channel(false);
    let OpenConnections { tasks, heartbeat_interval } = connect(bench, &devices, &gateways, &is_over).await?;
    let window = bench.window();
    let watching = async {
        match &mut redis {
            Some(redis) => redis.watch_held(window).await,
            None => Ok(()),
        }
    };
    let (observed, watched) = tokio::join!(bench.observe(window), watching);
    let Observed { server, timeline } = observed?;
    watched?;
    let memory_after = bench.target().memory_kib();
    over.send_replace(true);
    all_stayed(tasks, devices.len()).await?;

    let (count, places) = (devices.len(), gateways.len());
    let setup =
        format!("{count} connections, 3 for each 2 users, gateways: {places}, a beat every {heartbeat_interval:?}");
    let mut report = LoadReport::new(Workload::Connections, setup, window.seconds());
    report.server = server;
    report.rate("beats answered", timeline.iter().sum(), "beats/s");
    report.timeline = timeline;
    if let Some(redis) = redis {
        redis.seen.add_to(&mut report, count, heartbeat_interval);
    }
    if let (Some(before), Some(after)) = (memory_before, memory_after) {
        report.server_memory(before, after, count);
    }
    Ok(report)
}

/// Gateways to connect to, in turn.
fn gateways(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<Vec<String>> {
    if arguments.gateway.is_empty() {
        return Ok(vec![bench.base_url().to_owned()]);
    }
    for url in &arguments.gateway {
        check_host(url, arguments.allow_remote)?;
    }
    Ok(arguments.gateway.clone())
}

/// Signs in this many devices for two thirds as many users: every second user has two.
async fn sign_in_devices(bench: &Bench, count: usize) -> anyhow::Result<Vec<LoadUser>> {
    let users = phone_numbers((count * 2).div_ceil(3));
    let with_two: Vec<String> = users.iter().skip(1).step_by(2).take(count - users.len()).cloned().collect();
    let mut devices = sign_in(bench.base_url(), &users, &bench.progress).await?;
    // Sequential, because a new code request replaces an unused code.
    devices.extend(sign_in(bench.base_url(), &with_two, &bench.progress).await?);
    Ok(devices)
}

/// Open connections and their tasks.
struct OpenConnections {
    tasks: JoinSet<anyhow::Result<()>>,
    heartbeat_interval: Duration,
}

/// Connects all devices. Each connection sends heartbeats from then on; otherwise the server would drop the first
/// before the last connects.
async fn connect(
    bench: &Bench,
    devices: &[LoadUser],
    gateways: &[String],
    is_over: &watch::Receiver<bool>,
) -> anyhow::Result<OpenConnections> {
    bench.progress.set_message("connecting");
    bench.progress.set_position(0);
    let mut held = OpenConnections { tasks: JoinSet::new(), heartbeat_interval: Duration::ZERO };
    let mut connecting = stream::iter(devices.iter().zip(gateways.iter().cycle()))
        .map(|(device, gateway)| LoadPeer::connect_to(gateway, device, bench.epoch))
        .buffer_unordered(PARALLEL);
    while let Some(peer) = connecting.try_next().await? {
        bench.progress.inc(1);
        held.heartbeat_interval = peer.heartbeat_interval();
        held.tasks.spawn(hold(peer, is_over.clone(), bench.counter()));
    }
    Ok(held)
}

/// Sends heartbeats at the server's interval until the end, and fails if one was not acknowledged by then.
async fn hold(mut peer: LoadPeer, mut is_over: watch::Receiver<bool>, answered: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut beats = interval(peer.heartbeat_interval());
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unanswered = 0_u64;
    loop {
        tokio::select! {
            heard = peer.next() => {
                if heard? == PeerFrame::BeatAck {
                    unanswered = unanswered.saturating_sub(1);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ = beats.tick() => {
                peer.heartbeat()?;
                unanswered += 1;
            }
            _ = is_over.wait_for(|is_over| *is_over) => break,
        }
    }
    let last_answers = async {
        while unanswered > 0 {
            if peer.next().await? == PeerFrame::BeatAck {
                unanswered -= 1;
            }
        }
        anyhow::Ok(())
    };
    timeout(LAST_ANSWER_TIMEOUT, last_answers).await.context("a beat is not answered")??;
    peer.close().await;
    Ok(())
}

/// Fails unless every connection stayed open to the end, with all heartbeats acknowledged.
async fn all_stayed(mut tasks: JoinSet<anyhow::Result<()>>, count: usize) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    while let Some(end) = tasks.join_next().await {
        failures.extend(end?.err());
    }
    let failed = failures.len();
    match failures.into_iter().next() {
        Some(first) => Err(first.context(format!("{failed} of {count} connections did not stay; the first to go"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test]
    async fn one_connection_that_goes_fails_the_load() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Ok(()) });
        all_stayed(tasks, 1).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Ok(()) });
        tasks.spawn(async { bail!("it went") });
        let failure = all_stayed(tasks, 2).await.unwrap_err();
        assert_eq!(format!("{failure:#}"), "1 of 2 connections did not stay; the first to go: it went");
    }
}
