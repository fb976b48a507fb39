use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Notice, NoticeStore, Settled, StoreError};

use crate::DynamoStore;
use crate::db::{Bound, CONCURRENCY_MAX, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::shard::shard;
use crate::write::{AttributeChange, Condition, Write};

/// Number of partitions for pending notices; each is queried for due ones.
const DUE_SHARDS: u64 = 8;

const DUE_AT: &str = "due_at";
const FROM: &str = "from_sequence";
const SILENT_UNTIL: &str = "silent_until";

#[async_trait]
impl NoticeStore for DynamoStore {
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        let mut by_key: BTreeMap<ItemKey, Vec<Notice>> = BTreeMap::new();
        for notice in notices {
            by_key.entry(notice_key(&notice)).or_default().push(notice);
        }
        let pending = by_key.into_iter().map(|(key, notices)| async move {
            // Sequential for one device and chat, so that the first notice stays.
            for notice in &notices {
                // A pending notice has no quiet period, so the condition fails and it stays. A quiet period that ends
                // before the notice is due does not block it.
                let silence_over = || Condition::AbsentOrAtMost(SILENT_UNTIL, number(notice.due_at.as_millis()));
                let writes = || vec![Write::put(key.clone(), pending_item(notice)).when(silence_over())];
                self.db().transact(writes).await?;
            }
            Ok(())
        });
        stream::iter(pending).buffer_unordered(CONCURRENCY_MAX).try_collect().await
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        let shards = (0..DUE_SHARDS).map(|shard| async move {
            let due = PartitionQuery {
                index: Table::Notices.definition().index,
                bound: Some(Bound::AtMost(number(now.as_millis()))),
                ..PartitionQuery::partition(Table::Notices, shard)
            };
            self.db().query(&due, count).await
        });
        let found: Vec<Vec<DynamoItem>> = stream::iter(shards).buffered(CONCURRENCY_MAX).try_collect().await?;
        let mut due = found.iter().flatten().map(read_pending).collect::<Result<Vec<_>, _>>()?;
        due.sort_by_key(|notice| notice.due_at);
        due.truncate(count);
        let taken = due.into_iter().map(|notice| async move {
            let writes = || {
                let put_off = vec![AttributeChange::Set(DUE_AT, Some(number(again_at.as_millis())))];
                // The index may lag, and other processes claim notices at the same time: the item itself shows whether
                // it is still due.
                let still_due = Condition::Equals(DUE_AT, number(notice.due_at.as_millis()));
                vec![Write::update(notice_key(&notice), put_off).when(still_due)]
            };
            let taken = self.db().transact(writes).await?.is_committed();
            Ok::<_, StoreError>(taken.then_some(notice))
        });
        let taken: Vec<Option<Notice>> = stream::iter(taken).buffered(CONCURRENCY_MAX).try_collect().await?;
        Ok(taken.into_iter().flatten().collect())
    }

    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        let writes = || {
            let key = notice_key(notice);
            let write = match settled {
                Settled::Notified { silent_until } => Write::put(key, notified_item(silent_until)),
                Settled::Again { at } => {
                    let due = AttributeChange::Set(DUE_AT, Some(number(at.as_millis())));
                    Write::update(key, vec![due, AttributeChange::Increment("attempts")])
                }
                Settled::Dropped => Write::delete(key),
            };
            vec![write.when(Condition::Equals(FROM, number(notice.from.0)))]
        };
        // A notice that is missing or covers other messages was already settled by another process.
        self.db().transact(writes).await.map(drop)
    }
}

fn notice_key(notice: &Notice) -> ItemKey {
    ItemKey::of(Table::Notices, notice.user_id, format_args!("{}#{}", notice.chat_id, notice.device_id))
}

fn pending_item(notice: &Notice) -> DynamoItem {
    item([
        ("chat_id", Some(text(notice.chat_id))),
        ("device_id", Some(text(notice.device_id))),
        (FROM, Some(number(notice.from.0))),
        ("attempts", Some(number(notice.attempts.into()))),
        ("due_shard", Some(text(shard(&notice.user_id.to_bytes(), DUE_SHARDS)))),
        (DUE_AT, Some(number(notice.due_at.as_millis()))),
    ])
}

/// Not in the index; it expires with the quiet period.
fn notified_item(silent_until: Timestamp) -> DynamoItem {
    item([(SILENT_UNTIL, Some(number(silent_until.as_millis()))), (TTL, Some(ttl(silent_until)))])
}

fn read_pending(item: &DynamoItem) -> Result<Notice, StoreError> {
    let row = ItemReader { table: Table::Notices, item };
    Ok(Notice {
        user_id: row.parsed("user_id")?,
        chat_id: row.parsed("chat_id")?,
        device_id: row.parsed("device_id")?,
        from: Sequence(row.number(FROM)?),
        due_at: Timestamp::from_millis(row.number(DUE_AT)?),
        attempts: row.count("attempts")?,
    })
}

/// A pending notice; `None` for a quiet period.
pub(crate) fn read_notice(item: &DynamoItem) -> Result<Option<Notice>, StoreError> {
    let row = ItemReader { table: Table::Notices, item };
    match row.maybe_number(SILENT_UNTIL)? {
        Some(_) => Ok(None),
        None => read_pending(item).map(Some),
    }
}
