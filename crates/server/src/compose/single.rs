use std::sync::Arc;

use auth::KeyRing;
use embedded::EmbeddedStore;
use fanout::{Fanout, Receipts};
use gateway::{Gateway, Hub};
use ingest::Ingester;
use memory::{MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryTickets};
use notify::{EventWebhook, Notifications, VapidKeys};
use ports::{Clock, EventLog, GatewayId, Ids, ImportTarget, Ingest, ProcessRole, RandomIds, SystemClock};
use presence::Presence;
use tokio::task::JoinSet;

use super::rest::{Keys, Rest, RestPorts, rest};
use super::{RunningEngine, Service, Stores, auth_config, spawn_fanout, spawn_gateway};
use crate::admin::{Admin, AdminToken, AuditTrail, Auditable, Backups, Node, Pulse};
use crate::config::Config;
use crate::health::{self, Drain, Liveness, Requests, Standing};
use crate::tools::transfer;

/// Wires all planes for one machine: embedded store and log, everything else in this process.
pub(super) async fn compose(config: &Config) -> anyhow::Result<Service> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let Opened { store, keys, admin_token } = open(config, clock.clone(), ids.clone()).await?;
    transfer::ensure_finished(store.is_unfinished().await?)?;
    let ring = keys.ring.clone();
    let store_ports = Arc::new(store.clone());
    let auditable = Auditable::new(store_ports.clone(), store_ports.clone());
    let (mut lanes, mut background) = (JoinSet::new(), JoinSet::new());

    let gateway_id = GatewayId("local".into());
    let hub = Arc::new(Hub::new(gateway_id.clone(), config.gateway.connections_max));
    let routes = Arc::new(MemoryRoutes::new(clock.clone(), config.expiry()));
    let limiter = Arc::new(MemoryLimits::new(clock.clone()));
    let members = Arc::new(MemoryMemberCache::new(clock.clone()));
    let fanout = Arc::new(Fanout {
        chats: store_ports.clone(),
        cache: members.clone(),
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
        &mut lanes,
    ));
    let ingest: Arc<dyn Ingest> = ingester.clone();
    let Rest { api, auth, presence, outward, records } = rest(
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
            watchers: hub.clone(),
            members,
            clock: clock.clone(),
            ids: ids.clone(),
        },
        &mut background,
    )?;
    let gateway = Arc::new(Gateway {
        config: config.gateway(),
        hub: hub.clone(),
        // All connections are here, so nobody elsewhere is ever displaced.
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
    // The lanes end when nobody can send any more, so whoever only counts what waits in them must not keep them.
    let waiting = move || sends.upgrade().map_or(0, |ingester| ingester.waiting());
    let drain = Arc::new(Drain::of(Some(hub.clone()), [requests.left(), ("sends", Arc::new(waiting))]));
    let liveness = Liveness::new("the committer", config.stuck_after());
    let (beating, beaten) = (liveness.clone(), store.clone());
    let beat = move || {
        let store = beaten.clone();
        async move { store.beat().await }
    };
    background.spawn(async move { beating.keep_beating(beat).await });
    let node =
        Node { id: gateway_id.0.clone(), roles: ProcessRole::ALL.to_vec(), started_at: SystemClock.now(), fleet: None };
    let admin = Admin {
        token: Arc::new(admin_token),
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
    let dependencies = [("store", Arc::new(move || health.health()) as health::Probe)].into();
    let standing = Standing { dependencies, drain: drain.clone(), liveness: liveness.clone() };
    background.spawn(health::measure(standing.clone()));
    // Beside the API and not inside it: its answers are for one user and never kept, pages are for all and checked by tag.
    let pages = web::public(config.site());
    let app = chats::router(api, gateway::router(gateway).merge(health::router(standing))).merge(pages);
    Ok(Service {
        app: requests.counted(app),
        admin,
        hub: Some(hub),
        keys: Some(ring),
        drain,
        liveness,
        listeners: JoinSet::new(),
        lanes,
        background,
        engine: RunningEngine::Embedded(Alone { store, presence, gateway_id }),
    })
}

/// What a process that is the whole service stands on.
pub(crate) struct Alone {
    store: EmbeddedStore,
    presence: Arc<Presence>,
    gateway_id: GatewayId,
}

impl Alone {
    pub(crate) async fn closed(&self) {
        self.store.closed().await;
    }

    /// Nobody else announces who is gone with this process.
    pub(crate) async fn leave(&self) {
        self.presence.note_all_at(&self.gateway_id).await;
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// What is in the data directory.
struct Opened {
    store: EmbeddedStore,
    keys: Keys,
    admin_token: AdminToken,
}

/// Opens what is in the data directory. It waits for the disk, so it runs where waiting holds up nobody.
async fn open(config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> anyhow::Result<Opened> {
    let directory = config.data_dir.clone();
    let store_config = embedded::Config { cache_bytes: config.store.cache_mib << 20, ..embedded::Config::default() };
    let auth_config = auth_config(config)?;
    let web_push = config.notify.webpush.enabled;
    let opening = move || {
        let now = clock.now();
        let store = EmbeddedStore::open(&directory, store_config, clock, ids)?;
        let ring = Arc::new(KeyRing::open(&directory, &auth_config, now)?);
        let vapid = web_push.then(|| VapidKeys::open(&directory).map(Arc::new)).transpose()?;
        let keys = Keys { config: auth_config, ring, vapid };
        anyhow::Ok(Opened { store, keys, admin_token: AdminToken::open(&directory)? })
    };
    tokio::task::spawn_blocking(opening).await?
}
