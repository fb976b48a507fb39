use async_trait::async_trait;
use domain::{User, UserId};
use ports::{AccountStore, MessageDisposition, PendingDeletion, StoreError, UserKey};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::Table;

#[async_trait]
impl AccountStore for EmbeddedStore {
    async fn begin_deletion(&self, deletion: PendingDeletion) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let key = keys::user(deletion.user_id);
            let Some(user) = tx.get::<User>(Table::Users, &key)? else { return Ok(false) };
            tx.put(Table::Users, &key, &user.tombstone(deletion.begun_at));
            // The earlier versions of the row have the name and the phone number.
            tx.erase(Table::Users);
            // An external subject still resolves to this user; the next sign-in with it takes the key over.
            if let Some(phone_number) = user.phone_number {
                tx.delete(Table::UserKeys, &keys::sign_in(&UserKey::Phone(phone_number)));
            }
            let begun: PendingDeletion = tx.get(Table::Deletions, &key)?.unwrap_or(deletion);
            let messages = match deletion.messages {
                MessageDisposition::Erase => MessageDisposition::Erase,
                MessageDisposition::Keep => begun.messages,
            };
            tx.put(Table::Deletions, &key, &PendingDeletion { messages, ..begun });
            Ok(true)
        })
        .await
    }

    async fn deletion(&self, user_id: UserId) -> Result<Option<PendingDeletion>, StoreError> {
        self.tables().await?.get(Table::Deletions, &keys::user(user_id))
    }

    async fn deletions(&self, count: usize) -> Result<Vec<PendingDeletion>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.prefix(Table::Deletions, &[]).take(count);
            rows.map(|row| PendingDeletion::decode(&row?.1).map_err(|error| unreadable(Table::Deletions, error)))
                .collect()
        })
        .await
    }

    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.delete(Table::Deletions, &keys::user(user_id));
            Ok(())
        })
        .await
    }
}
