use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use server::config::AdminSettings;

use crate::admin;
use crate::serve::ConfigArgs;

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    /// The service, such as http://127.0.0.1:8080 [default: the configured admin listener, which answers even while
    /// clients overload the public one]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Checks readiness instead of liveness. A degraded process is ready.
    #[arg(long)]
    ready: bool,
    /// Seconds to wait for the response.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(arguments: HealthcheckArgs) -> anyhow::Result<ExitCode> {
    let HealthcheckArgs { url, ready, timeout, config } = arguments;
    let (base_url, http) = match url {
        Some(url) => (url, reqwest::Client::new()),
        None => {
            let AdminSettings { listen, cert_file, .. } = config.load()?.admin;
            admin::client(listen, &cert_file)?
        }
    };
    let path = if ready { "readyz" } else { "healthz" };
    let url = format!("{}/{path}", base_url.trim_end_matches('/'));
    let request = http.get(&url).timeout(Duration::from_secs(timeout));
    let answer = request.send().await.with_context(|| format!("no service answers at {url}"))?;
    let is_well = answer.status().is_success();
    outln!("{}", answer.text().await?);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
