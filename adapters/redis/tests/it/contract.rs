//! Redis keeps every promise of the ports that it serves, alone and as a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use domain::Timestamp;
use ports::contract::{Routing, Timed};
use ports::{MemberCache, Peers, RateLimiter, StoreError, Ticket, TicketStore};
use tidings_redis::{Redis, RedisLimits, RedisMemberCache, RedisPeers, RedisRoutes, RedisTickets};

use crate::fixtures::{EXPIRY, World};

mod one {
    use super::*;

    ports::contract_tests!(tickets: tickets(World::one().await));
    ports::contract_tests!(limits: limits(World::one().await));
    ports::contract_tests!(routes: routes(World::one().await));
    ports::contract_tests!(transitions: routes(World::one().await));
    ports::contract_tests!(member_cache: member_cache(World::one().await));
    ports::contract_tests!(peers: peers(World::one().await));
}

mod cluster {
    use super::*;

    ports::contract_tests!(tickets: tickets(World::cluster().await));
    ports::contract_tests!(limits: limits(World::cluster().await));
    ports::contract_tests!(routes: routes(World::cluster().await));
    ports::contract_tests!(transitions: routes(World::cluster().await));
    ports::contract_tests!(member_cache: member_cache(World::cluster().await));
    ports::contract_tests!(peers: peers(World::cluster().await));
}

fn limits(world: World) -> Timed<dyn RateLimiter> {
    timed(world, |redis| Arc::new(RedisLimits::new(redis)) as Arc<dyn RateLimiter>)
}

fn routes(world: World) -> Timed<dyn Routing> {
    timed(world, |redis| Arc::new(RedisRoutes::new(redis, EXPIRY)) as Arc<dyn Routing>)
}

fn member_cache(world: World) -> Timed<dyn MemberCache> {
    timed(world, |redis| Arc::new(RedisMemberCache::new(redis)) as Arc<dyn MemberCache>)
}

fn peers(world: World) -> Timed<dyn Peers> {
    timed(world, |redis| Arc::new(RedisPeers::new(redis)) as Arc<dyn Peers>)
}

/// A port on a clock that the contract moves. The servers live as long as the hand on it.
fn timed<P: ?Sized>(world: World, port: impl FnOnce(Redis) -> Arc<P>) -> Timed<P> {
    let port = port(world.redis.clone());
    let pass = move |duration| {
        // The closure would own the clock alone, if it were not for this.
        let world = &world;
        world.clock.advance(duration);
    };
    Timed { port, pass: Box::new(pass) }
}

fn tickets(world: World) -> Arc<dyn TicketStore> {
    Arc::new(Kept { tickets: RedisTickets::new(world.redis.clone()), _world: world })
}

/// Tickets with the servers that keep them.
struct Kept {
    tickets: RedisTickets,
    _world: World,
}

#[async_trait]
impl TicketStore for Kept {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        self.tickets.put(digest, ticket).await
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        self.tickets.take(digest, now).await
    }
}
