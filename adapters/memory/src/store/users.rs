use async_trait::async_trait;
use domain::{PhoneNumber, PresenceVisibility, Timestamp, User, UserId};
use ports::{NewUser, StoreError, UserKey, UserReader, UserUpdate, UserWriter};

use super::MemoryStore;

#[async_trait]
impl UserReader for MemoryStore {
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        Ok(self.transaction(|state| user_ids.iter().map(|user_id| state.users.get(user_id).cloned()).collect()))
    }

    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        Ok(self.transaction(|state| {
            let user = |phone_number: &PhoneNumber| {
                let user_id = state.user_keys.get(&UserKey::Phone(phone_number.clone()))?;
                state.users.get(user_id).filter(|user| user.deleted_at.is_none()).cloned()
            };
            phone_numbers.iter().map(user).collect()
        }))
    }
}

#[async_trait]
impl UserWriter for MemoryStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        Ok(self.transaction(|state| {
            let known = state.user_keys.get(&key).and_then(|user_id| state.users.get(user_id));
            if let Some(user) = known.filter(|user| user.is_of_proof(new.proven_at)) {
                return (user.clone(), false);
            }
            let phone_number = match &key {
                UserKey::Phone(phone_number) => Some(phone_number.clone()),
                UserKey::External { .. } => None,
            };
            let user = User {
                user_id: new.user_id,
                phone_number,
                display_name: new.display_name,
                presence_visibility: PresenceVisibility::default(),
                group_invites: new.group_invites,
                created_at: new.created_at,
                updated_at: new.created_at,
                last_seen_at: None,
                deleted_at: None,
            };
            state.user_keys.insert(key, user.user_id);
            state.users.insert(user.user_id, user.clone());
            (user, true)
        }))
    }

    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError> {
        Ok(self.transaction(|state| {
            let user = state.users.get_mut(&user_id)?;
            let before = user.clone();
            *user = update.applied(before, now);
            Some(user.clone())
        }))
    }
}
