use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Invariant, Quota, RateDecision, Timestamp, UserId};
use memory::{MemoryLimits, MemoryMemberCache, MemoryPeers, MemoryRecipients, MemoryRoutes, MemoryTickets};
use ports::{
    Clock, GatewayId, LimitKey, MemberCache, PeerProcess, PeerRegistry, PresenceTransition, PresenceTransitions,
    ProcessRole, RateLimiter, RecipientLookup, Recipients, RefreshedRoute, Route, RouteWriter, Routes, SpentChallenge,
    StoreError, SweepResult, Ticket, TicketStore,
};
use tokio::time::Instant;

use crate::bugs::Bug;
use crate::checks::EXPIRY;
use crate::plan::RunShape;
use crate::process::SimProcess;
use crate::world::{Dependency, World, until_deadline};

/// The shared state of processes, which can be wiped at any time: of a whole fleet, or of the one process of a node.
pub(crate) struct Memory {
    pub(crate) routes: Arc<MemoryRoutes>,
    pub(crate) cache: Arc<MemoryMemberCache>,
    pub(crate) recipients: MemoryRecipients,
    pub(crate) limits: MemoryLimits,
    pub(crate) peers: MemoryPeers,
    pub(crate) tickets: MemoryTickets,
}

impl Memory {
    pub(crate) fn new(world: &World) -> Self {
        let clock: Arc<dyn Clock> = world.clock.clone();
        let expiry = if world.has(Bug::SetLevelTtl) { Duration::from_secs(3600) } else { EXPIRY };
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), expiry));
        let cache = Arc::new(MemoryMemberCache::new(clock.clone()));
        Self {
            recipients: MemoryRecipients::new(routes.clone(), cache.clone()),
            routes,
            cache,
            limits: MemoryLimits::new(clock.clone()),
            peers: MemoryPeers::new(clock.clone()),
            tickets: MemoryTickets::new(clock),
        }
    }

    /// Loses everything.
    pub(crate) fn wipe(&self) {
        self.routes.wipe();
        self.cache.wipe();
        self.limits.wipe();
        self.peers.wipe();
        self.tickets.wipe();
    }
}

/// The shared state as seen by one process.
#[derive(Clone)]
pub(crate) struct SharedStateClient {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
    pub(crate) memory: Arc<Memory>,
}

impl SharedStateClient {
    async fn call<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.world.plan.shape == RunShape::Node {
            return work.await;
        }
        let world = self.world.clone();
        self.world
            .call(&self.process, async move {
                let began = Instant::now();
                world.travel().await;
                if world.is_unavailable(Dependency::Shared) {
                    until_deadline(began).await;
                    return Err(StoreError::unavailable("shared memory does not answer"));
                }
                let fails = world.streams.shared.chance(world.rates().shared_fails);
                if fails && world.streams.shared.chance(0.5) {
                    return Err(StoreError::unavailable("shared memory refuses"));
                }
                let answer = work.await;
                world.travel().await;
                if fails { Err(StoreError::unavailable("the answer of shared memory was lost")) } else { answer }
            })
            .await
    }
}

#[async_trait]
impl Routes for SharedStateClient {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let (memory, world) = (self.memory.clone(), self.world.clone());
        self.call(async move {
            let routes = memory.routes.routes(user_id).await?;
            world.answered_routes(&routes);
            Ok(routes)
        })
        .await
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let (memory, world, user_ids) = (self.memory.clone(), self.world.clone(), user_ids.to_vec());
        self.call(async move {
            let gateways = memory.routes.gateways(&user_ids).await?;
            world.answered_gateways(gateways.keys());
            Ok(crate::broken::of_one_device(&world, gateways))
        })
        .await
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.routes.live_gateways().await }).await
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        let (memory, gateway) = (self.memory.clone(), gateway.clone());
        self.call(async move { memory.routes.on_gateway(&gateway, limit).await }).await
    }
}

#[async_trait]
impl RouteWriter for SharedStateClient {
    async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError> {
        let (memory, world, gateway) = (self.memory.clone(), self.world.clone(), gateway.clone());
        self.call(async move {
            let was_known = memory.routes.heartbeat(&gateway).await?;
            world.beaten(&gateway);
            // With this bug, the gateway does not learn that its routes were lost.
            Ok(was_known || world.has(Bug::WipeNeverHeals))
        })
        .await
    }

    async fn register(&self, route: &Route) -> Result<(), StoreError> {
        let (memory, world, route) = (self.memory.clone(), self.world.clone(), route.clone());
        self.call(async move {
            memory.routes.register(&route).await?;
            crate::broken::came(&world, &route);
            world.registered(&[route]);
            Ok(())
        })
        .await
    }

    async fn refresh(&self, routes: &[Route]) -> Result<Vec<RefreshedRoute>, StoreError> {
        let (memory, world, routes) = (self.memory.clone(), self.world.clone(), routes.to_vec());
        self.call(async move {
            if world.has(Bug::WipeNeverHeals) {
                return Ok(vec![RefreshedRoute { was_known: true, connections: 1 }; routes.len()]);
            }
            let refreshed = memory.routes.refresh(&routes).await?;
            world.registered(&routes);
            Ok(refreshed)
        })
        .await
    }

    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError> {
        let (memory, world, routes) = (self.memory.clone(), self.world.clone(), routes.to_vec());
        self.call(async move {
            memory.routes.unregister(&routes, back_within).await?;
            crate::broken::left(&world, &routes);
            world.unregistered(&routes);
            world.checks.look_around(&memory.routes);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl PresenceTransitions for SharedStateClient {
    async fn claim(&self, limit: usize) -> Result<Vec<PresenceTransition>, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.routes.claim(limit).await }).await
    }

    async fn offline_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let (memory, user_ids) = (self.memory.clone(), user_ids.to_vec());
        self.call(async move { memory.routes.offline_since(&user_ids).await }).await
    }

    async fn settle(&self, announced: &[PresenceTransition]) -> Result<(), StoreError> {
        let (memory, announced) = (self.memory.clone(), announced.to_vec());
        self.call(async move { memory.routes.settle(&announced).await }).await
    }

    async fn sweep(&self, limit: usize) -> Result<SweepResult, StoreError> {
        if self.world.has(Bug::NobodySweeps) {
            return Ok(SweepResult::default());
        }
        let memory = self.memory.clone();
        self.call(async move { memory.routes.sweep(limit).await }).await
    }
}

#[async_trait]
impl MemberCache for SharedStateClient {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.cache.members(chat_id).await }).await
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        let (memory, world) = (self.memory.clone(), self.world.clone());
        self.call(async move {
            let is_true = members.is_empty() || world.checks.had_members(chat_id, &members);
            world.check(Invariant::CachePopulatedFromAuthority, is_true, || {
                format!("the cache has a set of {} members that {chat_id} never had", members.len())
            });
            memory.cache.fill(chat_id, members).await
        })
        .await
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        if self.world.has(Bug::CacheNeverForgets) {
            return Ok(());
        }
        let memory = self.memory.clone();
        self.call(async move { memory.cache.invalidate(chat_id).await }).await
    }
}

#[async_trait]
impl RecipientLookup for SharedStateClient {
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        let (memory, world, named) = (self.memory.clone(), self.world.clone(), named.to_vec());
        self.call(async move {
            let recipients = memory.recipients.cached(chat_id, &named).await?;
            recipients.iter().for_each(|recipients| world.answered_recipients(recipients));
            Ok(recipients)
        })
        .await
    }

    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        let (memory, world, named) = (self.memory.clone(), self.world.clone(), named.to_vec());
        self.call(async move {
            let recipients = memory.recipients.of(members, &named).await?;
            world.answered_recipients(&recipients);
            Ok(recipients)
        })
        .await
    }
}

#[async_trait]
impl RateLimiter for SharedStateClient {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        let (memory, takes) = (self.memory.clone(), takes.to_vec());
        self.call(async move { memory.limits.take_all(&takes).await }).await
    }
}

#[async_trait]
impl PeerRegistry for SharedStateClient {
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let (memory, peer, roles) = (self.memory.clone(), peer.clone(), roles.to_vec());
        self.call(async move { memory.peers.announce(&peer, &roles).await }).await
    }

    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        let (memory, peer, roles) = (self.memory.clone(), peer.clone(), roles.to_vec());
        self.call(async move { memory.peers.leave(&peer, &roles).await }).await
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.peers.peers(role).await }).await
    }
}

#[async_trait]
impl TicketStore for SharedStateClient {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.tickets.put(digest, ticket).await }).await
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.tickets.take(digest, now).await }).await
    }

    async fn spend(&self, challenge: SpentChallenge) -> Result<bool, StoreError> {
        let memory = self.memory.clone();
        self.call(async move { memory.tickets.spend(challenge).await }).await
    }
}
