use async_trait::async_trait;
use domain::UserId;
use ports::{ContactStore, StoreError};

use crate::DynamoStore;
use crate::db::{Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, text};
use crate::schema::Table;
use crate::write::Write;

const CONTACT_ID: &str = "contact_id";

#[async_trait]
impl ContactStore for DynamoStore {
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        let key = contact_key(user_id, contact_id);
        self.db().transact(|| vec![Write::put(key.clone(), DynamoItem::new())]).await.map(drop)
    }

    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        let key = contact_key(user_id, contact_id);
        self.db().transact(|| vec![Write::delete(key.clone())]).await.map(drop)
    }

    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let bound = after.map(|after| Bound::Above(text(after)));
        let query =
            PartitionQuery { bound, attributes: &[CONTACT_ID], ..PartitionQuery::partition(Table::Contacts, user_id) };
        let items = self.db().query(&query, limit).await?;
        items.iter().map(|item| ItemReader { table: Table::Contacts, item }.parsed(CONTACT_ID)).collect()
    }

    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<_> = pairs.iter().map(|(user_id, contact_id)| contact_key(*user_id, *contact_id)).collect();
        Ok(self.db().get_many(&keys).await?.iter().map(Option::is_some).collect())
    }
}

pub(crate) fn contact_key(user_id: UserId, contact_id: UserId) -> ItemKey {
    ItemKey::of(Table::Contacts, user_id, contact_id)
}

/// The owner of the list and the listed user.
pub(crate) fn read_contact(item: &DynamoItem) -> Result<(UserId, UserId), StoreError> {
    let row = ItemReader { table: Table::Contacts, item };
    Ok((row.parsed("user_id")?, row.parsed(CONTACT_ID)?))
}
