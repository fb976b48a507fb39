use std::process::ExitCode;

use clap::Subcommand;
use domain::MessageId;
use reqwest::Method;

use super::AdminArgs;
use super::routes::elements;
use super::table::{self, cell, row};

#[derive(Subcommand)]
pub(crate) enum MessageCommand {
    /// Shows the location of a message and its delivery state for each member, but never its content.
    Show {
        message_id: MessageId,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: MessageCommand) -> anyhow::Result<ExitCode> {
    let MessageCommand::Show { message_id, admin } = command;
    let admin = admin.connect()?;
    let answer = admin.call(Method::GET, &format!("/messages/{message_id}"), None).await?;
    admin.print(&answer, || {
        let [chat, sequence, sender] = row(&answer["message"], ["chat_id", "sequence", "sender_name"]);
        outln!("{message_id}  sequence {sequence} of {chat}  from {sender}");
        outln!("{}\n", cell(&answer, "answer"));
        let fields = ["user_id", "display_name", "role", "reach", "reason"];
        let rows: Vec<_> = elements(&answer["members"]).iter().map(|member| row(member, fields)).collect();
        table::print(["member", "name", "role", "reach", "why"], &rows);
    })
}
