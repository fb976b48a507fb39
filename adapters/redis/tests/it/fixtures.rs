use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, Timestamp, UserId};
use futures_util::future::join_all;
use memory::ManualClock;
use ports::{
    Clock, ConnectionDisplacer, Delivery, GatewayId, Ids, PeerProcess, PresenceNotifier, PresenceUpdate, Push,
    RandomIds, Revocation, Route, RouteWriter, StoreError, SystemClock,
};
use tidings_redis::{Config, Inbox, InboxState, Nodes, Redis, RedisRoutes};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time;
use uuid::Uuid;

use crate::engine::{command, start_cluster};

/// Declares a test for each function, once with a single Redis and once with a cluster.
macro_rules! on_one_and_on_a_cluster {
    ($($behaviour:ident),* $(,)?) => {
        mod one {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    super::$behaviour($crate::fixtures::World::one().await).await;
                }
            )*
        }
        mod cluster {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    super::$behaviour($crate::fixtures::World::cluster().await).await;
                }
            )*
        }
    };
}
pub(crate) use on_one_and_on_a_cluster;

/// How long a heartbeat of a gateway is valid.
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);

/// Servers, and a client on a manual clock.
pub(crate) struct World {
    pub(crate) engines: Vec<engines::Redis>,
    pub(crate) config: Config,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) redis: Redis,
}

impl World {
    pub(crate) async fn one() -> Self {
        let engine = engines::Redis::start().await;
        let config = Config::new(Nodes::Single(engine.url().parse().unwrap()));
        Self::new(vec![engine], config)
    }

    pub(crate) async fn cluster() -> Self {
        let engines = start_cluster(&[]).await;
        let config = Config::new(Nodes::Cluster(engines.iter().map(|engine| engine.url().parse().unwrap()).collect()));
        Self::new(engines, config)
    }

    pub(crate) fn new(engines: Vec<engines::Redis>, config: Config) -> Self {
        let clock = Arc::new(ManualClock::at(SystemClock.now()));
        let redis = Redis::open(config.clone(), clock.clone()).unwrap();
        Self { engines, config, clock, redis }
    }

    /// The routes as seen by one process.
    pub(crate) fn routes(&self) -> RedisRoutes {
        RedisRoutes::new(self.redis.clone(), EXPIRY)
    }

    /// Stops all servers at the same time, so that no client fails over to another.
    pub(crate) async fn stop(&mut self) {
        join_all(self.engines.iter_mut().map(engines::Redis::stop)).await;
    }

    pub(crate) fn flush(&self) {
        self.engines.iter().for_each(|engine| command(engine, "FLUSHALL"));
    }

    /// All matching keys, with their servers.
    pub(crate) fn keys(&self, pattern: &str) -> Vec<(&engines::Redis, String)> {
        let keys = |engine: &engines::Redis| command::<Vec<String>>(engine, &format!("KEYS {pattern}"));
        self.engines.iter().flat_map(|engine| keys(engine).into_iter().map(move |key| (engine, key))).collect()
    }

    /// How often the servers have run a command, in total.
    pub(crate) fn calls(&self, command: &str) -> usize {
        self.all_calls().get(command).copied().unwrap_or(0)
    }

    /// The servers' own count of processed commands, including those within scripts.
    pub(crate) fn commands_processed(&self) -> usize {
        let stats = self.engines.iter().map(|engine| command::<String>(engine, "INFO stats"));
        let counts = stats.map(|stats| {
            let count = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
            count.parse::<usize>().unwrap()
        });
        counts.sum()
    }

    /// The number of calls of each command, including those within scripts.
    pub(crate) fn all_calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for stats in self.engines.iter().map(|engine| command::<String>(engine, "INFO commandstats")) {
            for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
                let (command, count) = line.split_once(":calls=").unwrap();
                let count: usize = count.split(',').next().unwrap().parse().unwrap();
                *calls.entry(command.to_owned()).or_default() += count;
            }
        }
        calls
    }
}

/// The value of a field in the hash under the only matching key.
pub(crate) fn field(world: &World, pattern: &str, name: &str) -> Option<String> {
    let keys = world.keys(pattern);
    let [(engine, key)] = &keys[..] else { panic!("{} keys match {pattern}", keys.len()) };
    command(engine, &format!("HGET {key} {name}"))
}

/// Records the deliveries to a gateway.
pub(crate) struct InboxRecorder(mpsc::UnboundedSender<Delivered>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Pushes(GatewayId, Vec<Push>),
    Revoked(Revocation),
    Displaced(GatewayId, UserId, ConnectionId),
    Told(GatewayId, Vec<PresenceUpdate>),
}

#[async_trait]
impl Delivery for InboxRecorder {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        self.0.send(Delivered::Pushes(gateway.clone(), pushes.to_vec())).map_err(StoreError::unavailable)
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.0.send(Delivered::Revoked(revocation)).map_err(StoreError::unavailable)
    }
}

#[async_trait]
impl ConnectionDisplacer for InboxRecorder {
    async fn displace(
        &self,
        gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError> {
        self.0.send(Delivered::Displaced(gateway.clone(), user_id, connection_id)).map_err(StoreError::unavailable)
    }
}

#[async_trait]
impl PresenceNotifier for InboxRecorder {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        self.0.send(Delivered::Told(gateway.clone(), updates)).map_err(StoreError::unavailable)
    }
}

/// A running inbox with its deliveries.
pub(crate) struct InboxListener {
    pub(crate) state: watch::Receiver<InboxState>,
    delivered: mpsc::UnboundedReceiver<Delivered>,
    _task: JoinSet<()>,
}

impl InboxListener {
    /// Starts an inbox and waits until it is subscribed.
    pub(crate) async fn start(redis: &Redis, name: &str) -> Self {
        let (sender, delivered) = mpsc::unbounded_channel();
        let inbox = Inbox::new(redis.clone(), gateway(name), Arc::new(InboxRecorder(sender)));
        let state = inbox.state();
        let mut task = JoinSet::new();
        task.spawn(async move { match inbox.run().await {} });
        let mut listener = Self { state, delivered, _task: task };
        listener.until(|state| state.listening).await;
        listener
    }

    pub(crate) async fn until(&mut self, wanted: impl FnMut(&InboxState) -> bool) -> InboxState {
        *soon(self.state.wait_for(wanted)).await.expect("the inbox runs")
    }

    pub(crate) async fn next(&mut self) -> Delivered {
        soon(self.delivered.recv()).await.expect("the inbox runs")
    }
}

/// Fails the test if the event does not happen in time.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    time::timeout(Duration::from_secs(20), event).await.expect("it happens soon")
}

pub(crate) fn gateway(name: &str) -> GatewayId {
    GatewayId(name.into())
}

pub(crate) fn user() -> UserId {
    RandomIds.ulid().into()
}

pub(crate) fn chat() -> ChatId {
    RandomIds.ulid().into()
}

pub(crate) fn route(user_id: UserId, on: &str) -> Route {
    let (connection_id, device_id) = (RandomIds.ulid().into(), Uuid::new_v4().into());
    Route { connection_id, user_id, device_id, gateway: gateway(on), connected_at: Timestamp::from_millis(1) }
}

/// Registers routes at live gateways.
pub(crate) async fn register(routes: &RedisRoutes, registered: &[Route]) {
    for route in registered {
        routes.heartbeat(&route.gateway).await.unwrap();
        routes.register(route).await.unwrap();
    }
}

pub(crate) fn peer(id: &str) -> PeerProcess {
    PeerProcess { id: id.into(), address: "127.0.0.1:7000".into() }
}

pub(crate) fn push(recipients: Vec<UserId>, frame: &str) -> Push {
    Push { recipients, except: None, frame: frame.to_owned().into(), trace: None }
}
