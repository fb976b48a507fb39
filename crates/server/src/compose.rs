use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use auth::{Auth, FixedSender, KeyRing, LogSender, Secret, WebhookSender};
use axum::Router;
use embedded::EmbeddedStore;
use fanout::Fanout;
use gateway::{Gateway, Hub};
use ingest::Ingester;
use memory::{MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryTickets};
use ports::{Clock, GatewayId, Ids, Ingest, OtpSender, RandomIds, SystemClock};
use tokio::task::JoinSet;

use crate::config::{Config, OtpSender as Sender};
use crate::health::{self, Readiness};

/// The code that `--dev` accepts for every phone.
const FIXED_CODE: &str = "000000";

/// All planes of the service, wired for one machine: embedded store and log, everything else in this process.
pub(crate) struct Service {
    /// The public routes.
    pub(crate) app: Router,
    pub(crate) hub: Arc<Hub>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) store: EmbeddedStore,
    pub(crate) draining: Arc<AtomicBool>,
    /// The lanes of ingest: they end when everything that can send is gone.
    pub(crate) lanes: JoinSet<()>,
    /// What goes on until it is stopped.
    pub(crate) background: JoinSet<()>,
}

pub(crate) async fn compose(config: &Config) -> anyhow::Result<Service> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let auth_config = config.auth.config(&config.limits, config.dev.then(|| FIXED_CODE.to_owned()))?;
    let (store, keys) = open(config, auth_config.clone(), clock.clone(), ids.clone()).await?;
    let store_ports = Arc::new(store.clone());

    let hub = Arc::new(Hub::new(GatewayId("local".into())));
    let routes = Arc::new(MemoryRoutes::new(clock.clone()));
    let limiter = Arc::new(MemoryLimits::new(clock.clone()));
    let auth = Auth::new(
        auth::Ports {
            users: store_ports.clone(),
            sessions: store_ports.clone(),
            codes: store_ports.clone(),
            tickets: Arc::new(MemoryTickets::new(clock.clone())),
            limits: limiter.clone(),
            otp: otp_sender(config, clock.clone())?,
            delivery: hub.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        },
        keys.clone(),
        auth_config,
    )
    .context("no HTTP client can be made for the keys of [auth.external]")?;

    let mut lanes = JoinSet::new();
    let ingest: Arc<dyn Ingest> = Arc::new(Ingester::start(
        config.ingest(),
        ingest::Ports {
            writer: store_ports.clone(),
            messages: store_ports.clone(),
            chats: store_ports.clone(),
            watermarks: store_ports.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        },
        &mut lanes,
    ));

    let mut background = JoinSet::new();
    let fanout = Arc::new(Fanout {
        chats: store_ports.clone(),
        cache: Arc::new(MemoryMemberCache::new(clock.clone())),
        routes: routes.clone(),
        delivery: hub.clone(),
        clock: clock.clone(),
    });
    background.spawn({
        let (fanout, log) = (fanout.clone(), store_ports.clone());
        async move { fanout.run(log).await }
    });

    let gateway = Arc::new(Gateway {
        config: config.gateway(),
        hub: hub.clone(),
        auth: auth.clone(),
        ingest: ingest.clone(),
        signals: fanout,
        limiter: limiter.clone(),
        routes,
        clock: clock.clone(),
        ids: ids.clone(),
    });
    background.spawn({
        let gateway = gateway.clone();
        async move { gateway.refresh_routes().await }
    });

    let api = chats::Api {
        auth,
        ingest,
        messages: store_ports.clone(),
        chats: store_ports.clone(),
        chat_writer: store_ports.clone(),
        users: store_ports.clone(),
        user_writer: store_ports.clone(),
        watermarks: store_ports.clone(),
        requests: store_ports,
        limiter,
        clock,
        ids,
        limits: chats::Limits {
            rest_read: config.limits.rest_read(),
            rest_write: config.limits.rest_write(),
            send_per_chat: config.limits.send_per_chat(),
            send_per_user: config.limits.send_per_user(),
        },
    };
    let draining = Arc::new(AtomicBool::new(false));
    let readiness = Readiness { store: store.clone(), draining: draining.clone() };
    let app = chats::router(api, gateway::router(gateway).merge(health::router(readiness)));
    Ok(Service { app, hub, keys, store, draining, lanes, background })
}

/// Opens what is in the data directory. It waits for the disk, so it runs where waiting holds up nobody.
async fn open(
    config: &Config,
    auth_config: auth::Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> anyhow::Result<(EmbeddedStore, Arc<KeyRing>)> {
    let directory = config.data_dir.clone();
    let store_config = embedded::Config { cache_bytes: config.store.cache_mib << 20, ..embedded::Config::default() };
    let opening = move || {
        let now = clock.now();
        let store = EmbeddedStore::open(&directory, store_config, clock, ids)?;
        let keys = KeyRing::open(&directory, &auth_config, now)?;
        anyhow::Ok((store, Arc::new(keys)))
    };
    tokio::task::spawn_blocking(opening).await?
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
