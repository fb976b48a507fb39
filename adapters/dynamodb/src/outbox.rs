//! Committed events that are not confirmed to be in the log (C2).
//!
//! Messages and updates wait as their own rows: the counter row of a chat has the published sequence, and is in the
//! `dirty-index` while that is below the head. Other events are outbox items until they are deleted.

mod item;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, Event, Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use ports::{Committed, Outbox, PendingChange, StoreError, error_chain};
use tracing::error;

pub(crate) use self::item::{EVENT_NUMBER, EVENT_TIME, change_write, events_of, purge_write, read_event};
use self::item::{OUTBOX_SHARDS, chat_at, event_key, read_event_number, set_aside};
use crate::DynamoStore;
use crate::db::{Bound, CONCURRENCY_MAX, PartitionQuery, TRANSACTION_ITEMS_MAX};
use crate::item::{DynamoItem, ItemKey, ItemReader, number, text};
use crate::messages::{ROWS_MAX, message_key, read_message};
use crate::schema::Table;
use crate::shard::shard;
use crate::updates::{EntryItem, EntryRange, read_update};
use crate::write::{AttributeChange, Condition, Write};

/// Number of partitions for chats with unpublished messages.
const DIRTY_SHARDS: u64 = 16;
/// Limit of marks and events per partition in a query for overdue ones.
const OVERDUE_MAX: usize = 100;
/// Limit of changes of a chat per call.
const WAITING_MAX: usize = 100;

/// The sequence up to which the messages of a chat are known to be in the log.
pub(crate) const PUBLISHED: &str = "published_sequence";
const DIRTY_SHARD: &str = "dirty_shard";
pub(crate) const DIRTY_SINCE: &str = "dirty_since";

#[async_trait]
impl Outbox for DynamoStore {
    async fn committed(&self) -> Vec<Committed> {
        self.queue().take().await
    }

    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError> {
        let dirty = (0..DIRTY_SHARDS).map(|shard| (Table::ChatCounters, shard));
        let events = (0..OUTBOX_SHARDS).map(|shard| (Table::Outbox, shard));
        let looks = dirty.chain(events).map(|(table, shard)| self.oldest(table, shard, before));
        let found: Vec<Vec<_>> = stream::iter(looks).buffer_unordered(CONCURRENCY_MAX).try_collect().await?;
        let mut waiting = found.concat();
        waiting.sort();
        let mut seen = HashSet::new();
        Ok(waiting.into_iter().map(|(_, chat_id)| chat_id).filter(|chat_id| seen.insert(*chat_id)).collect())
    }

    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError> {
        // A chat without its counter row accepts no messages. Publishing continues once the row is restored.
        let Some(counter) = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? else {
            return Ok(vec![]);
        };
        let range = EntryRange::read(&counter)?;
        let mut published = Sequence(ItemReader { table: Table::ChatCounters, item: &counter }.number(PUBLISHED)?);
        while published < range.head {
            let (events, examined) = self.events_above(chat_id, published, range).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            // None of these entries produces an event, so the relay would never confirm them.
            self.published(chat_id, examined).await?;
            published = examined;
        }
        Ok(vec![])
    }

    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError> {
        let counter = || ItemKey::one(Table::ChatCounters, chat_id);
        let forward = || Condition::Below(PUBLISHED, number(through.0));
        let published = || AttributeChange::Set(PUBLISHED, Some(number(through.0)));
        let to_the_head = || {
            let changes =
                vec![published(), AttributeChange::Set(DIRTY_SHARD, None), AttributeChange::Set(DIRTY_SINCE, None)];
            let at_the_head = Condition::Equals("sequence_counter", number(through.0));
            Write::update(counter(), changes).when(forward()).when(at_the_head)
        };
        let below_the_head = || {
            // The age of the next message is unknown here; it is recent, or the chat would be overdue.
            let changes = vec![published(), AttributeChange::Set(DIRTY_SINCE, Some(text(self.clock().now())))];
            let head_is_above = Condition::Above("sequence_counter", number(through.0));
            Write::update(counter(), changes).when(forward()).when(head_is_above)
        };
        // The head never decreases. So if the sequence is neither at the head nor below it, it was already published.
        if !self.db().update(to_the_head).await? {
            self.db().update(below_the_head).await?;
        }
        Ok(())
    }

    async fn pending_changes(&self, chat_id: ChatId) -> Result<Vec<PendingChange>, StoreError> {
        let (items, _) = self.db().page(&events_of(chat_id), WAITING_MAX, None).await?;
        let mut waiting = Vec::with_capacity(items.len());
        for item in &items {
            let key = ItemReader { table: Table::Outbox, item }.text("place")?.to_owned();
            match read_event(item) {
                Ok(event) => waiting.push(PendingChange { key, event: Arc::new(event) }),
                Err(failure) => {
                    unreadable(Table::Outbox, &failure);
                    // If another process has already set it aside, the transaction is cancelled.
                    self.db().transact(|| set_aside(chat_id, &key, item)).await?;
                }
            }
        }
        Ok(waiting)
    }

    async fn confirm_changes(&self, chat_id: ChatId, keys: &[String]) -> Result<(), StoreError> {
        // A transaction must not name an item twice.
        let keys: Vec<_> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        for keys in keys.chunks(TRANSACTION_ITEMS_MAX) {
            let writes = || keys.iter().map(|key| Write::delete(event_key(chat_id, key))).collect();
            self.db().transact(writes).await?;
        }
        Ok(())
    }
}

impl DynamoStore {
    /// Notifies the relay of this process of new events of a chat.
    pub(crate) fn notify_relay(&self, chat_id: ChatId) {
        self.queue().push(Committed { chat_id, messages: vec![] });
    }

    /// The chats of one partition that have waited longest, each with its time.
    async fn oldest(
        &self,
        table: Table,
        shard: u64,
        before: Timestamp,
    ) -> Result<Vec<(Timestamp, ChatId)>, StoreError> {
        let oldest = PartitionQuery {
            index: table.definition().index,
            bound: Some(Bound::AtMost(text(before))),
            ..PartitionQuery::partition(table, shard)
        };
        let items = self.db().query(&oldest, OVERDUE_MAX).await?;
        // An unreadable item must not hide the others.
        let read = |item| waiting_since(table, item).inspect_err(|failure| unreadable(table, failure)).ok();
        Ok(items.iter().filter_map(read).collect())
    }

    /// The events of the next entries above a sequence, and the last sequence that is covered. Expired entries are left
    /// out (G11), and unreadable ones are skipped, so they do not block the others.
    async fn events_above(
        &self,
        chat_id: ChatId,
        above: Sequence,
        range: EntryRange,
    ) -> Result<(Vec<Arc<Event>>, Sequence), StoreError> {
        let (entries, examined) = self.entry_items(chat_id, above, range, ROWS_MAX).await?;
        let updates = entries.iter().filter(|entry| entry.table == Table::Updates);
        let keys = updates.filter_map(|entry| Some(message_key(chat_id, read_update(&entry.item).ok()?.target)));
        let keys: Vec<ItemKey> = keys.collect();
        let targets = if keys.is_empty() { vec![] } else { self.db().get_many(&keys).await? };
        let targets: HashMap<ItemKey, Option<DynamoItem>> = keys.into_iter().zip(targets).collect();
        let now = self.clock().now();
        let mut events = Vec::with_capacity(entries.len());
        for EntryItem { table, item, .. } in &entries {
            let event = match table {
                Table::Updates => update_event(item, &targets),
                _ => message_event(item),
            };
            match event {
                Ok(event) => events.extend(Arc::new(event).read_at(now)),
                Err(failure) => unreadable(*table, &failure),
            }
        }
        Ok((events, examined))
    }
}

/// Marks a chat for the relay. The mark keeps the time of the oldest unpublished message.
pub(crate) fn dirty_mark(chat_id: ChatId, since: Timestamp) -> [AttributeChange; 2] {
    [
        AttributeChange::Set(DIRTY_SHARD, Some(text(shard(&chat_id.to_bytes(), DIRTY_SHARDS)))),
        AttributeChange::SetIfAbsent(DIRTY_SINCE, text(since)),
    ]
}

fn waiting_since(table: Table, item: &DynamoItem) -> Result<(Timestamp, ChatId), StoreError> {
    let row = ItemReader { table, item };
    match table {
        Table::Outbox => Ok((row.parsed(EVENT_TIME)?, chat_at(row.text("place")?)?)),
        _ => Ok((row.parsed(DIRTY_SINCE)?, row.parsed("chat_id")?)),
    }
}

fn message_event(item: &DynamoItem) -> Result<Event, StoreError> {
    let row = ItemReader { table: Table::Messages, item };
    let event = Event::message_persisted(read_message(item)?, row.maybe_parsed("origin_connection_id")?);
    Ok(event.numbered(read_event_number(row)?))
}

/// The event of an update, with the current state of its message.
fn update_event(item: &DynamoItem, messages: &HashMap<ItemKey, Option<DynamoItem>>) -> Result<Event, StoreError> {
    let update = read_update(item)?;
    let message = messages.get(&message_key(update.chat_id, update.target)).and_then(Option::as_ref);
    let event = Event::message_updated(update, message.map(read_message).transpose()?);
    Ok(event.numbered(read_event_number(ItemReader { table: Table::Updates, item })?))
}

/// Reports an unreadable item that is skipped. An operator has to inspect it.
fn unreadable(table: Table, failure: &StoreError) {
    counter!("tidings_outbox_unreadable_total", "table" => table.name()).increment(1);
    error!(error = %error_chain(failure), "skipping an unreadable outbox item");
}

#[cfg(test)]
mod tests {
    use domain::{ChatCommand, ChatUpdate, EventBody};
    use ports::{ChatWriter, Clock, MessageWriter, SystemClock};

    use super::*;
    use crate::item::item;
    use crate::testing::{DynamoServer, chat, message};

    fn sequences(events: &[Arc<Event>]) -> Vec<u64> {
        let sequence = |event: &Arc<Event>| match &event.body {
            EventBody::MessagePersisted { message, .. } => message.sequence.0,
            other => panic!("{other:?}"),
        };
        events.iter().map(sequence).collect()
    }

    #[tokio::test]
    async fn an_unreadable_presence_change_is_set_aside_and_blocks_no_other() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        let rename = ChatCommand::Update(ChatUpdate::name("new".to_owned().try_into().unwrap()));
        store.apply(chat_id, owner, rename, SystemClock.now()).await.unwrap().unwrap();
        let keys: Vec<_> =
            store.pending_changes(chat_id).await.unwrap().into_iter().map(|waiting| waiting.key).collect();
        let strange = item([("event_type", Some(text("strange"))), (EVENT_TIME, Some(text(Timestamp::default())))]);
        server.put(event_key(chat_id, &keys[0]), strange.clone()).await;

        for _ in 0..2 {
            let waiting = store.pending_changes(chat_id).await.unwrap();
            assert_eq!(waiting.iter().map(|waiting| &waiting.key).collect::<Vec<_>>(), [&keys[1]]);
        }
        store.confirm_changes(chat_id, &keys).await.unwrap();
        assert_eq!(store.overdue(Timestamp::MAX).await.unwrap(), []);
        let aside = store.db().get(&ItemKey::of(Table::Outbox, "unreadable", &keys[0])).await.unwrap().unwrap();
        assert_eq!(aside["event_type"], strange["event_type"]);
    }

    #[tokio::test]
    async fn a_message_that_cannot_be_read_is_passed_over() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append((0..3).map(|_| message(chat_id, owner)).collect()).await.unwrap();
        server.put(message_key(chat_id, Sequence(2)), item([("content", Some(number(7)))])).await;
        assert_eq!(sequences(&store.unpublished(chat_id).await.unwrap()), [1, 3]);
    }

    #[tokio::test]
    async fn a_chat_that_has_lost_its_counter_publishes_nothing() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append(vec![message(chat_id, owner)]).await.unwrap();
        store.db().transact(|| vec![Write::delete(ItemKey::one(Table::ChatCounters, chat_id))]).await.unwrap();
        assert_eq!(store.unpublished(chat_id).await.unwrap(), []);
        store.published(chat_id, Sequence(1)).await.unwrap();
        assert_eq!(store.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_sequence_above_the_head_is_refused() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append(vec![message(chat_id, owner)]).await.unwrap();
        store.published(chat_id, Sequence(2)).await.unwrap();
        assert_eq!(sequences(&store.unpublished(chat_id).await.unwrap()), [1]);
    }

    #[tokio::test]
    async fn one_mark_that_cannot_be_read_does_not_hide_the_others() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, _) = chat(&store).await;
        let strange = item([(EVENT_TIME, Some(text(Timestamp::default())))]);
        server.put(event_key(chat_id, "chat_1#0"), strange).await;
        assert_eq!(store.overdue(Timestamp::MAX).await.unwrap(), [chat_id]);
    }
}
