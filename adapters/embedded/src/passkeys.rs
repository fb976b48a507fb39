use async_trait::async_trait;
use domain::limits::PASSKEYS_MAX;
use domain::{CredentialId, Passkey, PasskeyId, PasskeyUse, UserId};
use ports::{PasskeyAddition, PasskeyStore, PasskeyUseOutcome, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::Table;
use crate::tx::Tx;

#[async_trait]
impl PasskeyStore for EmbeddedStore {
    async fn add(&self, passkey: Passkey) -> Result<PasskeyAddition, StoreError> {
        self.write(move |tx| {
            if let Some(stored) = stored(tx, &passkey.credential_id)? {
                let is_same = stored.passkey_id == passkey.passkey_id;
                return Ok(if is_same { PasskeyAddition::Added } else { PasskeyAddition::CredentialTaken });
            }
            if tx.keys(Table::PasskeyIndex, &keys::user(passkey.user_id))?.len() >= PASSKEYS_MAX {
                return Ok(PasskeyAddition::TooMany);
            }
            put(tx, &passkey);
            Ok(PasskeyAddition::Added)
        })
        .await
    }

    async fn by_credential(&self, credential_id: &CredentialId) -> Result<Option<Passkey>, StoreError> {
        self.tables().await?.get(Table::Passkeys, credential_id.as_bytes())
    }

    async fn passkeys(&self, user_id: UserId) -> Result<Vec<Passkey>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let mut passkeys = vec![];
            for row in view.prefix(Table::PasskeyIndex, &keys::user(user_id)) {
                let credential_id =
                    CredentialId::decode(&row?.1).map_err(|error| unreadable(Table::PasskeyIndex, error))?;
                passkeys.extend(view.get::<Passkey>(Table::Passkeys, credential_id.as_bytes())?);
            }
            Ok(passkeys)
        })
        .await
    }

    async fn remove(&self, user_id: UserId, passkey_id: PasskeyId) -> Result<bool, StoreError> {
        self.write(move |tx| forget(tx, &keys::passkey(user_id, passkey_id))).await
    }

    async fn record_use(
        &self,
        credential_id: &CredentialId,
        used: PasskeyUse,
    ) -> Result<PasskeyUseOutcome, StoreError> {
        let credential_id = credential_id.clone();
        self.write(move |tx| {
            let Some(stored) = stored(tx, &credential_id)? else { return Ok(PasskeyUseOutcome::NotFound) };
            let Some(after) = stored.after(used) else { return Ok(PasskeyUseOutcome::CounterNotGrown) };
            tx.put(Table::Passkeys, credential_id.as_bytes(), &after);
            Ok(PasskeyUseOutcome::Recorded(after))
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            for key in tx.keys(Table::PasskeyIndex, &keys::user(user_id))? {
                forget(tx, &key)?;
            }
            Ok(())
        })
        .await
    }
}

/// Writes a passkey and its index row.
pub(crate) fn put(tx: &mut Tx<'_>, passkey: &Passkey) {
    tx.put(Table::Passkeys, passkey.credential_id.as_bytes(), passkey);
    let index = keys::passkey(passkey.user_id, passkey.passkey_id);
    tx.put(Table::PasskeyIndex, &index, &passkey.credential_id);
}

/// Deletes the passkey of an index row; `false` if there is none.
fn forget(tx: &mut Tx<'_>, index: &[u8]) -> Result<bool, StoreError> {
    let Some(credential_id) = tx.get::<CredentialId>(Table::PasskeyIndex, index)? else { return Ok(false) };
    tx.delete(Table::PasskeyIndex, index);
    tx.delete(Table::Passkeys, credential_id.as_bytes());
    Ok(true)
}

fn stored(tx: &Tx<'_>, credential_id: &CredentialId) -> Result<Option<Passkey>, StoreError> {
    tx.get(Table::Passkeys, credential_id.as_bytes())
}
