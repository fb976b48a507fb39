use std::time::Duration;

use async_trait::async_trait;
use ports::{PeerProcess, PeerRegistry, ProcessRole, StoreError};

use crate::call::{SlotCommand, TOUCH_MEMBERS};
use crate::client::Redis;
use crate::keys;

/// Lifetime of a registration, unless the process renews it.
const LIFE: Duration = Duration::from_secs(15);

/// The registered processes of a fleet.
///
/// A role is one sorted set, in which each process is scored by its own expiry.
pub struct RedisPeers {
    redis: Redis,
}

impl RedisPeers {
    /// The processes in this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl PeerRegistry for RedisPeers {
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let now = self.redis.now();
        let (now_ms, expiry_ms, life_ms) = (now.as_millis(), (now + LIFE).as_millis(), LIFE.as_millis() as u64);
        let touch = |role: &ProcessRole| {
            TOUCH_MEMBERS.call([&keys::peers(*role)]).arg(now_ms).arg(expiry_ms).arg(life_ms).arg(member(peer))
        };
        self.redis.run::<()>(&roles.iter().map(touch).collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let calls = roles.iter().map(|role| SlotCommand::new("ZREM", &keys::peers(*role)).arg(member(peer)));
        self.redis.run::<()>(&calls.collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError> {
        let members: Vec<String> = self.redis.run_one(SlotCommand::live(&keys::peers(role), self.redis.now())).await?;
        let peers: Option<Vec<PeerProcess>> = members.iter().map(|member| parse(member)).collect();
        let mut peers = peers
            .ok_or_else(|| StoreError::Corrupt { table: "peers", source: "a process without an address".into() })?;
        peers.sort();
        Ok(peers)
    }
}

fn member(peer: &PeerProcess) -> String {
    format!("{} {}", peer.id, peer.address)
}

/// An address contains no space; an id may.
fn parse(member: &str) -> Option<PeerProcess> {
    let (id, address) = member.rsplit_once(' ')?;
    Some(PeerProcess { id: id.into(), address: address.into() })
}
