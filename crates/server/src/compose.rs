use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use auth::{Auth, FixedSender, KeyRing, LogSender, Secret, WebhookSender};
use axum::Router;
use embedded::EmbeddedStore;
use fanout::{Fanout, Receipts};
use gateway::{Gateway, Hub};
use ingest::Ingester;
use memory::{MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryTickets};
use notify::VapidKeys;
use ports::{Clock, GatewayId, Ids, Ingest, OtpSender, RandomIds, SystemClock};
use tokio::task::JoinSet;

use crate::admin::{Admin, AdminToken};
use crate::config::{Config, OtpSender as Sender};
use crate::health::{self, Readiness};
use crate::outward::{Outward, outward};

/// The code that `--dev` accepts for every phone.
const FIXED_CODE: &str = "000000";

/// All planes of the service, wired for one machine: embedded store and log, everything else in this process.
pub(crate) struct Service {
    /// The public routes.
    pub(crate) app: Router,
    pub(crate) admin: Admin,
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
    let Opened { store, keys, vapid, admin_token } =
        open(config, auth_config.clone(), clock.clone(), ids.clone()).await?;
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

    let members = Arc::new(MemoryMemberCache::new(clock.clone()));
    let fanout = Arc::new(Fanout {
        chats: store_ports.clone(),
        cache: members.clone(),
        routes: routes.clone(),
        delivery: hub.clone(),
        clock: clock.clone(),
        receipts: Receipts::default(),
    });
    let mut lanes = JoinSet::new();
    let ingest: Arc<dyn Ingest> = Arc::new(Ingester::start(
        config.ingest(),
        ingest::Ports {
            writer: store_ports.clone(),
            messages: store_ports.clone(),
            chats: store_ports.clone(),
            watermarks: store_ports.clone(),
            signals: fanout.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        },
        &mut lanes,
    ));

    let mut background = JoinSet::new();
    background.spawn({
        let (fanout, log) = (fanout.clone(), store_ports.clone());
        async move { fanout.run(log).await }
    });
    background.spawn({
        let fanout = fanout.clone();
        async move { fanout.tell_receipts().await }
    });
    let web_push_public_key = vapid.as_ref().map(|keys| keys.public_key().to_owned());
    let Outward { providers, notifications, webhook, dead_letters } =
        outward(config, &store, vapid, routes.clone(), members, clock.clone(), ids.clone())?;
    background.spawn({
        let (notifications, log) = (notifications.clone(), store_ports.clone());
        async move { notifications.run(log).await }
    });
    if let Some(webhook) = webhook.clone() {
        background.spawn(async move { webhook.run().await });
    }

    let gateway = Arc::new(Gateway {
        config: config.gateway(),
        hub: hub.clone(),
        identity: Arc::new(auth.clone()),
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
        push_devices: store_ports.clone(),
        notifier: providers,
        web_push_public_key,
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
    let admin = Admin { token: Arc::new(admin_token), webhook, notifications, dead_letters };
    Ok(Service { app, admin, hub, keys, store, draining, lanes, background })
}

/// What is in the data directory.
struct Opened {
    store: EmbeddedStore,
    keys: Arc<KeyRing>,
    /// Absent where Web Push is off.
    vapid: Option<Arc<VapidKeys>>,
    admin_token: AdminToken,
}

/// Opens what is in the data directory. It waits for the disk, so it runs where waiting holds up nobody.
async fn open(
    config: &Config,
    auth_config: auth::Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> anyhow::Result<Opened> {
    let directory = config.data_dir.clone();
    let store_config = embedded::Config { cache_bytes: config.store.cache_mib << 20, ..embedded::Config::default() };
    let web_push = config.notify.webpush.enabled;
    let opening = move || {
        let now = clock.now();
        let store = EmbeddedStore::open(&directory, store_config, clock, ids)?;
        let keys = Arc::new(KeyRing::open(&directory, &auth_config, now)?);
        let vapid = web_push.then(|| VapidKeys::open(&directory).map(Arc::new)).transpose()?;
        anyhow::Ok(Opened { store, keys, vapid, admin_token: AdminToken::open(&directory)? })
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
