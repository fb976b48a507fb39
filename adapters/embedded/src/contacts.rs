use std::ops::Bound;

use async_trait::async_trait;
use domain::UserId;
use ports::{ContactStore, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::tables::Table;

#[async_trait]
impl ContactStore for EmbeddedStore {
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.put(Table::Contacts, &keys::contact(user_id, contact_id), &());
            Ok(())
        })
        .await
    }

    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.delete(Table::Contacts, &keys::contact(user_id, contact_id));
            Ok(())
        })
        .await
    }

    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let key = |contact_id| keys::contact(user_id, contact_id);
        let first = Bound::Included(key(UserId::from_bytes([0; 16])));
        let last = Bound::Included(key(UserId::from_bytes([0xff; 16])));
        let from = after.map_or(first, |after| Bound::Excluded(key(after)));
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.range(Table::Contacts, (from, last)).take(limit);
            rows.map(|row| keys::parse_contact(&row?.0).map_err(|error| unreadable(Table::Contacts, error))).collect()
        })
        .await
    }

    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<_> = pairs.iter().map(|(user_id, contact_id)| keys::contact(*user_id, *contact_id)).collect();
        self.read(move |tables| {
            let view = tables.view();
            keys.iter().map(|key| Ok(view.get_bytes(Table::Contacts, key)?.is_some())).collect()
        })
        .await
    }
}
