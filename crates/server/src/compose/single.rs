use std::sync::Arc;

use async_trait::async_trait;
use auth::KeyRing;
use embedded::EmbeddedStore;
use fanout::{Fanout, Receipts};
use gateway::{Gateway, Hub};
use ingest::Ingester;
use memory::{MemoryLimits, MemoryMemberCache, MemoryRecipients, MemoryRoutes, MemoryTickets};
use metrics::gauge;
use notify::{EventWebhook, Notifications, VapidKeys};
use ports::{
    Clock, EventLog, GatewayId, Ids, ImportTarget, Ingest, ProcessRole, RandomIds, SecurityEvents, Stores, SystemClock,
};
use presence::Presence;
use tokio::task::JoinSet;

use super::rest::{InstallationKeys, RestApi, RestPorts, rest};
use super::{ComposedService, RunningEngine, auth_config, spawn_fanout, spawn_gateway};
use crate::admin::{AdminState, AuditTrail, Auditable, Backups, NodeInfo, Operators, Pulse};
use crate::config::Config;
use crate::embedded_config::embedded_config;
use crate::health::{self, Dependency, Drain, HealthState, Liveness, Requests};
use crate::portioned_limits::PortionedLimits;
use crate::scrub;
use crate::tools::transfer;

/// Wires all planes for one machine: embedded store and log, everything else in this process.
pub(crate) async fn compose(config: &Config, security: Arc<dyn SecurityEvents>) -> anyhow::Result<ComposedService> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let DataDirectory { store, keys, operators } = open(config, clock.clone(), ids.clone()).await?;
    transfer::ensure_finished(store.is_unfinished().await?)?;
    let ring = keys.ring.clone();
    let store_ports = Arc::new(store.clone());
    let auditable = Auditable::new(store.clone());
    let (mut commits, mut background) = (JoinSet::new(), JoinSet::new());

    scrub::begin_metrics();
    gauge!("tidings_store_erase_within_seconds").set(config.erase_within().unwrap_or_default());
    if let Some(every) = config.scrub_every() {
        background.spawn(scrub::on_schedule(store.clone(), every, config.store.scrub_mib_per_second));
    }

    let gateway_id = GatewayId("local".into());
    let hub = Arc::new(Hub::new(gateway_id.clone(), config.gateway.connections_max));
    let routes = Arc::new(MemoryRoutes::new(clock.clone(), config.expiry()));
    let limiter = Arc::new(PortionedLimits::new(Arc::new(MemoryLimits::new(clock.clone()))));
    let members = Arc::new(MemoryMemberCache::new(clock.clone()));
    let fanout = Arc::new(Fanout {
        chats: store_ports.clone(),
        cache: members.clone(),
        recipients: Arc::new(MemoryRecipients::new(routes.clone(), members.clone())),
        routes: routes.clone(),
        delivery: hub.clone(),
        clock: clock.clone(),
        small_members_max: Fanout::SMALL_MEMBERS_MAX,
        receipts: Receipts::default(),
    });
    spawn_fanout(&fanout, store_ports.clone(), &mut background);
    let ingester = Arc::new(Ingester::start(
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
        &mut commits,
    ));
    let ingest: Arc<dyn Ingest> = ingester.clone();
    let RestApi { api, auth, presence, outward, records } = rest(
        config,
        keys,
        RestPorts {
            stores: Stores::on(&store_ports),
            log: store_ports.clone(),
            outbox: None,
            ingest: ingest.clone(),
            tickets: Arc::new(MemoryTickets::new(clock.clone())),
            limiter: limiter.clone(),
            delivery: hub.clone(),
            routes: routes.clone(),
            transitions: routes.clone(),
            notifier: hub.clone(),
            members,
            webhook_peers: None,
            security: security.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        },
        &mut background,
    )?;
    let gateway = Arc::new(Gateway {
        config: config.gateway(),
        hub: hub.clone(),
        // All connections are in this process, so displacement never involves another gateway.
        displacement: hub.clone(),
        identity: Arc::new(auth),
        ingest,
        signals: fanout,
        limiter,
        presences: presence.clone(),
        routes: routes.clone(),
        route_writer: routes.clone(),
        clock,
        ids,
    });
    spawn_gateway(&gateway, &mut background);

    let mut consumers: Vec<(_, Arc<dyn EventLog>)> =
        vec![(Fanout::GROUP, store_ports.clone()), (Notifications::GROUP, store_ports.clone())];
    if outward.webhook.is_some() {
        consumers.push((EventWebhook::GROUP, store_ports));
    }
    let requests = Requests::default();
    let sends = Arc::downgrade(&ingester);
    drop(ingester);
    // The commits end when no `Ingester` is left, so this counter of queued sends holds a weak reference.
    let waiting = move || sends.upgrade().map_or(0, |ingester| ingester.waiting());
    let drain = Arc::new(Drain::of(Some(hub.clone()), [requests.left(), ("sends", Arc::new(waiting))]));
    let liveness = Liveness::new("the committer", config.stuck_after());
    let (beating, beaten) = (liveness.clone(), store.clone());
    let beat = move || {
        let store = beaten.clone();
        async move { store.beat().await }
    };
    background.spawn(async move { beating.keep_beating(beat).await });
    let node = NodeInfo {
        id: gateway_id.0.clone(),
        roles: ProcessRole::ALL.to_vec(),
        started_at: SystemClock.now(),
        listeners: config.addresses(),
        fleet: None,
    };
    let admin = AdminState {
        operators: Arc::new(operators),
        security,
        trail: AuditTrail::new(&config.data_dir),
        node: Arc::new(node),
        pulse: Arc::new(Pulse::new(consumers)),
        routes,
        hub: Some(hub.clone()),
        drain: drain.clone(),
        records: Some(records),
        outward: Some(outward),
        auditable: Some(auditable),
        backups: Some(Backups::new(store.clone(), &config.data_dir)),
    };

    let health = store.clone();
    let dependencies = [Dependency::new("store", &ProcessRole::ALL, move || health.health())].into();
    let standing = HealthState { dependencies, drain, liveness };
    background.spawn(health::measure(standing.clone()));
    // Outside the API router: API responses are private to a user and never cached, pages are public and revalidated by
    // ETag.
    let pages = web::public(config.site());
    let app = chats::router(api, gateway::router(gateway).merge(health::router(standing.clone()))).merge(pages);
    Ok(ComposedService {
        app: requests.counted(app),
        admin,
        hub: Some(hub),
        keys: Some(ring),
        standing,
        listeners: JoinSet::new(),
        commits,
        background,
        engine: Box::new(Alone { store, presence, gateway_id }),
    })
}

/// The engine of a process that runs the whole service.
struct Alone {
    store: EmbeddedStore,
    presence: Arc<Presence>,
    gateway_id: GatewayId,
}

#[async_trait]
impl RunningEngine for Alone {
    async fn failed(&mut self) -> anyhow::Error {
        self.store.closed().await;
        anyhow::anyhow!("the store's committer has ended")
    }

    /// Announces all users of this gateway as offline, since no other process does.
    async fn leave(&self) {
        self.presence.note_all_at(&self.gateway_id).await;
    }

    async fn close(self: Box<Self>) {
        self.store.close().await;
    }
}

/// The contents of the data directory.
struct DataDirectory {
    store: EmbeddedStore,
    keys: InstallationKeys,
    operators: Operators,
}

/// Opens the data directory, on a blocking thread because it waits for the disk.
async fn open(config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> anyhow::Result<DataDirectory> {
    let directory = config.data_dir.clone();
    let config = config.clone();
    let auth_config = auth_config(&config)?;
    let web_push = config.notify.webpush.enabled;
    let operators_file = config.admin.operators_file.clone();
    let opening = move || {
        let now = clock.now();
        let store = EmbeddedStore::open(&directory, embedded_config(&config)?, clock, ids)?;
        let ring = Arc::new(KeyRing::open(&directory, &auth_config, now)?);
        let vapid = web_push.then(|| VapidKeys::open(&directory).map(Arc::new)).transpose()?;
        let keys = InstallationKeys { config: auth_config, ring, vapid };
        anyhow::Ok(DataDirectory { store, keys, operators: Operators::open(&directory, &operators_file)? })
    };
    tokio::task::spawn_blocking(opening).await?
}
