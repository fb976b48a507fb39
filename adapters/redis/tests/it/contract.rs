//! Redis fulfils the contracts of its ports, as a single server and as a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use contract::{RecipientPorts, Routing, Timed};
use domain::Timestamp;
use ports::{MemberCache, PeerRegistry, RateLimiter, RecipientLookup, SpentChallenge, StoreError, Ticket, TicketStore};
use tidings_redis::{Redis, RedisLimits, RedisMemberCache, RedisPeers, RedisRecipients, RedisRoutes, RedisTickets};

use crate::fixtures::{EXPIRY, World};

mod one {
    use super::*;

    contract::tests!(tickets: tickets(World::one().await));
    contract::tests!(limits: limits(World::one().await));
    contract::tests!(routes: routes(World::one().await));
    contract::tests!(transitions: routes(World::one().await));
    contract::tests!(member_cache: member_cache(World::one().await));
    contract::tests!(recipients: recipients(World::one().await));
    contract::tests!(peers: peers(World::one().await));
}

mod cluster {
    use super::*;

    contract::tests!(tickets: tickets(World::cluster().await));
    contract::tests!(limits: limits(World::cluster().await));
    contract::tests!(routes: routes(World::cluster().await));
    contract::tests!(transitions: routes(World::cluster().await));
    contract::tests!(member_cache: member_cache(World::cluster().await));
    contract::tests!(recipients: recipients(World::cluster().await));
    contract::tests!(peers: peers(World::cluster().await));
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

fn recipients(world: World) -> Timed<RecipientPorts> {
    timed(world, |redis| {
        let routes = [(); 2].map(|()| Arc::new(RedisRoutes::new(redis.clone(), EXPIRY)));
        let lookups = routes.clone().map(|routes| Arc::new(RedisRecipients::new(routes)) as Arc<dyn RecipientLookup>);
        let [routes, _] = routes;
        Arc::new(RecipientPorts { lookups, routes, cache: Arc::new(RedisMemberCache::new(redis)) })
    })
}

fn peers(world: World) -> Timed<dyn PeerRegistry> {
    timed(world, |redis| Arc::new(RedisPeers::new(redis)) as Arc<dyn PeerRegistry>)
}

/// A port on a clock that the contract advances. The returned closure keeps the servers alive.
fn timed<P: ?Sized>(world: World, port: impl FnOnce(Redis) -> Arc<P>) -> Timed<P> {
    let port = port(world.redis.clone());
    let pass = move |duration| {
        // Captures the whole world, not only its clock.
        let world = &world;
        world.clock.advance(duration);
    };
    Timed { port, pass: Box::new(pass) }
}

fn tickets(world: World) -> Arc<dyn TicketStore> {
    Arc::new(ServedTickets { tickets: RedisTickets::new(world.redis.clone()), _world: world })
}

/// Tickets with the servers that store them.
struct ServedTickets {
    tickets: RedisTickets,
    _world: World,
}

#[async_trait]
impl TicketStore for ServedTickets {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        self.tickets.put(digest, ticket).await
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        self.tickets.take(digest, now).await
    }

    async fn spend(&self, challenge: SpentChallenge) -> Result<bool, StoreError> {
        self.tickets.spend(challenge).await
    }
}
