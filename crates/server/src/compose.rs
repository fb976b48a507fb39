//! Picks adapters and wires the planes: [`single`] for one process on its own directory, [`fleet`] for one process of
//! many on shared engines. Their common parts are here and in [`rest`].

#[cfg(feature = "fleet")]
pub(crate) mod fleet;
mod rest;
pub(crate) mod single;

use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use auth::{FixedSender, KeyRing, LogSender, WebhookSender};
use axum::Router;
use domain::Secret;
use fanout::Fanout;
use gateway::{Gateway, Hub};
use ports::{Clock, EventLog, OtpSender, SecurityEvents};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::AdminState;
use crate::config::{Config, OtpSenderKind as Sender};
use crate::health::HealthState;

/// The code that `--dev` accepts for every phone.
const FIXED_CODE: &str = "000000";

/// One process of the service, wired and running, without its public listeners.
pub(crate) struct ComposedService {
    /// The public routes.
    pub(crate) app: Router,
    pub(crate) admin: AdminState,
    /// The sockets of clients, if this process is a gateway.
    pub(crate) hub: Option<Arc<Hub>>,
    /// The keys that sign tokens, if this process signs any.
    pub(crate) keys: Option<Arc<KeyRing>>,
    /// Its health, with its drain and its liveness.
    pub(crate) standing: HealthState,
    /// Listeners for calls of other processes. They end when they are stopped.
    pub(crate) listeners: JoinSet<()>,
    /// The commits of ingest. They end when every handle that can send is dropped.
    pub(crate) commits: JoinSet<()>,
    /// Background tasks that run until they are aborted.
    pub(crate) background: JoinSet<()>,
    pub(crate) engine: Box<dyn RunningEngine>,
}

/// The engines under a service. They close last.
#[async_trait]
pub(crate) trait RunningEngine: Send + Sync {
    /// Completes when the service cannot continue.
    async fn failed(&mut self) -> anyhow::Error;

    /// Deregisters this process, so that other processes no longer call it.
    async fn leave(&self);

    /// Publishes committed events and closes the store. Called when nothing can commit any more.
    async fn close(self: Box<Self>);
}

/// Wires this process. Its listeners for other processes end when `stopped` becomes true.
pub(crate) async fn compose(
    config: &Config,
    security: Arc<dyn SecurityEvents>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<ComposedService> {
    config.store.engine.descriptor().compose(config, security, stopped).await
}

/// Runs fanout in the background.
fn spawn_fanout(fanout: &Arc<Fanout>, log: Arc<dyn EventLog>, background: &mut JoinSet<()>) {
    let consuming = fanout.clone();
    background.spawn(async move { consuming.run(log).await });
    let telling = fanout.clone();
    background.spawn(async move { telling.push_receipts().await });
}

/// Runs the background tasks of a gateway: route heartbeats, presence pushes to subscribers, and draining.
fn spawn_gateway(gateway: &Arc<Gateway>, background: &mut JoinSet<()>) {
    let keeping = gateway.clone();
    background.spawn(async move { keeping.keep_routes().await });
    let checking = gateway.clone();
    background.spawn(async move { checking.recheck_connections().await });
    let showing = gateway.clone();
    background.spawn(async move { showing.watch_presence().await });
    let draining = gateway.hub.clone();
    background.spawn(async move { draining.keep_drained().await });
}

fn auth_config(config: &Config) -> anyhow::Result<auth::Config> {
    let fixed_code = config.dev.then(|| FIXED_CODE.to_owned());
    Ok(config.auth.config(&config.limits, fixed_code, config.relying_party()?)?)
}

fn otp_sender(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<dyn OtpSender>> {
    Ok(match config.otp_sender() {
        Sender::Fixed => Arc::new(FixedSender),
        Sender::Log | Sender::Auto => Arc::new(LogSender),
        Sender::Webhook => {
            let path = &config.auth.otp.webhook_secret_file;
            let secret = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read `auth.otp.webhook_secret_file`, `{path}`"))?;
            let url = &config.auth.otp.webhook_url;
            let url = url.parse().with_context(|| format!("`auth.otp.webhook_url` is not a URL: `{url}`"))?;
            Arc::new(WebhookSender::new(url, &Secret::from(secret.trim().to_owned()), clock)?)
        }
    })
}
