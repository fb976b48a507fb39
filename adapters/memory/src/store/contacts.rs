use std::ops::Bound;

use async_trait::async_trait;
use domain::UserId;
use ports::{ContactStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl ContactStore for MemoryStore {
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.contacts.entry(user_id).or_default().insert(contact_id));
        Ok(())
    }

    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.contacts.entry(user_id).or_default().remove(&contact_id));
        Ok(())
    }

    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        Ok(self.transaction(|state| {
            let contacts = state.contacts.get(&user_id).into_iter().flat_map(|contacts| contacts.range(behind));
            contacts.take(limit).copied().collect()
        }))
    }

    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        Ok(self.transaction(|state| {
            let is_listed = |(user_id, contact_id): &(UserId, UserId)| {
                state.contacts.get(user_id).is_some_and(|contacts| contacts.contains(contact_id))
            };
            pairs.iter().map(is_listed).collect()
        }))
    }
}
