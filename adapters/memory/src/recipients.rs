use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, UserId};
use ports::{MemberCache, RecipientConnection, RecipientLookup, Recipients, Routes, StoreError};

/// Recipients from routes and a member cache whose calls cost nothing.
pub struct MemoryRecipients {
    routes: Arc<dyn Routes>,
    cache: Arc<dyn MemberCache>,
}

impl MemoryRecipients {
    /// Looks up in these routes and this cache.
    pub fn new(routes: Arc<dyn Routes>, cache: Arc<dyn MemberCache>) -> Self {
        Self { routes, cache }
    }
}

#[async_trait]
impl RecipientLookup for MemoryRecipients {
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        match self.cache.members(chat_id).await? {
            Some(members) => Ok(Some(self.of(members, named).await?)),
            None => Ok(None),
        }
    }

    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        let gateways = self.routes.gateways(&members).await?;
        let mut connections: BTreeMap<UserId, Vec<RecipientConnection>> = BTreeMap::new();
        for user_id in named {
            let routes = self.routes.routes(*user_id).await?;
            let live = routes
                .into_iter()
                .map(|route| RecipientConnection { gateway: route.gateway, connection_id: Some(route.connection_id) });
            let live: Vec<_> = live.collect();
            if !live.is_empty() {
                connections.insert(*user_id, live);
            }
        }
        Ok(Recipients { members, gateways, connections })
    }
}
