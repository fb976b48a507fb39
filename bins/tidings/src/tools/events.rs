use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use domain::{ChatId, EventKind};
use serde_json::{Value, json};
use server::tools::events::{self, Beginning, Tail, TailOptions};

use super::ToolArgs;

#[derive(Subcommand)]
pub(crate) enum EventsCommand {
    /// Prints events of the log as they arrive, until interrupted.
    ///
    /// On one machine the log is in the data directory, which only one process can open: stop the service first. The
    /// command then prints the retained events and ends.
    Tail(TailArgs),
    /// Positions a new consumer group in the log, so that its consumer can rebuild its state.
    ///
    /// The log retains events for 7 days; older data must be read from the store. The service's own groups are
    /// `fanout`, `webhook` and `notifications`: stop their consumers first, and pass --force.
    Replay(EventsReplayArgs),
}

#[derive(Args)]
pub(crate) struct TailArgs {
    /// The events of one chat.
    #[arg(long, value_name = "ID")]
    chat: Option<ChatId>,
    /// The events of one kind.
    #[arg(long, value_enum)]
    kind: Option<EventKindFilter>,
    /// Start position: now, oldest, a time such as 2026-01-30T14:30:00Z, or a position [default: now, or the offset of
    /// --group]
    #[arg(long, value_name = "PLACE")]
    from: Option<Beginning>,
    /// Consumes as this group, and commits its offset for the next run.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Shows user content: message contents and chat names.
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

#[derive(Args)]
pub(crate) struct EventsReplayArgs {
    /// The consumer group, normally a new name.
    #[arg(long, value_name = "NAME")]
    group: String,
    /// Start position: oldest, now, a time such as 2026-01-30T14:30:00Z, or the position of an event.
    #[arg(long, value_name = "PLACE")]
    from: Beginning,
    /// Also moves a group that already has an offset. The group must have no running consumer.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum EventKindFilter {
    /// Messages that were sent, and that expired.
    Message,
    /// Members who joined, left, or changed role.
    Member,
    /// Chats that were created or changed.
    Chat,
}

impl From<EventKindFilter> for EventKind {
    fn from(kind: EventKindFilter) -> Self {
        match kind {
            EventKindFilter::Message => Self::Message,
            EventKindFilter::Member => Self::Member,
            EventKindFilter::Chat => Self::Chat,
        }
    }
}

pub(crate) async fn run(command: EventsCommand) -> anyhow::Result<ExitCode> {
    match command {
        EventsCommand::Tail(arguments) => tail(arguments).await,
        EventsCommand::Replay(arguments) => replay(arguments).await,
    }
}

async fn tail(arguments: TailArgs) -> anyhow::Result<ExitCode> {
    let TailArgs { chat, kind, from, group, contents, tool } = arguments;
    let json = tool.json;
    let options = TailOptions { from, group, chat_id: chat, kind: kind.map(Into::into) };
    let mut tail = Tail::open(&tool.load()?, options).await?;
    let interrupted = tokio::signal::ctrl_c();
    let mut interrupted = std::pin::pin!(interrupted);
    loop {
        let records = tokio::select! {
            _ = &mut interrupted => break,
            records = tail.next() => records?,
        };
        let Some(records) = records else {
            eprintln!("the log ends here; no process can write to it while this command holds the data directory");
            break;
        };
        let mut lines = String::new();
        for record in &records {
            let envelope = events::envelope(record, contents)?;
            lines += &if json { envelope.to_string() } else { readable(&envelope) };
            lines.push('\n');
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()) {
            // The reader of the pipe has closed it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written?,
        }
        drop(stdout);
        tail.shown().await?;
    }
    tail.close().await;
    Ok(ExitCode::SUCCESS)
}

/// One event on one line.
fn readable(envelope: &Value) -> String {
    let text = |key: &str| envelope[key].as_str().unwrap_or("-");
    let mut line = format!("{}  {:<17}  {}", text("event_time"), text("event_type"), text("partition_key"));
    for (key, value) in envelope["payload"].as_object().into_iter().flatten().filter(|(key, _)| *key != "chat_id") {
        line += &match value {
            // Quoted, to keep the event on one line.
            Value::String(text) if text.contains(char::is_whitespace) => format!("  {key}={text:?}"),
            Value::String(text) => format!("  {key}={text}"),
            other => format!("  {key}={other}"),
        };
    }
    line + &format!("  position={}", envelope["position"])
}

async fn replay(arguments: EventsReplayArgs) -> anyhow::Result<ExitCode> {
    let EventsReplayArgs { group, from, force, tool } = arguments;
    let json = tool.json;
    let prepared = events::replay(&tool.load()?, &group, from, force).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "group": prepared.group, "events": prepared.events }))?);
    } else {
        outln!("group `{}` begins {} events before the end of the log", prepared.group, prepared.events);
        outln!("start its consumer now; it receives all of these events, independently of other groups");
    }
    Ok(ExitCode::SUCCESS)
}
