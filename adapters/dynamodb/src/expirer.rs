use async_trait::async_trait;
use domain::{ChatId, Message, Sequence, Timestamp};
use ports::{AuditSource, ChatIdPage, Expiry, ExpiryProgress, MessageExpirer, PageBookmark, StoreError};

use crate::DynamoStore;
use crate::db::{self, Bound, PartitionQuery, TRANSACTION_ITEMS_MAX};
use crate::expiry::{expiration_key, expiration_write};
use crate::item::{EXPIRES_AT, ItemKey, end, number, text};
use crate::messages::{ROWS_MAX, counter_sequence, message_key, read_message};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// Limit of messages per transaction: three items for each, and one for the head.
const SHORTEN_LEN_MAX: usize = (TRANSACTION_ITEMS_MAX - 1) / 3;

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
        Ok(self.chats(after, count).await?.into())
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
            let head = self.db().get(&counter).await?.map(|counter| counter_sequence(&counter)).transpose()?;
            let last = meant.iter().find(|(message, _)| Some(message.sequence) == head);
            let writes = || {
                let mut writes: Vec<Write> = meant.iter().flat_map(|(message, end)| shortened(message, *end)).collect();
                writes.extend(last.map(|(message, end)| {
                    let ended = vec![AttributeChange::Set("last_expires_at", Some(text(end)))];
                    let still_last = Condition::Equals("sequence_counter", number(message.sequence.0));
                    Write::update(counter.clone(), ended).when(still_last)
                }));
                writes
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(meant.len()))
        })
        .await
    }
}

/// Sets another expiry for a message as it was read: updates the row, adds the new expiration, and deletes the earlier
/// one.
fn shortened(message: &Message, at: Timestamp) -> Vec<Write> {
    let changes = end(Some(at)).into_iter().map(|(name, value)| AttributeChange::Set(name, value)).collect();
    let row = Write::update(message_key(message.chat_id, message.sequence), changes)
        .when(Condition::Equals("message_id", text(message.message_id)))
        .when(Condition::is(EXPIRES_AT, message.expires_at.map(text)));
    let ended = Message { expires_at: Some(at), ..message.clone() };
    let earlier = expiration_key(message).map(Write::delete);
    [Some(row), expiration_write(&ended), earlier].into_iter().flatten().collect()
}
