//! What was committed and is not known to be in the log (C2).
//!
//! Messages wait as their own rows: the counter row of a chat says up to where they are published, and is in the
//! `dirty-index` while that is not the head. Other events are items of the outbox until they are forgotten.

mod item;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, Event, Message, Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use ports::{Committed, Outbox, StoreError, Waiting};
use tracing::error;

pub(crate) use self::item::{EVENT_TIME, change_write, events_of, purge_write, read_event};
use self::item::{OUTBOX_SHARDS, chat_at, event_key, set_aside};
use crate::DynamoStore;
use crate::db::{Bound, CONCURRENCY_MAX, Query, TRANSACTION_ITEMS_MAX};
use crate::item::{Item, Key, Row, number, text};
use crate::messages::{ROWS_MAX, counter_sequence, read_message};
use crate::schema::Table;
use crate::shard::shard;
use crate::write::{Change, Condition, Write};

/// Partitions that the chats with unpublished messages are spread over.
const DIRTY_SHARDS: u64 = 16;
/// Marks and events of one partition that a look for what is overdue returns, at the most.
const OVERDUE_MAX: usize = 100;
/// Changes of a chat that are returned at once, at the most.
const WAITING_MAX: usize = 100;

/// Up to where the messages of a chat are known to be in the log.
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
        // A chat that has lost its counter row takes no messages. It is published again once the row is restored.
        let Some(counter) = self.db().get(&Key::one(Table::ChatCounters, chat_id)).await? else { return Ok(vec![]) };
        let head = counter_sequence(&counter)?;
        let mut published = Sequence(Row { table: Table::ChatCounters, item: &counter }.number(PUBLISHED)?);
        while published < head {
            let (events, examined) = self.events_above(chat_id, published, head).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            // Nobody is told of any of these, so nobody would ever say that they are published.
            self.published(chat_id, examined).await?;
            published = examined;
        }
        Ok(vec![])
    }

    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError> {
        let counter = || Key::one(Table::ChatCounters, chat_id);
        let forward = || Condition::Below(PUBLISHED, number(through.0));
        let published = || Change::Set(PUBLISHED, Some(number(through.0)));
        let to_the_head = || {
            let changes = vec![published(), Change::Set(DIRTY_SHARD, None), Change::Set(DIRTY_SINCE, None)];
            let at_the_head = Condition::Equals("sequence_counter", number(through.0));
            Write::update(counter(), changes).when(forward()).when(at_the_head)
        };
        let below_the_head = || {
            // How long the next one waits is not known here; it has been a moment, or it would be overdue.
            let changes = vec![published(), Change::Set(DIRTY_SINCE, Some(text(self.clock().now())))];
            let head_is_above = Condition::Above("sequence_counter", number(through.0));
            Write::update(counter(), changes).when(forward()).when(head_is_above)
        };
        // The head only moves up, so whoever is neither at it nor below it was published before.
        if !self.db().update(to_the_head).await? {
            self.db().update(below_the_head).await?;
        }
        Ok(())
    }

    async fn waiting(&self, chat_id: ChatId) -> Result<Vec<Waiting>, StoreError> {
        let (items, _) = self.db().page(&events_of(chat_id), WAITING_MAX, None).await?;
        let mut waiting = Vec::with_capacity(items.len());
        for item in &items {
            let place = Row { table: Table::Outbox, item }.text("place")?.to_owned();
            match read_event(item) {
                Ok(event) => waiting.push(Waiting { place, event: Arc::new(event) }),
                Err(failure) => {
                    unreadable(Table::Outbox, &failure);
                    // Whoever else has come upon it has set it aside already.
                    self.db().transact(|| set_aside(chat_id, &place, item)).await?;
                }
            }
        }
        Ok(waiting)
    }

    async fn forget(&self, chat_id: ChatId, places: &[String]) -> Result<(), StoreError> {
        // A transaction must not name an item twice.
        let places: Vec<_> = places.iter().collect::<BTreeSet<_>>().into_iter().collect();
        for places in places.chunks(TRANSACTION_ITEMS_MAX) {
            let writes = || places.iter().map(|place| Write::delete(event_key(chat_id, place))).collect();
            self.db().transact(writes).await?;
        }
        Ok(())
    }
}

impl DynamoStore {
    /// Has the relay of this process look at the events of a chat.
    pub(crate) fn tell_of_change(&self, chat_id: ChatId) {
        self.queue().push(Committed { chat_id, messages: vec![] });
    }

    /// The chats of one partition that have waited the longest, and since when.
    async fn oldest(
        &self,
        table: Table,
        shard: u64,
        before: Timestamp,
    ) -> Result<Vec<(Timestamp, ChatId)>, StoreError> {
        let oldest = Query {
            index: table.definition().index,
            bound: Some(Bound::AtMost(text(before))),
            ..Query::partition(table, shard)
        };
        let items = self.db().query(&oldest, OVERDUE_MAX).await?;
        // What cannot be read must not hide the others.
        let read = |item| waiting_since(table, item).inspect_err(|failure| unreadable(table, failure)).ok();
        Ok(items.iter().filter_map(read).collect())
    }

    /// The events of the next messages above a sequence, and the last sequence that is accounted for. What has expired
    /// reaches nobody any more (G11), and what cannot be read holds up nobody.
    async fn events_above(
        &self,
        chat_id: ChatId,
        above: Sequence,
        head: Sequence,
    ) -> Result<(Vec<Arc<Event>>, Sequence), StoreError> {
        let rows = Query {
            bound: Some(Bound::Between(number(above.0 + 1), number(head.0))),
            ..Query::partition(Table::Messages, chat_id)
        };
        let (items, more) = self.db().page(&rows, ROWS_MAX, None).await?;
        let last = items.last().map(|item| Row { table: Table::Messages, item }.number("sequence")).transpose()?;
        let examined = more.and(last).map_or(head, Sequence);
        let now = self.clock().now();
        let mut events = Vec::with_capacity(items.len());
        for item in &items {
            match message_event(item) {
                Ok((message, _)) if message.is_expired(now) => {}
                Ok((message, origin)) => events.push(Arc::new(Event::message_persisted(message, origin))),
                Err(failure) => unreadable(Table::Messages, &failure),
            }
        }
        Ok((events, examined))
    }
}

/// Marks a chat for the relay. The mark keeps the time of the oldest message that is not published.
pub(crate) fn dirty_mark(chat_id: ChatId, since: Timestamp) -> [Change; 2] {
    [
        Change::Set(DIRTY_SHARD, Some(text(shard(&chat_id.to_bytes(), DIRTY_SHARDS)))),
        Change::SetIfAbsent(DIRTY_SINCE, text(since)),
    ]
}

fn waiting_since(table: Table, item: &Item) -> Result<(Timestamp, ChatId), StoreError> {
    let row = Row { table, item };
    match table {
        Table::Outbox => Ok((row.parsed(EVENT_TIME)?, chat_at(row.text("place")?)?)),
        _ => Ok((row.parsed(DIRTY_SINCE)?, row.parsed("chat_id")?)),
    }
}

fn message_event(item: &Item) -> Result<(Message, Option<ConnectionId>), StoreError> {
    let origin = Row { table: Table::Messages, item }.maybe_parsed("origin_connection_id")?;
    Ok((read_message(item)?, origin))
}

/// Something that is passed over because it cannot be read. An operator has to look.
fn unreadable(table: Table, failure: &StoreError) {
    counter!("tidings_outbox_unreadable_total", "table" => table.name()).increment(1);
    error!(error = failure as &dyn std::error::Error, "something that waits for the log cannot be read");
}

#[cfg(test)]
mod tests {
    use domain::{ChatCommand, ChatUpdate, EventBody};
    use ports::{ChatWriter, Clock, MessageWriter, SystemClock};

    use super::*;
    use crate::item::item;
    use crate::messages::message_key;
    use crate::testing::{Server, chat, message};

    fn sequences(events: &[Arc<Event>]) -> Vec<u64> {
        let sequence = |event: &Arc<Event>| match &event.body {
            EventBody::MessagePersisted { message, .. } => message.sequence.0,
            other => panic!("{other:?}"),
        };
        events.iter().map(sequence).collect()
    }

    #[tokio::test]
    async fn a_change_that_cannot_be_read_is_set_aside_and_holds_up_nobody() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        let rename = ChatCommand::Update(ChatUpdate::name("new".to_owned().try_into().unwrap()));
        store.apply(chat_id, owner, rename, SystemClock.now()).await.unwrap().unwrap();
        let places: Vec<_> = store.waiting(chat_id).await.unwrap().into_iter().map(|waiting| waiting.place).collect();
        let strange = item([("event_type", Some(text("strange"))), (EVENT_TIME, Some(text(Timestamp::default())))]);
        server.put(event_key(chat_id, &places[0]), strange.clone()).await;

        for _ in 0..2 {
            let waiting = store.waiting(chat_id).await.unwrap();
            assert_eq!(waiting.iter().map(|waiting| &waiting.place).collect::<Vec<_>>(), [&places[1]]);
        }
        store.forget(chat_id, &places).await.unwrap();
        assert_eq!(store.overdue(Timestamp::MAX).await.unwrap(), []);
        let aside = store.db().get(&Key::of(Table::Outbox, "unreadable", &places[0])).await.unwrap().unwrap();
        assert_eq!(aside["event_type"], strange["event_type"]);
    }

    #[tokio::test]
    async fn a_message_that_cannot_be_read_is_passed_over() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append((0..3).map(|_| message(chat_id, owner)).collect()).await.unwrap();
        server.put(message_key(chat_id, Sequence(2)), item([("content", Some(number(7)))])).await;
        assert_eq!(sequences(&store.unpublished(chat_id).await.unwrap()), [1, 3]);
    }

    #[tokio::test]
    async fn a_chat_that_has_lost_its_counter_publishes_nothing() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append(vec![message(chat_id, owner)]).await.unwrap();
        store.db().transact(|| vec![Write::delete(Key::one(Table::ChatCounters, chat_id))]).await.unwrap();
        assert_eq!(store.unpublished(chat_id).await.unwrap(), []);
        store.published(chat_id, Sequence(1)).await.unwrap();
        assert_eq!(store.db().get(&Key::one(Table::ChatCounters, chat_id)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_place_above_the_head_is_not_believed() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        store.append(vec![message(chat_id, owner)]).await.unwrap();
        store.published(chat_id, Sequence(2)).await.unwrap();
        assert_eq!(sequences(&store.unpublished(chat_id).await.unwrap()), [1]);
    }

    #[tokio::test]
    async fn one_mark_that_cannot_be_read_does_not_hide_the_others() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, _) = chat(&store).await;
        let strange = item([(EVENT_TIME, Some(text(Timestamp::default())))]);
        server.put(event_key(chat_id, "chat_1#0"), strange).await;
        assert_eq!(store.overdue(Timestamp::MAX).await.unwrap(), [chat_id]);
    }
}
