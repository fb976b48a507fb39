//! The restoration of a counter row that was lost or is lower than its messages: the operator procedure of ADR-004.
//!
//! It differs from ADR-004 as follows. Messages expire, so the highest message does not prove the last sequence:
//! idempotency keys and watermarks are read too, and the highest of all counts. A row that is too low is restored
//! instead of kept. The relay's position and the head are restored as well. The row records the operator and the
//! reason.

use domain::limits::RETENTION;
use domain::{Chat, ChatId, Message, Sequence, Timestamp, UserId};
use ports::{ChatReader, Head, LastMessage, StoreError, WatermarkStore};
use tracing::warn;

use crate::DynamoStore;
use crate::db::PartitionQuery;
use crate::item::{ItemKey, ItemReader, number, seconds, text};
use crate::messages::{CHANGES, ROWS_MAX, UPDATES_THROUGH, counter_sequence, head_changes, read_message};
use crate::outbox::{PUBLISHED, dirty_mark};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// How often a concurrent change may interfere.
const TRIES_MAX: u32 = 3;

/// The operator who restores a counter, and the reason. Both are written into the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryAudit {
    /// The name of the operator.
    pub actor: String,
    /// A description of the problem, or the number of the incident.
    pub reason: String,
}

/// The outcome of a restoration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The chat does not exist; nothing was written.
    ChatNotFound,
    /// The row exists and is not too low. It stays unchanged.
    Well {
        /// The sequence in the row.
        sequence: Sequence,
    },
    /// The row was restored. The chat accepts messages again.
    Restored {
        /// The sequence before, if the row existed and was readable.
        before: Option<Sequence>,
        /// The restored sequence; the next message gets the one after it.
        sequence: Sequence,
        /// The sequence up to which messages count as published; those above it are published, possibly again.
        published: Sequence,
    },
}

impl DynamoStore {
    /// Restores the counter row of a chat, if it is missing, unreadable, or lower than an assigned sequence.
    ///
    /// The write is conditional on the row as it was read. So concurrent restorations are harmless, and so are pending
    /// sends: they fail until the row exists, and then continue from it. It reads the idempotency keys of the last 7
    /// days, which may take a while in a busy chat.
    pub async fn recover_counter(&self, chat_id: ChatId, audit: &RecoveryAudit) -> Result<Recovery, StoreError> {
        for _ in 0..TRIES_MAX {
            if let Some(recovery) = self.try_recover(chat_id, audit).await? {
                return Ok(recovery);
            }
        }
        Err(StoreError::unavailable(format!(
            "the counter of `{chat_id}` was changed by other processes {TRIES_MAX} times"
        )))
    }

    /// Restores the row, unless it changes meanwhile.
    async fn try_recover(&self, chat_id: ChatId, audit: &RecoveryAudit) -> Result<Option<Recovery>, StoreError> {
        let Some((chat, version)) = self.versioned(chat_id).await? else { return Ok(Some(Recovery::ChatNotFound)) };
        let key = ItemKey::one(Table::ChatCounters, chat_id);
        // Read first: while the row stays like this, every commit is visible to the reads below.
        let found = self.db().get(&key).await?;
        let before = found.as_ref().and_then(|counter| counter_sequence(counter).ok());
        let sequence = self.highest_sequence(chat_id).await?;
        if let Some(before) = before.filter(|before| *before >= sequence) {
            return Ok(Some(Recovery::Well { sequence: before }));
        }
        let now = self.clock().now();
        let known =
            found.as_ref().map(|counter| ItemReader { table: Table::ChatCounters, item: counter }.number(PUBLISHED));
        let published = match known {
            Some(Ok(published)) if before.is_some() => Sequence(published),
            _ => self.surely_published(chat_id, now).await?,
        };
        let last = self.last_message(chat_id).await?;
        let restored = RestoredCounter { chat: &chat, version, sequence, published, last, now };
        let writes = || {
            let as_found = found.as_ref().and_then(|counter| counter.get("sequence_counter").cloned());
            vec![
                Write::update(key.clone(), restored.changes(audit)).when(Condition::is("sequence_counter", as_found)),
                // The row has a copy of the message TTL.
                Write::check(ItemKey::one(Table::Chats, chat_id)).when(Condition::Equals("version", number(version))),
            ]
        };
        if !self.db().transact(writes).await?.is_committed() {
            return Ok(None);
        }
        self.counters().remove(&chat_id);
        let RecoveryAudit { actor, reason } = audit;
        warn!(%chat_id, actor, reason, ?before, %sequence, %published, "the counter of a chat was restored");
        Ok(Some(Recovery::Restored { before, sequence, published }))
    }

    /// The highest known sequence of a chat: of an entry, of a committed send, or of a member's watermark.
    async fn highest_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        let mut highest = self.last_sequence(chat_id).await?;
        let keys =
            PartitionQuery { attributes: &["sequence"], ..PartitionQuery::partition(Table::IdempotencyKeys, chat_id) };
        let mut start = None;
        loop {
            let (items, next) = self.db().page(&keys, usize::MAX, start).await?;
            for item in &items {
                highest = highest.max(Sequence(ItemReader { table: Table::IdempotencyKeys, item }.number("sequence")?));
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        let members = self.members(chat_id).await?;
        let states: Vec<(UserId, ChatId)> = members.iter().map(|member| (member.user_id, chat_id)).collect();
        let seen = self.watermarks(&states).await?.into_iter().map(|watermarks| watermarks.delivered);
        Ok(seen.fold(highest, Sequence::max))
    }

    /// The sequence up to which messages need not be published again: the log's retention for them has passed.
    async fn surely_published(&self, chat_id: ChatId, now: Timestamp) -> Result<Sequence, StoreError> {
        let newest = PartitionQuery {
            descending: true,
            attributes: &["sequence", "created_at"],
            ..PartitionQuery::partition(Table::Messages, chat_id)
        };
        let (mut start, kept_since) = (None, now.minus(RETENTION));
        loop {
            let (items, next) = self.db().page(&newest, ROWS_MAX, start).await?;
            for item in &items {
                let row = ItemReader { table: Table::Messages, item };
                if row.parsed::<Timestamp>("created_at")? < kept_since {
                    return Ok(Sequence(row.number("sequence")?));
                }
            }
            start = next;
            if start.is_none() {
                return Ok(Sequence::ZERO);
            }
        }
    }

    /// The last remaining message.
    async fn last_message(&self, chat_id: ChatId) -> Result<Option<Message>, StoreError> {
        let newest = PartitionQuery { descending: true, ..PartitionQuery::partition(Table::Messages, chat_id) };
        self.db().query(&newest, 1).await?.first().map(read_message).transpose()
    }
}

/// The content of a restored counter row.
struct RestoredCounter<'a> {
    chat: &'a Chat,
    version: u64,
    sequence: Sequence,
    published: Sequence,
    last: Option<Message>,
    now: Timestamp,
}

impl RestoredCounter<'_> {
    fn changes(&self, audit: &RecoveryAudit) -> Vec<AttributeChange> {
        let message_ttl = self.chat.message_ttl;
        let mut last_message = self.last.as_ref().and_then(|message| Head::at(message, message_ttl, 0).last_message);
        // A purge removes a preview only if it belongs to the message at the head.
        if self.last.as_ref().is_some_and(|last| last.sequence < self.sequence && last.expires_at.is_some()) {
            last_message = last_message.map(|last| LastMessage { preview: None, ..last });
        }
        let mut changes = head_changes(&Head { sequence: self.sequence, last_message, message_ttl, changes: 0 });
        changes.extend([
            AttributeChange::Set("message_ttl", message_ttl.map(seconds)),
            AttributeChange::Set(PUBLISHED, Some(number(self.published.0))),
            // An upper bound; the next updates make it exact.
            AttributeChange::Set(UPDATES_THROUGH, Some(number(self.sequence.0))),
            AttributeChange::SetIfAbsent("created_at", text(self.chat.created_at)),
            // An upper bound: the first version has one event, and every other at most two. So numbers do not repeat.
            AttributeChange::SetIfAbsent(CHANGES, number((2 * self.version).saturating_sub(1))),
            AttributeChange::Set("recovered_at", Some(text(self.now))),
            AttributeChange::Set("recovered_from_sequence", Some(number(self.sequence.0))),
            AttributeChange::Set("recovered_by", Some(text(&audit.actor))),
            AttributeChange::Set("recovery_reason", Some(text(&audit.reason))),
        ]);
        if self.published < self.sequence {
            changes.extend(dirty_mark(self.chat.chat_id, self.now));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::Violations;
    use domain::{ChatCommand, ChatUpdate, Ttl, WatermarkKind};
    use ports::{
        AppendOutcome, ChatWriter, Clock, MessageReader, MessageWriter, NewMessage, Outbox, SendRefusal, SystemClock,
    };

    use super::*;
    use crate::item::{DynamoItem, item};
    use crate::messages::message_key;
    use crate::testing::{DynamoServer, chat, message};

    fn audit() -> RecoveryAudit {
        RecoveryAudit { actor: "ada".to_owned(), reason: "incident 7".to_owned() }
    }

    fn counter_key(chat_id: ChatId) -> ItemKey {
        ItemKey::one(Table::ChatCounters, chat_id)
    }

    async fn counter(store: &DynamoStore, chat_id: ChatId) -> DynamoItem {
        store.db().get(&counter_key(chat_id)).await.unwrap().unwrap()
    }

    async fn lose_counter(store: &DynamoStore, chat_id: ChatId) {
        store.db().transact(|| vec![Write::delete(counter_key(chat_id))]).await.unwrap();
    }

    async fn send(store: &DynamoStore, send: NewMessage) -> AppendOutcome {
        store.append(vec![send]).await.unwrap()[0]
    }

    fn sequence_of(outcome: AppendOutcome) -> u64 {
        let AppendOutcome::New(receipt) = outcome else { panic!("{outcome:?}") };
        receipt.sequence.0
    }

    #[tokio::test]
    async fn a_lost_counter_comes_back_with_its_head_and_everything_of_the_log() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        store.append((0..3).map(|_| message(chat_id, sender_id)).collect()).await.unwrap();
        let head = store.head(chat_id).await.unwrap();
        store.published(chat_id, Sequence(3)).await.unwrap();
        lose_counter(&store, chat_id).await;
        let refused = send(&store, message(chat_id, sender_id)).await;
        assert_eq!(refused, AppendOutcome::Refused(SendRefusal::CounterMissing));

        let (sequence, published) = (Sequence(3), Sequence::ZERO);
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        assert_eq!(recovery, Recovery::Restored { before: None, sequence, published });
        assert_eq!(store.head(chat_id).await.unwrap(), head);
        // The relay's position is unknown, so it publishes from the start.
        assert_eq!(store.unpublished(chat_id).await.unwrap().len(), 3);
        assert!(store.overdue(Timestamp::MAX).await.unwrap().contains(&chat_id));
        let row = counter(&store, chat_id).await;
        assert_eq!((&row["recovered_by"], &row["recovery_reason"]), (&text("ada"), &text("incident 7")));
        assert_eq!(row["recovered_from_sequence"], number(3));
        assert!(row.contains_key("recovered_at") && row.contains_key("created_at"));

        assert_eq!(sequence_of(send(&store, message(chat_id, sender_id)).await), 4);
        assert_eq!(sequence_of(send(&server.store(), message(chat_id, sender_id)).await), 5);
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        assert_eq!(recovery, Recovery::Well { sequence: Sequence(5) });
        assert_eq!(counter(&store, chat_id).await["recovered_from_sequence"], number(3));
    }

    #[tokio::test]
    async fn event_numbers_are_not_given_out_again() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        let change = async || {
            let both = ChatUpdate { name: Some("new".to_owned().try_into().unwrap()), message_ttl: Some(None) };
            store.apply(chat_id, owner, ChatCommand::Update(both), SystemClock.now()).await.unwrap().unwrap();
            let ttl = ChatUpdate::message_ttl(Ttl::from_secs(60));
            store.apply(chat_id, owner, ChatCommand::Update(ttl), SystemClock.now()).await.unwrap().unwrap();
        };
        let highest = async || {
            let pending = store.pending_changes(chat_id).await.unwrap();
            let numbers: Vec<_> = pending.iter().map(|pending| pending.event.event_number.unwrap()).collect();
            assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
            numbers[numbers.len() - 1]
        };
        change().await;
        send(&store, message(chat_id, owner)).await;
        let before = highest().await;
        lose_counter(&store, chat_id).await;
        store.recover_counter(chat_id, &audit()).await.unwrap();
        change().await;
        assert!(highest().await > before.next(), "{before} and the message after it have their numbers");
    }

    #[tokio::test]
    async fn sequences_of_purged_messages_are_not_given_out_again() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let expiring = || NewMessage { ttl: Ttl::from_secs(60), ..message(chat_id, sender_id) };
        store.append(vec![message(chat_id, sender_id), expiring(), expiring()]).await.unwrap();
        store.purge_expired(SystemClock.now() + Duration::from_secs(120)).await.unwrap();
        lose_counter(&store, chat_id).await;
        // The idempotency keys still have the sequence.
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        assert!(matches!(recovery, Recovery::Restored { sequence: Sequence(3), .. }), "{recovery:?}");
        assert_eq!(
            store.head(chat_id).await.unwrap().unwrap().last_message.unwrap().preview.unwrap().as_str(),
            "hello"
        );

        // After the keys have expired, the watermarks still have it.
        store.advance(sender_id, chat_id, WatermarkKind::Read, Sequence(3), SystemClock.now()).await.unwrap();
        let keys = store.db().query(&PartitionQuery::partition(Table::IdempotencyKeys, chat_id), 9).await.unwrap();
        for key in &keys {
            let key = ItemKey::read(Table::IdempotencyKeys, key).unwrap();
            store.db().transact(|| vec![Write::delete(key.clone())]).await.unwrap();
        }
        lose_counter(&store, chat_id).await;
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        assert!(matches!(recovery, Recovery::Restored { sequence: Sequence(3), .. }), "{recovery:?}");
    }

    #[tokio::test]
    async fn a_stale_counter_keeps_its_published_sequence() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        store.append((0..5).map(|_| message(chat_id, sender_id)).collect()).await.unwrap();
        let behind = item([("sequence_counter", Some(number(3))), (PUBLISHED, Some(number(2)))]);
        server.put(counter_key(chat_id), behind).await;
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        let (before, sequence, published) = (Some(Sequence(3)), Sequence(5), Sequence(2));
        assert_eq!(recovery, Recovery::Restored { before, sequence, published });
        assert_eq!(sequence_of(send(&store, message(chat_id, sender_id)).await), 6);
    }

    #[tokio::test]
    async fn a_send_into_a_chat_with_a_stale_counter_is_refused_and_counted() {
        let violations = Violations::default();
        let _watched = violations.watch();
        let server = DynamoServer::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        server.store().append((0..2).map(|_| message(chat_id, sender_id)).collect()).await.unwrap();
        server.put(counter_key(chat_id), item([("sequence_counter", Some(number(1)))])).await;
        let outcome = server.store().append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(outcome, [AppendOutcome::Refused(SendRefusal::Unreadable)]);
        assert_eq!(violations.seen(), [("sequence_monotonicity".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn a_counter_that_no_message_could_follow_is_refused() {
        let server = DynamoServer::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        server.put(counter_key(chat_id), item([("sequence_counter", Some(number(u64::MAX)))])).await;
        let outcome = server.store().append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(outcome, [AppendOutcome::Refused(SendRefusal::Unreadable)]);
    }

    #[tokio::test]
    async fn a_counter_that_cannot_be_read_is_restored() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        send(&store, message(chat_id, sender_id)).await;
        server.put(counter_key(chat_id), item([("sequence_counter", Some(text("one")))])).await;
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        let (sequence, published) = (Sequence(1), Sequence::ZERO);
        assert_eq!(recovery, Recovery::Restored { before: None, sequence, published });
        assert_eq!(sequence_of(send(&store, message(chat_id, sender_id)).await), 2);
    }

    #[tokio::test]
    async fn messages_beyond_the_retention_of_the_log_are_not_republished() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let old = SystemClock.now().minus(RETENTION + Duration::from_secs(60));
        let ages = [old, old, SystemClock.now(), SystemClock.now()];
        let batch = ages.map(|created_at| NewMessage { created_at, ..message(chat_id, sender_id) });
        store.append(batch.to_vec()).await.unwrap();
        lose_counter(&store, chat_id).await;
        let recovery = store.recover_counter(chat_id, &audit()).await.unwrap();
        let (sequence, published) = (Sequence(4), Sequence(2));
        assert_eq!(recovery, Recovery::Restored { before: None, sequence, published });
    }

    #[tokio::test]
    async fn a_restored_counter_has_the_chats_message_ttl_again() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        let lives = ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(600)));
        store.apply(chat_id, owner, lives, SystemClock.now()).await.unwrap().unwrap();
        lose_counter(&store, chat_id).await;
        store.recover_counter(chat_id, &audit()).await.unwrap();
        assert_eq!(store.head(chat_id).await.unwrap().unwrap().message_ttl, Ttl::from_secs(600));
        send(&store, message(chat_id, owner)).await;
        let row = store.db().get(&message_key(chat_id, Sequence(1))).await.unwrap().unwrap();
        assert!(row.contains_key("expires_at"));
    }

    #[tokio::test]
    async fn a_chat_that_does_not_exist_gets_no_counter() {
        let server = DynamoServer::with_tables().await;
        let chat_id = ChatId::from_bytes([7; 16]);
        assert_eq!(server.store().recover_counter(chat_id, &audit()).await.unwrap(), Recovery::ChatNotFound);
        assert_eq!(server.store().db().get(&counter_key(chat_id)).await.unwrap(), None);
    }
}
