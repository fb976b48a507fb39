use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use domain::Secret;
use ports::{Clock, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};
use server::{OperatorRole, OperatorsFile};

use super::AdminArgs;
use super::routes::elements;
use super::table::{self, row};

#[derive(Subcommand)]
pub(crate) enum OperatorCommand {
    /// Adds an operator and prints the token, once.
    ///
    /// The service stores a digest of the token only. A viewer reads the state of users and chats, without contents; a
    /// support operator also acts on users, chats and reports; an admin does everything.
    ///
    /// Example: tidings admin operator add ann --role support > ann.token
    Add {
        /// A name of a-z, 0-9, `.`, `_` and `-`; every line of the audit log has it.
        name: String,
        /// viewer, support or admin.
        #[arg(long)]
        role: OperatorRole,
        #[command(flatten)]
        target: OperatorTarget,
    },
    /// Lists operators and their roles.
    List {
        #[command(flatten)]
        target: OperatorTarget,
    },
    /// Removes an operator and invalidates their token at once.
    Remove {
        name: String,
        #[command(flatten)]
        target: OperatorTarget,
    },
    /// Replaces the token of an operator and prints the new one, once.
    ///
    /// The old token is invalid at once, or after --overlap. The new token of `root` is not printed: it is in
    /// `admin.json` in the data directory of the service.
    ///
    /// Example: tidings admin operator rotate ann --overlap 1h > ann.token
    Rotate {
        name: String,
        /// How long the old token stays valid, such as 1h; at most 7 days.
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
        overlap: Duration,
        #[command(flatten)]
        target: OperatorTarget,
    },
}

/// A running service, or a file.
#[derive(Args)]
pub(crate) struct OperatorTarget {
    /// Changes this file, which `admin.operators_file` names in every process of a fleet, instead of asking a service.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data_dir", "admin_listen", "token_file"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) async fn run(command: OperatorCommand) -> anyhow::Result<ExitCode> {
    match command {
        OperatorCommand::Add { name, role, target: OperatorTarget { file, admin } } => {
            if let Some(file) = file {
                let token = OperatorsFile::edit(&file, |file| file.add(&name, role, SystemClock.now()))?;
                return print_token(&admin, &name, &token);
            }
            let admin = admin.connect()?;
            let body = json!({ "name": name, "role": role });
            let answer = admin.call(Method::POST, "/operators", Some(&body)).await?;
            admin.print(&answer, || outln!("{}", answer["token"].as_str().unwrap_or_default()))
        }
        OperatorCommand::List { target: OperatorTarget { file, admin } } => list(file, admin).await,
        OperatorCommand::Remove { name, target: OperatorTarget { file, admin } } => {
            if let Some(file) = file {
                OperatorsFile::edit(&file, |file| file.remove(&name))?;
                outln!("`{name}` was removed");
                return Ok(ExitCode::SUCCESS);
            }
            let admin = admin.connect()?;
            let answer = admin.call(Method::DELETE, &format!("/operators/{name}"), None).await?;
            admin.print(&answer, || outln!("`{name}` was removed"))
        }
        OperatorCommand::Rotate { name, overlap, target: OperatorTarget { file, admin } } => {
            if let Some(file) = file {
                let token = OperatorsFile::edit(&file, |file| file.rotate(&name, overlap, SystemClock.now()))?;
                return print_token(&admin, &name, &token);
            }
            let admin = admin.connect()?;
            let body = json!({ "overlap_seconds": overlap.as_secs() });
            let answer = admin.call(Method::POST, &format!("/operators/{name}/rotate"), Some(&body)).await?;
            admin.print(&answer, || match answer["token"].as_str() {
                Some(token) => outln!("{token}"),
                None => outln!("the new token of `{name}` is in `admin.json` in the data directory of the service"),
            })
        }
    }
}

fn print_token(admin: &AdminArgs, name: &str, token: &Secret) -> anyhow::Result<ExitCode> {
    if admin.json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "name": name, "token": token.expose() }))?);
    } else {
        outln!("{}", token.expose());
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(file: Option<PathBuf>, admin: AdminArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = file {
        let listed = OperatorsFile::list(&file)?;
        let rows: Vec<_> = listed.into_iter().map(|(name, role)| [name, role.to_string()]).collect();
        table::print(["name", "role"], &rows);
        return Ok(ExitCode::SUCCESS);
    }
    let admin = admin.connect()?;
    let answer = admin.call(Method::GET, "/operators", None).await?;
    admin.print(&answer, || {
        let newest = |operator: &Value| {
            let tokens = elements(&operator["tokens"]);
            tokens.last().and_then(|token| token["created_at"].as_str()).unwrap_or("-").to_owned()
        };
        let rows: Vec<_> = elements(&answer["operators"])
            .iter()
            .map(|operator| {
                let [name, role, created_at] = row(operator, ["name", "role", "created_at"]);
                [name, role, created_at, newest(operator)]
            })
            .collect();
        table::print(["name", "role", "added", "token since"], &rows);
    })
}
