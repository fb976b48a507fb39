use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use domain::limits::{PASSKEY_KEY_BYTES_MAX, PASSKEYS_MAX};
use domain::{CredentialId, DisplayName, Passkey, PasskeyId, PasskeyUse, UserId};
use ports::{PasskeyAddition, PasskeyStore, PasskeyUseOutcome, StoreError};

use crate::DynamoStore;
use crate::db::{self, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, bytes, hex, item, number, text};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// Sort key of the item that names the owner of a credential id, in the partition of the id's digest.
const OWNER: &str = "owner";
const CREDENTIAL_ID: &str = "credential_id";
const SIGN_COUNT: &str = "sign_count";
const IS_BACKED_UP: &str = "is_backed_up";
const LAST_USED_AT: &str = "last_used_at";

#[async_trait]
impl PasskeyStore for DynamoStore {
    async fn add(&self, passkey: Passkey) -> Result<PasskeyAddition, StoreError> {
        let passkey = &passkey;
        db::undisturbed(|| async move {
            if let Some((_, passkey_id)) = self.owner(&passkey.credential_id).await? {
                let is_same = passkey_id == passkey.passkey_id;
                return Ok(Some(if is_same { PasskeyAddition::Added } else { PasskeyAddition::CredentialTaken }));
            }
            if self.passkeys(passkey.user_id).await?.len() >= PASSKEYS_MAX {
                return Ok(Some(PasskeyAddition::TooMany));
            }
            let writes = || passkey_items(passkey).map(|(key, item)| Write::create(key, item)).into();
            Ok(self.db().transact(writes).await?.is_committed().then_some(PasskeyAddition::Added))
        })
        .await
    }

    async fn by_credential(&self, credential_id: &CredentialId) -> Result<Option<Passkey>, StoreError> {
        let Some((user_id, passkey_id)) = self.owner(credential_id).await? else { return Ok(None) };
        let stored = self.db().get(&passkey_key(user_id, passkey_id)).await?;
        stored.map(|item| read_stored(&item)).transpose()
    }

    async fn passkeys(&self, user_id: UserId) -> Result<Vec<Passkey>, StoreError> {
        let items = self.db().query(&PartitionQuery::partition(Table::Passkeys, user_id), usize::MAX).await?;
        items.iter().map(read_stored).collect()
    }

    async fn remove(&self, user_id: UserId, passkey_id: PasskeyId) -> Result<bool, StoreError> {
        let Some(item) = self.db().get(&passkey_key(user_id, passkey_id)).await? else { return Ok(false) };
        let passkey = read_stored(&item)?;
        // Otherwise a concurrent call has removed it.
        Ok(self.db().transact(|| forget(&passkey).into()).await?.is_committed())
    }

    async fn record_use(
        &self,
        credential_id: &CredentialId,
        used: PasskeyUse,
    ) -> Result<PasskeyUseOutcome, StoreError> {
        db::undisturbed(|| async move {
            let Some(stored) = self.by_credential(credential_id).await? else {
                return Ok(Some(PasskeyUseOutcome::NotFound));
            };
            let Some(after) = stored.after(used) else { return Ok(Some(PasskeyUseOutcome::CounterNotGrown)) };
            let writes = || {
                let changes = vec![
                    AttributeChange::Set(SIGN_COUNT, Some(number(after.sign_count.into()))),
                    AttributeChange::Set(IS_BACKED_UP, Some(number(after.is_backed_up.into()))),
                    AttributeChange::Set(LAST_USED_AT, after.last_used_at.map(text)),
                ];
                let update = Write::update(passkey_key(after.user_id, after.passkey_id), changes);
                vec![update.when(Condition::Equals(SIGN_COUNT, number(stored.sign_count.into())))]
            };
            let recorded = self.db().transact(writes).await?.is_committed();
            Ok(recorded.then_some(PasskeyUseOutcome::Recorded(after)))
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        for passkey in self.passkeys(user_id).await? {
            self.db().transact(|| forget(&passkey).into()).await?;
        }
        Ok(())
    }
}

impl DynamoStore {
    /// The user and the passkey with a credential id.
    async fn owner(&self, credential_id: &CredentialId) -> Result<Option<(UserId, PasskeyId)>, StoreError> {
        let item = self.db().get(&owner_key(credential_id)).await?;
        item.map(|item| read_owner(&ItemReader { table: Table::Passkeys, item: &item })).transpose()
    }
}

fn passkey_key(user_id: UserId, passkey_id: PasskeyId) -> ItemKey {
    ItemKey::of(Table::Passkeys, user_id, passkey_id)
}

/// The partition is a digest: a credential id may be longer than the service allows in a readable form.
fn owner_key(credential_id: &CredentialId) -> ItemKey {
    ItemKey::of(Table::Passkeys, hex(digest(&SHA256, credential_id.as_bytes()).as_ref()), OWNER)
}

/// Deletes both items of a passkey. A passkey that got the same credential id meanwhile keeps its own.
fn forget(passkey: &Passkey) -> [Write; 2] {
    let is_owner = Condition::Equals("passkey_id", text(passkey.passkey_id));
    [
        Write::delete(passkey_key(passkey.user_id, passkey.passkey_id)).if_there(),
        Write::delete(owner_key(&passkey.credential_id)).when(is_owner),
    ]
}

/// Both items of a passkey and their keys.
pub(crate) fn passkey_items(passkey: &Passkey) -> [(ItemKey, DynamoItem); 2] {
    let stored = item([
        (CREDENTIAL_ID, Some(bytes(passkey.credential_id.as_bytes()))),
        ("public_key", Some(bytes(&passkey.public_key))),
        (SIGN_COUNT, Some(number(passkey.sign_count.into()))),
        ("is_backup_eligible", Some(number(passkey.is_backup_eligible.into()))),
        (IS_BACKED_UP, Some(number(passkey.is_backed_up.into()))),
        ("name", Some(text(passkey.name.as_str()))),
        ("created_at", Some(text(passkey.created_at))),
        (LAST_USED_AT, passkey.last_used_at.map(text)),
    ]);
    let owner = item([("user_id", Some(text(passkey.user_id))), ("passkey_id", Some(text(passkey.passkey_id)))]);
    [(passkey_key(passkey.user_id, passkey.passkey_id), stored), (owner_key(&passkey.credential_id), owner)]
}

/// A passkey; `None` for an item that names the owner of a credential id.
pub(crate) fn read_passkey(item: &DynamoItem) -> Result<Option<Passkey>, StoreError> {
    let row = ItemReader { table: Table::Passkeys, item };
    match row.text("place")? {
        OWNER => read_owner(&row).map(|_| None),
        _ => read_stored(item).map(Some),
    }
}

fn read_owner(row: &ItemReader<'_>) -> Result<(UserId, PasskeyId), StoreError> {
    Ok((row.parsed("user_id")?, row.parsed("passkey_id")?))
}

fn read_stored(item: &DynamoItem) -> Result<Passkey, StoreError> {
    let row = ItemReader { table: Table::Passkeys, item };
    let credential_id = row.bytes(CREDENTIAL_ID)?.to_vec().try_into().map_err(|error| row.unreadable(error))?;
    let public_key = row.bytes("public_key")?.to_vec();
    if public_key.len() > PASSKEY_KEY_BYTES_MAX {
        return Err(row.unreadable(format!("a public key of {} bytes", public_key.len())));
    }
    let name = DisplayName::from_stored(row.text("name")?.to_owned()).map_err(|error| row.unreadable(error))?;
    Ok(Passkey {
        passkey_id: row.parsed("place")?,
        user_id: row.parsed("list")?,
        credential_id,
        public_key,
        sign_count: row.count(SIGN_COUNT)?,
        is_backup_eligible: row.number("is_backup_eligible")? != 0,
        is_backed_up: row.number(IS_BACKED_UP)? != 0,
        name,
        created_at: row.parsed("created_at")?,
        last_used_at: row.maybe_parsed(LAST_USED_AT)?,
    })
}
