use std::process::ExitCode;

use clap::Subcommand;
use domain::ChatId;
use reqwest::Method;
use serde_json::{Value, json};

use super::routes::elements;
use super::table::{self, cell, counted, row};
use super::user::confirm;
use super::{AdminArgs, AdminConnection};

#[derive(Subcommand)]
pub(crate) enum ChatAdminCommand {
    /// Shows a chat: its members, their watermarks, and the position of the chat in the log.
    Show {
        chat_id: ChatId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Lists the members of a chat.
    Members {
        chat_id: ChatId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Lists the events of a chat, newest first, without message contents.
    Timeline {
        chat_id: ChatId,
        /// Continues below this sequence.
        #[arg(long, value_name = "SEQUENCE")]
        before: Option<u64>,
        /// Maximum number of messages to list.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
        limit: u16,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Removes a member from a group, with the rights of its owner.
    ///
    /// If the member is the owner, ownership passes to the longest-standing admin, or else to the longest-standing
    /// member.
    RemoveMember {
        chat_id: ChatId,
        /// The member's id, phone number, or id at the identity provider.
        user: String,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Makes a member the owner of a group, for example when the owner is unreachable.
    ///
    /// The previous owner becomes an admin.
    SetOwner {
        chat_id: ChatId,
        /// The member's id, phone number, or id at the identity provider.
        user: String,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Sets the retention of a chat, for existing messages too.
    ///
    /// New messages expire after this time unless they set their own. Existing messages expire at the same age, and
    /// older ones at once. With `off`, new messages never expire; existing expiries stay. An interrupted command can be
    /// repeated: it continues where it stopped. Example: tidings admin chat retention chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
    /// --days 90
    Retention {
        chat_id: ChatId,
        /// 1 to 365, or `off`.
        #[arg(long, value_name = "N|off", value_parser = days)]
        days: Days,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Message retention in days; `None` for no expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days(Option<u64>);

fn days(text: &str) -> Result<Days, String> {
    match text.parse() {
        _ if text == "off" => Ok(Days(None)),
        Ok(days @ 1..=365) => Ok(Days(Some(days))),
        _ => Err("is neither `off` nor a number of days from 1 to 365".to_owned()),
    }
}

pub(crate) async fn run(command: ChatAdminCommand) -> anyhow::Result<ExitCode> {
    match command {
        ChatAdminCommand::Show { chat_id, admin } => show(chat_id, admin.connect()?).await,
        ChatAdminCommand::Members { chat_id, admin } => {
            let admin = admin.connect()?;
            let answer = admin.call(Method::GET, &format!("/chats/{chat_id}"), None).await?;
            admin.print(&answer["members"], || members(&answer))
        }
        ChatAdminCommand::Timeline { chat_id, before, limit, admin } => {
            timeline(chat_id, before, limit, admin.connect()?).await
        }
        ChatAdminCommand::RemoveMember { chat_id, user, yes, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            confirm(yes, &format!("{user_id} will be removed from {chat_id} and can no longer read it"))?;
            let answer = admin.call(Method::DELETE, &format!("/chats/{chat_id}/members/{user_id}"), None).await?;
            admin.print(&answer, || outln!("{user_id} was removed from {chat_id}"))
        }
        ChatAdminCommand::SetOwner { chat_id, user, yes, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            confirm(yes, &format!("{user_id} will own {chat_id}, and its present owner becomes an admin"))?;
            let request = json!({ "user_id": user_id });
            let answer = admin.call(Method::PUT, &format!("/chats/{chat_id}/owner"), Some(&request)).await?;
            admin.print(&answer, || outln!("{user_id} owns {chat_id}"))
        }
        ChatAdminCommand::Retention { chat_id, days: Days(days), yes, admin } => {
            retention(chat_id, days, yes, admin.connect()?).await
        }
    }
}

async fn show(chat_id: ChatId, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let answer = admin.call(Method::GET, &format!("/chats/{chat_id}"), None).await?;
    admin.print(&answer, || {
        let [kind, name, since] = row(&answer, ["type", "name", "created_at"]);
        let [head, published, last] = row(&answer, ["head_sequence", "published_sequence", "last_message_at"]);
        let life = match answer["message_ttl_seconds"].as_u64() {
            Some(seconds) => format!("live {seconds} s"),
            None => "never expire".to_owned(),
        };
        outln!("{chat_id}  {kind}  {name}  since {since}");
        outln!("head at {head}, log at {published}, last message at {last}; messages {life}\n");
        members(&answer);
    })
}

fn members(chat: &Value) {
    let fields = ["user_id", "display_name", "role", "joined_at", "delivered_sequence", "read_sequence", "connected"];
    let rows: Vec<_> = elements(&chat["members"]).iter().map(|member| row(member, fields)).collect();
    table::print(["member", "name", "role", "joined", "delivered", "read", "connected"], &rows);
}

async fn timeline(
    chat_id: ChatId,
    before: Option<u64>,
    limit: u16,
    admin: AdminConnection,
) -> anyhow::Result<ExitCode> {
    let before = before.map_or_else(String::new, |before| format!("&before={before}"));
    let path = format!("/chats/{chat_id}/timeline?limit={limit}{before}");
    let answer = admin.call(Method::GET, &path, None).await?;
    admin.print(&answer, || {
        let rows: Vec<_> = elements(&answer["events"]).iter().map(event).collect();
        table::print(["at", "what", "who", "detail"], &rows);
        if let Some(next) = answer["next_before"].as_u64() {
            outln!("there are more; continue with --before {next}");
        }
    })
}

fn event(event: &Value) -> [String; 4] {
    let [at, kind] = row(event, ["at", "kind"]);
    let (who, detail) = match kind.as_str() {
        "message" => {
            let [sequence, id, bytes] = row(event, ["sequence", "message_id", "content_bytes"]);
            let [others, delivered, read] = row(event, ["others_count", "delivered_count", "read_count"]);
            let reach = format!("delivered to {delivered} of {others}, read by {read}");
            (cell(event, "sender_name"), format!("sequence {sequence}  {id}  {bytes} bytes  {reach}"))
        }
        "expired" => {
            let [from, to] = row(event, ["from_sequence", "to_sequence"]);
            ("-".to_owned(), format!("sequences {from} to {to} are gone"))
        }
        "joined" => (cell(event, "display_name"), format!("as {}", cell(event, "role"))),
        _ => (cell(event, "user_id"), String::new()),
    };
    [at, kind, who, detail]
}

fn in_days(days: u64) -> String {
    counted(days as usize, "day")
}

async fn retention(chat_id: ChatId, days: Option<u64>, yes: bool, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let what = match days {
        Some(days) => {
            format!("messages of {chat_id} that are older than {} will be deleted permanently", in_days(days))
        }
        None => format!("new messages of {chat_id} will never expire"),
    };
    confirm(yes, &what)?;
    let answer =
        admin.call(Method::PUT, &format!("/chats/{chat_id}/retention"), Some(&json!({ "days": days }))).await?;
    admin.print(&answer, || match days {
        Some(days) => outln!("messages of {chat_id} live {}; shortened: {}", in_days(days), answer["shortened"]),
        None => outln!("new messages of {chat_id} never expire"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_a_number_or_off() {
        assert_eq!([days("off"), days("1"), days("365")], [None, Some(1), Some(365)].map(|days| Ok(Days(days))));
        for wrong in ["0", "366", "-1", "never", ""] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
    }
}
