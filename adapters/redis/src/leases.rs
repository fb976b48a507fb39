use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Timestamp;
use ports::{GatewayId, StoreError, lock};

use crate::call::{BEAT, SlotCommand};
use crate::client::Redis;
use crate::keys;

/// Cache lifetime for lookups that find their gateways.
const READ_LIFE: Duration = Duration::from_secs(5);
/// Cache lifetime for lookups that miss a gateway. It limits reads for a dead gateway with routes that are not swept
/// yet.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Time to live of the set of gateways after the last heartbeat: long enough for a sweep to find dead gateways.
const SET_LIFE: Duration = Duration::from_secs(3600);

/// Tracks live gateways by their heartbeats, with a cache in this process, so that route lookups need no extra read.
///
/// The cache never keeps a dead gateway alive: each heartbeat has its own expiry, also in the cache. A gateway that is
/// missing from the cache is looked up in Redis.
pub(crate) struct Leases {
    redis: Redis,
    expiry: Duration,
    copy: Mutex<LeaseCache>,
}

#[derive(Default)]
struct LeaseCache {
    held: Arc<HeartbeatExpiries>,
    read_at: Option<Timestamp>,
}

/// The expiry of each gateway's last heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeartbeatExpiries(BTreeMap<GatewayId, Timestamp>);

impl HeartbeatExpiries {
    pub(crate) fn is_live(&self, gateway: &GatewayId, now: Timestamp) -> bool {
        self.0.get(gateway).is_some_and(|expires_at| *expires_at > now)
    }

    pub(crate) fn live(&self, now: Timestamp) -> Vec<GatewayId> {
        self.0.iter().filter(|(_, expires_at)| **expires_at > now).map(|(gateway, _)| gateway.clone()).collect()
    }
}

impl Leases {
    pub(crate) fn new(redis: Redis, expiry: Duration) -> Self {
        Self { redis, expiry, copy: Mutex::default() }
    }

    /// How long a heartbeat is valid.
    pub(crate) fn expiry(&self) -> Duration {
        self.expiry
    }

    /// Records a heartbeat of a gateway. Returns whether the gateway was live before.
    pub(crate) async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        let now = self.redis.now();
        let expires_at = now + self.expiry;
        let beat = BEAT
            .call([keys::SERVERS])
            .arg(now.as_millis())
            .arg(expires_at.as_millis())
            .arg(SET_LIFE.as_millis() as u64)
            .arg(&*gateway.0);
        let was_known = self.redis.run_one(beat).await?;
        self.remember([(gateway.clone(), expires_at)].into(), now, None);
        Ok(was_known)
    }

    /// The live gateways, read from Redis.
    pub(crate) async fn read(&self) -> Result<Arc<HeartbeatExpiries>, StoreError> {
        let now = self.redis.now();
        let servers: Vec<(String, f64)> =
            self.redis.run_one(SlotCommand::live(keys::SERVERS, now).arg("WITHSCORES")).await?;
        let held = servers.into_iter().map(|(server, expiry)| {
            // Scores are whole milliseconds, far below the limit up to which a float is exact.
            (GatewayId(server.into()), Timestamp::from_millis(expiry as u64))
        });
        Ok(self.remember(held.collect(), now, Some(now)))
    }

    /// The live gateways, from a recent cache.
    pub(crate) async fn recent(&self) -> Result<Arc<HeartbeatExpiries>, StoreError> {
        self.read_before(READ_LIFE).await
    }

    /// The live gateways, from a fresher cache, for a lookup that missed a gateway.
    pub(crate) async fn look_again(&self) -> Result<Arc<HeartbeatExpiries>, StoreError> {
        self.read_before(LOOK_AGAIN).await
    }

    async fn read_before(&self, age: Duration) -> Result<Arc<HeartbeatExpiries>, StoreError> {
        {
            let copy = lock(&self.copy);
            if copy.read_at.is_some_and(|read_at| self.redis.now().since(read_at) < age) {
                return Ok(copy.held.clone());
            }
        }
        self.read().await
    }

    /// Merges into the cache. A local heartbeat may be newer than the read, so expiries never decrease.
    fn remember(
        &self,
        held: BTreeMap<GatewayId, Timestamp>,
        now: Timestamp,
        read_at: Option<Timestamp>,
    ) -> Arc<HeartbeatExpiries> {
        let mut copy = lock(&self.copy);
        let known = &mut Arc::make_mut(&mut copy.held).0;
        known.retain(|_, expires_at| *expires_at > now);
        for (gateway, expires_at) in held {
            let latest = known.entry(gateway).or_insert(expires_at);
            *latest = expires_at.max(*latest);
        }
        copy.read_at = read_at.or(copy.read_at);
        copy.held.clone()
    }
}
