use async_trait::async_trait;
use domain::{RestrictionChange, Restrictions, Timestamp, TooManyDeniedTokens, UserId};
use ports::{RestrictionStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl RestrictionStore for MemoryStore {
    async fn current_restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        self.restrictions(user_id).await
    }

    async fn restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        Ok(self.transaction(|state| state.restrictions.get(&user_id).cloned().unwrap_or_default()))
    }

    async fn restrict(
        &self,
        user_id: UserId,
        change: RestrictionChange,
        now: Timestamp,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, StoreError> {
        Ok(self.transaction(|state| {
            let mut restrictions = state.restrictions.get(&user_id).cloned().unwrap_or_default();
            restrictions.apply(&change, now)?;
            if restrictions == Restrictions::default() {
                state.restrictions.remove(&user_id);
            } else {
                state.restrictions.insert(user_id, restrictions.clone());
            }
            Ok(restrictions)
        }))
    }
}
