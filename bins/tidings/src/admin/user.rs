use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use domain::UserId;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::routes::elements;
use super::table::{self, cell, counted, row};
use super::{Admin, AdminArgs};

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Finds the user of a phone number or of an id.
    ///
    /// Names are no keys of the store, so nobody is found by name. Example: tidings user find +14155550101
    Find {
        /// A phone number, or the id of a user, session or connection.
        what: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Shows a user: where they are signed in and connected, and how far they have come in their chats.
    ///
    /// Of an account that is being deleted it says so, and how many chats are left to leave.
    Show {
        /// The user's id, or their phone number.
        user: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Makes the user of a phone number before they sign in for the first time.
    ///
    /// One who is there stays as they are. Example: tidings user create --phone +14155550101 --name Ada
    Create {
        /// The number that they will sign in with.
        #[arg(long, value_name = "NUMBER")]
        phone: String,
        /// What others see.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Gives a user another name.
    Rename {
        /// The user's id, or their phone number.
        user: String,
        /// What others see from now on.
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Writes everything that is a user's own into one JSON document.
    ///
    /// Profile, sessions, devices, contacts, chats, and every message that they sent. It is what the user gets from
    /// GET /api/v1/users/me/export, for one who cannot ask for it. It shows what they wrote, and the audit trail says who
    /// asked. Example: tidings user export +14155550101 --output ada.json
    Export {
        /// The user's id, or their phone number.
        user: String,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Deletes an account, for good.
    ///
    /// The user is signed out everywhere within a second and leaves every group; a group of theirs goes to its
    /// longest-standing admin, or else member. Their phone number is free for a new account. Their messages stay, from
    /// `Deleted account`, unless --erase-messages is given. What is under way survives a crash; `tidings user show` says when
    /// it is done.
    Delete {
        /// The user's id, or their phone number.
        user: String,
        /// Has the messages of the user expire at once, wherever they are still a member.
        #[arg(long)]
        erase_messages: bool,
        /// Asks nobody.
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
                println!("{id}  {name}{known}");
            })
        }
        UserCommand::Rename { user, name, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            let request = json!({ "display_name": name });
            let answer = admin.call(Method::PATCH, &format!("/users/{user_id}"), Some(&request)).await?;
            admin.print(&answer, || println!("{user_id} is called {} now", cell(&answer, "display_name")))
        }
        UserCommand::Export { user, output, admin } => export(&user, output, admin.connect()?).await,
        UserCommand::Delete { user, erase_messages, yes, admin } => {
            delete(&user, erase_messages, yes, admin.connect()?).await
        }
    }
}

/// Exits 1 if nobody is found.
async fn find(what: &str, admin: Admin) -> anyhow::Result<ExitCode> {
    let answer = admin.search(what).await?;
    let found = elements(&answer["results"]).iter().find(|found| found["user_id"].is_string());
    admin.print(&answer, || match found {
        Some(found) => println!("{}", row(found, ["user_id", "display_name"]).join("  ")),
        None => println!("nobody is found by `{what}`"),
    })?;
    Ok(if found.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(user: &str, admin: Admin) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let answer = admin.call(Method::GET, &format!("/users/{user_id}"), None).await?;
    admin.print(&answer, || {
        let [name, since, seen] = row(&answer, ["display_name", "created_at", "last_seen_at"]);
        println!("{user_id}  {name}  since {since}  last seen {seen}");
        if let Some(deleted_at) = answer["deleted_at"].as_str() {
            match &answer["deletion"] {
                Value::Null => println!("the account was deleted at {deleted_at}"),
                deletion => println!(
                    "the account is being deleted since {}; left to go through: {}",
                    cell(deletion, "begun_at"),
                    counted(elements(&answer["chats"]).len(), "chat")
                ),
            }
        }
        let sessions = elements(&answer["sessions"]);
        println!("\nsessions: {}", sessions.len());
        if !sessions.is_empty() {
            let fields = ["session_id", "device_id", "last_active_at", "is_connected", "is_notified"];
            let rows: Vec<_> = sessions.iter().map(|session| row(session, fields)).collect();
            table::print(["session", "device", "last active", "connected", "notified"], &rows);
        }
        let chats = elements(&answer["chats"]);
        println!("\nchats: {}{}", chats.len(), if answer["has_more"] == true { " and more" } else { "" });
        if !chats.is_empty() {
            let fields = ["chat_id", "type", "name", "role", "head_sequence", "delivered_sequence", "read_sequence"];
            let rows: Vec<_> = chats.iter().map(|chat| row(chat, fields)).collect();
            table::print(["chat", "type", "name", "role", "head", "delivered", "read"], &rows);
        }
    })
}

async fn export(user: &str, output: Option<PathBuf>, admin: Admin) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let mut document = admin.answer(Method::POST, &format!("/users/{user_id}/export"), None).await?;
    let mut bytes = 0;
    let early = "the service has ended the document early; nothing that was written is whole";
    match &output {
        Some(path) => {
            let cannot = || format!("cannot write `{}`", path.display());
            let mut file = tokio::fs::File::create(path).await.with_context(cannot)?;
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
            println!();
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(user: &str, erase_messages: bool, yes: bool, admin: Admin) -> anyhow::Result<ExitCode> {
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
        println!("{user_id} is signed out and gone; the rest follows");
        println!("`tidings user show {user_id}` says when it is done");
    })
}

/// Has a person say yes to what is about to be done, unless it was said already.
pub(super) fn confirm(yes: bool, what: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    ensure!(io::stdin().is_terminal(), "{what}; say --yes where nobody can be asked");
    eprint!("{what}.\nType `yes` to go on: ");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    ensure!(line.trim() == "yes", "nothing was done");
    Ok(())
}

impl Admin {
    /// What an id or a phone number stands for.
    async fn search(&self, what: &str) -> anyhow::Result<Value> {
        let url = Url::parse_with_params("http://admin/search", [("q", what)])?;
        self.call(Method::GET, &format!("/search?{}", url.query().unwrap_or_default()), None).await
    }

    /// The user who is meant by an id or a phone number.
    pub(super) async fn user(&self, text: &str) -> anyhow::Result<UserId> {
        if let Ok(user_id) = text.parse() {
            return Ok(user_id);
        }
        let answer = self.search(text).await?;
        match elements(&answer["results"]).iter().find_map(|found| found["user_id"].as_str()) {
            Some(user_id) => Ok(user_id.parse()?),
            None => bail!("there is no user `{text}`; name an id like user_… or a phone number like +14155550101"),
        }
    }
}
