use async_trait::async_trait;
use domain::{User, UserId};
use ports::{AccountStore, Deletion, OwnMessages, StoreError, UserKey, UserReader};

use crate::DynamoStore;
use crate::db::{self, Query};
use crate::item::{Item, Key, Row, item, text};
use crate::schema::Table;
use crate::users::{user_item, user_key, user_row};
use crate::write::{Condition, Write};

/// All deletions are in one partition, because whoever finishes them looks for any. There are few at a time.
const SHARD: &str = "all";

#[async_trait]
impl AccountStore for DynamoStore {
    async fn begin_deletion(&self, deletion: Deletion) -> Result<bool, StoreError> {
        db::undisturbed(|| async move {
            let Some(user) = self.users(&[deletion.user_id]).await?.pop().flatten() else { return Ok(Some(false)) };
            let begun = self.deletion(deletion.user_id).await?.unwrap_or(deletion);
            let messages = match deletion.messages {
                OwnMessages::Erase => OwnMessages::Erase,
                OwnMessages::Keep => begun.messages,
            };
            let writes = || deletion_writes(&user, Deletion { messages, ..begun });
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }

    async fn deletion(&self, user_id: UserId) -> Result<Option<Deletion>, StoreError> {
        self.db().get(&deletion_key(user_id)).await?.map(|item| read_deletion(&item)).transpose()
    }

    async fn deletions(&self, count: usize) -> Result<Vec<Deletion>, StoreError> {
        let items = self.db().query(&Query::partition(Table::Deletions, SHARD), count).await?;
        items.iter().map(read_deletion).collect()
    }

    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError> {
        self.db().transact(|| vec![Write::delete(deletion_key(user_id))]).await.map(drop)
    }
}

/// The tombstone of a user as they were read, and what is left to do.
fn deletion_writes(user: &User, deletion: Deletion) -> Vec<Write> {
    let tombstone = user.tombstone(deletion.begun_at);
    let unchanged = Condition::Equals("updated_at", text(user.updated_at));
    let mut writes = vec![
        Write::put(user_row(user.user_id), user_item(&tombstone)).when(unchanged),
        Write::put(deletion_key(user.user_id), deletion_item(&deletion)),
    ];
    // Another system's subject still leads here, and is taken over by whoever signs in with it next.
    let phone_number = user.phone_number.clone();
    writes.extend(phone_number.map(|phone_number| Write::delete(user_key(&UserKey::Phone(phone_number)))));
    writes
}

fn deletion_key(user_id: UserId) -> Key {
    Key::of(Table::Deletions, SHARD, user_id)
}

fn deletion_item(deletion: &Deletion) -> Item {
    let messages = match deletion.messages {
        OwnMessages::Keep => "keep",
        OwnMessages::Erase => "erase",
    };
    item([("messages", Some(text(messages))), ("begun_at", Some(text(deletion.begun_at)))])
}

fn read_deletion(item: &Item) -> Result<Deletion, StoreError> {
    let row = Row { table: Table::Deletions, item };
    let messages = match row.text("messages")? {
        "keep" => OwnMessages::Keep,
        "erase" => OwnMessages::Erase,
        other => return Err(row.unreadable(format!("`{other}` is nothing that becomes of messages"))),
    };
    Ok(Deletion { user_id: row.parsed("user_id")?, messages, begun_at: row.parsed("begun_at")? })
}
