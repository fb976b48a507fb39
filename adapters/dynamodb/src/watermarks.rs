use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Advance, ChatId, DeliveryState, Sequence, Timestamp, UserId, WatermarkKind, Watermarks};
use ports::{StoreError, WatermarkStore};

use crate::DynamoStore;
use crate::db;
use crate::item::{DynamoItem, ItemKey, ItemReader, UPDATED_AT, item, number, text};
use crate::messages::counter_sequence;
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

const DELIVERED: &str = "delivered_sequence";
const READ: &str = "read_sequence";
const DELIVERED_AT: &str = "delivered_at";
const READ_AT: &str = "read_at";

#[async_trait]
impl WatermarkStore for DynamoStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
        at: Timestamp,
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
            let before = read_delivery_state(&state)?;
            // The head may move before the write, but it never decreases, so the advance stays valid.
            let head = match counter {
                Some(counter) => counter_sequence(&counter)?,
                None => self.last_sequence(chat_id).await?,
            };
            let advance = before.watermarks.advance(kind, to, head);
            let Advance::Moved(moved) = advance else { return Ok(Some(advance)) };
            let after = before.moved(moved, at);
            let writes = || {
                let changes = attributes(after, at).map(|(name, value)| AttributeChange::Set(name, value));
                let write = Write::update(keys[0].clone(), changes.into())
                    .when(Condition::Equals(DELIVERED, number(before.watermarks.delivered.0)))
                    .when(Condition::Equals(READ, number(before.watermarks.read.0)));
                vec![write]
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(advance))
        })
        .await
    }

    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError> {
        let key = |(user_id, chat_id): &(UserId, ChatId)| ItemKey::of(Table::DeliveryState, user_id, chat_id);
        let keys: Vec<_> = of.iter().map(key).collect();
        let items = self.db().get_many(&keys).await?;
        items.iter().map(|item| item.as_ref().map_or(Ok(DeliveryState::default()), read_delivery_state)).collect()
    }
}

fn attributes(state: DeliveryState, updated_at: Timestamp) -> [(&'static str, Option<AttributeValue>); 5] {
    let DeliveryState { watermarks, delivered_at, read_at } = state;
    [
        (DELIVERED, Some(number(watermarks.delivered.0))),
        (READ, Some(number(watermarks.read.0))),
        (DELIVERED_AT, delivered_at.map(text)),
        (READ_AT, read_at.map(text)),
        (UPDATED_AT, Some(text(updated_at))),
    ]
}

pub(crate) fn delivery_state_item(state: impl Into<DeliveryState>, updated_at: Timestamp) -> DynamoItem {
    item(attributes(state.into(), updated_at))
}

pub(crate) fn read_delivery_state(item: &DynamoItem) -> Result<DeliveryState, StoreError> {
    let row = ItemReader { table: Table::DeliveryState, item };
    let watermarks = Watermarks { delivered: Sequence(row.number(DELIVERED)?), read: Sequence(row.number(READ)?) };
    let [delivered_at, read_at] = [row.maybe_parsed(DELIVERED_AT)?, row.maybe_parsed(READ_AT)?];
    // A process of an earlier release moves watermarks and `updated_at`, but not the times, which are then too early.
    let updated_at: Option<Timestamp> = row.maybe_parsed(UPDATED_AT)?;
    if updated_at > delivered_at.max(read_at) {
        return Ok(watermarks.into());
    }
    Ok(DeliveryState { watermarks, delivered_at, read_at })
}
