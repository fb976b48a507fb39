//! `tidings load`: the benchmark workloads, with integrity checks.
//!
//! Each workload of `workloads` prepares its users and chats, opens a
//! [`MeasurementWindow`](measure::MeasurementWindow), runs real WebSocket clients in it, and checks every sequence they
//! received. A figure counts only with these checks: a load that loses, duplicates or reorders a message fails.

mod bench;
mod html;
mod measure;
mod order;
mod peer;
mod redis;
mod redis_cost;
mod report;
mod stamp;
mod store;
mod target;
mod users;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use bench::Bench;
use report::StoreFigures;
use target::LoadTarget;

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// The workload to run.
    #[arg(long, short, value_enum, default_value_t = Workload::Pairs)]
    workload: Workload,
    /// A running server, with --dev and its limits off; without this, one is started from this binary and its resource
    /// use is measured too.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Allows a server that is not on this machine.
    #[arg(long, requires = "url")]
    allow_remote: bool,
    /// A gateway for `connections`; repeat it to use several in turn [default: --url]
    #[arg(long, value_name = "URL", requires = "url")]
    gateway: Vec<String>,
    /// The Redis of the fleet, redis://HOST:PORT: `connections` reads its command counts. Needs fleet support.
    #[arg(long, value_name = "URL", requires = "url")]
    redis: Option<String>,
    /// Parent directory for the data of a server started here; use a disk like that of production.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "url")]
    data_dir: PathBuf,
    /// Seconds to measure [default: 60 for idle and connections, 5 in each step of growth, else 10]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Seconds of warm-up before that [default: 20 for connections, else 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: Option<u64>,
    /// Users: pairs x 2, senders, idle connections, subscribers…, or the chats of each `inbox` [default: as the
    /// workload is defined]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(2..=100_000))]
    users: Option<u32>,
    /// Members of the group of `group`, including its sender (100), or of that of `updates` (1000).
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000))]
    members: Option<u32>,
    /// Messages a second in `group` and `witness`, operations a second in `mixed` [default: group as fast as they are delivered, witness 100, mixed 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// Messages in each chat of `catch-up` (1000) or `inbox` (100), in the chat of `history` (20000), or in all chats of the
    /// last step of `growth` (10000000); entries in each chat that `updates` syncs (10000).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    messages: Option<u32>,
    /// Runs `hot-chat` beside `mixed`, to show that the latency of the control chat does not suffer.
    #[arg(long)]
    beside_hot_chat: bool,
    /// Messages a second in that hot chat [default: unlimited]
    #[arg(long, requires = "beside_hot_chat", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    hot_rate: Option<u32>,
    /// Records the history of the clients of `witness` in this file, for `tidings history check`.
    #[arg(long, value_name = "FILE", required_if_eq("workload", "witness"))]
    history: Option<PathBuf>,
    /// Also measures the store alone, and the disk alone, at the same number of sends in flight.
    #[arg(long)]
    store_limit: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    /// Writes the report as a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// 100 direct chats, one message in flight in each.
    Pairs,
    /// The same with 16 in flight.
    PairsDeep,
    /// One sender in one group with all members online.
    Group,
    /// Idle connections: memory per connection.
    Idle,
    /// Idle connections, 3 for each 2 users: load on Redis, compared with the estimate of ADR-010.
    Connections,
    /// Clients that reconnect to 1000 missed messages, one at a time and all at once.
    CatchUp,
    /// 2000 users who connect at once.
    Storm,
    /// One user who connects and disconnects, with 10000 presence subscribers.
    Presence,
    /// 256 senders in one chat.
    HotChat,
    /// 1000 users with mixed operations, beside a control chat with measured latency.
    Mixed,
    /// History pages of a long chat, near its head and deep in it.
    History,
    /// The first page of inboxes of 1000 chats, short and long ones.
    Inbox,
    /// `pairs` on a store that grows in steps, up to 10,000,000 messages: the cost of store size.
    Growth,
    /// 20 users on the SDK in groups, with a recorded and checked history.
    Witness,
    /// Edits and reactions beside plain messages, 1000 reactions to one message, and a sync over reactions.
    Updates,
}

/// Exits 0 if no message was lost, duplicated or reordered, else 1.
pub(crate) async fn run(arguments: LoadArgs) -> anyhow::Result<ExitCode> {
    crate::open_files::raise_limit();
    ensure!(
        arguments.history.is_none() || arguments.workload == Workload::Witness,
        "only the clients of `--workload witness` write a history"
    );
    let target = match &arguments.url {
        Some(url) => LoadTarget::running(url, arguments.allow_remote)?,
        None => LoadTarget::start(&arguments.data_dir).await?,
    };
    let (warmup, seconds) = match arguments.workload {
        // The warm-up covers the presence announcements of new connections, which do not count as the cost of idle
        // ones.
        Workload::Connections => (20, 60),
        Workload::Idle => (2, 60),
        Workload::Growth => (2, 5),
        _ => (2, 10),
    };
    let [warmup, time] =
        [arguments.warmup.unwrap_or(warmup), arguments.seconds.unwrap_or(seconds)].map(Duration::from_secs);
    let mut bench = Bench::new(target, warmup, time);
    let mut report = workloads::run(&mut bench, &arguments).await?;
    report.command = command_line();
    bench.into_target().stop().await?;
    if arguments.store_limit {
        report.store = Some(store_limit(&arguments.data_dir, report.in_flight).await?);
    }
    if let Some(path) = &arguments.html {
        std::fs::write(path, html::page(&report)).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{report}");
    }
    Ok(if report.integrity.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn store_limit(parent: &Path, in_flight: usize) -> anyhow::Result<StoreFigures> {
    let directory = tempfile::Builder::new().prefix("tidings-load-").tempdir_in(parent)?;
    let limit = store::store_limit(directory.path(), in_flight, Duration::from_secs(5)).await?;
    Ok(StoreFigures {
        in_flight: limit.in_flight,
        store_sends_per_second: limit.store_sends_per_second,
        raw_sends_per_second: limit.raw_sends_per_second,
    })
}

/// This version, with the arguments of the command line.
fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("tidings {}: tidings {}", env!("CARGO_PKG_VERSION"), arguments.join(" "))
}

impl LoadArgs {
    /// The requested number of users, or the default of the workload.
    fn users_or(&self, default: u32) -> usize {
        self.users.unwrap_or(default) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_its_workload_as_the_command_does() {
        for workload in Workload::value_variants() {
            let name = workload.to_possible_value().unwrap();
            assert_eq!(serde_json::to_value(workload).unwrap(), name.get_name());
        }
    }
}
