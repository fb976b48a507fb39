use async_trait::async_trait;
use domain::limits::PASSKEYS_MAX;
use domain::{CredentialId, Passkey, PasskeyId, PasskeyUse, UserId};
use ports::{PasskeyAddition, PasskeyStore, PasskeyUseOutcome, StoreError};

use super::{MemoryStore, MemoryStoreState};

#[async_trait]
impl PasskeyStore for MemoryStore {
    async fn add(&self, passkey: Passkey) -> Result<PasskeyAddition, StoreError> {
        Ok(self.transaction(|state| match state.passkeys.get(&passkey.credential_id) {
            Some(stored) if stored.passkey_id == passkey.passkey_id => PasskeyAddition::Added,
            Some(_) => PasskeyAddition::CredentialTaken,
            None if state.passkeys_of(passkey.user_id).len() >= PASSKEYS_MAX => PasskeyAddition::TooMany,
            None => {
                state.passkeys.insert(passkey.credential_id.clone(), passkey);
                PasskeyAddition::Added
            }
        }))
    }

    async fn by_credential(&self, credential_id: &CredentialId) -> Result<Option<Passkey>, StoreError> {
        Ok(self.transaction(|state| state.passkeys.get(credential_id).cloned()))
    }

    async fn passkeys(&self, user_id: UserId) -> Result<Vec<Passkey>, StoreError> {
        Ok(self.transaction(|state| state.passkeys_of(user_id)))
    }

    async fn remove(&self, user_id: UserId, passkey_id: PasskeyId) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| {
            let before = state.passkeys.len();
            state.passkeys.retain(|_, stored| (stored.user_id, stored.passkey_id) != (user_id, passkey_id));
            state.passkeys.len() < before
        }))
    }

    async fn record_use(
        &self,
        credential_id: &CredentialId,
        used: PasskeyUse,
    ) -> Result<PasskeyUseOutcome, StoreError> {
        Ok(self.transaction(|state| {
            let Some(stored) = state.passkeys.get_mut(credential_id) else { return PasskeyUseOutcome::NotFound };
            let Some(after) = stored.after(used) else { return PasskeyUseOutcome::CounterNotGrown };
            *stored = after.clone();
            PasskeyUseOutcome::Recorded(after)
        }))
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.passkeys.retain(|_, stored| stored.user_id != user_id));
        Ok(())
    }
}

impl MemoryStoreState {
    fn passkeys_of(&self, user_id: UserId) -> Vec<Passkey> {
        let mut own: Vec<Passkey> =
            self.passkeys.values().filter(|passkey| passkey.user_id == user_id).cloned().collect();
        own.sort_by_key(|passkey| passkey.passkey_id);
        own
    }
}
