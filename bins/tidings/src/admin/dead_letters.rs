use std::process::ExitCode;

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::{AdminArgs, AdminConnection};

#[derive(Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// Lists failed deliveries, oldest first.
    List(AdminArgs),
    /// Delivers dead letters again, with one attempt each.
    Redeliver {
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Deletes dead letters.
    Forget {
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: DeadLettersCommand) -> anyhow::Result<ExitCode> {
    match command {
        DeadLettersCommand::List(arguments) => list(arguments.connect()?).await,
        DeadLettersCommand::Redeliver { ids, admin } => {
            each(&ids, admin.connect()?, Method::POST, "/redeliver", "was delivered").await
        }
        DeadLettersCommand::Forget { ids, admin } => {
            each(&ids, admin.connect()?, Method::DELETE, "", "is forgotten").await
        }
    }
}

async fn list(admin: AdminConnection) -> anyhow::Result<ExitCode> {
    let mut letters = vec![];
    let mut path = "/dead-letters".to_owned();
    loop {
        let mut page = admin.call(Method::GET, &path, None).await?;
        if let Value::Array(found) = page["dead_letters"].take() {
            letters.extend(found);
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/dead-letters?after={next}");
    }
    let letters = Value::Array(letters);
    admin.print(&letters, || {
        for letter in letters.as_array().into_iter().flatten() {
            let text = |key: &str| letter[key].as_str().unwrap_or("-").to_owned();
            let (id, at, kind, chat) = (text("id"), text("dead_at"), text("kind"), text("chat_id"));
            outln!("{id}  {at}  {kind:<12}  {chat}  after {} tries: {}", letter["attempts"], text("reason"));
        }
        if letters.as_array().is_none_or(Vec::is_empty) {
            outln!("everything was delivered");
        }
    })
}

/// Applies one action to each letter, and exits 1 if it failed for any of them.
async fn each(
    ids: &[String],
    admin: AdminConnection,
    method: Method,
    action: &str,
    done: &str,
) -> anyhow::Result<ExitCode> {
    let mut outcomes = vec![];
    for id in ids {
        let outcome = admin.call(method.clone(), &format!("/dead-letters/{id}{action}"), None).await;
        let error = outcome.err().map(|error| format!("{error:#}"));
        if !admin.json {
            match &error {
                None => outln!("{id} {done}"),
                Some(error) => outln!("{id}: {error}"),
            }
        }
        outcomes.push(json!({ "id": id, "error": error }));
    }
    if admin.json {
        outln!("{}", serde_json::to_string_pretty(&outcomes)?);
    }
    let failed = outcomes.iter().any(|outcome| outcome["error"].is_string());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
