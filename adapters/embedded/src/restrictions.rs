use async_trait::async_trait;
use domain::{RestrictionChange, Restrictions, Timestamp, TooManyDeniedTokens, UserId};
use ports::{RestrictionStore, StoreError};

use crate::EmbeddedStore;
use crate::keys;
use crate::tables::Table;
use crate::tx::Tx;

#[async_trait]
impl RestrictionStore for EmbeddedStore {
    async fn current_restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        self.restrictions(user_id).await
    }

    async fn restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        Ok(self.tables().await?.get(Table::Restrictions, &keys::user(user_id))?.unwrap_or_default())
    }

    async fn restrict(
        &self,
        user_id: UserId,
        change: RestrictionChange,
        now: Timestamp,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, StoreError> {
        self.write(move |tx| {
            let key = keys::user(user_id);
            let mut restrictions: Restrictions = tx.get(Table::Restrictions, &key)?.unwrap_or_default();
            if let Err(refusal) = restrictions.apply(&change, now) {
                return Ok(Err(refusal));
            }
            if restrictions == Restrictions::default() {
                tx.delete(Table::Restrictions, &key);
            } else {
                tx.put(Table::Restrictions, &key, &restrictions);
            }
            Ok(Ok(restrictions))
        })
        .await
    }
}

/// Whether a user may not send.
pub(crate) fn is_suspended(tx: &Tx<'_>, user_id: UserId) -> Result<bool, StoreError> {
    let restrictions: Option<Restrictions> = tx.get(Table::Restrictions, &keys::user(user_id))?;
    Ok(restrictions.is_some_and(|restrictions| restrictions.suspension.is_some()))
}
