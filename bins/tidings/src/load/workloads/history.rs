use std::time::{Duration, Instant};

use anyhow::ensure;
use client::HistoryRange;
use domain::Sequence;
use domain::limits::HISTORY_PAGE_MAX;
use tokio::task::JoinSet;

use super::super::bench::{Bench, Observed};
use super::super::measure::{Latencies, MeasurementWindow};
use super::super::peer::LoadUser;
use super::super::report::LoadReport;
use super::super::users::{LoadChat, pair_up, sign_up};
use super::super::{LoadArgs, Workload};
use super::catch_up::fill;

/// Concurrent readers.
const READERS: usize = 4;
/// Positions of the pages: at the head of the chat, half way down and at its start.
const DEPTHS: [(&str, f64); 3] = [("page at the head", 1.0), ("page half way down", 0.5), ("page at the start", 0.0)];

/// History pages of a long chat: throughput, and whether depth matters.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let messages = u64::from(arguments.messages.unwrap_or(20_000));
    let users = sign_up(bench.base_url(), 2, &bench.progress).await?;
    let chat = pair_up(&users).await?[0];
    bench.progress.set_message("filling the chat");
    fill(bench, &users[0], chat, messages).await?;
    let window = bench.window();
    let mut tasks = JoinSet::new();
    for _ in 0..READERS {
        tasks.spawn(read(users[1].clone(), chat, messages, window));
    }
    let Observed { server, .. } = bench.observe(window).await?;
    let mut pages = DEPTHS.map(|_| Latencies::default());
    while let Some(read) = tasks.join_next().await {
        for (total, latencies) in pages.iter_mut().zip(read??) {
            total.merge(&latencies);
        }
    }
    let setup = format!("{READERS} readers of a chat of {messages} messages, {HISTORY_PAGE_MAX} a page");
    let mut report = LoadReport::new(Workload::History, setup, window.seconds());
    report.server = server;
    report.rate("pages", pages.iter().map(Latencies::count).sum(), "pages/s");
    for ((name, _), latencies) in DEPTHS.iter().zip(&pages) {
        report.latency(*name, latencies);
    }
    let [head, .., start] = pages.map(|latencies| latencies.quantile(0.5).max(Duration::from_micros(1)));
    report.figure("median at the start / at the head", start.as_secs_f64() / head.as_secs_f64(), "");
    Ok(report)
}

/// Reads pages at each depth in turn, and checks that they are complete and in order.
async fn read(
    user: LoadUser,
    chat: LoadChat,
    messages: u64,
    window: MeasurementWindow,
) -> anyhow::Result<[Latencies; DEPTHS.len()]> {
    let page = HISTORY_PAGE_MAX.min(messages as usize);
    let mut read = DEPTHS.map(|_| Latencies::default());
    while !window.is_over() {
        for ((_, depth), latencies) in DEPTHS.iter().zip(&mut read) {
            let before = chat.head + 1 + page as u64 + ((messages - page as u64) as f64 * depth) as u64;
            let range = HistoryRange { before: Some(Sequence(before)), after: None, limit: Some(page) };
            let begun = Instant::now();
            let history = user.client.api().history(chat.chat_id, range).await?;
            if begun >= window.from {
                latencies.record(begun.elapsed());
            }
            let sequences = history.messages.iter().map(|message| message.message.sequence.0);
            ensure!(sequences.eq((before - page as u64..before).rev()), "the page before {before} is not whole");
        }
    }
    Ok(read)
}
