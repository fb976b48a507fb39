//! The purge of expired messages. They disappear from every read when they expire (G11). The purge then deletes their
//! rows and writes the event that notifies members.
//!
//! Each message with an expiry has an expiration item, ordered by time. One transaction deletes that item and the row,
//! and writes the event. So each message is announced once, however many processes purge. As a fallback, the service
//! also deletes rows by their [`TTL`](crate::schema::TTL), some days late and without an event. Updates of messages are
//! deleted that way alone.
//!
//! The expiration of a message with reactions stays until these are deleted, which follows the transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{ChatId, Event, EventBody, IdError, Message, MessageId, Sequence, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use ports::{BoxError, StoreError, error_chain};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::DynamoStore;
use crate::db::{Bound, PartitionQuery, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, item, text};
use crate::messages::{message_key, read_head};
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
/// The id of a message with reactions, in its expiration.
const REACTED: &str = "reacted_message_id";
/// The mark of an expiration whose message is purged.
const IS_PURGED: &str = "is_purged";
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
        let mut by_chat: BTreeMap<ChatId, BTreeMap<Sequence, Expiration>> = BTreeMap::new();
        for item in self.db().query(&due, STEP_LEN_MAX).await? {
            match read_expiration(&item) {
                // The process that has purged the message stopped before it deleted the reactions.
                Ok(Expiration { key, reacted: Some(message_id), is_purged: true, .. }) => {
                    self.purge_reactions(message_id, &key).await?;
                }
                Ok(due) => drop(by_chat.entry(due.chat_id).or_default().insert(due.sequence, due)),
                Err(failure) => error!(error = %error_chain(&failure), "skipping an unreadable expiration"),
            }
        }
        let mut purged = 0;
        for (chat_id, due) in by_chat {
            let due: Vec<_> = due.into_values().collect();
            for due in due.chunks(PURGE_LEN_MAX) {
                purged += self.purge_messages(chat_id, due, now).await?;
            }
        }
        Ok(purged)
    }

    /// Purges messages of one chat, ascending, all or none.
    pub(crate) async fn purge_messages(
        &self,
        chat_id: ChatId,
        due: &[Expiration],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        let head =
            self.db().get(&counter).await?.map(|counter| read_head(&counter, Timestamp::default())).transpose()?;
        // The head has a preview of the last message only.
        let last = head.and_then(|head| head.last_message);
        let last = last.filter(|last| due.iter().any(|due| due.sequence == last.sequence));
        let sequences = due.iter().map(|due| due.sequence).collect();
        let body = EventBody::MessagesExpired { chat_id, sequences };
        let event = Event { event_id: self.ids().ulid().into(), event_time: now, event_number: None, body };
        let writes = || {
            let mut writes = Vec::with_capacity(TRANSACTION_ITEMS_MAX);
            for due in due {
                let expired = Condition::AbsentOrAtMost(EXPIRES_AT, text(now));
                writes.push(Write::delete(message_key(chat_id, due.sequence)).when(expired));
                writes.push(due.done());
            }
            writes.extend(purge_write(&event));
            writes.extend(last.as_ref().map(|last| {
                let wordless = vec![AttributeChange::Set("last_preview", None)];
                let is_last = Condition::Equals("last_message_id", text(last.message_id));
                Write::update(counter.clone(), wordless).when(is_last)
            }));
            writes
        };
        match self.db().transact(writes).await? {
            Transacted::Committed => {
                self.notify_relay(chat_id);
                counter!("tidings_store_purged_messages_total").increment(due.len() as u64);
                for due in due {
                    if let Some(message_id) = due.reacted {
                        self.purge_reactions(message_id, &due.key).await?;
                    }
                }
                Ok(due.len())
            }
            // Another process has purged some of them, or a new message has arrived. The next pass purges the rest.
            Transacted::Cancelled(reasons) => {
                self.drop_stale(due, &reasons).await?;
                Ok(0)
            }
        }
    }

    /// Deletes the reactions of a purged message, which can get no others, and then its expiration.
    async fn purge_reactions(&self, message_id: MessageId, expiration: &ItemKey) -> Result<(), StoreError> {
        let query = PartitionQuery {
            attributes: &["message_id", "user_id"],
            ..PartitionQuery::partition(Table::Reactions, message_id)
        };
        let mut start = None;
        loop {
            let (items, next) = self.db().page(&query, TRANSACTION_ITEMS_MAX, start).await?;
            let keys = items.iter().map(|item| ItemKey::read(Table::Reactions, item));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            if !keys.is_empty() {
                self.db().transact(|| keys.iter().cloned().map(Write::delete).collect()).await?;
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        self.db().transact(|| vec![Write::delete(expiration.clone())]).await.map(drop)
    }

    /// Deletes expirations of messages that have not expired. After a counter was restored too low, another message may
    /// have taken the sequence. That message must not be purged, nor block the others.
    async fn drop_stale(&self, due: &[Expiration], reasons: &[Reason]) -> Result<(), StoreError> {
        let stale = due.iter().enumerate().filter(|(n, _)| reasons.get(2 * n) == Some(&Reason::Condition));
        let stale: Vec<&ItemKey> = stale.map(|(_, due)| &due.key).collect();
        if !stale.is_empty() {
            let writes = || stale.iter().map(|expiration| Write::delete((*expiration).clone())).collect();
            self.db().transact(writes).await?;
        }
        Ok(())
    }
}

/// The expiration of a message.
pub(crate) struct Expiration {
    pub(crate) chat_id: ChatId,
    pub(crate) sequence: Sequence,
    key: ItemKey,
    /// The id of the message, if it has reactions.
    reacted: Option<MessageId>,
    /// Whether the message is purged, and only its reactions are not.
    is_purged: bool,
}

impl Expiration {
    /// Ends the expiration in the purge of its message. With reactions it stays until they are deleted.
    fn done(&self) -> Write {
        let reacted = Condition::is(REACTED, self.reacted.map(text));
        let write = match self.reacted {
            None => Write::delete(self.key.clone()),
            Some(_) => {
                let purged = AttributeChange::Set(IS_PURGED, Some(AttributeValue::Bool(true)));
                Write::update(self.key.clone(), vec![purged])
            }
        };
        // A message with its first reaction is purged in the next pass.
        write.if_there().when(reacted).when(Condition::Absent(IS_PURGED))
    }
}

/// Schedules the purge of a message, if it has an expiry.
pub(crate) fn expiration_write(message: &Message) -> Option<Write> {
    Some(Write::put(expiration_key(message)?, expiration_item(message)))
}

/// The expiration of a message. It says whether the message has reactions, because the purge does not read it.
pub(crate) fn expiration_item(message: &Message) -> DynamoItem {
    item([(REACTED, (!message.state.reactions.is_empty()).then(|| text(message.message_id)))])
}

/// The key of a message's expiration, if it has an expiry.
pub(crate) fn expiration_key(message: &Message) -> Option<ItemKey> {
    let Message { chat_id, sequence, .. } = message;
    let key = format!("{}#{chat_id}#{sequence:020}", message.expires_at?);
    Some(ItemKey::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), key))
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

pub(crate) fn read_expiration(item: &DynamoItem) -> Result<Expiration, StoreError> {
    let row = ItemReader { table: Table::Expirations, item };
    let key = row.text("place")?;
    let (chat_id, sequence) = key.split_once('#').and_then(|(_, key)| key.split_once('#')).unwrap_or_default();
    let chat_id = chat_id.parse().map_err(|error: IdError| row.unreadable(error))?;
    let sequence = sequence.parse().map_err(|error: std::num::ParseIntError| row.unreadable(BoxError::from(error)))?;
    let key = ItemKey::read(Table::Expirations, item)?;
    let (reacted, is_purged) = (row.maybe_parsed(REACTED)?, row.has(IS_PURGED));
    Ok(Expiration { chat_id, sequence: Sequence(sequence), key, reacted, is_purged })
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
        let waiting = store.pending_changes(chat_id).await.unwrap();
        let purge = |body: &EventBody| match body {
            EventBody::MessagesExpired { sequences, .. } => Some(sequences.iter().map(|sequence| sequence.0).collect()),
            _ => None,
        };
        waiting.iter().filter_map(|waiting| purge(&waiting.event.body)).collect()
    }

    #[tokio::test]
    async fn a_purge_removes_due_rows_only() {
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
    async fn messages_purged_by_several_processes_are_each_announced_once() {
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
    async fn expired_rows_are_purged_without_a_request() {
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
    async fn deleted_messages_are_announced_too() {
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
    async fn an_unreadable_expiration_blocks_no_other() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        send(&store, vec![expiring(message(chat_id, sender_id))]).await;
        for key in ["", "1970", "1970#chat_1#1", &format!("1970#{chat_id}#one"), &format!("1970#{chat_id}")] {
            let key = format!("0{key}");
            server
                .put(ItemKey::of(Table::Expirations, shard(&chat_id.to_bytes(), EXPIRATION_SHARDS), key), item([]))
                .await;
        }
        assert_eq!(store.purge_expired(later()).await.unwrap(), 1);
        assert_eq!(told(&store, chat_id).await, [[1]]);
    }
}
