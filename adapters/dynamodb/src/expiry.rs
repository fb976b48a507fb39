//! The purge of expired messages. They disappear from every read when they expire (G11). The purge then deletes their
//! rows and writes the event that notifies members.
//!
//! Each message with an expiry has an expiration item, ordered by time. One transaction deletes that item and the row,
//! and writes the event. So each message is announced once, however many processes purge. As a fallback, the service
//! also deletes rows by their [`TTL`](crate::schema::TTL), some days late and without an event.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ChatId, Event, EventBody, IdError, Message, Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use ports::{BoxError, StoreError, error_chain};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::DynamoStore;
use crate::db::{Bound, PartitionQuery, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, item, number, text};
use crate::messages::{counter_sequence, message_key};
use crate::outbox::purge_write;
use crate::schema::Table;
use crate::shard::shard;
use crate::write::{AttributeChange, Condition, Write};

/// Number of partitions for expirations; those of one chat are in one.
const EXPIRATION_SHARDS: u64 = 16;
/// Limit of partitions purged concurrently. The purge is not urgent, and sends need the service too.
const SHARDS_AT_ONCE: usize = 4;
/// Limit of messages per partition and pass.
const STEP_LEN_MAX: usize = 500;
/// Limit of messages per transaction: two items for each, one for the event and one for the head.
const PURGE_LEN_MAX: usize = (TRANSACTION_ITEMS_MAX - 2) / 2;
/// Average interval between purges.
const PERIOD: Duration = Duration::from_secs(5);

impl DynamoStore {
    /// Purges messages that have expired by `now`, writes their events, and returns their number. One call does bounded
    /// work: call it again until it returns 0. Any number of processes may call it concurrently.
    pub async fn purge_expired(&self, now: Timestamp) -> Result<usize, StoreError> {
        let shards = (0..EXPIRATION_SHARDS).map(|shard| self.purge_shard(shard, now));
        let purged: Vec<usize> = stream::iter(shards).buffer_unordered(SHARDS_AT_ONCE).try_collect().await?;
        Ok(purged.into_iter().sum())
    }

    /// Purges expired messages every few seconds; never returns. It may be dropped at any time.
    pub async fn keep_purging(&self) {
        loop {
            // Random, so that the processes of a fleet do not purge at the same time.
            sleep(PERIOD.mul_f64(0.5 + rand::random::<f64>())).await;
            loop {
                match self.purge_expired(self.clock().now()).await {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(failure) => {
                        warn!(
                            error = %error_chain(&failure),
                            "could not purge expired messages; retrying at the next interval"
                        );
                        break;
                    }
                }
            }
        }
    }

    async fn purge_shard(&self, shard: u64, now: Timestamp) -> Result<usize, StoreError> {
        // `$` is the character after `#`, so this includes everything up to this millisecond.
        let due = Bound::Below(text(format_args!("{now}$")));
        let due = PartitionQuery { bound: Some(due), ..PartitionQuery::partition(Table::Expirations, shard) };
        let mut by_chat: BTreeMap<ChatId, BTreeMap<Sequence, ItemKey>> = BTreeMap::new();
        for item in self.db().query(&due, STEP_LEN_MAX).await? {
            match read_expiration(&item) {
                Ok((chat_id, sequence, key)) => drop(by_chat.entry(chat_id).or_default().insert(sequence, key)),
                Err(failure) => error!(error = %error_chain(&failure), "skipping an unreadable expiration"),
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
        due: &[(Sequence, ItemKey)],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        let head = self.db().get(&counter).await?.map(|counter| counter_sequence(&counter)).transpose()?;
        // The head has a preview of the last message only.
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
                let wordless = vec![AttributeChange::Set("last_preview", None)];
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
            // Another process has purged some of them, or a new message has arrived. The next pass purges the rest.
            Transacted::Cancelled(reasons) => {
                self.drop_stale(due, &reasons).await?;
                Ok(0)
            }
        }
    }

    /// Deletes expirations of messages that have not expired. After a counter was restored too low, another message may
    /// have taken the sequence. That message must not be purged, nor block the others.
    async fn drop_stale(&self, due: &[(Sequence, ItemKey)], reasons: &[Reason]) -> Result<(), StoreError> {
        let stale = due.iter().enumerate().filter(|(n, _)| reasons.get(2 * n) == Some(&Reason::Condition));
        let stale: Vec<&ItemKey> = stale.map(|(_, (_, expiration))| expiration).collect();
        if !stale.is_empty() {
            let writes = || stale.iter().map(|expiration| Write::delete((*expiration).clone())).collect();
            self.db().transact(writes).await?;
        }
        Ok(())
    }
}

/// Schedules the purge of a message, if it has an expiry.
pub(crate) fn expiration_write(message: &Message) -> Option<Write> {
    Some(Write::put(expiration_key(message)?, item([])))
}

/// The key of a message's expiration, if it has an expiry.
pub(crate) fn expiration_key(message: &Message) -> Option<ItemKey> {
    let Message { chat_id, sequence, .. } = message;
    let place = format!("{}#{chat_id}#{sequence:020}", message.expires_at?);
    Some(ItemKey::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), place))
}

/// The expirations at or before `now` in the partition of a chat.
pub(crate) fn due_beside(chat_id: ChatId, now: Timestamp) -> PartitionQuery {
    // `$` is the character after `#`, so this includes everything up to this millisecond.
    let due = Bound::Below(text(format_args!("{now}$")));
    PartitionQuery {
        bound: Some(due),
        ..PartitionQuery::partition(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS))
    }
}

pub(crate) fn read_expiration(item: &DynamoItem) -> Result<(ChatId, Sequence, ItemKey), StoreError> {
    let row = ItemReader { table: Table::Expirations, item };
    let place = row.text("place")?;
    let (chat_id, sequence) = place.split_once('#').and_then(|(_, place)| place.split_once('#')).unwrap_or_default();
    let chat_id = chat_id.parse().map_err(|error: IdError| row.unreadable(error))?;
    let sequence = sequence.parse().map_err(|error: std::num::ParseIntError| row.unreadable(BoxError::from(error)))?;
    Ok((chat_id, Sequence(sequence), ItemKey::read(Table::Expirations, item)?))
}

#[cfg(test)]
mod tests {
    use domain::Ttl;
    use futures_util::future::join_all;
    use ports::{AppendOutcome, Clock, MessageReader, MessageWriter, NewMessage, Outbox, SystemClock};

    use super::*;
    use crate::testing::{DynamoServer, chat, message};

    const LIFE: Duration = Duration::from_secs(60);

    fn expiring(message: NewMessage) -> NewMessage {
        NewMessage { ttl: Ttl::from_secs(LIFE.as_secs()), ..message }
    }

    /// A time at which everything sent so far has expired.
    fn later() -> Timestamp {
        SystemClock.now() + 2 * LIFE
    }

    async fn send(store: &DynamoStore, batch: Vec<NewMessage>) {
        for outcome in store.append(batch).await.unwrap() {
            assert!(matches!(outcome, AppendOutcome::New(_)), "{outcome:?}");
        }
    }

    async fn rows(store: &DynamoStore, chat_id: ChatId) -> Vec<u64> {
        let items = store.db().query(&PartitionQuery::partition(Table::Messages, chat_id), 1000).await.unwrap();
        items.iter().map(|item| ItemReader { table: Table::Messages, item }.number("sequence").unwrap()).collect()
    }

    async fn expirations(store: &DynamoStore, chat_id: ChatId) -> usize {
        let shard = shard(&chat_id.to_bytes(), EXPIRATION_SHARDS);
        store.db().query(&PartitionQuery::partition(Table::Expirations, shard), 1000).await.unwrap().len()
    }

    /// The sequences of each announced purge.
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
        let server = DynamoServer::with_tables().await;
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
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let key = ItemKey::one(Table::ChatCounters, chat_id);
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
        let server = DynamoServer::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        send(&server.store(), (0..MESSAGES).map(|_| expiring(message(chat_id, sender_id))).collect()).await;
        let process = |store: DynamoStore| async move {
            let mut purged = 0;
            // A process that conflicts with others purges nothing, and finds the rest in the next pass.
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
        let server = DynamoServer::with_tables().await;
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
        let server = DynamoServer::with_tables().await;
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
        let server = DynamoServer::with_tables().await;
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
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        send(&store, vec![expiring(message(chat_id, sender_id))]).await;
        for place in ["", "1970", "1970#chat_1#1", &format!("1970#{chat_id}#one"), &format!("1970#{chat_id}")] {
            let place = format!("0{place}");
            server
                .put(ItemKey::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), place), item([]))
                .await;
        }
        assert_eq!(store.purge_expired(later()).await.unwrap(), 1);
        assert_eq!(told(&store, chat_id).await, [[1]]);
    }
}
