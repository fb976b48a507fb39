//! Commands that ask a running service on its admin listener.

mod backup;
pub(crate) mod chat;
pub(crate) mod drain;
pub(crate) mod log_level;
pub(crate) mod message;
pub(crate) mod reports;
pub(crate) mod routes;
pub(crate) mod session;
mod table;
pub(crate) mod user;
mod verify;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use domain::ChatId;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use server::AdminToken;

use crate::serve::ConfigArgs;
use crate::tools::ToolArgs;

/// Which service is asked.
#[derive(Args)]
pub(crate) struct AdminArgs {
    /// The TOML file that the service runs with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of the service, which holds the admin token [default: tidings-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The admin listener of the service [default: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// Prints the answer as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
pub(crate) enum WebhookCommand {
    /// Says how the application's webhook is doing.
    Status(AdminArgs),
    /// Delivers events to the application again, from one place on.
    Replay(ReplayArgs),
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub(crate) struct ReplayArgs {
    /// Everything that the log still has.
    #[arg(long, group = "from")]
    oldest: bool,
    /// Everything from the event with this `position` on.
    #[arg(long, group = "from", value_name = "NUMBER")]
    position: Option<u64>,
    /// Everything since then, as 2026-01-30T14:30:00Z.
    #[arg(long, group = "from", value_name = "TIME")]
    time: Option<String>,
    /// The messages of one chat, from --sequence on.
    #[arg(long, group = "from", value_name = "CHAT")]
    chat: Option<ChatId>,
    /// The first message of --chat to deliver again.
    #[arg(long, requires = "chat", default_value_t = 1)]
    sequence: u64,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Subcommand)]
pub(crate) enum NotificationsCommand {
    /// Notifies the members of a chat again who are away and have not received its messages.
    Replay {
        /// Which chat.
        #[arg(long)]
        chat: ChatId,
        /// The first message that is news.
        #[arg(long, default_value_t = 1)]
        sequence: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// Lists what could not be delivered, oldest first.
    List(AdminArgs),
    /// Delivers dead letters again, with one try each.
    Redeliver {
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Forgets dead letters.
    Forget {
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn webhook(command: WebhookCommand) -> anyhow::Result<ExitCode> {
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
                println!("{failing}, {} events behind", status["lag_events"]);
                println!("since the start: {} delivered, {} failed", status["delivered"], status["failed"]);
                println!("last error: {last_error}");
            })
        }
        WebhookCommand::Replay(ReplayArgs { oldest, position, time, chat, sequence, admin }) => {
            let request = match (oldest, position, time, chat) {
                (true, ..) => json!({ "oldest": {} }),
                (_, Some(position), ..) => json!({ "position": position }),
                (_, _, Some(time), _) => json!({ "time": time }),
                (_, _, _, Some(chat_id)) => json!({ "chat": { "chat_id": chat_id, "sequence": sequence } }),
                _ => bail!("say from where: --oldest, --position, --time or --chat"),
            };
            let admin = admin.connect()?;
            let answer = admin.call(Method::POST, "/webhook/replay", Some(&request)).await?;
            admin.print(&answer, || println!("the application will hear of it again"))
        }
    }
}

pub(crate) async fn notifications(command: NotificationsCommand) -> anyhow::Result<ExitCode> {
    let NotificationsCommand::Replay { chat, sequence, admin } = command;
    let admin = admin.connect()?;
    let request = json!({ "chat_id": chat, "sequence": sequence });
    let answer = admin.call(Method::POST, "/notifications/replay", Some(&request)).await?;
    admin.print(&answer, || println!("{} devices will be told", answer["owed"]))
}

pub(crate) async fn dead_letters(command: DeadLettersCommand) -> anyhow::Result<ExitCode> {
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

async fn list(admin: Admin) -> anyhow::Result<ExitCode> {
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
            println!("{id}  {at}  {kind:<12}  {chat}  after {} tries: {}", letter["attempts"], text("reason"));
        }
        if letters.as_array().is_none_or(Vec::is_empty) {
            println!("everything was delivered");
        }
    })
}

/// Does the same to each letter, and exits 1 if it failed for one of them.
async fn each(ids: &[String], admin: Admin, method: Method, action: &str, done: &str) -> anyhow::Result<ExitCode> {
    let mut outcomes = vec![];
    for id in ids {
        let outcome = admin.call(method.clone(), &format!("/dead-letters/{id}{action}"), None).await;
        let error = outcome.err().map(|error| format!("{error:#}"));
        if !admin.json {
            match &error {
                None => println!("{id} {done}"),
                Some(error) => println!("{id}: {error}"),
            }
        }
        outcomes.push(json!({ "id": id, "error": error }));
    }
    if admin.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    }
    let failed = outcomes.iter().any(|outcome| outcome["error"].is_string());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A service that can be asked.
pub(crate) struct Admin {
    base_url: String,
    token: AdminToken,
    http: reqwest::Client,
    json: bool,
}

impl AdminArgs {
    /// The service that a tool is about, at another admin listener if one is named.
    pub(crate) fn of(tool: ToolArgs, admin_listen: Option<SocketAddr>) -> Self {
        let ToolArgs { config, data_dir, json } = tool;
        Self { config, data_dir, admin_listen, json }
    }

    pub(crate) fn connect(self) -> anyhow::Result<Admin> {
        let config = ConfigArgs::of(self.config, self.data_dir, self.admin_listen).load()?;
        ensure!(
            config.admin.listen.port() != 0,
            "port 0 of `admin.listen` can be any port; name the one that the service logs with --admin-listen"
        );
        let directory = config.data_dir.display();
        let token = AdminToken::read(&config.data_dir)?
            .with_context(|| format!("no service has been started in `{directory}`; name its --data-dir"))?;
        let (scheme, http) = match config.admin.cert_file.as_str() {
            "" => ("http", reqwest::Client::new()),
            cert_file => ("https", trusting(cert_file)?),
        };
        let base_url = format!("{scheme}://{}/admin/v1", config.admin.listen);
        Ok(Admin { base_url, token, http, json: self.json })
    }
}

/// Trusts the certificate that the service itself shows, beside those that the machine trusts.
fn trusting(cert_file: &str) -> anyhow::Result<reqwest::Client> {
    let unusable = || format!("cannot trust `admin.cert_file`, `{cert_file}`");
    let certificates = reqwest::Certificate::from_pem_bundle(&std::fs::read(cert_file).with_context(unusable)?);
    Ok(reqwest::Client::builder().tls_certs_merge(certificates.with_context(unusable)?).build()?)
}

impl Admin {
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let response = self.answer(method, path, body).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_str(&response.text().await?).unwrap_or(Value::Null))
    }

    /// A good answer, to be read.
    async fn answer(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Response> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let unreachable = || format!("no service answers at {}; name its --admin-listen", self.base_url);
        let response = request.send().await.with_context(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        match answer["error"]["message"].as_str() {
            Some(message) => bail!("{message}"),
            None if text.is_empty() => bail!("the service answered {status}"),
            None => bail!("the service answered {status}: {text}"),
        }
    }

    fn print(&self, answer: &Value, for_people: impl FnOnce()) -> anyhow::Result<ExitCode> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(answer)?);
        } else {
            for_people();
        }
        Ok(ExitCode::SUCCESS)
    }
}
