use std::process::ExitCode;

use clap::Args;
use domain::{ChatId, Timestamp};
use indicatif::{ProgressBar, ProgressStyle};
use server::tools::reconcile::{self, ReconcileFinding, Report, Scope};

use super::{ToolArgs, exit};

/// Number of examples printed for each kind of finding.
const EXAMPLES: usize = 5;

#[derive(Args)]
pub(crate) struct ReconcileArgs {
    /// Compares one chat, whether or not the log has events of it.
    #[arg(long, value_name = "ID")]
    chat: Option<ChatId>,
    /// Skips older messages and events, such as 2026-01-30T14:30:00Z [default: the retention of the log, 7 days]
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Republishes missing events from the store, the oldest of each chat first.
    #[arg(long)]
    republish: bool,
    /// Stops after this many findings.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Maximum pages of messages read from the store per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if findings remain.
pub(crate) async fn run(arguments: ReconcileArgs) -> anyhow::Result<ExitCode> {
    let ReconcileArgs { chat, since, republish, limit, rate, tool } = arguments;
    let json = tool.json;
    let config = tool.load()?;
    // The progress bar draws on a terminal only.
    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} events ({elapsed}, {eta} left)")
            .expect("the template is valid"),
    );
    let scope = Scope { chat_id: chat, since, limit: limit as usize, rate };
    let report = reconcile::reconcile(&config, scope, republish, |progress| {
        bar.set_length(progress.all);
        bar.set_position(progress.read);
    })
    .await?;
    bar.finish_and_clear();
    if json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report, republish);
    }
    Ok(exit(report.has_findings()))
}

fn print(report: &Report, republish: bool) {
    let Report { since, chats, events, repeated, messages, .. } = report;
    outln!("compared since {since}: {messages} messages of the store and {events} events of {chats} chats");
    outln!();
    outln!("{:<11} {:>8}", "", "found");
    let rows = [
        ("missing", report.missing.len(), "messages without an event"),
        ("orphaned", report.orphaned.len(), "events without a message: a defect, report it"),
        ("late", report.late.len(), "events after a later one of their chat"),
        ("overdue", report.overdue.len(), "chats with events that no process publishes"),
        ("repeated", *repeated as usize, "duplicate events in the log, which are harmless"),
    ];
    for (name, count, meaning) in rows {
        outln!("{name:<11} {count:>8}  {meaning}");
    }
    outln!();
    examples("missing", &report.missing);
    examples("orphaned", &report.orphaned);
    examples("late", &report.late);
    for chat_id in report.overdue.iter().take(EXAMPLES) {
        outln!("overdue: {chat_id}");
    }
    if report.republished > 0 {
        outln!("{} events were republished", report.republished);
    }
    if report.stopped_at_limit {
        outln!("it stopped at --limit, so there may be more, and nothing was republished; raise it, or name a --chat");
    } else if !report.missing.is_empty() && !republish {
        outln!("`tidings log reconcile --republish` publishes the missing events");
    }
    if !report.overdue.is_empty() {
        outln!("start a process with the role ingest or api: it publishes the overdue events");
    }
    if report.uncovered_events > 0 {
        outln!("{} events were of more chats than fit into memory; narrow it with --since", report.uncovered_events);
    }
    if !report.has_findings() {
        outln!("store and log agree");
    }
}

fn examples(name: &str, findings: &[ReconcileFinding]) {
    for ReconcileFinding { chat_id, sequence, message_id } in findings.iter().take(EXAMPLES) {
        outln!("{name}: {chat_id} sequence {sequence} {message_id}");
    }
    if findings.len() > EXAMPLES {
        outln!("{name}: and {} more; --json lists all", findings.len() - EXAMPLES);
    }
}
