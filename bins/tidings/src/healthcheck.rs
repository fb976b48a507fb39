use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::serve::ConfigArgs;

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    /// The service, as http://127.0.0.1:8080 [default: where the settings say that it listens]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Asks whether it is ready, and not only alive.
    #[arg(long)]
    ready: bool,
    /// How many seconds it may take to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(arguments: HealthcheckArgs) -> anyhow::Result<ExitCode> {
    let HealthcheckArgs { url, ready, timeout, config } = arguments;
    let base_url = match url {
        Some(url) => url,
        None => format!("http://{}", reachable(config.load()?.listen)),
    };
    let path = if ready { "readyz" } else { "healthz" };
    let url = format!("{}/{path}", base_url.trim_end_matches('/'));
    let http = reqwest::Client::builder().timeout(Duration::from_secs(timeout)).build()?;
    let answer = http.get(&url).send().await.with_context(|| format!("no service answers at {url}"))?;
    let is_well = answer.status().is_success();
    println!("{}", answer.text().await?);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where a process that listens everywhere is found from the same machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let loopback = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_listens_everywhere_is_asked_on_loopback() {
        for (listen, asked) in
            [("0.0.0.0:8080", "127.0.0.1:8080"), ("[::]:80", "[::1]:80"), ("10.1.2.3:80", "10.1.2.3:80")]
        {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), asked);
        }
    }
}
