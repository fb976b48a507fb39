//! Picks adapters and wires the planes: [`single`] for one process on its own directory, [`fleet`] for one process of
//! many on shared engines. What both have in common is here and in [`rest`].

mod fleet;
mod rest;
mod single;

use std::sync::Arc;

use anyhow::Context;
use auth::{FixedSender, KeyRing, LogSender, Secret, WebhookSender};
use axum::Router;
use fanout::Fanout;
use gateway::{Gateway, Hub};
use ports::{
    AccountStore, BlockStore, ChatReader, ChatWriter, Clock, CodeStore, ContactStore, DeadLetterStore, EventLog,
    LastSeenStore, MessageExpirer, MessageReader, NoticeStore, OtpSender, PushDeviceStore, ReportStore, RequestStore,
    SessionStore, UserReader, UserWriter, WatermarkStore,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::config::{Config, Engine, OtpSender as Sender};
use crate::health::{Drain, Liveness};

/// The code that `--dev` accepts for every phone.
const FIXED_CODE: &str = "000000";

/// One process of the service, wired and at work, but for its public listeners.
pub(crate) struct Service {
    /// The public routes.
    pub(crate) app: Router,
    pub(crate) admin: Admin,
    /// The sockets of clients, where this process is a gateway.
    pub(crate) hub: Option<Arc<Hub>>,
    /// The keys that sign tokens, where this process does.
    pub(crate) keys: Option<Arc<KeyRing>>,
    pub(crate) drain: Arc<Drain>,
    pub(crate) liveness: Liveness,
    /// What answers others until it is stopped.
    pub(crate) listeners: JoinSet<()>,
    /// The lanes of ingest: they end when everything that can send is gone.
    pub(crate) lanes: JoinSet<()>,
    /// What goes on until it is stopped.
    pub(crate) background: JoinSet<()>,
    pub(crate) engine: RunningEngine,
}

/// What a service stands on and closes last.
pub(crate) enum RunningEngine {
    Embedded(single::Alone),
    Fleet(fleet::Membership),
}

impl RunningEngine {
    /// Ready when the service cannot go on.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match self {
            Self::Embedded(alone) => {
                alone.closed().await;
                anyhow::anyhow!("the store's committer has ended")
            }
            Self::Fleet(membership) => membership.failed().await,
        }
    }

    /// Says goodbye: other processes call this one no more.
    pub(crate) async fn leave(&self) {
        match self {
            Self::Embedded(alone) => alone.leave().await,
            Self::Fleet(membership) => membership.leave().await,
        }
    }

    /// Brings what was committed where it belongs, once nothing can commit any more.
    pub(crate) async fn close(self) {
        match self {
            Self::Embedded(alone) => alone.close().await,
            Self::Fleet(membership) => membership.close().await,
        }
    }
}

/// Wires this process. What answers others ends when `stopped` says so.
pub(crate) async fn compose(config: &Config, stopped: watch::Receiver<bool>) -> anyhow::Result<Service> {
    match config.store.engine {
        Engine::Embedded => single::compose(config).await,
        Engine::Dynamodb => fleet::compose(config, stopped).await,
    }
}

/// Every durable port that signing in, REST and notifications use, on whichever engine.
#[derive(Clone)]
struct Stores {
    messages: Arc<dyn MessageReader>,
    chats: Arc<dyn ChatReader>,
    chat_writer: Arc<dyn ChatWriter>,
    users: Arc<dyn UserReader>,
    user_writer: Arc<dyn UserWriter>,
    sessions: Arc<dyn SessionStore>,
    codes: Arc<dyn CodeStore>,
    watermarks: Arc<dyn WatermarkStore>,
    contacts: Arc<dyn ContactStore>,
    blocks: Arc<dyn BlockStore>,
    reports: Arc<dyn ReportStore>,
    last_seen: Arc<dyn LastSeenStore>,
    push_devices: Arc<dyn PushDeviceStore>,
    notices: Arc<dyn NoticeStore>,
    dead_letters: Arc<dyn DeadLetterStore>,
    requests: Arc<dyn RequestStore>,
    accounts: Arc<dyn AccountStore>,
    expirer: Arc<dyn MessageExpirer>,
}

impl Stores {
    fn on<S>(store: &Arc<S>) -> Self
    where
        S: MessageReader + ChatReader + ChatWriter + UserReader + UserWriter + SessionStore + CodeStore,
        S: WatermarkStore + ContactStore + LastSeenStore + PushDeviceStore + NoticeStore + DeadLetterStore,
        S: RequestStore + AccountStore + MessageExpirer + BlockStore + ReportStore + 'static,
    {
        Self {
            messages: store.clone(),
            chats: store.clone(),
            chat_writer: store.clone(),
            users: store.clone(),
            user_writer: store.clone(),
            sessions: store.clone(),
            codes: store.clone(),
            watermarks: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            reports: store.clone(),
            last_seen: store.clone(),
            push_devices: store.clone(),
            notices: store.clone(),
            dead_letters: store.clone(),
            requests: store.clone(),
            accounts: store.clone(),
            expirer: store.clone(),
        }
    }
}

/// Has fanout do its work for ever.
fn spawn_fanout(fanout: &Arc<Fanout>, log: Arc<dyn EventLog>, background: &mut JoinSet<()>) {
    let consuming = fanout.clone();
    background.spawn(async move { consuming.run(log).await });
    let telling = fanout.clone();
    background.spawn(async move { telling.tell_receipts().await });
}

/// Has a gateway keep its routes, show its clients whom they watch, and have them leave when it drains, for ever.
fn spawn_gateway(gateway: &Arc<Gateway>, background: &mut JoinSet<()>) {
    let keeping = gateway.clone();
    background.spawn(async move { keeping.keep_routes().await });
    let showing = gateway.clone();
    background.spawn(async move { showing.watch_presence().await });
    let draining = gateway.hub.clone();
    background.spawn(async move { draining.keep_drained().await });
}

fn auth_config(config: &Config) -> anyhow::Result<auth::Config> {
    Ok(config.auth.config(&config.limits, config.dev.then(|| FIXED_CODE.to_owned()))?)
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
