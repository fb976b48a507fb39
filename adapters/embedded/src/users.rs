use async_trait::async_trait;
use domain::{ExternalId, PhoneNumber, Timestamp, User, UserId};
use ports::{NewUser, StoreError, UserKey, UserReader, UserUpdate, UserWriter};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::tables::{Table, View};

#[async_trait]
impl UserReader for EmbeddedStore {
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        let user_ids = user_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            user_ids.iter().map(|user_id| view.get(Table::Users, &keys::user(*user_id))).collect()
        })
        .await
    }

    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        let user_keys: Vec<_> =
            phone_numbers.iter().map(|number| keys::sign_in(&UserKey::Phone(number.clone()))).collect();
        self.read(move |tables| {
            let view = tables.view();
            user_keys.iter().map(|key| living_user(&view, key)).collect()
        })
        .await
    }

    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError> {
        let key = UserKey::External { issuer: issuer.to_owned(), subject: external_id.clone() };
        self.read(move |tables| living_user(&tables.view(), &keys::sign_in(&key))).await
    }
}

/// The user of a sign-in key, unless the account was deleted.
fn living_user(view: &View<'_>, key: &[u8]) -> Result<Option<User>, StoreError> {
    let Some(user_id) = view.get::<UserId>(Table::UserKeys, key)? else { return Ok(None) };
    let user: Option<User> = view.get(Table::Users, &keys::user(user_id))?;
    Ok(user.filter(|user| user.deleted_at.is_none()))
}

#[async_trait]
impl UserWriter for EmbeddedStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        self.write(move |tx| {
            let row_key = keys::sign_in(&key);
            if let Some(user_id) = tx.get::<UserId>(Table::UserKeys, &row_key)? {
                let user: Option<User> = tx.get(Table::Users, &keys::user(user_id))?;
                let mut user =
                    user.ok_or_else(|| unreadable(Table::Users, format!("{user_id} has a key and no row")))?;
                if user.is_of_proof(new.proven_at) {
                    if let Some(missing) = key.missing_external_id(&user) {
                        user.external_id = Some(missing);
                        tx.put(Table::Users, &keys::user(user_id), &user);
                    }
                    return Ok((user, false));
                }
            }
            let user = new.into_user(&key);
            tx.put(Table::UserKeys, &row_key, &user.user_id);
            tx.put(Table::Users, &keys::user(user.user_id), &user);
            Ok((user, true))
        })
        .await
    }

    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError> {
        self.write(move |tx| {
            let Some(user) = tx.get::<User>(Table::Users, &keys::user(user_id))? else { return Ok(None) };
            let user = update.applied(user, now);
            tx.put(Table::Users, &keys::user(user_id), &user);
            Ok(Some(user))
        })
        .await
    }
}
