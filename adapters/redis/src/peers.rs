use std::time::Duration;

use async_trait::async_trait;
use ports::{Peer, Peers, ProcessRole, StoreError};

use crate::call::{Call, TOUCH_MEMBERS};
use crate::client::Redis;
use crate::keys;

/// How long a process is known unless it is announced again.
const LIFE: Duration = Duration::from_secs(15);

/// The processes of a fleet.
///
/// A role is one set, in which each process is scored by its own expiry, as connections are among the routes.
pub struct RedisPeers {
    redis: Redis,
}

impl RedisPeers {
    /// The processes that this Redis knows.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl Peers for RedisPeers {
    async fn announce(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let now = self.redis.now();
        let (now_ms, expiry_ms, life_ms) = (now.as_millis(), (now + LIFE).as_millis(), LIFE.as_millis() as u64);
        let touch = |role: &ProcessRole| {
            TOUCH_MEMBERS.call([&keys::peers(*role)]).arg(now_ms).arg(expiry_ms).arg(life_ms).arg(member(peer))
        };
        self.redis.run::<()>(&roles.iter().map(touch).collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn leave(&self, peer: &Peer, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let calls = roles.iter().map(|role| Call::new("ZREM", &keys::peers(*role)).arg(member(peer)));
        self.redis.run::<()>(&calls.collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<Peer>, StoreError> {
        let members: Vec<String> = self.redis.run_one(Call::live(&keys::peers(role), self.redis.now())).await?;
        let peers: Option<Vec<Peer>> = members.iter().map(|member| parse(member)).collect();
        let mut peers = peers
            .ok_or_else(|| StoreError::Corrupt { table: "peers", source: "a process without an address".into() })?;
        peers.sort();
        Ok(peers)
    }
}

fn member(peer: &Peer) -> String {
    format!("{} {}", peer.id, peer.address)
}

/// Addresses have no space in them, whatever ids are made of.
fn parse(member: &str) -> Option<Peer> {
    let (id, address) = member.rsplit_once(' ')?;
    Some(Peer { id: id.into(), address: address.into() })
}
