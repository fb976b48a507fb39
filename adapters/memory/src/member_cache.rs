use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Timestamp, UserId};
use ports::{Clock, MemberCache, StoreError};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Maximum age of an entry, even if it is read often. It bounds the effect of a lost invalidation.
const LIFE: Duration = Duration::from_secs(300);
/// Maximum number of cached members over all chats: 64 MB of ids. Beyond that the cache evicts rarely used chats.
const MEMBERS_MAX: u64 = 4_000_000;
/// Estimated number of chats in the cache.
const CHATS_ESTIMATED: usize = 100_000;

/// The member cache of one process.
pub struct MemoryMemberCache {
    clock: Arc<dyn Clock>,
    chats: Cache<ChatId, CachedMembers, MemberCount>,
}

#[derive(Clone)]
struct CachedMembers {
    members: Arc<[UserId]>,
    expires_at: Timestamp,
}

#[derive(Clone)]
struct MemberCount;

impl Weighter<ChatId, CachedMembers> for MemberCount {
    fn weight(&self, _: &ChatId, remembered: &CachedMembers) -> u64 {
        // An entry has a weight of its own, even for a chat without members.
        remembered.members.len() as u64 + 4
    }
}

impl MemoryMemberCache {
    /// Starts empty.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, chats: Cache::with_weighter(CHATS_ESTIMATED, MEMBERS_MAX, MemberCount) }
    }

    /// Clears the cache, like a Redis that is flushed.
    pub fn wipe(&self) {
        self.chats.clear();
    }
}

#[async_trait]
impl MemberCache for MemoryMemberCache {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        let now = self.clock.now();
        Ok(self.chats.get(&chat_id).filter(|chat| chat.expires_at > now).map(|chat| chat.members))
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        self.chats.insert(chat_id, CachedMembers { members, expires_at: self.clock.now() + LIFE });
        Ok(())
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        self.chats.remove(&chat_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn a_wiped_cache_can_be_filled_again() {
        let cache = MemoryMemberCache::new(Arc::new(ManualClock::default()));
        let chats = [1, 2].map(|n| ChatId::from_bytes([n; 16]));
        let members = |n: u8| Arc::from([UserId::from_bytes([n; 16])]);
        for chat_id in chats {
            cache.fill(chat_id, members(1)).await.unwrap();
        }
        cache.wipe();
        for chat_id in chats {
            assert_eq!(cache.members(chat_id).await.unwrap(), None);
        }
        cache.fill(chats[0], members(2)).await.unwrap();
        assert_eq!(cache.members(chats[0]).await.unwrap(), Some(members(2)));
    }
}
