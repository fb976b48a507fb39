use async_trait::async_trait;
use domain::{User, UserId};
use ports::{AccountStore, MessageDisposition, PendingDeletion, StoreError, UserKey, UserReader};

use crate::DynamoStore;
use crate::db::{self, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, text};
use crate::schema::Table;
use crate::users::{user_item, user_key, user_row};
use crate::write::{Condition, Write};

/// All deletions are in one partition, so that a single query finds any unfinished one. There are few at a time.
const SHARD: &str = "all";

#[async_trait]
impl AccountStore for DynamoStore {
    async fn begin_deletion(&self, deletion: PendingDeletion) -> Result<bool, StoreError> {
        db::undisturbed(|| async move {
            let Some(user) = self.users(&[deletion.user_id]).await?.pop().flatten() else { return Ok(Some(false)) };
            let begun = self.deletion(deletion.user_id).await?.unwrap_or(deletion);
            let messages = match deletion.messages {
                MessageDisposition::Erase => MessageDisposition::Erase,
                MessageDisposition::Keep => begun.messages,
            };
            let writes = || deletion_writes(&user, PendingDeletion { messages, ..begun });
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }

    async fn deletion(&self, user_id: UserId) -> Result<Option<PendingDeletion>, StoreError> {
        self.db().get(&deletion_key(user_id)).await?.map(|item| read_deletion(&item)).transpose()
    }

    async fn deletions(&self, count: usize) -> Result<Vec<PendingDeletion>, StoreError> {
        let items = self.db().query(&PartitionQuery::partition(Table::Deletions, SHARD), count).await?;
        items.iter().map(read_deletion).collect()
    }

    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError> {
        self.db().transact(|| vec![Write::delete(deletion_key(user_id))]).await.map(drop)
    }
}

/// Replaces a user, as read before, with a tombstone, and records the pending deletion.
fn deletion_writes(user: &User, deletion: PendingDeletion) -> Vec<Write> {
    let tombstone = user.tombstone(deletion.begun_at);
    let unchanged = Condition::Equals("updated_at", text(user.updated_at));
    let mut writes = vec![
        Write::put(user_row(user.user_id), user_item(&tombstone)).when(unchanged),
        Write::put(deletion_key(user.user_id), deletion_item(&deletion)),
    ];
    // The key of an external subject stays and still leads here; the next sign-in with it takes the key over.
    let phone_number = user.phone_number.clone();
    writes.extend(phone_number.map(|phone_number| Write::delete(user_key(&UserKey::Phone(phone_number)))));
    writes
}

fn deletion_key(user_id: UserId) -> ItemKey {
    ItemKey::of(Table::Deletions, SHARD, user_id)
}

fn deletion_item(deletion: &PendingDeletion) -> DynamoItem {
    let messages = match deletion.messages {
        MessageDisposition::Keep => "keep",
        MessageDisposition::Erase => "erase",
    };
    item([("messages", Some(text(messages))), ("begun_at", Some(text(deletion.begun_at)))])
}

pub(crate) fn read_deletion(item: &DynamoItem) -> Result<PendingDeletion, StoreError> {
    let row = ItemReader { table: Table::Deletions, item };
    let messages = match row.text("messages")? {
        "keep" => MessageDisposition::Keep,
        "erase" => MessageDisposition::Erase,
        other => return Err(row.unreadable(format!("`{other}` is not a known handling of messages"))),
    };
    Ok(PendingDeletion { user_id: row.parsed("user_id")?, messages, begun_at: row.parsed("begun_at")? })
}
