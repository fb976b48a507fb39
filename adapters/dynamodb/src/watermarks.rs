use async_trait::async_trait;
use domain::{Advance, ChatId, Sequence, UserId, WatermarkKind, Watermarks};
use ports::{StoreError, WatermarkStore};

use crate::DynamoStore;
use crate::db;
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number};
use crate::messages::counter_sequence;
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

const DELIVERED: &str = "delivered_sequence";
const READ: &str = "read_sequence";

#[async_trait]
impl WatermarkStore for DynamoStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Advance, StoreError> {
        let (state, counter) =
            (ItemKey::of(Table::DeliveryState, user_id, chat_id), ItemKey::one(Table::ChatCounters, chat_id));
        let keys = &[state, counter];
        db::undisturbed(|| async move {
            let items = self.db().get_many(keys).await?;
            let [state, counter] = <[_; 2]>::try_from(items).expect("an answer for each key");
            if (state.is_none() || counter.is_none()) && self.versioned(chat_id).await?.is_none() {
                return Ok(Some(Advance::ChatNotFound));
            }
            // The item is created and deleted with the membership, in the same transactions. So the condition that the
            // item is unchanged also covers the membership.
            let Some(state) = state else { return Ok(Some(Advance::NotAMember)) };
            let before = read_watermarks(&state)?;
            // The head may move before the write, but it never decreases, so the advance stays valid.
            let head = match counter {
                Some(counter) => counter_sequence(&counter)?,
                None => self.last_sequence(chat_id).await?,
            };
            let advance = before.advance(kind, to, head);
            let Advance::Moved(moved) = advance else { return Ok(Some(advance)) };
            let writes = || {
                let changes = vec![
                    AttributeChange::Set(DELIVERED, Some(number(moved.delivered.0))),
                    AttributeChange::Set(READ, Some(number(moved.read.0))),
                ];
                let write = Write::update(keys[0].clone(), changes)
                    .when(Condition::Equals(DELIVERED, number(before.delivered.0)))
                    .when(Condition::Equals(READ, number(before.read.0)));
                vec![write]
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(advance))
        })
        .await
    }

    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError> {
        let key = |(user_id, chat_id): &(UserId, ChatId)| ItemKey::of(Table::DeliveryState, user_id, chat_id);
        let keys: Vec<_> = of.iter().map(key).collect();
        let items = self.db().get_many(&keys).await?;
        items.iter().map(|item| item.as_ref().map_or(Ok(Watermarks::default()), read_watermarks)).collect()
    }
}

pub(crate) fn watermarks_item(watermarks: Watermarks) -> DynamoItem {
    item([(DELIVERED, Some(number(watermarks.delivered.0))), (READ, Some(number(watermarks.read.0)))])
}

pub(crate) fn read_watermarks(item: &DynamoItem) -> Result<Watermarks, StoreError> {
    let row = ItemReader { table: Table::DeliveryState, item };
    Ok(Watermarks { delivered: Sequence(row.number(DELIVERED)?), read: Sequence(row.number(READ)?) })
}
