//! Repairs tables after their restore to a second of the past.
//!
//! The restored tables agree to the second. A transaction of that second may be in some of them and not in others, and
//! clients know messages that were lost with everything later. So before a process serves from the new tables:
//!
//! - A message without its send key gets it, and a send key without its message is deleted. A retry then finds the one
//!   message of its send, or makes it. The location of the message, by its id, is written or deleted with it.
//! - The counter of a chat is moved above every sequence that was ever given out, which the old tables know. A sequence
//!   never gets a second message, and no watermark is above the head. Nothing will ever be at the sequences in between;
//!   the counter row records them ([`PASSED_OVER`]).
//!
//! Every step may be repeated. Until the last one the new tables are marked, and no process serves from them.

use std::collections::HashMap;
use std::time::Duration;

use domain::{Chat, ChatId, Message, MessageUpdate, Sequence, Timestamp, Ttl, UpdateAction, UpdateKind};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Head, ImportTarget, LastMessage, NewMessage, NewUpdate, PageBookmark, Receipt, StoreError};

use crate::DynamoStore;
use crate::commit::{TRANSACTION_SENDS_MAX, key_item, key_of_send, read_send};
use crate::db::{CONCURRENCY_MAX, PartitionQuery, ScanFreshness};
use crate::expirer::shortened;
use crate::expiry::{expiration_item, expiration_key};
use crate::item::{DynamoItem, ItemKey, ItemReader, number, text};
use crate::locations::{location_item, location_key};
use crate::messages::{
    CHANGES, ROWS_MAX, UPDATES_THROUGH, count_value, counter_changes, counter_sequence, head_changes, message_key,
    read_head, read_message,
};
use crate::outbox::{PUBLISHED, dirty_mark};
use crate::recovery::RecoveryAudit;
use crate::schema::Table;
use crate::transfer::import_mark;
use crate::updates::{read_update, update_key};
use crate::write::{AttributeChange, Condition, Write};

/// The sequences that no message will ever have: `FIRST-LAST`, one range for each restore, separated by spaces.
const PASSED_OVER: &str = "passed_over";
/// How long before the second of the restore a message may have been created whose transaction is incomplete: clocks
/// differ, and the service copies the parts of a transaction one after the other.
const UNCERTAIN: Duration = Duration::from_secs(300);
/// Upper bound of the sequences that a chat gives out in a second. One item takes 1,000 write units, and a transaction
/// uses two of the counter's. Earlier versions wrote no locations, and committed more sends in a transaction.
const SEQUENCES_PER_SECOND_MAX: u64 = 500 * 49;
const _: () = assert!(SEQUENCES_PER_SECOND_MAX >= 500 * TRANSACTION_SENDS_MAX as u64);
/// Number of items per page.
const PAGE_LEN: usize = 500;
/// How often a row that changes is read again. Nothing else writes, so it changes only if two restores run.
const TRIES_MAX: usize = 3;

/// The result of the repair of restored tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restoration {
    /// Chats in the new tables.
    pub chats: u64,
    /// Chats that have lost messages.
    pub chats_with_loss: u64,
    /// Sequences that are not used again: the lost messages of these chats, or an upper bound of them.
    pub passed_over: u64,
    /// Messages that got their send key.
    pub keys_written: u64,
    /// Send keys without a message, which were deleted.
    pub keys_deleted: u64,
}

impl DynamoStore {
    /// Marks the new tables as incomplete, so that no process serves from them.
    pub async fn begin_restore(&self, at: Timestamp) -> Result<(), StoreError> {
        self.db().put_many(&HashMap::from([import_mark(at.as_millis())])).await
    }

    /// Repairs this store after a restore of its tables to `at`; `source` has the old tables. `progress` gets the
    /// stage, and the number of rows read and of all.
    ///
    /// No process may use either of them meanwhile. After an error it can be called again.
    pub async fn repair_restored(
        &self,
        source: &Self,
        at: Timestamp,
        progress: impl Fn(&str, u64, u64),
    ) -> Result<Restoration, StoreError> {
        let mut done = Restoration::default();
        let since = at.minus(UNCERTAIN);
        let (mut after, mut read) = (None, 0);
        let all = source.db().count(Table::IdempotencyKeys).await?;
        loop {
            let (items, next) =
                self.scan(Table::IdempotencyKeys, after.as_ref(), PAGE_LEN, ScanFreshness::Strong).await?;
            read += items.len() as u64;
            done.keys_deleted += self.delete_orphans(&items, since).await?;
            progress("send keys", read, all.max(read));
            after = next;
            if after.is_none() {
                break;
            }
        }
        let (mut after, all): (Option<PageBookmark>, _) = (None, source.db().count(Table::Chats).await?);
        loop {
            let (items, next) = self.scan(Table::Chats, after.as_ref(), PAGE_LEN, ScanFreshness::Strong).await?;
            let ids = items.iter().map(|item| ItemReader { table: Table::Chats, item }.parsed::<ChatId>("chat_id"));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            done.chats += ids.len() as u64;
            let repairs = ids.into_iter().map(|chat_id| self.repair_chat(source, chat_id, at));
            let repaired: Vec<(u64, u64)> =
                stream::iter(repairs).buffer_unordered(CONCURRENCY_MAX).try_collect().await?;
            for (keys, passed_over) in repaired {
                done.keys_written += keys;
                done.passed_over += passed_over;
                done.chats_with_loss += u64::from(passed_over > 0);
            }
            progress("chats", done.chats, all.max(done.chats));
            after = next;
            if after.is_none() {
                return Ok(done);
            }
        }
    }

    /// Lets processes serve from the tables.
    pub async fn end_restore(&self) -> Result<(), StoreError> {
        self.finish().await
    }

    /// Deletes the keys of recent sends whose message is not there, and its location. A retry of a message that has
    /// meanwhile expired and was purged is a new message.
    async fn delete_orphans(&self, items: &[DynamoItem], since: Timestamp) -> Result<u64, StoreError> {
        // An unreadable key is left to the audit.
        let recent = items.iter().filter_map(|item| read_send(item).ok());
        let recent: Vec<_> = recent.filter(|send| send.receipt.created_at >= since).collect();
        let keys: Vec<_> = recent.iter().map(|send| message_key(send.chat_id, send.receipt.sequence)).collect();
        let mut deleted = 0;
        for (send, row) in recent.iter().zip(self.db().get_many(&keys).await?) {
            let message = row.and_then(|row| read_message(&row).ok());
            if message.is_some_and(|message| message.message_id == send.receipt.message_id) {
                continue;
            }
            let update = self.db().get(&update_key(send.chat_id, send.receipt.sequence)).await?;
            let update = update.and_then(|row| read_update(&row).ok());
            if update.is_some_and(|update| update.update_id == send.receipt.message_id) {
                continue;
            }
            let key = key_of_send(send.chat_id, send.sender_id, send.client_message_id);
            let location = location_key(send.receipt.message_id);
            self.db().transact(|| [&key, &location].map(|key| Write::delete(key.clone())).into()).await?;
            deleted += 1;
        }
        Ok(deleted)
    }

    /// Returns the number of written keys, and of sequences that are passed over.
    async fn repair_chat(&self, source: &Self, chat_id: ChatId, at: Timestamp) -> Result<(u64, u64), StoreError> {
        let Some((chat, _)) = self.versioned(chat_id).await? else { return Ok((0, 0)) };
        let recent = self.recent(Table::Messages, chat_id, at.minus(UNCERTAIN), read_message).await?;
        let recent_updates = self.recent(Table::Updates, chat_id, at.minus(UNCERTAIN), read_update).await?;
        let keys = self.write_keys(&chat, &recent).await? + self.repair_updates(chat_id, &recent_updates).await?;
        let last = self.last_row(chat_id).await?;
        let last_entry = self.last_sequence(chat_id).await?;
        for _ in 0..TRIES_MAX {
            if let Some(passed_over) = self.pass_over(source, chat_id, last.as_ref(), last_entry, at).await? {
                return Ok((keys, passed_over));
            }
        }
        Err(StoreError::unavailable(format!("the counter of `{chat_id}` changes: stop all processes of both fleets")))
    }

    /// The entries of a chat since a time, newest first.
    async fn recent<T: RecentEntry>(
        &self,
        table: Table,
        chat_id: ChatId,
        since: Timestamp,
        read: fn(&DynamoItem) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let newest = PartitionQuery { descending: true, ..PartitionQuery::partition(table, chat_id) };
        let (mut recent, mut start) = (vec![], None);
        loop {
            let (items, next) = self.db().page(&newest, ROWS_MAX, start).await?;
            for item in &items {
                // An unreadable entry is left to the audit.
                let Ok(entry) = read(item) else { continue };
                if entry.created_at() < since {
                    return Ok(recent);
                }
                recent.push(entry);
            }
            start = next;
            if start.is_none() {
                return Ok(recent);
            }
        }
    }

    /// Writes the missing send keys of messages, and their locations and expirations.
    async fn write_keys(&self, chat: &Chat, messages: &[Message]) -> Result<u64, StoreError> {
        let key = |message: &Message| key_of_send(message.chat_id, message.sender_id, message.client_message_id);
        let found = self.db().get_many(&messages.iter().map(key).collect::<Vec<_>>()).await?;
        let mut items = HashMap::new();
        for (message, _) in messages.iter().zip(found).filter(|(_, found)| found.is_none()) {
            let Message { message_id, sequence, created_at, .. } = *message;
            let receipt = Receipt { message_id, sequence, created_at };
            items.insert(key(message), key_item(&receipt, &as_sent(message, chat.message_ttl).fingerprint()));
        }
        let written = items.len() as u64;
        items.extend(messages.iter().map(|message| (location_key(message.message_id), location_item(message))));
        let expiration = |message| Some((expiration_key(message)?, expiration_item(message)));
        items.extend(messages.iter().filter_map(expiration));
        self.db().put_many(&items).await?;
        Ok(written)
    }

    /// Writes the missing send keys of updates, and deletes messages whose deletion is incomplete. The number of a
    /// reaction may stay wrong by one.
    async fn repair_updates(&self, chat_id: ChatId, updates: &[MessageUpdate]) -> Result<u64, StoreError> {
        let key = |update: &MessageUpdate| key_of_send(chat_id, update.user_id, update.client_message_id);
        let targets = updates.iter().map(|update| message_key(chat_id, update.target));
        let keys: Vec<ItemKey> = targets.chain(updates.iter().map(key)).collect();
        let mut found = self.db().get_many(&keys).await?;
        let sends = found.split_off(updates.len());
        let mut items = HashMap::new();
        for ((update, message), send) in updates.iter().zip(found).zip(sends) {
            let message = message.and_then(|item| read_message(&item).ok());
            if let Some(requested) = as_requested(update, message.as_ref()).filter(|_| send.is_none()) {
                let MessageUpdate { update_id, sequence, created_at, .. } = *update;
                let receipt = Receipt { message_id: update_id, sequence, created_at };
                items.insert(key(update), key_item(&receipt, &requested.fingerprint()));
            }
            if let Some(message) = message.filter(|_| update.kind == UpdateKind::Deleted) {
                match message.is_expired(update.created_at) {
                    true => items.extend(expiration_key(&message).map(|key| (key, expiration_item(&message)))),
                    false => drop(self.db().transact(|| shortened(&message, update.created_at)).await?),
                }
            }
        }
        let written = items.keys().filter(|key| key.table == Table::IdempotencyKeys).count() as u64;
        self.db().put_many(&items).await?;
        Ok(written)
    }

    /// The last message row that can be read.
    async fn last_row(&self, chat_id: ChatId) -> Result<Option<Message>, StoreError> {
        let newest = PartitionQuery { descending: true, ..PartitionQuery::partition(Table::Messages, chat_id) };
        self.db().query(&newest, 1).await?.first().map(read_message).transpose()
    }

    /// Moves the counter above every sequence of the old tables. Returns the number of sequences that are passed over,
    /// or `None` if the row has changed meanwhile.
    async fn pass_over(
        &self,
        source: &Self,
        chat_id: ChatId,
        last: Option<&Message>,
        last_entry: Sequence,
        at: Timestamp,
    ) -> Result<Option<u64>, StoreError> {
        let key = ItemKey::one(Table::ChatCounters, chat_id);
        let found = self.db().get(&key).await?;
        let Some((found, counter)) = found.and_then(|row| counter_sequence(&row).ok().map(|counter| (row, counter)))
        else {
            let audit = RecoveryAudit { actor: "restore".to_owned(), reason: format!("restored to {at}") };
            self.recover_counter(chat_id, &audit).await?;
            return Ok(None);
        };
        let here = counter.max(last_entry);
        let (used, changes_used) = source.highest_used(chat_id, here, counter_changes(&found)?, at).await?;
        let head = read_head(&found, self.clock().now())?;
        let is_gone = head.last_message.is_none_or(|last| last.expires_at.is_some_and(|end| end <= self.clock().now()));
        let as_found = || Condition::Equals("sequence_counter", number(counter.0));
        // A new event must not get the number of a lost one.
        let count = || AttributeChange::Set(CHANGES, count_value(changes_used));
        let row = ItemReader { table: Table::ChatCounters, item: &found };
        let passed_over = row.maybe_text(PASSED_OVER)?.unwrap_or_default();
        let range = format!("{}-{used}", last_entry.next());
        let is_passed_over = passed_over.split_whitespace().next_back() == Some(&range);
        if used == counter && (last_entry == counter || is_gone || is_passed_over) {
            let writes = || vec![Write::update(key.clone(), vec![count()]).when(as_found())];
            let is_counted = head.changes == changes_used || self.db().transact(writes).await?.is_committed();
            return Ok(is_counted.then_some(0));
        }
        let is_published = row.number(PUBLISHED)? == here.0;
        let ranges = format!("{passed_over} {range}");
        let is_last = used == last_entry;
        let changes = || {
            let mut changes = head_changes(&Head {
                sequence: used,
                last_message: last.map(|last| LastMessage {
                    message_id: last.message_id,
                    sequence: last.sequence,
                    sender_id: last.sender_id,
                    preview: last.body.preview(),
                    created_at: last.created_at,
                    expires_at: last.expires_at,
                }),
                message_ttl: None,
                changes: changes_used,
            });
            changes.push(count());
            // An upper bound; the next updates make it exact. It is the head only if the last message is below.
            let is_message = last.is_some_and(|last| last.sequence == used);
            changes.push(AttributeChange::Set(UPDATES_THROUGH, Some(number(used.0 - u64::from(is_message)))));
            if !is_last {
                changes.push(AttributeChange::Set(PASSED_OVER, Some(text(ranges.trim()))));
            }
            if is_published {
                changes.push(AttributeChange::Set(PUBLISHED, Some(number(used.0))));
            } else {
                changes.extend(dirty_mark(chat_id, at));
            }
            changes
        };
        let writes = || vec![Write::update(key.clone(), changes()).when(as_found())];
        Ok(self.db().transact(writes).await?.is_committed().then_some(used.0 - last_entry.0))
    }

    /// The highest sequence that a chat of the old tables has given out, and its number of changes, which are at least
    /// `here` and `changes`. If its rows are lost or lower, the sequence is the most that it can have given out since
    /// `at`: the sum, from which events get their numbers, is above that of every lost event then, too.
    async fn highest_used(
        &self,
        chat_id: ChatId,
        here: Sequence,
        changes: u64,
        at: Timestamp,
    ) -> Result<(Sequence, u64), StoreError> {
        let row = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await?;
        let counter = row.as_ref().and_then(|row| Some((counter_sequence(row).ok()?, counter_changes(row).ok()?)));
        let last = self.last_sequence(chat_id).await?;
        match counter {
            Some((counter, changed)) if counter >= here => Ok((counter.max(last), changes.max(changed))),
            _ => {
                let seconds = self.clock().now().since(at).as_secs() + 1;
                let given_out = seconds.saturating_mul(SEQUENCES_PER_SECOND_MAX);
                Ok((Sequence(here.max(last).0.saturating_add(given_out)), changes))
            }
        }
    }

    /// The sequences of a chat that no message will ever have.
    pub(crate) async fn ranges_passed_over(&self, chat_id: ChatId) -> Result<Vec<(Sequence, Sequence)>, StoreError> {
        let Some(counter) = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? else {
            return Ok(vec![]);
        };
        let row = ItemReader { table: Table::ChatCounters, item: &counter };
        let range = |text: &str| {
            let (first, last) = text.split_once('-')?;
            Some((Sequence(first.parse().ok()?), Sequence(last.parse().ok()?)))
        };
        let ranges = row.maybe_text(PASSED_OVER)?.unwrap_or_default().split_whitespace().map(range);
        ranges.collect::<Option<_>>().ok_or_else(|| row.unreadable("its ranges are not numbers"))
    }
}

/// An entry with a time.
trait RecentEntry {
    fn created_at(&self) -> Timestamp;
}

impl RecentEntry for Message {
    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

impl RecentEntry for MessageUpdate {
    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

/// The request of an update, as far as its fingerprint needs it; `None` for an edit of a message that is gone. The body
/// of an edit may be a later one; then a retry is refused, and not a second update.
fn as_requested(update: &MessageUpdate, message: Option<&Message>) -> Option<NewUpdate> {
    let action = match &update.kind {
        UpdateKind::Edited => UpdateAction::Edit(message?.body.clone()),
        UpdateKind::Deleted => UpdateAction::Delete,
        UpdateKind::Reacted(reaction) => UpdateAction::React(reaction.clone()),
        UpdateKind::Unreacted(reaction) => UpdateAction::Unreact(reaction.clone()),
    };
    Some(NewUpdate {
        chat_id: update.chat_id,
        user_id: update.user_id,
        client_message_id: update.client_message_id,
        update_id: update.update_id,
        target: update.target,
        action,
        window: None,
        ttl_max: None,
        created_at: update.created_at,
    })
}

/// The send of a message, as far as its fingerprint needs it. A message does not tell its own lifetime from the one of
/// its chat; after a wrong guess a retry is refused, and not a second message.
fn as_sent(message: &Message, message_ttl: Option<Ttl>) -> NewMessage {
    let lifetime = message.expires_at.map(|at| at.since(message.created_at).as_secs()).and_then(Ttl::from_secs);
    NewMessage {
        chat_id: message.chat_id,
        sender_id: message.sender_id,
        client_message_id: message.client_message_id,
        message_id: message.message_id,
        body: message.body.clone(),
        ttl: lifetime.filter(|lifetime| Some(*lifetime) != message_ttl),
        ttl_max: None,
        created_at: message.created_at,
        origin_connection_id: None,
    }
}

#[cfg(test)]
mod tests {
    use domain::UserId;
    use ports::{AppendOutcome, Clock, MessageReader, MessageWriter, NewMessage, Outbox, PageBounds, SystemClock};

    use super::*;
    use crate::locations::read_location;
    use crate::schema;
    use crate::testing::{DynamoServer, chat, message};
    use crate::{Config, DynamoStore};

    /// A store whose tables are copies of those of the server's store.
    async fn copy(server: &DynamoServer) -> DynamoStore {
        let config = Config { table_prefix: "restored_".to_owned(), ..server.config.clone() };
        schema::apply(&server.client, &config).await.unwrap();
        let (source, target) = (server.store(), server.store().through(server.client.clone(), &config));
        for table in Table::ALL {
            for item in source.db().scan(table, None, 1000, ScanFreshness::Strong).await.unwrap().0 {
                target.db().put_many(&HashMap::from([(ItemKey::read(table, &item).unwrap(), item)])).await.unwrap();
            }
        }
        // Nothing of the old tables is cached.
        DynamoStore::new(
            server.client.clone(),
            &config,
            std::sync::Arc::new(SystemClock),
            std::sync::Arc::new(ports::RandomIds),
        )
    }

    async fn delete(store: &DynamoStore, key: ItemKey) {
        store.db().transact(|| vec![Write::delete(key.clone())]).await.unwrap();
    }

    async fn sent(store: &DynamoStore, chat_id: ChatId, sender_id: UserId, count: usize) -> Vec<NewMessage> {
        let sends: Vec<_> = (0..count).map(|_| message(chat_id, sender_id)).collect();
        store.append(sends.clone()).await.unwrap();
        sends
    }

    /// The sequences to which the locations of messages lead.
    async fn locations(store: &DynamoStore, sends: &[NewMessage]) -> Vec<Option<u64>> {
        let keys: Vec<_> = sends.iter().map(|send| location_key(send.message_id)).collect();
        let found = store.db().get_many(&keys).await.unwrap();
        found.iter().map(|item| item.as_ref().map(|item| read_location(item).unwrap().1.0)).collect()
    }

    async fn outcome(store: &DynamoStore, send: &NewMessage) -> (bool, u64) {
        match store.append(vec![send.clone()]).await.unwrap()[0] {
            AppendOutcome::New(receipt) => (true, receipt.sequence.0),
            AppendOutcome::Duplicate(receipt) => (false, receipt.sequence.0),
            ref other => panic!("{other:?}"),
        }
    }

    fn silent(_: &str, _: u64, _: u64) {}

    #[tokio::test]
    async fn sends_that_a_restore_has_torn_are_repaired_and_lost_sequences_are_not_reused() {
        let server = DynamoServer::with_tables().await;
        let source = server.store();
        let (chat_id, sender_id) = chat(&source).await;
        let kept = sent(&source, chat_id, sender_id, 4).await;
        source.published(chat_id, Sequence(4)).await.unwrap();
        let target = copy(&server).await;
        let at = SystemClock.now();
        let lost = sent(&source, chat_id, sender_id, 3).await;
        // The key of the first message is torn off, the location of the second, and the row of the last.
        delete(&target, key_of_send(chat_id, sender_id, kept[0].client_message_id)).await;
        delete(&target, location_key(kept[1].message_id)).await;
        delete(&target, message_key(chat_id, Sequence(4))).await;

        for round in 0..2 {
            let done = target.repair_restored(&source, at, silent).await.unwrap();
            let first = Restoration { chats: 1, chats_with_loss: 1, passed_over: 4, keys_written: 1, keys_deleted: 1 };
            assert_eq!(done, if round == 0 { first } else { Restoration { chats: 1, ..Restoration::default() } });
        }
        // The lost location is written again, and that of the lost message is deleted with its key.
        assert_eq!(locations(&target, &kept).await, [Some(1), Some(2), Some(3), None]);
        assert_eq!(target.ranges_passed_over(chat_id).await.unwrap(), [(Sequence(4), Sequence(7))]);
        for (send, sequence) in kept[..3].iter().zip(1..) {
            assert_eq!(outcome(&target, send).await, (false, sequence));
        }
        for (send, sequence) in [&kept[3], &lost[0], &lost[1]].into_iter().zip(8..) {
            assert_eq!(outcome(&target, send).await, (true, sequence));
            assert_eq!(outcome(&target, send).await, (false, sequence));
        }
        // A client that has seen the lost messages misses none of the new ones.
        let page = target.after(chat_id, Sequence(7), PageBounds { count: 9, bytes: 9999 }, SystemClock.now()).await;
        let sequences: Vec<_> = page.unwrap().messages.iter().map(|message| message.sequence.0).collect();
        assert_eq!(sequences, [8, 9, 10]);
        let waiting = target.unpublished(chat_id).await.unwrap();
        assert_eq!(waiting.len(), 3, "the log gets the new messages alone");
    }

    #[tokio::test]
    async fn without_the_old_counter_no_sequence_is_reused_either() {
        let server = DynamoServer::with_tables().await;
        let source = server.store();
        let (chat_id, sender_id) = chat(&source).await;
        sent(&source, chat_id, sender_id, 2).await;
        let target = copy(&server).await;
        let at = SystemClock.now();
        sent(&source, chat_id, sender_id, 40).await;
        delete(&source, ItemKey::one(Table::ChatCounters, chat_id)).await;
        delete(&target, ItemKey::one(Table::ChatCounters, chat_id)).await;
        target.repair_restored(&source, at, silent).await.unwrap();
        let (is_new, sequence) = outcome(&target, &message(chat_id, sender_id)).await;
        assert!(is_new && sequence > 42, "{sequence}");
        let head = target.head(chat_id).await.unwrap().unwrap();
        assert!(head.sequence.0 < 1 << 53, "clients keep it exactly");
    }

    #[tokio::test]
    async fn a_chat_without_loss_stays_as_it_is() {
        let server = DynamoServer::with_tables().await;
        let source = server.store();
        let (chat_id, sender_id) = chat(&source).await;
        sent(&source, chat_id, sender_id, 2).await;
        let target = copy(&server).await;
        let before = target.head(chat_id).await.unwrap();
        let done = target.repair_restored(&source, SystemClock.now(), silent).await.unwrap();
        assert_eq!(done, Restoration { chats: 1, ..Restoration::default() });
        assert_eq!(target.head(chat_id).await.unwrap(), before);
    }
}
