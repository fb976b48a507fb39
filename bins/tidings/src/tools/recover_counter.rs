use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use domain::ChatId;
use serde_json::json;
use server::tools::recover::{self, Counter, CounterState, Recovery, RecoveryAudit};

use super::ToolArgs;

#[derive(Args)]
pub(crate) struct RecoverCounterArgs {
    /// The chat that refuses sends with COUNTER_MISSING.
    chat: ChatId,
    /// Performs the recovery. Without this flag, the command only shows what it would do.
    #[arg(long, requires = "reason")]
    yes: bool,
    /// The cause, or the incident number; it is stored in the row.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The operator; stored in the row.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    by: Option<String>,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if there is nothing to recover.
pub(crate) async fn run(arguments: RecoverCounterArgs) -> anyhow::Result<ExitCode> {
    let RecoverCounterArgs { chat, yes, reason, by, tool } = arguments;
    let json = tool.json;
    let config = tool.load()?;
    match reason.filter(|_| yes) {
        Some(reason) => {
            let actor = by.context("the logged-in user is unknown; name the operator with --by")?;
            let recovery = recover::recover(&config, chat, &RecoveryAudit { actor, reason }).await?;
            done(chat, recovery, json)
        }
        None => would_do(chat, recover::look(&config, chat).await?, json),
    }
}

fn would_do(chat_id: ChatId, counter: Counter, json: bool) -> anyhow::Result<ExitCode> {
    let Counter { state, highest } = counter;
    let (name, says) = match state {
        CounterState::Missing => ("missing", "is missing, and sends to the chat are refused".to_owned()),
        CounterState::Unreadable => ("unreadable", "cannot be read".to_owned()),
        CounterState::Behind(sequence) => ("behind", format!("says {sequence}, which is behind")),
        CounterState::Well(sequence) => {
            bail!("the counter of `{chat_id}` says {sequence} and is well; there is nothing to recover")
        }
    };
    if json {
        let answer = json!({ "chat_id": chat_id, "counter": name, "highest": highest, "done": false });
        outln!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        outln!("the counter of `{chat_id}` {says}");
        outln!("the highest sequence of messages and watermarks is {highest}");
        outln!("it would be restored to that, or to a higher one of a send of the last 7 days");
        outln!("nothing was changed; pass --yes and --reason to perform it");
    }
    Ok(ExitCode::SUCCESS)
}

fn done(chat_id: ChatId, recovery: Recovery, json: bool) -> anyhow::Result<ExitCode> {
    match recovery {
        Recovery::ChatNotFound => {
            bail!("there is no chat `{chat_id}`; a counter is only restored for one that exists")
        }
        Recovery::Well { sequence } => {
            bail!("the counter of `{chat_id}` says {sequence} and is well; there is nothing to recover")
        }
        Recovery::Restored { before, sequence, published } if json => {
            let answer = json!({
                "chat_id": chat_id, "before": before, "sequence": sequence, "published": published, "done": true,
            });
            outln!("{}", serde_json::to_string_pretty(&answer)?);
        }
        Recovery::Restored { sequence, published, .. } => {
            outln!("the counter of `{chat_id}` says {sequence}; the next message is {}", sequence.next());
            outln!("messages above {published} are published, some of them maybe again");
            outln!("send a message to the chat to see that it works, and document the incident");
        }
    }
    Ok(ExitCode::SUCCESS)
}
