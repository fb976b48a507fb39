use std::process::ExitCode;

use clap::Args;
use domain::{ChatId, Timestamp};
use indicatif::{ProgressBar, ProgressStyle};
use server::tools::reconcile::{self, Finding, Report, Scope};

use super::{ToolArgs, exit};

/// Examples of each sort of finding that are printed.
const EXAMPLES: usize = 5;

#[derive(Args)]
pub(crate) struct ReconcileArgs {
    /// Compares one chat, whether the log knows it or not.
    #[arg(long, value_name = "ID")]
    chat: Option<ChatId>,
    /// Leaves out what is older, as 2026-01-30T14:30:00Z [default: what the log keeps, 7 days]
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Publishes the events that are missing, from the store, the oldest of each chat first.
    #[arg(long)]
    republish: bool,
    /// Stops after so many findings.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Pages of messages that are read from the store in a second, at the most.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if something is left to see to.
pub(crate) async fn run(arguments: ReconcileArgs) -> anyhow::Result<ExitCode> {
    let ReconcileArgs { chat, since, republish, limit, rate, tool } = arguments;
    let json = tool.json;
    let config = tool.load()?;
    // It draws itself on a terminal only.
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
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report, republish);
    }
    Ok(exit(report.has_findings()))
}

fn print(report: &Report, republish: bool) {
    let Report { since, chats, events, repeated, messages, .. } = report;
    println!("compared since {since}: {messages} messages of the store and {events} events of {chats} chats");
    println!();
    println!("{:<11} {:>8}", "", "found");
    let rows = [
        ("missing", report.missing.len(), "messages without an event"),
        ("orphaned", report.orphaned.len(), "events without a message: a defect, report it"),
        ("late", report.late.len(), "events behind a later one of their chat"),
        ("overdue", report.overdue.len(), "chats with something that nobody publishes"),
        ("repeated", *repeated as usize, "events that the log has again, which is no harm"),
    ];
    for (name, count, meaning) in rows {
        println!("{name:<11} {count:>8}  {meaning}");
    }
    println!();
    examples("missing", &report.missing);
    examples("orphaned", &report.orphaned);
    examples("late", &report.late);
    for chat_id in report.overdue.iter().take(EXAMPLES) {
        println!("overdue: {chat_id}");
    }
    if report.republished > 0 {
        println!("{} events were republished", report.republished);
    }
    if report.stopped_at_limit {
        println!(
            "it stopped at --limit, so there may be more, and nothing was republished; raise it, or name a --chat"
        );
    } else if !report.missing.is_empty() && !republish {
        println!("`tidings reconcile --republish` publishes what is missing");
    }
    if !report.overdue.is_empty() {
        println!("start a process with the role ingest or api: it publishes what is overdue");
    }
    if report.uncovered_events > 0 {
        println!("{} events were of more chats than fit into memory; narrow it with --since", report.uncovered_events);
    }
    if !report.has_findings() {
        println!("store and log agree");
    }
}

fn examples(name: &str, findings: &[Finding]) {
    for Finding { chat_id, sequence, message_id } in findings.iter().take(EXAMPLES) {
        println!("{name}: {chat_id} sequence {sequence} {message_id}");
    }
    if findings.len() > EXAMPLES {
        println!("{name}: and {} more; --json lists all", findings.len() - EXAMPLES);
    }
}
