use async_trait::async_trait;
use domain::UserId;
use ports::{AccountStore, MessageDisposition, PendingDeletion, StoreError, UserKey};

use super::MemoryStore;

#[async_trait]
impl AccountStore for MemoryStore {
    async fn begin_deletion(&self, deletion: PendingDeletion) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| {
            let Some(user) = state.users.get_mut(&deletion.user_id) else { return false };
            let tombstone = user.tombstone(deletion.begun_at);
            let before = std::mem::replace(user, tombstone);
            // An external subject still resolves to this user; the next sign-in with it takes the key over.
            if let Some(phone_number) = before.phone_number {
                state.user_keys.remove(&UserKey::Phone(phone_number));
            }
            let begun = state.deletions.entry(deletion.user_id).or_insert(deletion);
            if deletion.messages == MessageDisposition::Erase {
                begun.messages = MessageDisposition::Erase;
            }
            true
        }))
    }

    async fn deletion(&self, user_id: UserId) -> Result<Option<PendingDeletion>, StoreError> {
        Ok(self.transaction(|state| state.deletions.get(&user_id).copied()))
    }

    async fn deletions(&self, count: usize) -> Result<Vec<PendingDeletion>, StoreError> {
        Ok(self.transaction(|state| state.deletions.values().take(count).copied().collect()))
    }

    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.deletions.remove(&user_id));
        Ok(())
    }
}
