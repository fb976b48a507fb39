use async_trait::async_trait;
use domain::{ChatId, Message, Sequence, Timestamp};
use ports::{ChatIdPage, Expiry, ExpiryProgress, MessageExpirer, PageBookmark, StoreError};

use crate::DynamoStore;
use crate::db::{self, Bound, PartitionQuery, ScanFreshness, TRANSACTION_ITEMS_MAX};
use crate::expiry::{expiration_key, expiration_write};
use crate::item::{EXPIRES_AT, ItemKey, end, number, text};
use crate::locations::location_write;
use crate::messages::{ROWS_MAX, message_key, read_head, read_message};
use crate::schema::Table;
use crate::updates::{REVISION, revision_value};
use crate::write::{AttributeChange, Condition, Write};

/// Limit of messages per transaction: four items for each, and one for the head.
const SHORTEN_LEN_MAX: usize = (TRANSACTION_ITEMS_MAX - 1) / 4;

#[async_trait]
impl MessageExpirer for DynamoStore {
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<ExpiryProgress, StoreError> {
        let above = Bound::Above(number(from.0.saturating_sub(1)));
        let query = PartitionQuery { bound: Some(above), ..PartitionQuery::partition(Table::Messages, chat_id) };
        let (items, more) = self.db().page(&query, ROWS_MAX, None).await?;
        let looked_at: Vec<Message> = items.iter().map(read_message).collect::<Result<_, _>>()?;
        let meant: Vec<Sequence> = looked_at
            .iter()
            .filter(|message| which.end_of(message, now).is_some())
            .map(|message| message.sequence)
            .collect();
        let mut messages = 0;
        for sequences in meant.chunks(SHORTEN_LEN_MAX) {
            messages += self.shorten(chat_id, sequences, which, now).await?;
        }
        let next = looked_at.last().filter(|_| more.is_some()).map(|last| last.sequence.next());
        Ok(ExpiryProgress { messages, next })
    }

    async fn chat_ids(&self, after: Option<&PageBookmark>, count: usize) -> Result<ChatIdPage, StoreError> {
        // A chat that was created a moment ago needs no retention: ingest limits the lifetime of its messages.
        Ok(self.chat_ids_of(after, count, ScanFreshness::Eventual).await?.into())
    }
}

impl DynamoStore {
    /// Sets the expiry of messages, ascending, all or none. If the last message of the chat is among them, the head
    /// gets a copy of its expiry.
    async fn shorten(
        &self,
        chat_id: ChatId,
        sequences: &[Sequence],
        which: Expiry,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let (Some(first), Some(last)) = (sequences.first(), sequences.last()) else { return Ok(0) };
        let between = Bound::Between(number(first.0), number(last.0));
        let query = &PartitionQuery { bound: Some(between), ..PartitionQuery::partition(Table::Messages, chat_id) };
        db::undisturbed(|| async move {
            // The affected messages in this range are those given, or fewer: no message reappears.
            let mut meant = vec![];
            for item in self.db().query(query, usize::MAX).await? {
                let message = read_message(&item)?;
                meant.extend(which.end_of(&message, now).map(|end| (message, end)));
            }
            if meant.is_empty() {
                return Ok(Some(0));
            }
            // Read after the messages, so none of them is above the head.
            let counter = ItemKey::one(Table::ChatCounters, chat_id);
            let head = self.db().get(&counter).await?;
            let head = head.map(|counter| read_head(&counter, Timestamp::default())).transpose()?;
            let last = head.and_then(|head| head.last_message).map(|last| last.message_id);
            let last = meant.iter().find(|(message, _)| Some(message.message_id) == last);
            let writes = || {
                let mut writes: Vec<Write> = meant.iter().flat_map(|(message, end)| shortened(message, *end)).collect();
                writes.extend(last.map(|(message, end)| {
                    let ended = vec![AttributeChange::Set("last_expires_at", Some(text(end)))];
                    let still_last = Condition::Equals("last_message_id", text(message.message_id));
                    Write::update(counter.clone(), ended).when(still_last)
                }));
                writes
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(meant.len()))
        })
        .await
    }
}

/// Sets another expiry for a message as it was read: updates the row and the location, adds the new expiration, and
/// deletes the earlier one.
pub(crate) fn shortened(message: &Message, at: Timestamp) -> Vec<Write> {
    let changes = end(Some(at)).into_iter().map(|(name, value)| AttributeChange::Set(name, value)).collect();
    let row = Write::update(message_key(message.chat_id, message.sequence), changes)
        .when(Condition::Equals("message_id", text(message.message_id)))
        // The first reaction changes the expiration of the message.
        .when(Condition::is(REVISION, revision_value(message.state.revision)))
        .when(Condition::is(EXPIRES_AT, message.expires_at.map(text)));
    let ended = Message { expires_at: Some(at), ..message.clone() };
    let earlier = expiration_key(message).map(Write::delete);
    [Some(row), Some(location_write(&ended)), expiration_write(&ended), earlier].into_iter().flatten().collect()
}
