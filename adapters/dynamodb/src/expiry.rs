//! The purge of messages that have expired. They are gone from every read at their moment (G11); this deletes their
//! rows soon after, and leaves the event that tells members of it.
//!
//! A message that will expire has an item of its own, ordered by time. Whoever deletes that item deletes the row and
//! writes the event in the same transaction, so however many processes purge, each message is told of once. The service
//! deletes rows by their [`TTL`](crate::schema::TTL) too, some days late and without a word: it is what is left where
//! nobody purges.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ChatId, Event, EventBody, IdError, Message, Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use ports::{BoxError, StoreError};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::DynamoStore;
use crate::db::{Bound, Query, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::item::{EXPIRES_AT, Item, Key, Row, item, number, text};
use crate::messages::{counter_sequence, message_key};
use crate::outbox::purge_write;
use crate::schema::Table;
use crate::shard::shard;
use crate::write::{Change, Condition, Write};

/// Partitions that expirations are spread over; those of one chat are in one.
const EXPIRATION_SHARDS: u64 = 16;
/// Partitions that are purged at the same time. Nobody waits for it, and sends need the service too.
const SHARDS_AT_ONCE: usize = 4;
/// Messages of one partition that one look purges, at the most.
const STEP_LEN_MAX: usize = 500;
/// Messages that one transaction purges, at the most: two items for each, one for the event and one for the head.
const PURGE_LEN_MAX: usize = (TRANSACTION_ITEMS_MAX - 2) / 2;
/// How often to look, on average.
const PERIOD: Duration = Duration::from_secs(5);

impl DynamoStore {
    /// Purges messages that have expired by `now`, tells of them, and says how many there were. One call is bounded
    /// work: there may be more until it says 0. It may be called by any number of processes at once.
    pub async fn purge_expired(&self, now: Timestamp) -> Result<usize, StoreError> {
        let shards = (0..EXPIRATION_SHARDS).map(|shard| self.purge_shard(shard, now));
        let purged: Vec<usize> = stream::iter(shards).buffer_unordered(SHARDS_AT_ONCE).try_collect().await?;
        Ok(purged.into_iter().sum())
    }

    /// Purges what has expired, every few seconds and for good. It may be dropped at any moment.
    pub async fn keep_purging(&self) {
        loop {
            // At random, so that the processes of a fleet do not all look at the same moment.
            sleep(PERIOD.mul_f64(0.5 + rand::random::<f64>())).await;
            loop {
                match self.purge_expired(self.clock().now()).await {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(failure) => {
                        warn!(error = &failure as &dyn std::error::Error, "cannot purge expired messages");
                        break;
                    }
                }
            }
        }
    }

    async fn purge_shard(&self, shard: u64, now: Timestamp) -> Result<usize, StoreError> {
        // `$` is the character behind `#`: everything up to this millisecond.
        let due = Bound::Below(text(format_args!("{now}$")));
        let due = Query { bound: Some(due), ..Query::partition(Table::Expirations, shard) };
        let mut by_chat: BTreeMap<ChatId, BTreeMap<Sequence, Key>> = BTreeMap::new();
        for item in self.db().query(&due, STEP_LEN_MAX).await? {
            match read_expiration(&item) {
                Ok((chat_id, sequence, key)) => drop(by_chat.entry(chat_id).or_default().insert(sequence, key)),
                Err(failure) => error!(error = &failure as &dyn std::error::Error, "an expiration cannot be read"),
            }
        }
        let mut purged = 0;
        for (chat_id, due) in by_chat {
            let due: Vec<_> = due.into_iter().collect();
            for due in due.chunks(PURGE_LEN_MAX) {
                purged += self.purge_messages(chat_id, due, now).await?;
            }
        }
        Ok(purged)
    }

    /// Purges messages of one chat, ascending, all or none.
    async fn purge_messages(
        &self,
        chat_id: ChatId,
        due: &[(Sequence, Key)],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let counter = Key::one(Table::ChatCounters, chat_id);
        let head = self.db().get(&counter).await?.map(|counter| counter_sequence(&counter)).transpose()?;
        // Only the last message has left words at the head.
        let last = due.iter().map(|(sequence, _)| *sequence).find(|sequence| Some(*sequence) == head);
        let sequences = due.iter().map(|(sequence, _)| *sequence).collect();
        let body = EventBody::MessagesExpired { chat_id, sequences };
        let event = Event { event_id: self.ids().ulid().into(), event_time: now, body };
        let writes = || {
            let mut writes = Vec::with_capacity(TRANSACTION_ITEMS_MAX);
            for (sequence, expiration) in due {
                let expired = Condition::AbsentOrAtMost(EXPIRES_AT, text(now));
                writes.push(Write::delete(message_key(chat_id, *sequence)).when(expired));
                writes.push(Write::delete(expiration.clone()).if_there());
            }
            writes.extend(purge_write(&event));
            writes.extend(last.map(|last| {
                let wordless = vec![Change::Set("last_preview", None)];
                Write::update(counter.clone(), wordless).when(Condition::Equals("sequence_counter", number(last.0)))
            }));
            writes
        };
        match self.db().transact(writes).await? {
            Transacted::Committed => {
                self.tell_of_change(chat_id);
                counter!("tidings_store_purged_messages_total").increment(due.len() as u64);
                Ok(due.len())
            }
            // Somebody else has purged some of them, or another message has come. The next look finds what is left.
            Transacted::Cancelled(reasons) => {
                self.drop_stale(due, &reasons).await?;
                Ok(0)
            }
        }
    }

    /// Deletes expirations whose messages have not expired: where a counter was restored too low, another message has
    /// got their place, and must neither go with them nor hold up the others.
    async fn drop_stale(&self, due: &[(Sequence, Key)], reasons: &[Reason]) -> Result<(), StoreError> {
        let stale = due.iter().enumerate().filter(|(n, _)| reasons.get(2 * n) == Some(&Reason::Condition));
        let stale: Vec<&Key> = stale.map(|(_, (_, expiration))| expiration).collect();
        if !stale.is_empty() {
            let writes = || stale.iter().map(|expiration| Write::delete((*expiration).clone())).collect();
            self.db().transact(writes).await?;
        }
        Ok(())
    }
}

/// Has a message purged when its time has come, if it has one.
pub(crate) fn expiration_write(message: &Message) -> Option<Write> {
    Some(Write::put(expiration_key(message)?, item([])))
}

/// Where the expiration of a message is, if it has one.
pub(crate) fn expiration_key(message: &Message) -> Option<Key> {
    let Message { chat_id, sequence, .. } = message;
    let place = format!("{}#{chat_id}#{sequence:020}", message.expires_at?);
    Some(Key::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), place))
}

/// What expires at `now` or before, of the partition in which a chat's expirations are.
pub(crate) fn due_beside(chat_id: ChatId, now: Timestamp) -> Query {
    // `$` is the character behind `#`: everything up to this millisecond.
    let due = Bound::Below(text(format_args!("{now}$")));
    Query { bound: Some(due), ..Query::partition(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS)) }
}

pub(crate) fn read_expiration(item: &Item) -> Result<(ChatId, Sequence, Key), StoreError> {
    let row = Row { table: Table::Expirations, item };
    let place = row.text("place")?;
    let (chat_id, sequence) = place.split_once('#').and_then(|(_, place)| place.split_once('#')).unwrap_or_default();
    let chat_id = chat_id.parse().map_err(|error: IdError| row.unreadable(error))?;
    let sequence = sequence.parse().map_err(|error: std::num::ParseIntError| row.unreadable(BoxError::from(error)))?;
    Ok((chat_id, Sequence(sequence), Key::read(Table::Expirations, item)?))
}

#[cfg(test)]
mod tests {
    use domain::Ttl;
    use futures_util::future::join_all;
    use ports::{Appended, Clock, MessageReader, MessageWriter, NewMessage, Outbox, SystemClock};

    use super::*;
    use crate::testing::{Server, chat, message};

    const LIFE: Duration = Duration::from_secs(60);

    fn expiring(message: NewMessage) -> NewMessage {
        NewMessage { ttl: Ttl::from_secs(LIFE.as_secs()), ..message }
    }

    /// When everything that was sent by now has expired.
    fn later() -> Timestamp {
        SystemClock.now() + 2 * LIFE
    }

    async fn send(store: &DynamoStore, batch: Vec<NewMessage>) {
        for outcome in store.append(batch).await.unwrap() {
            assert!(matches!(outcome, Appended::New(_)), "{outcome:?}");
        }
    }

    async fn rows(store: &DynamoStore, chat_id: ChatId) -> Vec<u64> {
        let items = store.db().query(&Query::partition(Table::Messages, chat_id), 1000).await.unwrap();
        items.iter().map(|item| Row { table: Table::Messages, item }.number("sequence").unwrap()).collect()
    }

    async fn expirations(store: &DynamoStore, chat_id: ChatId) -> usize {
        let shard = shard(&chat_id.to_bytes(), EXPIRATION_SHARDS);
        store.db().query(&Query::partition(Table::Expirations, shard), 1000).await.unwrap().len()
    }

    /// The sequences of each purge that was told.
    async fn told(store: &DynamoStore, chat_id: ChatId) -> Vec<Vec<u64>> {
        let waiting = store.waiting(chat_id).await.unwrap();
        let purge = |body: &EventBody| match body {
            EventBody::MessagesExpired { sequences, .. } => Some(sequences.iter().map(|sequence| sequence.0).collect()),
            _ => None,
        };
        waiting.iter().filter_map(|waiting| purge(&waiting.event.body)).collect()
    }

    #[tokio::test]
    async fn a_purge_takes_what_is_due_and_nothing_else() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let first = expiring(message(chat_id, sender_id));
        let long = NewMessage { ttl: Ttl::from_secs(3600), ..message(chat_id, sender_id) };
        send(&store, vec![first.clone(), message(chat_id, sender_id), long, expiring(message(chat_id, sender_id))])
            .await;
        assert_eq!(expirations(&store, chat_id).await, 3);
        let moment = first.created_at + LIFE;
        assert_eq!(store.purge_expired(moment.minus(Duration::from_millis(1))).await.unwrap(), 0);
        assert!(store.purge_expired(moment).await.unwrap() > 0);
        store.purge_expired(later()).await.unwrap();
        assert_eq!((rows(&store, chat_id).await, expirations(&store, chat_id).await), (vec![2, 3], 1));
        assert_eq!(told(&store, chat_id).await.concat(), [1, 4]);
    }

    #[tokio::test]
    async fn words_leave_the_head_with_the_last_message_only() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let key = Key::one(Table::ChatCounters, chat_id);
        send(&store, vec![expiring(message(chat_id, sender_id)), message(chat_id, sender_id)]).await;
        assert_eq!(store.purge_expired(later()).await.unwrap(), 1);
        assert_eq!(store.db().get(&key).await.unwrap().unwrap()["last_preview"], text("hello"));
        let last = expiring(message(chat_id, sender_id));
        send(&store, vec![last.clone()]).await;
        assert_eq!(store.purge_expired(later()).await.unwrap(), 1);
        assert!(!store.db().get(&key).await.unwrap().unwrap().contains_key("last_preview"));
        let head = store.head(chat_id).await.unwrap().unwrap();
        assert_eq!((head.sequence, head.last_message.unwrap().message_id), (Sequence(3), last.message_id));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_messages_that_several_processes_purge_are_each_told_once() {
        const MESSAGES: u64 = 130;
        let server = Server::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        send(&server.store(), (0..MESSAGES).map(|_| expiring(message(chat_id, sender_id))).collect()).await;
        let process = |store: DynamoStore| async move {
            let mut purged = 0;
            // Whoever meets others takes nothing, and finds what they have left the next time.
            while expirations(&store, chat_id).await > 0 {
                purged += store.purge_expired(later()).await.unwrap();
            }
            purged
        };
        let purged = join_all((0..3).map(|_| tokio::spawn(process(server.store())))).await;
        assert_eq!(purged.into_iter().map(Result::unwrap).sum::<usize>() as u64, MESSAGES);
        let mut told = told(&server.store(), chat_id).await.concat();
        told.sort();
        assert_eq!(told, (1..=MESSAGES).collect::<Vec<_>>());
        assert_eq!(rows(&server.store(), chat_id).await, [0; 0]);
    }

    #[tokio::test]
    async fn what_expires_is_purged_without_being_asked_for() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let long_gone = SystemClock.now().minus(2 * LIFE);
        send(&store, vec![NewMessage { created_at: long_gone, ..expiring(message(chat_id, sender_id)) }]).await;
        assert_eq!(store.committed().await.len(), 2);
        tokio::select! {
            () = store.keep_purging() => unreachable!("it does not end"),
            committed = store.committed() => assert_eq!(committed[0].chat_id, chat_id),
        }
        assert_eq!((rows(&store, chat_id).await, told(&store, chat_id).await), (vec![], vec![vec![1]]));
    }

    #[tokio::test]
    async fn what_the_service_has_deleted_is_told_all_the_same() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let long_gone = SystemClock.now().minus(2 * LIFE);
        send(&store, vec![NewMessage { created_at: long_gone, ..expiring(message(chat_id, sender_id)) }]).await;
        server.database.sweep_ttl().unwrap();
        assert_eq!(rows(&store, chat_id).await, [0; 0]);
        assert_eq!(store.purge_expired(SystemClock.now()).await.unwrap(), 1);
        assert_eq!(told(&store, chat_id).await, [[1]]);
    }

    #[tokio::test]
    async fn an_expiration_of_another_message_takes_nothing_with_it() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let (stays, goes) = (message(chat_id, sender_id), expiring(message(chat_id, sender_id)));
        send(&store, vec![stays.clone(), goes]).await;
        let stale = expiring(stays).at(Sequence(1), None);
        store.db().transact(|| expiration_write(&stale).into_iter().collect()).await.unwrap();
        while expirations(&store, chat_id).await > 0 {
            store.purge_expired(later()).await.unwrap();
        }
        assert_eq!((rows(&store, chat_id).await, told(&store, chat_id).await), (vec![1], vec![vec![2]]));
    }

    #[tokio::test]
    async fn an_expiration_that_cannot_be_read_holds_up_nobody() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        send(&store, vec![expiring(message(chat_id, sender_id))]).await;
        for place in ["", "1970", "1970#chat_1#1", &format!("1970#{chat_id}#one"), &format!("1970#{chat_id}")] {
            let place = format!("0{place}");
            server
                .put(Key::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), place), item([]))
                .await;
        }
        assert_eq!(store.purge_expired(later()).await.unwrap(), 1);
        assert_eq!(told(&store, chat_id).await, [[1]]);
    }
}
