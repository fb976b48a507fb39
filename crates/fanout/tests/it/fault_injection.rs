//! Fault injection: routes that return a user who was not requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use contract::Violations;
use domain::UserId;
use memory::{MemoryMemberCache, MemoryRoutes};
use ports::{GatewayId, Route, Routes, StoreError, SystemClock};

use crate::world::{DeliveryRecorder, EXPIRY, World};

/// Adds a stranger to every gateway.
struct StrayRoutes {
    routes: Arc<MemoryRoutes>,
    stranger: UserId,
}

#[async_trait]
impl Routes for StrayRoutes {
    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        let mut gateways = self.routes.gateways(user_ids).await?;
        gateways.values_mut().for_each(|there| there.push(self.stranger));
        Ok(gateways)
    }

    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        self.routes.routes(user_id).await
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        self.routes.live_gateways().await
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.routes.on_gateway(gateway, limit).await
    }
}

#[tokio::test]
async fn only_members_receive_although_routes_return_a_stranger() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let clock = Arc::new(SystemClock);
    let (recorder, deliveries) = DeliveryRecorder::new();
    let routes = Arc::new(MemoryRoutes::new(clock.clone(), EXPIRY));
    let stranger = UserId::from_bytes([9; 16]);
    let liar = Arc::new(StrayRoutes { routes: routes.clone(), stranger });
    let cache = Arc::new(MemoryMemberCache::new(clock));
    let mut world = World::over_memory(liar, routes, cache, Arc::new(recorder), deliveries);
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let chat = world.group(sender, &[other]).await;
    world.start();
    world.send(chat, sender, None).await;
    for (_, push, _) in world.pushes(2).await {
        assert_eq!(push.recipients, [other]);
    }
    assert_eq!(violations.seen(), [("only_members_receive".to_owned(), 2)]);
}
