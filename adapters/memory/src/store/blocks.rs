use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::BLOCKS_MAX;
use domain::{ChatType, UserId};
use ports::{BlockStore, SendRefusal, StoreError};

use super::{ChatState, MemoryStore, MemoryStoreState};

#[async_trait]
impl BlockStore for MemoryStore {
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| {
            let blocks = state.blocks.entry(user_id).or_default();
            let has_room = blocks.len() < BLOCKS_MAX;
            if has_room {
                blocks.insert(blocked_id);
            }
            has_room || blocks.contains(&blocked_id)
        }))
    }

    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.blocks.entry(user_id).or_default().remove(&blocked_id));
        Ok(())
    }

    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        Ok(self.transaction(|state| {
            let blocks = state.blocks.get(&user_id).into_iter().flat_map(|blocks| blocks.range(behind));
            blocks.take(limit).copied().collect()
        }))
    }

    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        Ok(self.transaction(|state| {
            pairs.iter().map(|(user_id, blocked_id)| state.has_blocked(*user_id, *blocked_id)).collect()
        }))
    }
}

impl MemoryStoreState {
    pub(super) fn has_blocked(&self, user_id: UserId, blocked_id: UserId) -> bool {
        self.blocks.get(&user_id).is_some_and(|blocks| blocks.contains(&blocked_id))
    }

    /// The block that keeps a member of a direct chat from sending, if any.
    pub(super) fn block_between(&self, chat: &ChatState, sender_id: UserId) -> Option<SendRefusal> {
        if chat.chat.chat_type != ChatType::Direct {
            return None;
        }
        let others = || chat.members.keys().copied().filter(|user_id| *user_id != sender_id);
        // If both have blocked each other, each gets the refusal that they can lift themselves.
        if others().any(|other| self.has_blocked(sender_id, other)) {
            Some(SendRefusal::Blocking)
        } else {
            others().any(|other| self.has_blocked(other, sender_id)).then_some(SendRefusal::Blocked)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SequentialIds;

    #[tokio::test]
    async fn a_user_blocks_as_many_as_the_bound_and_no_more() {
        let store = MemoryStore::new(Arc::new(SequentialIds::default()));
        let user = |n: usize| UserId::from_bytes(((n + 1) as u128).to_be_bytes());
        for n in 0..BLOCKS_MAX {
            assert!(store.block(user(0), user(n + 1)).await.unwrap());
        }
        assert!(!store.block(user(0), user(BLOCKS_MAX + 1)).await.unwrap());
        assert!(store.block(user(0), user(7)).await.unwrap(), "one who is blocked stays so");
        store.unblock(user(0), user(7)).await.unwrap();
        assert!(store.block(user(0), user(BLOCKS_MAX + 1)).await.unwrap());
    }
}
