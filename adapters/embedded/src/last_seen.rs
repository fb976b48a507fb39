use async_trait::async_trait;
use domain::{Timestamp, User, UserId};
use ports::{LastSeenStore, StoreError, error_chain};

use crate::EmbeddedStore;
use crate::keys;
use crate::tables::Table;

#[async_trait]
impl LastSeenStore for EmbeddedStore {
    async fn update_last_seen(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError> {
        let users = users.to_vec();
        self.write(move |tx| {
            for (user_id, at) in users {
                let key = keys::user(user_id);
                match tx.get::<User>(Table::Users, &key) {
                    Ok(Some(user)) if user.last_seen_at < Some(at) => {
                        tx.put(Table::Users, &key, &User { last_seen_at: Some(at), ..user });
                    }
                    Ok(_) => {}
                    // A damaged user must not block the others.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::error!(error = %error_chain(&error), %user_id, "could not read a user; skipping it");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::GroupInvites;
    use ports::{NewUser, RandomIds, SystemClock, UserKey, UserReader, UserWriter};

    use super::*;
    use crate::Config;

    #[tokio::test]
    async fn a_damaged_user_does_not_block_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock);
        let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
        let [damaged, user_id] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
        let key = UserKey::External { issuer: "https://one.example".to_owned(), subject: "2".parse().unwrap() };
        let (display_name, created_at) = ("Ada".to_owned().try_into().unwrap(), Timestamp::default());
        let new = NewUser {
            user_id,
            display_name,
            group_invites: GroupInvites::default(),
            created_at,
            proven_at: created_at,
        };
        store.find_or_create(key, new).await.unwrap();
        let damage = store.write(move |tx| {
            tx.put(Table::Users, &keys::user(damaged), &7u64);
            Ok(())
        });
        damage.await.unwrap();

        let at = Timestamp::from_millis(5);
        store.update_last_seen(&[(damaged, at), (user_id, at)]).await.unwrap();
        let found = store.users(&[user_id]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().last_seen_at, Some(at));
        store.close().await;
    }
}
