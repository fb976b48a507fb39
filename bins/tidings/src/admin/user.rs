use std::fs::Permissions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use domain::UserId;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::routes::elements;
use super::table::{self, cell, counted, row};
use super::{AdminArgs, AdminConnection};

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Finds the user of a phone number or an id.
    ///
    /// Users of an identity provider are found by their id there, the subject of their tokens. The store has no index on
    /// names, so a search by name is not possible.
    ///
    /// Example: tidings admin user find +14155550101
    Find {
        /// A phone number, the id of a user, session or connection, or the id of a user at the identity provider.
        what: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Shows a user: sessions, connections, and watermarks in their chats.
    ///
    /// For an account in deletion it also shows the number of chats still to leave.
    Show {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Creates the user of a phone number before their first sign-in.
    ///
    /// An existing user stays unchanged. Example: tidings admin user create --phone +14155550101 --name Ada
    Create {
        /// The number that the user will sign in with.
        #[arg(long, value_name = "NUMBER")]
        phone: String,
        /// The display name.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Changes the display name of a user.
    Rename {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// The new display name.
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Suspends a user: all their tokens and messages are refused.
    ///
    /// Applies to tokens of this service and of an external identity provider. Sockets close within a second. Sessions
    /// stay, and are valid again after `tidings admin user resume`. Example: tidings admin user suspend +14155550101
    /// --reason spam
    Suspend {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// The reason, for operators: the user does not see it.
        #[arg(long)]
        reason: Option<String>,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Ends the suspension of a user.
    Resume {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Signs a user out everywhere: all sessions and tokens up to now become invalid.
    ///
    /// Includes tokens of an external identity provider, by their claim `iat`. Sockets close within a second. The user
    /// can sign in again.
    SignOut {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Revokes one token of a user by its id, the claim `jti`.
    ///
    /// Sockets of the user close within a second; clients with another token reconnect. Example: tidings admin user
    /// revoke-token user_… 7f1c… --hours 12
    RevokeToken {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// The id of the token. Never the token itself.
        token_id: String,
        /// Hours until the token expires; the entry is deleted then.
        #[arg(long, default_value_t = 24)]
        hours: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Exports all personal data of a user as one JSON document.
    ///
    /// It holds the profile, sessions, devices, contacts, chats, and every message that the user sent: the same
    /// document that users get from GET /api/v1/users/me/export. It includes message contents, and the audit trail
    /// records the export. Example: tidings admin user export +14155550101 --output ada.json
    Export {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Deletes an account permanently.
    ///
    /// The user is signed out everywhere within a second and leaves every group; a group that they own passes to its
    /// longest-standing admin, or else member. Their phone number becomes free for a new account. Their messages stay,
    /// from `Deleted account`, unless --erase-messages is given. The deletion resumes after a crash; `tidings admin
    /// user show` shows its progress.
    Delete {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// Expires the user's messages at once, in chats where they are still a member.
        #[arg(long)]
        erase_messages: bool,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: UserCommand) -> anyhow::Result<ExitCode> {
    match command {
        UserCommand::Find { what, admin } => find(&what, admin.connect()?).await,
        UserCommand::Show { user, admin } => show(&user, admin.connect()?).await,
        UserCommand::Create { phone, name, admin } => {
            let admin = admin.connect()?;
            let request = json!({ "phone_number": phone, "display_name": name });
            let answer = admin.call(Method::POST, "/users", Some(&request)).await?;
            admin.print(&answer, || {
                let [id, name] = row(&answer, ["user_id", "display_name"]);
                let known = if answer["is_new"] == true { "" } else { ", who was there already" };
                outln!("{id}  {name}{known}");
            })
        }
        UserCommand::Rename { user, name, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            let request = json!({ "display_name": name });
            let answer = admin.call(Method::PATCH, &format!("/users/{user_id}"), Some(&request)).await?;
            admin.print(&answer, || outln!("{user_id} is called {} now", cell(&answer, "display_name")))
        }
        UserCommand::Suspend { user, reason, yes, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            confirm(yes, &format!("every token and message of {user_id} will be refused, and their sockets close"))?;
            let request = json!({ "reason": reason });
            let answer = admin.call(Method::POST, &format!("/users/{user_id}/suspend"), Some(&request)).await?;
            admin.print(&answer, || outln!("{user_id} is suspended since {}", cell(&answer, "suspended_since")))
        }
        UserCommand::Resume { user, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            let answer = admin.call(Method::POST, &format!("/users/{user_id}/resume"), None).await?;
            admin.print(&answer, || outln!("{user_id} is not suspended"))
        }
        UserCommand::SignOut { user, yes, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            confirm(yes, &format!("every session and token of {user_id} will end, and their sockets close"))?;
            let answer = admin.call(Method::POST, &format!("/users/{user_id}/sign-out"), None).await?;
            admin.print(&answer, || {
                outln!("tokens of {user_id} from before {} are invalid", cell(&answer, "tokens_valid_from"));
            })
        }
        UserCommand::RevokeToken { user, token_id, hours, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            let request = json!({ "token_id": token_id, "lifetime_seconds": hours.saturating_mul(3600) });
            let answer = admin.call(Method::POST, &format!("/users/{user_id}/revoke-token"), Some(&request)).await?;
            admin.print(&answer, || outln!("the token `{token_id}` of {user_id} is revoked"))
        }
        UserCommand::Export { user, output, admin } => export(&user, output, admin.connect()?).await,
        UserCommand::Delete { user, erase_messages, yes, admin } => {
            delete(&user, erase_messages, yes, admin.connect()?).await
        }
    }
}

/// Exits 1 if no user is found.
async fn find(what: &str, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let answer = admin.search(what).await?;
    let found = elements(&answer["results"]).iter().find(|found| found["user_id"].is_string());
    admin.print(&answer, || match found {
        Some(found) => {
            let mut fields = row(found, ["user_id", "display_name"]).to_vec();
            fields.extend(found["external_id"].as_str().map(str::to_owned));
            outln!("{}", fields.join("  "));
        }
        None => outln!("no user is found by `{what}`"),
    })?;
    Ok(if found.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(user: &str, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let answer = admin.call(Method::GET, &format!("/users/{user_id}"), None).await?;
    admin.print(&answer, || {
        let [name, since, seen] = row(&answer, ["display_name", "created_at", "last_seen_at"]);
        outln!("{user_id}  {name}  since {since}  last seen {seen}");
        if let Some(external_id) = answer["external_id"].as_str() {
            outln!("id at the identity provider: {external_id}");
        }
        if let Some(deleted_at) = answer["deleted_at"].as_str() {
            match &answer["deletion"] {
                Value::Null => outln!("the account was deleted at {deleted_at}"),
                deletion => outln!(
                    "the account is being deleted since {}; left to go through: {}",
                    cell(deletion, "begun_at"),
                    counted(elements(&answer["chats"]).len(), "chat")
                ),
            }
        }
        let restrictions = &answer["restrictions"];
        if answer["deleted_at"].is_null() && restrictions["suspended_since"].is_string() {
            let [since, reason] = row(restrictions, ["suspended_since", "suspension_reason"]);
            outln!("suspended since {since}, reason: {reason}");
        }
        if restrictions["tokens_valid_from"].is_string() {
            outln!("tokens from before {} are invalid", cell(restrictions, "tokens_valid_from"));
        }
        let sessions = elements(&answer["sessions"]);
        outln!("\nsessions: {}", sessions.len());
        if !sessions.is_empty() {
            let fields = ["session_id", "device_id", "last_active_at", "is_connected", "is_notified"];
            let rows: Vec<_> = sessions.iter().map(|session| row(session, fields)).collect();
            table::print(["session", "device", "last active", "connected", "notified"], &rows);
        }
        let chats = elements(&answer["chats"]);
        outln!("\nchats: {}{}", chats.len(), if answer["has_more"] == true { " and more" } else { "" });
        if !chats.is_empty() {
            let fields = ["chat_id", "type", "name", "role", "head_sequence", "delivered_sequence", "read_sequence"];
            let rows: Vec<_> = chats.iter().map(|chat| row(chat, fields)).collect();
            table::print(["chat", "type", "name", "role", "head", "delivered", "read"], &rows);
        }
    })
}

async fn export(user: &str, output: Option<PathBuf>, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let mut document = admin.answer(Method::POST, &format!("/users/{user_id}/export"), None).await?;
    let mut bytes = 0;
    let early = "the service ended the document early; the written part is incomplete";
    match &output {
        Some(path) => {
            let cannot = || format!("cannot write `{}`", path.display());
            let mut file = private_file(path).await.with_context(cannot)?;
            while let Some(piece) = document.chunk().await.context(early)? {
                bytes += piece.len();
                file.write_all(&piece).await.with_context(cannot)?;
            }
            file.sync_all().await.with_context(cannot)?;
            eprintln!("{bytes} bytes written to `{}`", path.display());
        }
        None => {
            while let Some(piece) = document.chunk().await.context(early)? {
                io::stdout().write_all(&piece)?;
            }
            outln!();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates or replaces a file that only its owner can read.
async fn private_file(path: &Path) -> io::Result<tokio::fs::File> {
    let file = tokio::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).await?;
    // An existing file keeps its mode when it is truncated.
    file.set_permissions(Permissions::from_mode(0o600)).await?;
    Ok(file)
}

async fn delete(user: &str, erase_messages: bool, yes: bool, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let path = format!("/users/{user_id}");
    let found = admin.call(Method::GET, &path, None).await?;
    let groups = elements(&found["chats"]).iter().filter(|chat| chat["type"] == "group").count();
    let (name, sessions) = (cell(&found, "display_name"), elements(&found["sessions"]).len());
    let messages = if erase_messages { "and their messages expire at once" } else { "and their messages stay" };
    let what = format!(
        "the account of {name} ({user_id}) will be deleted for good: they are signed out of {}, leave {}, {messages}",
        counted(sessions, "session"),
        counted(groups, "group"),
    );
    confirm(yes, &what)?;
    let answer = admin.call(Method::DELETE, &path, Some(&json!({ "erase_messages": erase_messages }))).await?;
    admin.print(&answer, || {
        outln!("{user_id} is signed out and deleted; the rest follows in the background");
        outln!("`tidings admin user show {user_id}` shows when it is done");
    })
}

/// Asks the operator to confirm, unless `yes` is set.
pub(super) fn confirm(yes: bool, what: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    ensure!(io::stdin().is_terminal(), "{what}; pass --yes where no terminal can ask");
    eprint!("{what}.\nType `yes` to continue: ");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    ensure!(line.trim() == "yes", "nothing was done");
    Ok(())
}

impl AdminConnection {
    /// Looks up an id, a phone number, or an id at the identity provider.
    async fn search(&self, what: &str) -> anyhow::Result<Value> {
        let url = Url::parse_with_params("http://admin/search", [("q", what)])?;
        self.call(Method::GET, &format!("/search?{}", url.query().unwrap_or_default()), None).await
    }

    /// Resolves an id, a phone number, or an id at the identity provider to a user.
    pub(super) async fn user(&self, text: &str) -> anyhow::Result<UserId> {
        if let Ok(user_id) = text.parse() {
            return Ok(user_id);
        }
        let answer = self.search(text).await?;
        match elements(&answer["results"]).iter().find_map(|found| found["user_id"].as_str()) {
            Some(user_id) => Ok(user_id.parse()?),
            None => bail!(
                "there is no user `{text}`; name an id like user_…, a phone number like +14155550101, or the user's id at \
                 the identity provider"
            ),
        }
    }
}
