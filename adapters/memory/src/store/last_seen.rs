use async_trait::async_trait;
use domain::{Timestamp, UserId};
use ports::{LastSeenStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl LastSeenStore for MemoryStore {
    async fn update_last_seen(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError> {
        self.transaction(|state| {
            for (user_id, at) in users {
                if let Some(user) = state.users.get_mut(user_id) {
                    user.last_seen_at = user.last_seen_at.max(Some(*at));
                }
            }
        });
        Ok(())
    }
}
