use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, SessionId, Timestamp, UserId};
use futures_util::future::join_all;
use memory::ManualClock;
use ports::{
    Clock, Delivery, Displacement, GatewayId, Ids, Peer, PresenceNews, Push, RandomIds, Route, RouteWriter, StoreError,
    SystemClock, Watchers,
};
use tidings_redis::{Config, Inbox, InboxState, Nodes, Redis, RedisRoutes};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time;
use uuid::Uuid;

use crate::engine::{command, start_cluster};

/// Makes a test of each function, once with one Redis and once with a cluster.
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

/// How long a beat of a gateway holds.
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);

/// Servers, and a way to them on a clock that the test moves.
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

    /// The routes as one process sees them.
    pub(crate) fn routes(&self) -> RedisRoutes {
        RedisRoutes::new(self.redis.clone(), EXPIRY)
    }

    /// Ends all servers at the same moment, so that no client that has lost one finds another.
    pub(crate) async fn stop(&mut self) {
        join_all(self.engines.iter_mut().map(engines::Redis::stop)).await;
    }

    pub(crate) fn flush(&self) {
        self.engines.iter().for_each(|engine| command(engine, "FLUSHALL"));
    }

    /// All keys that match, and where they are.
    pub(crate) fn keys(&self, pattern: &str) -> Vec<(&engines::Redis, String)> {
        let keys = |engine: &engines::Redis| command::<Vec<String>>(engine, &format!("KEYS {pattern}"));
        self.engines.iter().flat_map(|engine| keys(engine).into_iter().map(move |key| (engine, key))).collect()
    }

    /// How often the servers were asked to do something, all together.
    pub(crate) fn calls(&self, command: &str) -> usize {
        self.all_calls().get(command).copied().unwrap_or(0)
    }

    /// How many commands the servers have run by their own count, those within scripts too.
    pub(crate) fn commands_processed(&self) -> usize {
        let stats = self.engines.iter().map(|engine| command::<String>(engine, "INFO stats"));
        let counts = stats.map(|stats| {
            let count = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
            count.parse::<usize>().unwrap()
        });
        counts.sum()
    }

    /// The same for everything they were asked to do, by scripts too.
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

/// The value of a field, in the hash under the one key that matches.
pub(crate) fn field(world: &World, pattern: &str, name: &str) -> Option<String> {
    let keys = world.keys(pattern);
    let [(engine, key)] = &keys[..] else { panic!("{} keys match {pattern}", keys.len()) };
    command(engine, &format!("HGET {key} {name}"))
}

/// Keeps what a gateway was sent.
pub(crate) struct Recorder(mpsc::UnboundedSender<Delivered>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Pushes(GatewayId, Vec<Push>),
    Revoked(SessionId),
    Displaced(GatewayId, UserId, ConnectionId),
    Told(GatewayId, Vec<PresenceNews>),
}

#[async_trait]
impl Delivery for Recorder {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        self.0.send(Delivered::Pushes(gateway.clone(), pushes.to_vec())).map_err(StoreError::unavailable)
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        self.0.send(Delivered::Revoked(session_id)).map_err(StoreError::unavailable)
    }
}

#[async_trait]
impl Displacement for Recorder {
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
impl Watchers for Recorder {
    async fn tell(&self, gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError> {
        self.0.send(Delivered::Told(gateway.clone(), news)).map_err(StoreError::unavailable)
    }
}

/// An inbox that runs, and what came of it.
pub(crate) struct Listener {
    pub(crate) state: watch::Receiver<InboxState>,
    delivered: mpsc::UnboundedReceiver<Delivered>,
    _task: JoinSet<()>,
}

impl Listener {
    /// An inbox that listens.
    pub(crate) async fn start(redis: &Redis, name: &str) -> Self {
        let (sender, delivered) = mpsc::unbounded_channel();
        let inbox = Inbox::new(redis.clone(), gateway(name), Arc::new(Recorder(sender)));
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

/// What happens soon, or the test fails.
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

/// Registers routes at gateways that beat.
pub(crate) async fn register(routes: &RedisRoutes, registered: &[Route]) {
    for route in registered {
        routes.beat(&route.gateway).await.unwrap();
        routes.register(route).await.unwrap();
    }
}

pub(crate) fn peer(id: &str) -> Peer {
    Peer { id: id.into(), address: "127.0.0.1:7000".into() }
}

pub(crate) fn push(recipients: Vec<UserId>, frame: &str) -> Push {
    Push { recipients, except: None, frame: frame.to_owned().into(), trace: None }
}
