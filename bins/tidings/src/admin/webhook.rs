use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use domain::ChatId;
use reqwest::Method;
use serde_json::json;

use super::AdminArgs;

#[derive(Subcommand)]
pub(crate) enum WebhookCommand {
    /// Shows the delivery state of the application's webhook.
    Status(AdminArgs),
    /// Delivers events to the application again, from a given position.
    Replay(WebhookReplayArgs),
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub(crate) struct WebhookReplayArgs {
    /// Everything that the log still retains.
    #[arg(long, group = "from")]
    oldest: bool,
    /// Everything from the event with this `position`.
    #[arg(long, group = "from", value_name = "NUMBER")]
    position: Option<u64>,
    /// Everything since this time, such as 2026-01-30T14:30:00Z.
    #[arg(long, group = "from", value_name = "TIME")]
    time: Option<String>,
    /// The messages of one chat, starting at --sequence.
    #[arg(long, group = "from", value_name = "CHAT")]
    chat: Option<ChatId>,
    /// The first message of --chat to deliver again.
    #[arg(long, requires = "chat", default_value_t = 1)]
    sequence: u64,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) async fn run(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    match command {
        WebhookCommand::Status(arguments) => {
            let admin = arguments.connect()?;
            let status = admin.call(Method::GET, "/webhook", None).await?;
            admin.print(&status, || {
                let failing = match status["failing_since"].as_str() {
                    Some(since) => format!("failing since {since}"),
                    None => "delivering".to_owned(),
                };
                let last_error = status["last_error"].as_str().unwrap_or("none");
                outln!("{failing}, {} events behind", status["lag_events"]);
                outln!("since the start: {} delivered, {} failed", status["delivered"], status["failed"]);
                outln!("last error: {last_error}");
            })
        }
        WebhookCommand::Replay(WebhookReplayArgs { oldest, position, time, chat, sequence, admin }) => {
            let request = match (oldest, position, time, chat) {
                (true, ..) => json!({ "oldest": {} }),
                (_, Some(position), ..) => json!({ "position": position }),
                (_, _, Some(time), _) => json!({ "time": time }),
                (_, _, _, Some(chat_id)) => json!({ "chat": { "chat_id": chat_id, "sequence": sequence } }),
                _ => bail!("name a start: --oldest, --position, --time or --chat"),
            };
            let admin = admin.connect()?;
            let answer = admin.call(Method::POST, "/webhook/replay", Some(&request)).await?;
            admin.print(&answer, || outln!("the events will be delivered to the application again"))
        }
    }
}
