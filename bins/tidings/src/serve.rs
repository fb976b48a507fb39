use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use server::Telemetry;
use server::config::{self, Config, Sources};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::{memory, open_files};

/// The sources of settings, shared by every command that needs the configuration.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file; docs/tidings.example.toml shows every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Lets any user sign in with the code 000000, without limits of codes and sends. Listens on loopback only.
    #[arg(long)]
    dev: bool,
    /// Starts with unsafe settings that `serve` otherwise refuses, such as a public listener without TLS.
    #[arg(long)]
    insecure: bool,
    /// Directory of the store, the log and the signing keys [default: tidings-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address for clients; port 0 picks a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Address of the admin listener: metrics and operator commands [default: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// Roles that this process runs [default: all]
    #[arg(long)]
    roles: Option<String>,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

impl ConfigArgs {
    /// Settings for a command that only calls a running service.
    pub(crate) fn of(config: Option<PathBuf>, data_dir: Option<PathBuf>, admin_listen: Option<SocketAddr>) -> Self {
        Self { config, dev: false, insecure: false, data_dir, listen: None, admin_listen, roles: None }
    }

    pub(crate) fn load(self) -> anyhow::Result<Config> {
        Ok(config::load(&self.sources())?)
    }

    fn sources(self) -> Sources {
        let mut flags = Vec::new();
        flags.extend(self.dev.then(|| ("dev", "true".to_owned())));
        flags.extend(self.insecure.then(|| ("insecure", "true".to_owned())));
        flags.extend(self.data_dir.map(|directory| ("data_dir", directory.to_string_lossy().into_owned())));
        flags.extend(self.listen.map(|address| ("listen", address.to_string())));
        flags.extend(self.admin_listen.map(|address| ("admin.listen", address.to_string())));
        flags.extend(self.roles.map(|roles| ("roles", roles)));
        let text = |text: std::ffi::OsString| text.into_string().ok();
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
        Sources { file: self.config, environment, flags }
    }
}

pub(crate) fn run(arguments: ServeArgs) -> anyhow::Result<ExitCode> {
    let sources = arguments.config.sources();
    let config = config::load(&sources)?;
    crate::block_on(async {
        let telemetry = Telemetry::init(&config)?;
        sources.log_ignored();
        open_files::raise_limit();
        let stop = stop_signal()?;
        // The future is large and lives as long as the process.
        let service = Box::pin(server::run(config, Box::new(move || config::load(&sources)), telemetry, stop));
        tokio::select! {
            ended = service => ended,
            never = memory::keep_purged() => match never {},
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Resolves at the first SIGTERM or SIGINT; the second signal ends the process at once.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    tokio::spawn(async move {
        let mut next = async || tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () };
        next().await;
        stop.notify_one();
        next().await;
        std::process::exit(1);
    });
    Ok(async move { stopped.notified().await })
}
