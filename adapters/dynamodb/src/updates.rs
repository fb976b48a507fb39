//! Updates of messages, and the reactions of members.
//!
//! The item of a message has its current state. `updates` has the entries that say which message changed and how;
//! `reactions` has the reactions of each member on a message. The commit writes all of them in one transaction.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{
    ChatId, Edited, EventNumber, Message, MessageId, MessageState, MessageUpdate, Reaction, ReactionCount, Sequence,
    Timestamp, UpdateKind, UserId,
};
use futures_util::future::try_join;
use ports::{MemberReactions, MessageKey, StoreError};

use crate::DynamoStore;
use crate::db::{Bound, PartitionQuery};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, end, item, number, text};
use crate::messages::{UPDATES_THROUGH, counter_sequence, message_key, read_message};
use crate::outbox::EVENT_NUMBER;
use crate::schema::Table;

/// The sequence of the last update of a message; absent if there is none.
pub(crate) const REVISION: &str = "revision";
/// The reactions of a message, or of a member.
const REACTIONS: &str = "reactions";

/// The limits of a chat's sequences at the time of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRange {
    /// The head sequence.
    pub(crate) head: Sequence,
    /// No update has a higher sequence.
    pub(crate) updates_through: Sequence,
}

impl EntryRange {
    /// The range of a counter row.
    pub(crate) fn read(counter: &DynamoItem) -> Result<Self, StoreError> {
        let row = ItemReader { table: Table::ChatCounters, item: counter };
        let updates_through = Sequence(row.maybe_number(UPDATES_THROUGH)?.unwrap_or(0));
        Ok(Self { head: counter_sequence(counter)?, updates_through })
    }
}

/// The item of an entry.
pub(crate) struct EntryItem {
    pub(crate) sequence: Sequence,
    /// `Messages` or `Updates`.
    pub(crate) table: Table,
    pub(crate) item: DynamoItem,
}

impl DynamoStore {
    /// The range of a chat's sequences. If the head row is lost, it is derived from the entries.
    pub(crate) async fn entry_range(&self, chat_id: ChatId) -> Result<EntryRange, StoreError> {
        if let Some(counter) = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? {
            return EntryRange::read(&counter);
        }
        let head = self.last_sequence(chat_id).await?;
        Ok(EntryRange { head, updates_through: head })
    }

    /// Items of the next entries above a sequence, ascending, and the last sequence that they cover. At most `count`
    /// items of each table. The counter row says where updates may be, so most chats and reads query no updates.
    pub(crate) async fn entry_items(
        &self,
        chat_id: ChatId,
        above: Sequence,
        range: EntryRange,
        count: usize,
    ) -> Result<(Vec<EntryItem>, Sequence), StoreError> {
        let page = |table, last: Sequence| async move {
            let query = PartitionQuery {
                bound: Some(Bound::Between(number(above.0 + 1), number(last.0))),
                ..PartitionQuery::partition(table, chat_id)
            };
            let (items, more) = self.db().page(&query, count, None).await?;
            let entry = |item: DynamoItem| {
                let sequence = Sequence(ItemReader { table, item: &item }.number("sequence")?);
                Ok(EntryItem { sequence, table, item })
            };
            let entries = items.into_iter().map(entry).collect::<Result<Vec<_>, StoreError>>()?;
            // A page that ends early covers the sequences up to its last item.
            let covered = more.and(entries.last()).map_or(range.head, |last| last.sequence);
            Ok((entries, covered))
        };
        let messages = page(Table::Messages, range.head);
        let last_update = range.updates_through.min(range.head);
        if above >= last_update {
            return messages.await;
        }
        let ((mut entries, covered), (updates, updates_covered)) =
            try_join(messages, page(Table::Updates, last_update)).await?;
        let covered = covered.min(updates_covered);
        entries.extend(updates);
        entries.retain(|entry| entry.sequence <= covered);
        entries.sort_by_key(|entry| entry.sequence);
        Ok((entries, covered))
    }

    /// The messages at these sequences of a chat that have not expired.
    pub(crate) async fn living_messages(
        &self,
        chat_id: ChatId,
        sequences: impl IntoIterator<Item = Sequence>,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        let keys: Vec<ItemKey> = sequences.into_iter().map(|sequence| message_key(chat_id, sequence)).collect();
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let items = self.db().get_many(&keys).await?;
        let messages = items.iter().flatten().map(read_message);
        messages.filter(|message| !message.as_ref().is_ok_and(|message| message.is_expired(now))).collect()
    }

    /// The reactions of one member on each of these messages.
    pub(crate) async fn reactions_of(
        &self,
        messages: impl IntoIterator<Item = MessageId>,
        user_id: UserId,
    ) -> Result<Vec<Vec<Reaction>>, StoreError> {
        let keys: Vec<_> = messages.into_iter().map(|message_id| reactions_key(message_id, user_id)).collect();
        let items = self.db().get_many(&keys).await?;
        items.iter().map(|item| item.as_ref().map_or(Ok(vec![]), read_own)).collect()
    }

    /// The members with reactions on a message, after `after` in the order of their ids.
    pub(crate) async fn members_with_reactions(
        &self,
        message_id: MessageId,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        let query = PartitionQuery {
            bound: after.map(|after| Bound::Above(text(after))),
            ..PartitionQuery::partition(Table::Reactions, message_id)
        };
        let items = self.db().query(&query, count).await?;
        items.iter().map(|item| read_reactions(item).map(|(_, member)| member)).collect()
    }
}

pub(crate) fn update_key(chat_id: ChatId, sequence: Sequence) -> ItemKey {
    ItemKey::of(Table::Updates, chat_id, sequence)
}

/// An update, with the number of its event for the relay.
pub(crate) fn update_item(update: &MessageUpdate, event_number: Option<EventNumber>) -> DynamoItem {
    let [expires_at, ttl] = end(update.expires_at);
    item([
        ("update_id", Some(text(update.update_id))),
        ("user_id", Some(text(update.user_id))),
        ("client_message_id", Some(text(update.client_message_id))),
        ("target_sequence", Some(number(update.target.0))),
        ("kind", Some(text(update.kind.as_str()))),
        ("reaction", update.kind.reaction().map(text)),
        ("created_at", Some(text(update.created_at))),
        (EVENT_NUMBER, event_number.map(|event_number| number(event_number.0))),
        expires_at,
        ttl,
    ])
}

pub(crate) fn read_update(item: &DynamoItem) -> Result<MessageUpdate, StoreError> {
    let row = ItemReader { table: Table::Updates, item };
    let (kind, reaction) = (row.text("kind")?, row.maybe_parsed("reaction")?);
    let unknown = || row.unreadable(format!("`{kind}` with this reaction is not a kind of update"));
    Ok(MessageUpdate {
        update_id: row.parsed("update_id")?,
        chat_id: row.parsed("chat_id")?,
        sequence: Sequence(row.number("sequence")?),
        user_id: row.parsed("user_id")?,
        client_message_id: row.parsed("client_message_id")?,
        target: Sequence(row.number("target_sequence")?),
        kind: UpdateKind::from_parts(kind, reaction).ok_or_else(unknown)?,
        created_at: row.parsed("created_at")?,
        expires_at: row.maybe_parsed(EXPIRES_AT)?,
    })
}

pub(crate) fn reactions_key(message_id: MessageId, user_id: UserId) -> ItemKey {
    ItemKey::of(Table::Reactions, message_id, user_id)
}

/// The reactions of a member, with the location of the message for an export.
pub(crate) fn reactions_item(message: &MessageKey, reactions: &[Reaction]) -> DynamoItem {
    item([
        ("chat_id", Some(text(message.chat_id))),
        ("sequence", Some(number(message.sequence.0))),
        (REACTIONS, Some(AttributeValue::L(reactions.iter().map(text).collect()))),
    ])
}

pub(crate) fn read_reactions(item: &DynamoItem) -> Result<(MessageKey, MemberReactions), StoreError> {
    let row = ItemReader { table: Table::Reactions, item };
    let message = MessageKey {
        chat_id: row.parsed("chat_id")?,
        sequence: Sequence(row.number("sequence")?),
        message_id: row.parsed("message_id")?,
    };
    Ok((message, MemberReactions { user_id: row.parsed("user_id")?, reactions: read_own(item)? }))
}

/// The reactions in the item of a member.
pub(crate) fn read_own(item: &DynamoItem) -> Result<Vec<Reaction>, StoreError> {
    let row = ItemReader { table: Table::Reactions, item };
    let reaction = |value: &AttributeValue| value.as_s().ok().and_then(|text| text.parse().ok());
    let reactions = item.get(REACTIONS).and_then(|value| value.as_l().ok());
    let reactions = reactions.and_then(|values| values.iter().map(reaction).collect());
    reactions.ok_or_else(|| row.unreadable("attribute `reactions` is not a list of reactions"))
}

/// The attributes of a message's state. A message without updates has none.
pub(crate) fn state_attributes(state: &MessageState) -> [(&'static str, Option<AttributeValue>); 4] {
    let MessageState { revision, edited, reactions } = state;
    let count = |known: &ReactionCount| {
        let fields = [("reaction", Some(text(&known.reaction))), ("count", Some(number(known.count.into())))];
        AttributeValue::M(item(fields))
    };
    let reactions = (!reactions.is_empty()).then(|| AttributeValue::L(reactions.iter().map(count).collect()));
    [
        (REVISION, revision_value(*revision)),
        ("edited_at", edited.map(|edited| text(edited.at))),
        ("edit_count", edited.map(|edited| number(edited.count.into()))),
        (REACTIONS, reactions),
    ]
}

/// A revision as stored: 0 is an absent attribute.
pub(crate) fn revision_value(revision: Sequence) -> Option<AttributeValue> {
    (revision > Sequence::ZERO).then(|| number(revision.0))
}

pub(crate) fn read_state(row: ItemReader<'_>) -> Result<MessageState, StoreError> {
    let edited = match row.maybe_parsed("edited_at")? {
        Some(at) => Some(Edited { at, count: row.count("edit_count")? }),
        None => None,
    };
    let count = |value: &AttributeValue| {
        let item = value.as_m().ok()?;
        let reaction = item.get("reaction")?.as_s().ok()?.parse().ok()?;
        Some(ReactionCount { reaction, count: item.get("count")?.as_n().ok()?.parse().ok()? })
    };
    let reactions = match row.item.get(REACTIONS) {
        Some(value) => value.as_l().ok().and_then(|values| values.iter().map(count).collect::<Option<_>>()),
        None => Some(vec![]),
    };
    Ok(MessageState {
        revision: Sequence(row.maybe_number(REVISION)?.unwrap_or(0)),
        edited,
        reactions: reactions.ok_or_else(|| row.unreadable("attribute `reactions` is not a list of counts"))?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use domain::{Body, ContentType, Ttl, UpdateAction, UpdateRefusal};
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
    use ports::{
        AppendOutcome, ChatWriter, Clock, Expiry, ExportKind, ExportSource, Ids, ImportTarget, MessageExpirer,
        MessageReader, MessageWriter, NewEntry, NewGroup, NewMessage, NewUpdate, Outbox, Page, PageBounds, RandomIds,
        SendRefusal, SystemClock,
    };

    use super::*;
    use crate::commit::key_of_send;
    use crate::db::ScanFreshness;
    use crate::expiry::expiration_key;
    use crate::recovery::RecoveryAudit;
    use crate::testing::{DynamoServer, chat, message, update};
    use crate::write::{AttributeChange, Write};
    use crate::{Config, schema};

    fn edit(text: &str) -> UpdateAction {
        UpdateAction::Edit(Body::new(text.to_owned().try_into().unwrap(), ContentType::Text))
    }

    fn react(with: &str) -> UpdateAction {
        UpdateAction::React(with.parse().unwrap())
    }

    /// Commits entries that are all new, and returns their sequences.
    async fn commit(store: &DynamoStore, batch: Vec<NewEntry>) -> Vec<u64> {
        let sequence = |outcome: AppendOutcome| match outcome {
            AppendOutcome::New(receipt) => receipt.sequence.0,
            other => panic!("{other:?}"),
        };
        store.commit(batch).await.unwrap().into_iter().map(sequence).collect()
    }

    async fn after(store: &DynamoStore, chat_id: ChatId, after: u64) -> Page {
        let bounds = PageBounds { count: 1000, bytes: usize::MAX };
        store.after(chat_id, Sequence(after), bounds, SystemClock.now()).await.unwrap()
    }

    async fn rows(store: &DynamoStore, table: Table, partition: impl std::fmt::Display) -> Vec<DynamoItem> {
        store.db().query(&PartitionQuery::partition(table, partition), 1000).await.unwrap()
    }

    /// All items of a table.
    async fn all(store: &DynamoStore, table: Table) -> Vec<DynamoItem> {
        store.db().scan(table, None, 1000, ScanFreshness::Strong).await.unwrap().0
    }

    /// The sum of all samples of a metric with labels that contain `labels`.
    fn sum(counted: &PrometheusHandle, metric: &str, labels: &str) -> f64 {
        let rendered = counted.render();
        let samples = rendered.lines().filter(|line| line.starts_with(metric) && line.contains(labels));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    #[tokio::test]
    async fn updates_are_queried_only_where_they_may_be() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let queries = || sum(&counted, "tidings_dynamodb_request_seconds_count", "Query");
        let send = || vec![NewEntry::Message(message(chat_id, sender_id))];

        commit(&store, send()).await;
        let before = queries();
        after(&store, chat_id, 0).await;
        store.unpublished(chat_id).await.unwrap();
        assert_eq!(queries() - before, 2.0, "a chat without updates");
        commit(&store, vec![NewEntry::Update(update(chat_id, sender_id, 1, edit("new")))]).await;
        commit(&store, send()).await;
        let before = queries();
        assert_eq!(after(&store, chat_id, 2).await.updates, []);
        assert_eq!(queries() - before, 1.0, "a read above the last update");
        let page = after(&store, chat_id, 1).await;
        assert_eq!((page.updates.len(), page.updated.len(), page.messages.len()), (1, 1, 1));
        assert_eq!(queries() - before, 3.0);
    }

    #[tokio::test]
    async fn a_send_after_an_update_costs_what_it_did_before() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let send = || vec![NewEntry::Message(message(chat_id, sender_id))];
        commit(&store, send()).await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let spent = || {
            let operations = ["BatchGetItem", "GetItem", "TransactWriteItems"];
            let requests = operations.map(|it| sum(&counted, "tidings_dynamodb_request_seconds_count", it));
            (requests, sum(&counted, "tidings_dynamodb_consumed_units_total", "write"))
        };
        commit(&store, vec![NewEntry::Update(update(chat_id, sender_id, 1, react("a")))]).await;
        // The counter with message and membership, then the reactions. `GetItem` is part of the name of the other.
        let ([batches, gets, transactions], units) = spent();
        assert_eq!((batches, gets, transactions), (2.0, 2.0, 1.0));
        // Row, key, message, reactions, counter and membership at two units each.
        assert_eq!(units, 12.0);
        commit(&store, send()).await;
        assert_eq!(spent(), ([2.0, 2.0, 2.0], 12.0 + 11.0));
    }

    /// A group of an owner and a member.
    async fn group(store: &DynamoStore) -> (ChatId, UserId, UserId) {
        let (chat_id, owner, member) = (RandomIds.ulid().into(), RandomIds.ulid().into(), RandomIds.ulid().into());
        let name = "group".to_owned().try_into().unwrap();
        let created_at = SystemClock.now();
        let group = NewGroup { chat_id, name, created_by: owner, members: vec![member], created_at };
        store.create_group(group).await.unwrap();
        (chat_id, owner, member)
    }

    #[tokio::test]
    async fn a_purge_deletes_the_reactions_of_its_messages() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner, member) = group(&store).await;
        let expiring = NewMessage { ttl: Ttl::from_secs(60), ..message(chat_id, owner) };
        let sends = [message(chat_id, owner), expiring, message(chat_id, member), message(chat_id, owner)];
        commit(&store, sends.map(NewEntry::Message).to_vec()).await;
        let reacts = (1..=4).map(|target| NewEntry::Update(update(chat_id, owner, target, react("a"))));
        commit(&store, reacts.collect()).await;
        assert_eq!(all(&store, Table::Reactions).await.len(), 4);
        // One message is deleted, one expires, and one expires earlier than it did; the last one stays.
        commit(&store, vec![NewEntry::Update(update(chat_id, owner, 1, UpdateAction::Delete))]).await;
        let of_member = Expiry { sender: Some(member), lifetime: None };
        store.expire(chat_id, Sequence::ZERO, of_member, SystemClock.now()).await.unwrap();
        let later = SystemClock.now() + Duration::from_secs(120);
        while store.purge_expired(later).await.unwrap() > 0 {}
        let left = all(&store, Table::Reactions).await;
        assert_eq!(left.iter().map(|item| item["sequence"].clone()).collect::<Vec<_>>(), [number(4)]);
        assert_eq!(all(&store, Table::Expirations).await, []);
    }

    #[tokio::test]
    async fn reactions_that_a_stopped_purge_has_left_are_deleted_later() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let send = message(chat_id, sender_id);
        commit(&store, vec![send.clone().into(), update(chat_id, sender_id, 1, react("a")).into()]).await;
        commit(&store, vec![update(chat_id, sender_id, 1, UpdateAction::Delete).into()]).await;
        let reactions = all(&store, Table::Reactions).await.remove(0);
        let [expiration] = &all(&store, Table::Expirations).await[..] else { panic!("the deletion has one") };
        let key = ItemKey::read(Table::Expirations, expiration).unwrap();
        assert_eq!(store.purge_expired(SystemClock.now()).await.unwrap(), 1);
        // As after a crash in the middle: the transaction of the purge has marked the expiration.
        server.put(reactions_key(send.message_id, sender_id), reactions).await;
        let marks = item([
            ("reacted_message_id", Some(text(send.message_id))),
            ("is_purged", Some(AttributeValue::Bool(true))),
        ]);
        server.put(key, marks).await;
        assert_eq!(store.purge_expired(SystemClock.now()).await.unwrap(), 0, "it is not purged twice");
        assert_eq!((all(&store, Table::Reactions).await, all(&store, Table::Expirations).await), (vec![], vec![]));
        assert_eq!(store.pending_changes(chat_id).await.unwrap().len(), 2, "the chat, and one purge");
    }

    #[tokio::test]
    async fn a_first_reaction_during_a_purge_waits_for_the_next_pass() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let expiring = NewMessage { ttl: Ttl::from_secs(60), ..message(chat_id, sender_id) };
        commit(&store, vec![expiring.clone().into()]).await;
        let [expiration] = &all(&store, Table::Expirations).await[..] else { panic!("it expires") };
        let due = crate::expiry::read_expiration(expiration).unwrap();
        // The clock of the process that commits the reaction is behind the clock of the one that purges.
        commit(&store, vec![update(chat_id, sender_id, 1, react("a")).into()]).await;
        let later = SystemClock.now() + Duration::from_secs(120);
        assert_eq!(store.purge_messages(chat_id, &[due], later).await.unwrap(), 0);
        assert_eq!(store.purge_expired(later).await.unwrap(), 1);
        assert_eq!((all(&store, Table::Reactions).await, all(&store, Table::Expirations).await), (vec![], vec![]));
    }

    #[tokio::test]
    async fn a_lost_counter_comes_back_above_the_updates() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        commit(&store, vec![message(chat_id, sender_id).into()]).await;
        commit(&store, vec![update(chat_id, sender_id, 1, edit("new")).into()]).await;
        let before = store.head(chat_id).await.unwrap();
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        store.db().transact(|| vec![Write::delete(counter.clone())]).await.unwrap();
        assert_eq!(after(&store, chat_id, 0).await.updates.len(), 1, "readers do not depend on the counter");
        // Nothing but the entries is left.
        for key in rows(&store, Table::IdempotencyKeys, chat_id).await {
            let key = ItemKey::read(Table::IdempotencyKeys, &key).unwrap();
            store.db().transact(|| vec![Write::delete(key.clone())]).await.unwrap();
        }
        let audit = RecoveryAudit { actor: "ada".to_owned(), reason: "incident 7".to_owned() };
        store.recover_counter(chat_id, &audit).await.unwrap();
        let head = store.head(chat_id).await.unwrap();
        assert_eq!(head.clone().unwrap().last_message, before.unwrap().last_message);
        assert_eq!(head.unwrap().sequence, Sequence(2));
        assert_eq!(after(&store, chat_id, 0).await.updates.len(), 1);
        assert_eq!(commit(&store, vec![update(chat_id, sender_id, 1, edit("newer")).into()]).await, [3]);
    }

    /// A process of an earlier version sends without knowing of updates.
    #[tokio::test]
    async fn the_last_message_of_an_earlier_version_has_the_head_sequence() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        commit(&store, vec![message(chat_id, sender_id).into()]).await;
        commit(&store, vec![update(chat_id, sender_id, 1, edit("new")).into()]).await;
        let sequence = async || store.head(chat_id).await.unwrap().unwrap().last_message.unwrap().sequence;
        assert_eq!(sequence().await, Sequence(1));
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        let moved =
            [("sequence_counter", number(3)), ("last_message_id", text(message(chat_id, sender_id).message_id))];
        let changes = || moved.iter().map(|(name, value)| AttributeChange::Set(name, Some(value.clone()))).collect();
        store.db().transact(|| vec![Write::update(counter.clone(), changes())]).await.unwrap();
        assert_eq!(sequence().await, Sequence(3));
    }

    #[tokio::test]
    async fn updates_are_published_in_order_with_their_messages() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner, member) = group(&store).await;
        commit(&store, vec![message(chat_id, owner).into(), message(chat_id, owner).into()]).await;
        let updates = [
            update(chat_id, member, 1, react("a")),
            update(chat_id, owner, 1, edit("new")),
            update(chat_id, owner, 2, UpdateAction::Delete),
        ];
        commit(&store, updates.map(NewEntry::Update).to_vec()).await;
        commit(&store, vec![message(chat_id, owner).into()]).await;
        let handed = store.committed().await.into_iter().flat_map(|commit| commit.messages);
        let handed: Vec<_> = handed.map(|event| event.body.sequence().unwrap().0).collect();
        assert_eq!(handed, [1, 2, 3, 4, 5, 6]);

        let events = store.unpublished(chat_id).await.unwrap();
        let said: Vec<_> = events
            .iter()
            .map(|event| match &event.body {
                domain::EventBody::MessagePersisted { message, .. } => (message.sequence.0, "sent", true),
                domain::EventBody::MessageUpdated { update, message } => {
                    (update.sequence.0, update.kind.as_str(), message.is_some())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected =
            [(1, "sent", true), (3, "reacted", true), (4, "edited", true), (5, "deleted", false), (6, "sent", true)];
        assert_eq!(said, expected, "the deleted message is not published any more");
        let numbers: Vec<_> = events.iter().map(|event| event.event_number.unwrap().0).collect();
        assert_eq!(numbers, [2, 4, 5, 6, 7], "the creation of the chat is the first event");
        store.published(chat_id, Sequence(4)).await.unwrap();
        assert_eq!(store.unpublished(chat_id).await.unwrap().len(), 2);
        store.published(chat_id, Sequence(6)).await.unwrap();
        assert_eq!(store.unpublished(chat_id).await.unwrap(), []);
    }

    #[tokio::test]
    async fn an_unreadable_update_is_passed_over() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        commit(&store, vec![message(chat_id, sender_id).into()]).await;
        let updates = [edit("one"), edit("two")].map(|action| update(chat_id, sender_id, 1, action).into());
        commit(&store, updates.to_vec()).await;
        server.put(update_key(chat_id, Sequence(2)), item([("kind", Some(text("strange")))])).await;
        let events = store.unpublished(chat_id).await.unwrap();
        let sequences: Vec<_> = events.iter().map(|event| event.body.sequence().unwrap().0).collect();
        assert_eq!(sequences, [1, 3]);
        assert_eq!(store.unpublished(chat_id).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn an_update_that_loses_its_message_between_read_and_write_is_refused() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        commit(&store, vec![message(chat_id, sender_id).into()]).await;
        // Every purge and every deletion of another process has its transaction in between.
        let gone = update(chat_id, sender_id, 1, UpdateAction::Delete);
        let outcomes =
            store.commit(vec![gone.into(), update(chat_id, sender_id, 1, edit("new")).into()]).await.unwrap();
        assert_eq!(outcomes[1], AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::MessageNotFound)));
        while store.purge_expired(SystemClock.now()).await.unwrap() > 0 {}
        let outcomes = store.commit(vec![update(chat_id, sender_id, 1, edit("new")).into()]).await.unwrap();
        assert_eq!(outcomes, [AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::MessageNotFound))]);
        assert_eq!(rows(&store, Table::Messages, chat_id).await, []);
    }

    #[tokio::test]
    async fn updates_move_to_another_store() {
        let (server, other) = (DynamoServer::with_tables().await, DynamoServer::with_tables().await);
        let (source, target) = (server.store(), other.store());
        let (chat_id, owner, member) = group(&source).await;
        let expiring = NewMessage { ttl: Ttl::from_secs(600), ..message(chat_id, owner) };
        commit(&source, vec![message(chat_id, owner).into(), expiring.into(), message(chat_id, owner).into()]).await;
        let updates = [
            update(chat_id, member, 1, react("a")),
            update(chat_id, member, 2, react("b")),
            update(chat_id, member, 3, react("c")),
            update(chat_id, owner, 3, UpdateAction::Delete),
            update(chat_id, owner, 2, edit("new")),
        ];
        commit(&source, updates.map(NewEntry::Update).to_vec()).await;
        let now = SystemClock.now();
        for _ in 0..2 {
            for kind in ExportKind::ALL {
                let rows = source.rows(kind, None, 1000, now).await.unwrap().rows;
                target.write(rows).await.unwrap();
            }
        }
        assert_eq!(after(&target, chat_id, 0).await, after(&source, chat_id, 0).await);
        assert_eq!(after(&target, chat_id, 3).await, after(&source, chat_id, 3).await);
        let head =
            |head: Option<ports::Head>| (head.clone().unwrap().sequence, head.unwrap().last_message.unwrap().sequence);
        assert_eq!(head(target.head(chat_id).await.unwrap()), (Sequence(8), Sequence(3)));
        let mut moved: Vec<_> =
            all(&target, Table::Reactions).await.iter().map(|item| item["sequence"].clone()).collect();
        moved.sort_by_key(|value| format!("{value:?}"));
        assert_eq!(moved, [number(1), number(2)], "those of a deleted message are left behind");
        assert_eq!(target.unpublished(chat_id).await.unwrap(), []);
        // The purge deletes the reactions of the moved message, too.
        while target.purge_expired(now + Duration::from_secs(1000)).await.unwrap() > 0 {}
        assert_eq!(all(&target, Table::Reactions).await.len(), 1);
        assert_eq!(commit(&target, vec![update(chat_id, owner, 1, edit("new")).into()]).await, [9]);
    }

    #[tokio::test]
    async fn a_restore_repairs_updates() {
        let server = DynamoServer::with_tables().await;
        let source = server.store();
        let (chat_id, sender_id) = chat(&source).await;
        let old = SystemClock.now().minus(Duration::from_secs(3600));
        let sends = (0..2).map(|_| NewMessage { created_at: old, ..message(chat_id, sender_id) }.into());
        commit(&source, sends.collect()).await;
        let edited = update(chat_id, sender_id, 1, edit("new"));
        let deleted = update(chat_id, sender_id, 2, UpdateAction::Delete);
        commit(&source, vec![edited.clone().into(), deleted.clone().into()]).await;
        let config = Config { table_prefix: "restored_".to_owned(), ..server.config.clone() };
        schema::apply(&server.client, &config).await.unwrap();
        let target = server.store().through(server.client.clone(), &config);
        target.counters().clear();
        for table in Table::ALL {
            for item in all(&source, table).await {
                target.db().put_many(&HashMap::from([(ItemKey::read(table, &item).unwrap(), item)])).await.unwrap();
            }
        }
        // The key of the edit is torn off, and so is the message of the deletion.
        let key = key_of_send(chat_id, sender_id, edited.client_message_id);
        target.db().transact(|| vec![Write::delete(key.clone())]).await.unwrap();
        let second = source.db().get(&message_key(chat_id, Sequence(2))).await.unwrap().unwrap();
        let deletion = expiration_key(&read_message(&second).unwrap()).unwrap();
        target.db().transact(|| vec![Write::delete(deletion.clone())]).await.unwrap();
        let whole = || {
            let unchanged = [REVISION, EXPIRES_AT, crate::schema::TTL].map(|name| AttributeChange::Set(name, None));
            vec![Write::update(message_key(chat_id, Sequence(2)), unchanged.into())]
        };
        target.db().transact(whole).await.unwrap();

        let done = target.repair_restored(&source, SystemClock.now(), |_, _, _| {}).await.unwrap();
        assert_eq!((done.keys_written, done.keys_deleted, done.passed_over), (1, 0, 0));
        let receipts = |sequences: [u64; 2]| {
            let receipt = |(update, sequence): (&NewUpdate, u64)| {
                let (message_id, sequence) = (update.update_id, Sequence(sequence));
                AppendOutcome::Duplicate(ports::Receipt { message_id, sequence, created_at: update.created_at })
            };
            [&edited, &deleted].into_iter().zip(sequences).map(receipt).collect::<Vec<_>>()
        };
        let retries = vec![edited.clone().into(), deleted.clone().into()];
        assert_eq!(target.commit(retries).await.unwrap(), receipts([3, 4]));
        let page = after(&target, chat_id, 0).await;
        assert_eq!((page.messages.len(), page.updates.len(), page.head), (1, 2, Sequence(4)));
        assert_eq!(target.purge_expired(SystemClock.now()).await.unwrap(), 1);
    }
}
