//! Commands that call the admin listener of a running service.

pub(crate) mod audit;
mod backup;
pub(crate) mod chat;
pub(crate) mod dead_letters;
pub(crate) mod drain;
pub(crate) mod log_level;
pub(crate) mod message;
pub(crate) mod notifications;
pub(crate) mod operator;
pub(crate) mod reports;
pub(crate) mod routes;
pub(crate) mod session;
mod table;
pub(crate) mod user;
mod verify;
pub(crate) mod webhook;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use domain::Secret;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use server::AdminToken;
use server::config::ADMIN_TOKEN_FILE;

use crate::serve::ConfigArgs;
use crate::tools::ToolArgs;

/// The service to call.
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
    /// A file with the token of a named operator, instead of that of `root` in the data directory
    /// [env: TIDINGS_ADMIN_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prints the response as JSON.
    #[arg(long)]
    json: bool,
}

/// A client of the admin listener.
pub(crate) struct AdminConnection {
    base_url: String,
    token: Secret,
    http: reqwest::Client,
    json: bool,
}

impl AdminArgs {
    /// The service that a tool command refers to, at another admin listener if one is given.
    pub(crate) fn of(tool: ToolArgs, admin_listen: Option<SocketAddr>) -> Self {
        let ToolArgs { config, data_dir, json } = tool;
        Self { config, data_dir, admin_listen, token_file: None, json }
    }

    pub(crate) fn connect(self) -> anyhow::Result<AdminConnection> {
        let config = ConfigArgs::of(self.config, self.data_dir, self.admin_listen).load()?;
        ensure!(
            config.admin.listen.port() != 0,
            "port 0 of `admin.listen` can be any port; name the one that the service logs with --admin-listen"
        );
        let token = match self.token_file.or_else(|| std::env::var_os(ADMIN_TOKEN_FILE).map(PathBuf::from)) {
            Some(file) => token_in(&file)?,
            None => token_of_root(&config.data_dir)?,
        };
        let (base_url, http) = client(config.admin.listen, &config.admin.cert_file)?;
        Ok(AdminConnection { base_url: format!("{base_url}/admin/v1"), token, http, json: self.json })
    }
}

/// The token in a file of an operator.
fn token_in(file: &Path) -> anyhow::Result<Secret> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read the token in `{}`", file.display()))?;
    let token = text.trim();
    ensure!(!token.is_empty() && !token.contains(char::is_whitespace), "`{}` has no token", file.display());
    Ok(Secret::from(token.to_owned()))
}

fn token_of_root(data_dir: &Path) -> anyhow::Result<Secret> {
    let missing = || {
        let directory = data_dir.display();
        format!("no service has been started in `{directory}`; name its --data-dir, or your --token-file")
    };
    let token = AdminToken::read(data_dir)?.with_context(missing)?;
    Ok(Secret::from(token.expose().to_owned()))
}

/// The URL of an admin listener, and a client for it.
pub(crate) fn client(listen: SocketAddr, cert_file: &str) -> anyhow::Result<(String, reqwest::Client)> {
    let listen = reachable(listen);
    Ok(match cert_file {
        "" => (format!("http://{listen}"), reqwest::Client::new()),
        cert_file => (format!("https://{listen}"), trusting(cert_file)?),
    })
}

/// The loopback address for a listener on all interfaces.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let loopback = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, listen.port())
}

/// Trusts the service's own certificate, in addition to the certificates that the machine trusts.
fn trusting(cert_file: &str) -> anyhow::Result<reqwest::Client> {
    let unusable = || format!("cannot trust `admin.cert_file`, `{cert_file}`");
    let certificates = reqwest::Certificate::from_pem_bundle(&std::fs::read(cert_file).with_context(unusable)?);
    Ok(reqwest::Client::builder().tls_certs_merge(certificates.with_context(unusable)?).build()?)
}

impl AdminConnection {
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let response = self.answer(method, path, body).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_str(&response.text().await?).unwrap_or(Value::Null))
    }

    /// Sends a request and returns the response if it succeeded; the caller reads the body.
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
            outln!("{}", serde_json::to_string_pretty(answer)?);
        } else {
            for_people();
        }
        Ok(ExitCode::SUCCESS)
    }
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
