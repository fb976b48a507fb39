use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use domain::{ChatId, EventKind};
use serde_json::{Value, json};
use server::tools::events::{self, Beginning, Tail, TailOptions};

use super::ToolArgs;

#[derive(Subcommand)]
pub(crate) enum EventsCommand {
    /// Prints events of the log as they come, until it is interrupted.
    ///
    /// On one machine the log is in the data directory, which one process holds: stop the service, and this prints what
    /// is there and ends.
    Tail(TailArgs),
    /// Has a fresh group of consumers begin at a place, so that what consumes as it builds its state anew.
    ///
    /// The log keeps events for 7 days. What is older has to be read from the store. The groups of the service itself
    /// are `fanout`, `webhook` and `notifications`: stop the processes that consume as them first, and say --force.
    Replay(ReplayArgs),
}

#[derive(Args)]
pub(crate) struct TailArgs {
    /// The events of one chat.
    #[arg(long, value_name = "ID")]
    chat: Option<ChatId>,
    /// The events of one kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Where to begin: now, oldest, a time as 2026-01-30T14:30:00Z, or a position [default: now, or where --group is]
    #[arg(long, value_name = "PLACE")]
    from: Option<Beginning>,
    /// Reads as this group, which goes on where it ended the next time.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Shows what users wrote: contents of messages, and names of chats.
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// The group: a new name for a consumer that is to be built.
    #[arg(long, value_name = "NAME")]
    group: String,
    /// Where it begins: oldest, now, a time as 2026-01-30T14:30:00Z, or the position of an event.
    #[arg(long, value_name = "PLACE")]
    from: Beginning,
    /// Also moves a group that has consumed already. Nobody may consume as it meanwhile.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Messages that were sent, and that expired.
    Message,
    /// Members who came, went, or got another role.
    Member,
    /// Chats that were opened or changed.
    Chat,
}

impl From<Kind> for EventKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Message => Self::Message,
            Kind::Member => Self::Member,
            Kind::Chat => Self::Chat,
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
            eprintln!("the log ends here; nobody writes to it while this command holds the data directory");
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
            // Whoever read along has seen enough.
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
            // Quoted, because a line must stay one.
            Value::String(text) if text.contains(char::is_whitespace) => format!("  {key}={text:?}"),
            Value::String(text) => format!("  {key}={text}"),
            other => format!("  {key}={other}"),
        };
    }
    line + &format!("  position={}", envelope["position"])
}

async fn replay(arguments: ReplayArgs) -> anyhow::Result<ExitCode> {
    let ReplayArgs { group, from, force, tool } = arguments;
    let json = tool.json;
    let prepared = events::replay(&tool.load()?, &group, from, force).await?;
    if json {
        println!("{}", serde_json::to_string_pretty(&json!({ "group": prepared.group, "events": prepared.events }))?);
    } else {
        println!("group `{}` begins {} events before the end of the log", prepared.group, prepared.events);
        println!("start its consumer now; whatever others have made of these events, this one hears of all of them");
    }
    Ok(ExitCode::SUCCESS)
}
