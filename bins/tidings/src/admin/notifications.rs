use std::process::ExitCode;

use clap::Subcommand;
use domain::ChatId;
use reqwest::Method;
use serde_json::json;

use super::AdminArgs;

#[derive(Subcommand)]
pub(crate) enum NotificationsCommand {
    /// Notifies offline members of a chat again about messages that they have not received.
    Replay {
        /// The chat.
        #[arg(long)]
        chat: ChatId,
        /// The sequence of the first message to notify about.
        #[arg(long, default_value_t = 1)]
        sequence: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: NotificationsCommand) -> anyhow::Result<ExitCode> {
    let NotificationsCommand::Replay { chat, sequence, admin } = command;
    let admin = admin.connect()?;
    let request = json!({ "chat_id": chat, "sequence": sequence });
    let answer = admin.call(Method::POST, "/notifications/replay", Some(&request)).await?;
    admin.print(&answer, || outln!("{} notifications queued", answer["owed"]))
}
