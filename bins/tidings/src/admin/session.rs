use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use super::routes::elements;
use super::table::{self, counted, row};
use super::user::confirm;
use super::{AdminArgs, AdminConnection};

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// Lists the devices that a user is signed in on.
    List {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Revokes the sessions of a user, on one device or on all.
    ///
    /// Tokens are invalid at once, and sockets close within a second. A person who still has the phone can sign
    /// in again. Example: tidings admin session revoke +14155550101 --all
    Revoke {
        /// The user's id, phone number, or id at the identity provider.
        user: String,
        /// The session, as `tidings admin session list` shows it.
        #[arg(required_unless_present = "all")]
        session: Option<String>,
        /// All sessions of the user.
        #[arg(long, conflicts_with = "session")]
        all: bool,
        /// Skips the confirmation prompt.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: SessionCommand) -> anyhow::Result<ExitCode> {
    match command {
        SessionCommand::List { user, admin } => list(&user, admin.connect()?).await,
        SessionCommand::Revoke { user, session, all: _, yes, admin } => {
            let admin = admin.connect()?;
            let user_id = admin.user(&user).await?;
            let (path, what) = match &session {
                Some(session) => (format!("/users/{user_id}/sessions/{session}"), format!("session {session}")),
                None => (format!("/users/{user_id}/sessions"), "every session".to_owned()),
            };
            confirm(yes, &format!("{what} of {user_id} will end, and its sockets close"))?;
            let answer = admin.call(Method::DELETE, &path, None).await?;
            admin.print(&answer, || outln!("signed out of {}", counted(ended(&answer), "session")))
        }
    }
}

fn ended(answer: &Value) -> usize {
    answer["revoked_count"].as_u64().unwrap_or(0) as usize
}

async fn list(user: &str, admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let user_id = admin.user(user).await?;
    let mut answer = admin.call(Method::GET, &format!("/users/{user_id}"), None).await?;
    if !answer["sessions"].is_array() {
        bail!("the service returned no sessions for `{user_id}`");
    }
    let sessions = answer["sessions"].take();
    admin.print(&sessions, || {
        if elements(&sessions).is_empty() {
            outln!("`{user_id}` is signed in nowhere");
            return;
        }
        let fields = ["session_id", "device_id", "created_at", "last_active_at", "expires_at", "is_connected"];
        let rows: Vec<_> = elements(&sessions).iter().map(|session| row(session, fields)).collect();
        table::print(["session", "device", "since", "last active", "expires", "connected"], &rows);
    })
}
