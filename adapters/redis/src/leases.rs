use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use ports::{GatewayId, StoreError};

use crate::call::{BEAT, Call};
use crate::client::Redis;
use crate::keys;

/// How long what was read is good for those who find in it what they look for.
const READ_LIFE: Duration = Duration::from_secs(5);
/// How long it is for those who do not: a dead gateway whose routes are not swept yet is asked for again and again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long the set of all gateways outlives the last beat of any: long enough that whoever sweeps finds the dead.
const SET_LIFE: Duration = Duration::from_secs(3600);

/// Which gateways beat, and a copy of it in this process, so that a lookup of routes need not ask.
///
/// A copy is never wrong about a gateway that has died: a beat holds until its own expiry, whoever remembers it. A
/// gateway that is not in it is looked for.
pub(crate) struct Leases {
    redis: Redis,
    expiry: Duration,
    copy: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    held: Arc<Held>,
    read_at: Option<Timestamp>,
}

/// When the beat of each gateway holds no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held(BTreeMap<GatewayId, Timestamp>);

impl Held {
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

    /// How long a beat holds.
    pub(crate) fn expiry(&self) -> Duration {
        self.expiry
    }

    /// Holds a gateway up, and says whether it was.
    pub(crate) async fn beat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
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

    /// The gateways that beat, as Redis has them now.
    pub(crate) async fn read(&self) -> Result<Arc<Held>, StoreError> {
        let now = self.redis.now();
        let servers: Vec<(String, f64)> = self.redis.run_one(Call::live(keys::SERVERS, now).arg("WITHSCORES")).await?;
        let held = servers.into_iter().map(|(server, expiry)| {
            // Scores are whole milliseconds, far below what a float holds exactly.
            (GatewayId(server.into()), Timestamp::from_millis(expiry as u64))
        });
        Ok(self.remember(held.collect(), now, Some(now)))
    }

    /// The gateways that beat, as they were known a moment ago.
    pub(crate) async fn recent(&self) -> Result<Arc<Held>, StoreError> {
        self.read_before(READ_LIFE).await
    }

    /// The same for somebody who did not find a gateway in it.
    pub(crate) async fn look_again(&self) -> Result<Arc<Held>, StoreError> {
        self.read_before(LOOK_AGAIN).await
    }

    async fn read_before(&self, age: Duration) -> Result<Arc<Held>, StoreError> {
        {
            let copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
            if copy.read_at.is_some_and(|read_at| self.redis.now().since(read_at) < age) {
                return Ok(copy.held.clone());
            }
        }
        self.read().await
    }

    /// Adds to the copy. A beat of this process may have come since Redis was asked, so none is taken back.
    fn remember(&self, held: BTreeMap<GatewayId, Timestamp>, now: Timestamp, read_at: Option<Timestamp>) -> Arc<Held> {
        // Nothing that runs under this lock can leave the copy half changed.
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
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
