//! One process of a fleet. Each role is a function that receives only the ports it may use: fanout gets a read-only
//! store, a gateway neither store nor log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use auth::KeyRing;
use axum::Router;
use dynamodb::DynamoStore;
use fanout::{Fallback, Fanout, Receipts, Shared};
use futures_util::future::join_all;
use gateway::{Gateway, Hub};
use ingest::{Grouping, Ingester, Relay};
use keyfile::MasterSecret;
use memory::MemoryLimits;
use notify::VapidKeys;
use ports::{
    ChatReader, Clock, EngineHealth, EventProducer, GatewayId, Identity, Ids, ImportTarget, Ingest, PeerProcess,
    PeerRegistry, PresenceReader, ProcessRole, RandomIds, RateLimiter, SecurityEvents, SignalSender, Stores,
    SystemClock, WebhookPause,
};
use rpc::{
    Asserter, AssertingIdentity, AssertingIngest, AssertionKey, AssertionPolicy, Directory, RemoteDelivery,
    RemoteIdentity, RemoteIngest, RemotePresences, RemoteSignals, RemoteWebhooks, RpcServices,
};
use tidings_kafka::{KafkaLog, KafkaProducer};
use tidings_redis::{
    Inbox, InboxState, Redis, RedisDelivery, RedisLimits, RedisMemberCache, RedisMetrics, RedisPeers, RedisRecipients,
    RedisRoutes, RedisTickets,
};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::rest::{InstallationKeys, RestApi, RestPorts, rest};
use super::{ComposedService, RunningEngine, auth_config, spawn_fanout, spawn_gateway};
use crate::admin::{self, AdminState, AuditTrail, NodeInfo, Operators, Pulse};
use crate::config::Config;
use crate::engines;
use crate::health::{self, Dependency, Drain, HealthState, Liveness, RemainingWork, Requests};
use crate::later_receipts::LaterReceipts;
use crate::outage_limits::OutageLimits;
use crate::portioned_limits::PortionedLimits;
use crate::run::bind;
use crate::tools::transfer;

/// Interval of announcements; a third of their lease.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);
/// How long a start waits for the gateway's Redis subscription. After that it accepts connections, and pushes arrive
/// directly until the subscription is there (C8).
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
/// How long a shutdown waits for its consumers to leave their groups, so that others take over their partitions at
/// once.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);
/// Most concurrent commits of an ingest process. A commit is a round trip over the network.
const COMMITS_MAX: usize = 256;

/// State that all roles of the process share.
struct SharedAdapters {
    me: PeerProcess,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    redis: Redis,
    peers: Arc<dyn PeerRegistry>,
    directory: Arc<Directory>,
    routes: Arc<RedisRoutes>,
    limiter: Arc<dyn RateLimiter>,
    background: JoinSet<()>,
    roles: Vec<ProcessRole>,
    dependencies: Vec<Dependency>,
    /// The logs that this process consumes.
    logs: Vec<Arc<KafkaLog>>,
    /// Pending work to finish before the process may be removed.
    left: Vec<RemainingWork>,
}

impl SharedAdapters {
    /// Adds an engine to the dependencies of the process.
    fn depend_on(&mut self, name: &'static str, health: impl Fn() -> EngineHealth + Send + Sync + 'static) {
        self.dependencies.push(Dependency::new(name, &self.roles, health));
    }
}

pub(crate) async fn compose(
    config: &Config,
    security_events: Arc<dyn SecurityEvents>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<ComposedService> {
    let roles = config.roles()?;
    let has = |role| roles.contains(&role);
    let listener = bind("rpc.listen", config.rpc.listen)?;
    let address = match config.rpc.advertise.as_str() {
        "" => listener.local_addr()?.to_string(),
        advertised => advertised.to_owned(),
    };
    let security = engines::security(config)?;
    let assertion_key = engines::assertion_key(config)?;
    let mut commons = commons(config, roles.clone(), address, security.clone())?;
    // Readiness needs to know whether Redis has ever answered.
    if let Err(failure) = commons.redis.ping().await {
        warn!(
            error = &failure as &dyn std::error::Error,
            "Redis does not answer; starting anyway, not ready until it does"
        );
    }
    let mut commits = JoinSet::new();

    let store = if roles == [ProcessRole::Gateway] { None } else { Some(open_store(config, &mut commons).await) };
    if let Some(store) = &store {
        match store.is_unfinished().await {
            Ok(is_unfinished) => transfer::ensure_finished(is_unfinished)?,
            // A process starts without its engines, and is not ready until those that it needs have answered.
            Err(failure) => warn!(
                error = &failure as &dyn std::error::Error,
                "cannot tell whether the store has an unfinished import; starting anyway"
            ),
        }
    }
    let producer = if has(ProcessRole::Ingest) || has(ProcessRole::Api) {
        Some(open_producer(config, &mut commons)?)
    } else {
        None
    };
    let signals = Arc::new(LaterReceipts::new(Arc::new(RemoteSignals::new(commons.directory.clone()))));
    let passing = signals.clone();
    commons.background.spawn(async move { passing.run().await });
    let mut services = RpcServices::default();
    let mut app = Router::new();
    let (mut hub, mut announced, mut outward, mut records, mut ring) = (None, None, None, None, None);

    if let Some(store) = store.as_ref().filter(|_| has(ProcessRole::Ingest)) {
        let ingest = ingest(config, store, signals.clone(), &mut commons, &mut commits);
        services.ingest = Some((ingest, assertion_policy(config, assertion_key.clone())?));
    }
    let fallback = (has(ProcessRole::Fanout) || has(ProcessRole::Api)).then(|| fallback(&mut commons));
    if let Some((store, fallback)) = store.clone().zip(fallback.clone()).filter(|_| has(ProcessRole::Fanout)) {
        services.signals = Some(fanout(config, store, fallback, &mut commons)?);
    }
    let local = services.ingest.clone().map(|(ingest, _)| (commons.me.clone(), ingest));
    let ingest = Arc::new(RemoteIngest::new(commons.directory.clone(), local));
    // Its streams are open from the start, and other roles may not call ingest.
    if has(ProcessRole::Gateway) || has(ProcessRole::Api) {
        let carrying = ingest.clone();
        commons.background.spawn(async move { match carrying.run().await {} });
    }
    let mut api = None;
    if let Some((store, fallback)) = store.as_ref().zip(fallback).filter(|_| has(ProcessRole::Api)) {
        let keys = keys(config, &*commons.clock)?;
        ring = Some(keys.ring.clone());
        let asserter = assertion_key.map(|key| asserter(config, key, &commons));
        let asserted: Arc<dyn Ingest> = match asserter.clone() {
            Some(asserter) => Arc::new(AssertingIngest::new(ingest.clone(), asserter)),
            None => ingest.clone(),
        };
        let rest = self::api(config, store, keys, asserted, fallback, security_events.clone(), &mut commons)?;
        let auth: Arc<dyn Identity> = Arc::new(rest.auth);
        services.identity = Some(match asserter {
            Some(asserter) => Arc::new(AssertingIdentity::new(auth, asserter)),
            None => auth,
        });
        services.presences = Some(rest.presence);
        services.webhook = rest.outward.webhook.clone().map(|webhook| webhook as Arc<dyn WebhookPause>);
        outward = Some(rest.outward);
        records = Some(rest.records);
        api = Some(rest.api);
    }
    if has(ProcessRole::Gateway) {
        let identity = match &services.identity {
            Some(own) => own.clone(),
            None => Arc::new(RemoteIdentity::new(commons.directory.clone())),
        };
        let presences = match &services.presences {
            Some(own) => own.clone(),
            None => Arc::new(RemotePresences::new(commons.directory.clone())),
        };
        let gateway = gateway(config, identity, presences, ingest, signals, &mut commons).await;
        services.delivery = Some((gateway.hub.id().clone(), gateway.hub.clone()));
        hub = Some(gateway.hub.clone());
        announced = Some(gateway.clone());
        app = app.merge(gateway::router(gateway));
    }

    let relay = match (store, producer) {
        (Some(store), Some(producer)) => Some(RunningRelay::start(store, producer, commons.clock.clone())),
        _ => None,
    };
    let SharedAdapters { me, clock, peers, routes, mut background, dependencies, logs, mut left, .. } = commons;
    let requests = Requests::default();
    left.push(requests.left());
    let drain = Arc::new(Drain::of(hub.clone(), left));
    let liveness = Liveness::new("the process", config.stuck_after());
    let beating = liveness.clone();
    // Every wait in a fleet's process has a deadline, so the liveness check only has to show that its tasks run at all.
    background.spawn(async move { beating.keep_beating(tokio::task::yield_now).await });
    let standing = HealthState { dependencies: dependencies.into(), drain: drain.clone(), liveness };
    background.spawn(health::measure(standing.clone()));
    app = app.merge(health::router(standing.clone()));
    if let Some(api) = api {
        let pages = web::public(config.site());
        app = chats::router(api, app).merge(pages);
    }
    let node = NodeInfo {
        id: me.id.clone(),
        roles: roles.clone(),
        started_at: clock.now(),
        listeners: config.addresses(),
        fleet: Some(admin::FleetInfo { address: me.address.clone(), peers: peers.clone() }),
    };
    let admin = AdminState {
        operators: Arc::new(open_operators(config).await?),
        security: security_events,
        trail: AuditTrail::new(&config.data_dir),
        node: Arc::new(node),
        // Kafka's consumers report their lag as a metric.
        pulse: Arc::new(Pulse::new(vec![])),
        routes,
        hub: hub.clone(),
        drain: drain.clone(),
        records,
        outward,
        auditable: None,
        backups: None,
    };
    let mut listeners = JoinSet::new();
    listeners.spawn(serve_calls(listener, services, security, stopped));
    let announcing = background.spawn(announce(peers.clone(), me.clone(), roles.clone(), announced, drain));
    let membership = Membership { peers, me, roles, announcing, relay, logs };
    info!(id = &*membership.me.id, address = &*membership.me.address, roles = config.roles, "member of the fleet");
    Ok(ComposedService {
        app: requests.counted(app),
        admin,
        hub,
        keys: ring,
        standing,
        listeners,
        commits,
        background,
        engine: Box::new(membership),
    })
}

/// Whether ingest refuses calls without an assertion. It counts them during an upgrade.
fn assertion_policy(config: &Config, key: Option<AssertionKey>) -> anyhow::Result<AssertionPolicy> {
    if config.rpc.upgrading {
        return Ok(AssertionPolicy::Counted(key));
    }
    Ok(AssertionPolicy::Required(key.context("`rpc.assertion_secret_file` is missing")?))
}

/// Issues assertions for the users that this process authenticates.
fn asserter(config: &Config, key: AssertionKey, commons: &SharedAdapters) -> Asserter {
    Asserter::new(key, Duration::from_secs(config.rpc.assertion_seconds), commons.clock.clone())
}

fn commons(
    config: &Config,
    roles: Vec<ProcessRole>,
    address: String,
    security: rpc::Security,
) -> anyhow::Result<SharedAdapters> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let redis = Redis::open(engines::redis(config)?, clock.clone()).context("Redis cannot be used")?;
    let peers: Arc<dyn PeerRegistry> = Arc::new(RedisPeers::new(redis.clone()));
    let rpc_config = rpc::Config::new(ProcessRole::ALL.to_vec());
    let directory = Arc::new(Directory::new(peers.clone(), security, rpc_config).context("`rpc` is not usable")?);
    let mut background = JoinSet::new();
    let following = directory.clone();
    background.spawn(async move { match following.run().await {} });
    let measuring = RedisMetrics::new(redis.clone());
    background.spawn(async move { match measuring.run().await {} });
    let routes = Arc::new(RedisRoutes::new(redis.clone(), config.expiry()));
    let shared = Arc::new(RedisLimits::new(redis.clone()));
    let limits = OutageLimits::new(shared, Arc::new(MemoryLimits::new(clock.clone())));
    let limiter = Arc::new(PortionedLimits::new(Arc::new(limits)));
    let me = PeerProcess { id: ids.ulid().to_string().into(), address: address.into() };
    let health = redis.clone();
    let dependencies = vec![Dependency::new("redis", &roles, move || health.health())];
    Ok(SharedAdapters {
        me,
        clock,
        ids,
        redis,
        peers,
        directory,
        routes,
        limiter,
        background,
        roles,
        dependencies,
        logs: vec![],
        left: vec![],
    })
}

/// The delivery path to the gateways, which also works while Redis is unavailable.
fn fallback(commons: &mut SharedAdapters) -> Arc<Fallback> {
    let redis = &commons.redis;
    let shared = Shared {
        routes: commons.routes.clone(),
        recipients: Arc::new(RedisRecipients::new(commons.routes.clone())),
        cache: Arc::new(RedisMemberCache::new(redis.clone())),
        delivery: Arc::new(RedisDelivery::new(redis.clone())),
        peers: commons.peers.clone(),
    };
    let direct = Arc::new(RemoteDelivery::new(commons.directory.clone()));
    let repeating = direct.clone();
    commons.background.spawn(async move { match repeating.run().await {} });
    let fallback = Arc::new(Fallback::new(shared, direct));
    let watching = fallback.clone();
    commons.background.spawn(async move { watching.run().await });
    fallback
}

async fn open_store(config: &Config, commons: &mut SharedAdapters) -> Arc<DynamoStore> {
    let settings = engines::dynamodb(config);
    let client = dynamodb::connect(&settings).await;
    let store = Arc::new(DynamoStore::new(client, &settings, commons.clock.clone(), commons.ids.clone()));
    let health = store.clone();
    commons.depend_on("dynamodb", move || health.health());
    let unpublished = store.clone();
    commons.left.push(("unpublished", Arc::new(move || unpublished.waiting_for_relay())));
    store
}

fn open_producer(config: &Config, commons: &mut SharedAdapters) -> anyhow::Result<Arc<KafkaProducer>> {
    let producer = KafkaProducer::open(engines::kafka(config)?, commons.clock.clone());
    let producer = Arc::new(producer.context("Kafka cannot be used")?);
    let health = producer.clone();
    commons.depend_on("kafka", move || health.health());
    Ok(producer)
}

/// The durability plane. It writes, and publishes through the relay.
fn ingest(
    config: &Config,
    store: &Arc<DynamoStore>,
    signals: Arc<dyn SignalSender>,
    commons: &mut SharedAdapters,
    commits: &mut JoinSet<()>,
) -> Arc<dyn Ingest> {
    let purging = store.clone();
    commons.background.spawn(async move { purging.keep_purging().await });
    let ports = ingest::Ports {
        writer: store.clone(),
        messages: store.clone(),
        chats: store.clone(),
        watermarks: store.clone(),
        signals,
        clock: commons.clock.clone(),
        ids: commons.ids.clone(),
    };
    let configured = config.ingest();
    let config = ingest::Config {
        grouping: Grouping::ByChat { commits_max: COMMITS_MAX },
        // At most one transaction, so that no send waits for the transaction of a later one.
        batch_len_max: configured.batch_len_max.min(dynamodb::TRANSACTION_SENDS_MAX),
        ..configured
    };
    let ingester = Arc::new(Ingester::start(config, ports, commits));
    let sends = Arc::downgrade(&ingester);
    // The commits end when no `Ingester` is left, so this counter of queued sends holds a weak reference.
    let waiting = move || sends.upgrade().map_or(0, |ingester| ingester.waiting());
    commons.left.push(("sends", Arc::new(waiting)));
    ingester
}

/// The delivery plane. It can read chats and members from the store, and all of the log.
fn fanout(
    config: &Config,
    chats: Arc<dyn ChatReader>,
    fallback: Arc<Fallback>,
    commons: &mut SharedAdapters,
) -> anyhow::Result<Arc<dyn SignalSender>> {
    let log = KafkaLog::reading(engines::kafka(config)?, commons.clock.clone()).context("Kafka cannot be used")?;
    let log = Arc::new(log);
    let health = log.clone();
    commons.depend_on("kafka consumer", move || health.health());
    commons.logs.push(log.clone());
    let fanout = Arc::new(Fanout {
        chats,
        cache: fallback.clone(),
        recipients: fallback.clone(),
        routes: fallback.clone(),
        delivery: fallback,
        clock: commons.clock.clone(),
        small_members_max: Fanout::SMALL_MEMBERS_MAX,
        receipts: Receipts::default(),
    });
    spawn_fanout(&fanout, log, &mut commons.background);
    Ok(fanout)
}

/// REST, authentication, and outbound integrations.
fn api(
    config: &Config,
    store: &Arc<DynamoStore>,
    keys: InstallationKeys,
    ingest: Arc<dyn Ingest>,
    fallback: Arc<Fallback>,
    security: Arc<dyn SecurityEvents>,
    commons: &mut SharedAdapters,
) -> anyhow::Result<RestApi> {
    let log = KafkaLog::burying(engines::kafka(config)?, commons.clock.clone(), store.clone());
    let log = Arc::new(log.context("Kafka cannot be used")?);
    commons.logs.push(log.clone());
    let redis = &commons.redis;
    let ports = RestPorts {
        stores: Stores::on(store),
        log,
        outbox: Some(store.clone()),
        ingest,
        tickets: Arc::new(RedisTickets::new(redis.clone())),
        limiter: commons.limiter.clone(),
        delivery: fallback,
        // Not the routes of the fallback: while Redis is unavailable, it reports every user at every gateway.
        routes: commons.routes.clone(),
        transitions: commons.routes.clone(),
        notifier: Arc::new(RedisDelivery::new(redis.clone())),
        members: Arc::new(RedisMemberCache::new(redis.clone())),
        webhook_peers: Some(Arc::new(RemoteWebhooks::new(commons.directory.clone(), commons.me.id.clone()))),
        security,
        clock: commons.clock.clone(),
        ids: commons.ids.clone(),
    };
    rest(config, keys, ports, &mut commons.background)
}

/// The connection plane. It has no store and no log, and calls other processes instead.
async fn gateway(
    config: &Config,
    identity: Arc<dyn Identity>,
    presences: Arc<dyn PresenceReader>,
    ingest: Arc<dyn Ingest>,
    signals: Arc<dyn SignalSender>,
    commons: &mut SharedAdapters,
) -> Arc<Gateway> {
    let hub = Arc::new(Hub::new(GatewayId(commons.me.id.clone()), config.gateway.connections_max));
    let inbox = Inbox::new(commons.redis.clone(), hub.id().clone(), hub.clone());
    let mut state = inbox.state();
    commons.background.spawn(async move { match inbox.run().await {} });
    if tokio::time::timeout(LISTEN_PATIENCE, state.wait_for(|state| state.listening)).await.is_err() {
        warn!("this gateway has no Redis subscription yet; pushes arrive directly until it has");
    }
    let gateway = Arc::new(Gateway {
        config: config.gateway(),
        hub,
        identity,
        ingest,
        signals,
        limiter: commons.limiter.clone(),
        presences,
        routes: commons.routes.clone(),
        route_writer: commons.routes.clone(),
        displacement: Arc::new(RedisDelivery::new(commons.redis.clone())),
        clock: commons.clock.clone(),
        ids: commons.ids.clone(),
    });
    spawn_gateway(&gateway, &mut commons.background);
    commons.background.spawn(watch_gaps(gateway.clone(), state));
    gateway
}

/// Resyncs clients after each gap in which the inbox may have missed pushes.
async fn watch_gaps(gateway: Arc<Gateway>, mut state: watch::Receiver<InboxState>) {
    let mut gaps = state.borrow_and_update().gaps;
    while state.changed().await.is_ok() {
        let now = state.borrow_and_update().gaps;
        if now > gaps {
            gaps = now;
            gateway.make_up_for_gap().await;
        }
    }
}

/// The keys of the fleet, which each process with the role `api` derives from the master secret.
fn keys(config: &Config, clock: &dyn Clock) -> anyhow::Result<InstallationKeys> {
    let secret = MasterSecret::read(Path::new(&config.auth.secret_file)).context("`auth.secret_file` is not usable")?;
    let vapid = config.notify.webpush.enabled.then(|| Arc::new(VapidKeys::derived(&secret)));
    let auth_config = auth_config(config)?;
    let ring = Arc::new(KeyRing::derived(secret, &auth_config, clock.now()));
    Ok(InstallationKeys { config: auth_config, ring, vapid })
}

async fn open_operators(config: &Config) -> anyhow::Result<Operators> {
    let (directory, file) = (config.data_dir.clone(), config.admin.operators_file.clone());
    let opening = move || {
        embedded::private_directory(&directory).context("`data_dir` is not usable")?;
        Operators::open(&directory, &file)
    };
    tokio::task::spawn_blocking(opening).await?
}

async fn serve_calls(
    listener: tokio::net::TcpListener,
    services: RpcServices,
    security: rpc::Security,
    mut stopped: watch::Receiver<bool>,
) {
    let stop = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    if let Err(failure) = rpc::serve(listener, services, security, stop).await {
        warn!(error = &failure as &dyn std::error::Error, "the listener for calls of other processes failed");
    }
}

/// Announces this process at an interval. During a drain by an operator it withdraws all roles except `gateway`, so
/// that peers stop calling it, while its remaining clients still receive pushes.
async fn announce(
    peers: Arc<dyn PeerRegistry>,
    me: PeerProcess,
    roles: Vec<ProcessRole>,
    gateway: Option<Arc<Gateway>>,
    drain: Arc<Drain>,
) {
    loop {
        let (leaving, staying): (Vec<_>, Vec<_>) =
            roles.iter().partition(|role| drain.is_asked() && **role != ProcessRole::Gateway);
        let announced = async {
            if !leaving.is_empty() {
                peers.leave(&me, &leaving).await?;
            }
            peers.announce(&me, &staying).await
        };
        match (announced.await, &gateway) {
            (Ok(()), Some(gateway)) => gateway.handle_announced().await,
            (Ok(()), None) => {}
            (Err(failure), _) => {
                let error: &dyn std::error::Error = &failure;
                warn!(error, "could not announce this process; retrying, and peers keep using their current list");
            }
        }
        tokio::time::sleep(ANNOUNCE_INTERVAL).await;
    }
}

/// The membership of this process in the fleet.
struct Membership {
    peers: Arc<dyn PeerRegistry>,
    me: PeerProcess,
    roles: Vec<ProcessRole>,
    announcing: AbortHandle,
    relay: Option<RunningRelay>,
    logs: Vec<Arc<KafkaLog>>,
}

#[async_trait]
impl RunningEngine for Membership {
    async fn leave(&self) {
        // Otherwise the next announcement would register it again while it drains.
        self.announcing.abort();
        if let Err(failure) = self.peers.leave(&self.me, &self.roles).await {
            warn!(
                error = &failure as &dyn std::error::Error,
                "could not deregister; peers notice when the lease expires"
            );
        }
    }

    /// Completes when the relay has ended, so that committed events are no longer published.
    async fn failed(&mut self) -> anyhow::Error {
        match &mut self.relay {
            Some(relay) => {
                let end = relay.task.join_next().await;
                anyhow::anyhow!("the relay has ended: {end:?}")
            }
            None => std::future::pending().await,
        }
    }

    async fn close(self: Box<Self>) {
        let Self { relay, logs, .. } = *self;
        let relayed = async {
            if let Some(relay) = relay {
                relay.finish().await;
            }
        };
        let left = tokio::time::timeout(LEAVE_PATIENCE, join_all(logs.iter().map(|log| log.left())));
        if let ((), Err(_)) = tokio::join!(relayed, left) {
            warn!("consumers did not leave their groups in time; the brokers notice when their sessions expire");
        }
    }
}

/// The relay of a process that commits events.
struct RunningRelay {
    task: JoinSet<()>,
    stop: oneshot::Sender<()>,
}

impl RunningRelay {
    /// How long a shutdown waits for the last events to be published. After that another relay publishes them.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn start(store: Arc<DynamoStore>, producer: Arc<dyn EventProducer>, clock: Arc<dyn Clock>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let relay = Relay { outbox: store, producer, clock };
        let mut task = JoinSet::new();
        task.spawn(async move { relay.run(async { drop(stopped.await) }).await });
        Self { task, stop }
    }

    async fn finish(mut self) {
        // Fails if the relay has already ended.
        let _ = self.stop.send(());
        if tokio::time::timeout(Self::PATIENCE, self.task.join_next()).await.is_err() {
            warn!("the relay did not finish in time; another relay publishes the last events");
        }
    }
}

#[cfg(test)]
mod tests {
    use memory::MemoryPeers;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drained_process_withdraws_all_roles_but_gateway() {
        let peers: Arc<dyn PeerRegistry> = Arc::new(MemoryPeers::new(Arc::new(SystemClock)));
        let me = PeerProcess { id: "me".into(), address: "10.0.0.1:7400".into() };
        let drain = Arc::new(Drain::of(None, []));
        let announcing = announce(peers.clone(), me.clone(), ProcessRole::ALL.to_vec(), None, drain.clone());
        let announcing = tokio::spawn(announcing);
        let known = async || {
            // Wait for at least one announcement, in either order of simultaneous timers.
            tokio::time::sleep(2 * ANNOUNCE_INTERVAL).await;
            let mut known = vec![];
            for role in ProcessRole::ALL {
                if peers.peers(role).await.unwrap() == [me.clone()] {
                    known.push(role);
                }
            }
            known
        };
        assert_eq!(known().await, ProcessRole::ALL);
        drain.begin();
        assert_eq!(known().await, [ProcessRole::Gateway]);
        drain.end();
        assert_eq!(known().await, ProcessRole::ALL);
        announcing.abort();
    }
}
