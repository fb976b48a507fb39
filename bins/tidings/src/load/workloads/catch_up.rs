use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;

use super::super::bench::Bench;
use super::super::measure::Latencies;
use super::super::order::{IntegrityViolations, SequenceChecker};
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, PARALLEL, pair_up, sign_up};
use super::super::{LoadArgs, Workload};

/// Sends in flight while a chat is filled.
const FILL_IN_FLIGHT: u64 = 32;

/// Clients that reconnect to chats with many missed messages.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let messages = u64::from(arguments.messages.unwrap_or(1000));
    let users = sign_up(bench.base_url(), arguments.users_or(100) / 2 * 2, &bench.progress).await?;
    let chats = pair_up(&users).await?;
    bench.progress.set_message("filling chats");
    let sends = users.iter().step_by(2).zip(&chats).map(|(sender, chat)| fill(bench, sender, *chat, messages));
    stream::iter(sends).buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;

    let receivers: Vec<(LoadUser, LoadChat)> = users.into_iter().skip(1).step_by(2).zip(chats).collect();
    bench.progress.set_message("catching up");
    let alone = one_at_a_time(bench, &receivers, messages).await?;
    let cpu_before = bench.target().cpu_seconds();
    let together = all_at_once(bench, &receivers, messages).await?;

    let total = messages * receivers.len() as u64;
    let setup = format!("{} clients come back to {messages} missed messages each", receivers.len());
    let mut report = LoadReport::new(Workload::CatchUp, setup, together.took.as_secs_f64());
    report.server = bench.server_since(cpu_before);
    report.figure("one at a time", total as f64 / alone.took.as_secs_f64(), "msg/s");
    report.rate("all at once", total, "msg/s");
    report.latency("one, from connect to head", &alone.latencies);
    report.latency("all, from connect to head", &together.latencies);
    report.integrity = alone.integrity;
    report.integrity += together.integrity;
    Ok(report)
}

/// The result of one catch-up run.
#[derive(Default)]
struct CatchUpRun {
    took: Duration,
    latencies: Latencies,
    integrity: IntegrityViolations,
}

async fn one_at_a_time(bench: &Bench, receivers: &[(LoadUser, LoadChat)], messages: u64) -> anyhow::Result<CatchUpRun> {
    let started = Instant::now();
    let mut round = CatchUpRun::default();
    for (user, chat) in receivers {
        let begun = Instant::now();
        round.integrity += catch_up(user.clone(), *chat, messages, bench.epoch).await?;
        round.latencies.record(begun.elapsed());
    }
    Ok(CatchUpRun { took: started.elapsed(), ..round })
}

async fn all_at_once(bench: &Bench, receivers: &[(LoadUser, LoadChat)], messages: u64) -> anyhow::Result<CatchUpRun> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (user, chat) in receivers {
        tasks.spawn(catch_up(user.clone(), *chat, messages, bench.epoch));
    }
    let mut round = CatchUpRun::default();
    while let Some(integrity) = tasks.join_next().await {
        round.integrity += integrity??;
        round.latencies.record(started.elapsed());
    }
    Ok(CatchUpRun { took: started.elapsed(), ..round })
}

/// Connects and syncs everything that was missed.
async fn catch_up(
    user: LoadUser,
    chat: LoadChat,
    messages: u64,
    epoch: Instant,
) -> anyhow::Result<IntegrityViolations> {
    let mut peer = LoadPeer::connect(&user, epoch).await?;
    let mut order = SequenceChecker::after(chat.head);
    peer.sync(chat.chat_id, chat.head, |sequence| order.pushed(sequence)).await?;
    peer.close().await;
    Ok(order.finish(chat.head + messages))
}

pub(super) async fn fill(bench: &Bench, sender: &LoadUser, chat: LoadChat, messages: u64) -> anyhow::Result<()> {
    let mut peer = LoadPeer::connect(sender, bench.epoch).await?;
    let (mut sent, mut acked) = (0, 0);
    while acked < messages {
        while sent < messages && sent < acked + FILL_IN_FLIGHT {
            peer.send(chat.chat_id, sent)?;
            sent += 1;
        }
        match peer.next().await? {
            PeerFrame::Ack { .. } => {
                acked += 1;
                bench.progress.inc(1);
            }
            PeerFrame::Refused { .. } => anyhow::bail!("a send was refused while a chat was filled"),
            PeerFrame::Message { .. }
            | PeerFrame::Update { .. }
            | PeerFrame::Presence { .. }
            | PeerFrame::BeatAck
            | PeerFrame::Other => {}
        }
    }
    peer.close().await;
    Ok(())
}
