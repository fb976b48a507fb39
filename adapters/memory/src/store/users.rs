use async_trait::async_trait;
use domain::{ExternalId, PhoneNumber, Timestamp, User, UserId};
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

    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError> {
        let key = UserKey::External { issuer: issuer.to_owned(), subject: external_id.clone() };
        Ok(self.transaction(|state| {
            let user = state.users.get(state.user_keys.get(&key)?)?;
            Some(user).filter(|user| user.deleted_at.is_none()).cloned()
        }))
    }
}

#[async_trait]
impl UserWriter for MemoryStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        Ok(self.transaction(|state| {
            let known = state.user_keys.get(&key).and_then(|user_id| state.users.get_mut(user_id));
            if let Some(user) = known.filter(|user| user.is_of_proof(new.proven_at)) {
                user.external_id = key.missing_external_id(user).or(user.external_id.take());
                return (user.clone(), false);
            }
            let user = new.into_user(&key);
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
