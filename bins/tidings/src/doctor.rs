use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Response;
use serde_json::Value;
use server::AdminToken;
use server::config::Config;
use server::doctor::{CheckResult, RunningService, examine};

use crate::admin;
use crate::serve::ConfigArgs;

/// A healthy service answers much sooner.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Exits 0 if the service can run, 1 if it cannot.
pub(crate) async fn run(arguments: DoctorArgs) -> anyhow::Result<ExitCode> {
    let config = arguments.config.load()?;
    let running = running(&config).await;
    let findings = examine(&config, running.as_ref()).await;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let mark = match finding.verdict {
                CheckResult::Good => "ok  ",
                CheckResult::Warning => "warn",
                CheckResult::Bad => "BAD ",
            };
            outln!("{mark}  {:<14} {}", finding.check, finding.message);
        }
    }
    let bad = findings.iter().any(|finding| finding.verdict == CheckResult::Bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The service that already runs with this configuration: its admin listener accepts the token in the data directory.
/// Without a usable answer there is none, and the other checks report what is in its place.
async fn running(config: &Config) -> Option<RunningService> {
    let token = AdminToken::read(&config.data_dir).ok()??;
    let (base_url, http) = admin::client(config.admin.listen, &config.admin.cert_file).ok()?;
    let get = |path: &str| http.get(format!("{base_url}{path}")).bearer_auth(token.expose()).timeout(ANSWER_TIME_MAX);
    let nodes = get("/admin/v1/nodes").send().await.and_then(Response::error_for_status).ok()?;
    let mut nodes: Value = nodes.json().await.ok()?;
    // It lists itself first.
    let mut service: RunningService = serde_json::from_value(nodes["nodes"][0].take()).ok()?;
    service.readiness = get("/readyz").send().await.ok()?.json().await.ok()?;
    Some(service)
}
