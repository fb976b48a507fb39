use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::limits::{MESSAGE_FIELDS_BYTES, UNREAD_EXACT_MAX, UNREAD_ROWS_MAX};
use domain::{
    Body, ChatId, ConnectionId, EventNumber, Message, MessageId, MessageUpdate, Reaction, Sequence, Timestamp, UserId,
};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{
    Head, LastMessage, MemberReactions, MessageKey, MessageReader, Page, PageBounds, StoreError, UnreadCount,
    UnreadQuery, UnreadTally,
};

use crate::DynamoStore;
use crate::commit::TRANSACTION_SENDS_MAX;
use crate::db::{Bound, CONCURRENCY_MAX, PartitionQuery};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, UPDATED_AT, end, item, number, seconds, text};
use crate::outbox::{EVENT_NUMBER, PUBLISHED};
use crate::schema::Table;
use crate::updates::{EntryItem, read_state, read_update, state_attributes};
use crate::write::AttributeChange;

/// The number of changes of a chat.
pub(crate) const CHANGES: &str = "change_count";
/// No update of a chat has a higher sequence; absent if the chat never had one.
pub(crate) const UPDATES_THROUGH: &str = "updates_through";
/// The sequence of the last message, if an update has the head sequence. It counts only while [`UPDATES_THROUGH`] is at
/// the head: a process of an earlier version sends without changing it.
const LAST_SEQUENCE: &str = "last_message_sequence";
/// Limit of rows per request: the service ends a page at 1 MB, and this many rows of the longest messages fit.
pub(crate) const ROWS_MAX: usize = 200;

#[async_trait]
impl MessageReader for DynamoStore {
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        let item = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await?;
        item.map(|item| read_head(&item, self.clock().now())).transpose()
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        let keys: Vec<_> = chat_ids.iter().map(|chat_id| ItemKey::one(Table::ChatCounters, chat_id)).collect();
        let items = self.db().get_many(&keys).await?;
        let now = self.clock().now();
        items.into_iter().map(|item| item.map(|item| read_head(&item, now)).transpose()).collect()
    }

    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        // The head is read first, and nothing above it: an entry that is committed meanwhile is for the next page.
        // Every entry up to the head is visible by now or never will be (G3).
        let range = self.entry_range(chat_id).await?;
        let mut page = Page { examined: after, head: range.head, ..Page::default() };
        let (mut updated, mut bytes, mut rows) = (BTreeMap::new(), 0, 0);
        let mut examined = after;
        while examined < range.head {
            // One more row than the limit distinguishes a full page from the end of the chat.
            let asked = (bounds.count.saturating_sub(rows)).saturating_add(1).min(ROWS_MAX);
            let (items, covered) = self.entry_items(chat_id, examined, range, asked).await?;
            let entries = items.iter().map(ChatEntry::read).collect::<Result<Vec<_>, _>>()?;
            // A message below the page is in it once, however many updates of it follow.
            let targets = entries.iter().filter_map(|entry| entry.target(now));
            let targets: BTreeSet<Sequence> =
                targets.filter(|target| *target <= after && !updated.contains_key(target)).collect();
            let targets = self.living_messages(chat_id, targets, now).await?;
            let mut targets: BTreeMap<Sequence, Message> =
                targets.into_iter().map(|message| (message.sequence, message)).collect();
            for entry in entries {
                let target = entry.target(now).and_then(|target| targets.remove(&target));
                let alive = !entry.is_expired(now);
                let len = match &entry {
                    ChatEntry::Message(message) if alive => message.json_size(),
                    ChatEntry::Update(_) if alive => {
                        MESSAGE_FIELDS_BYTES + target.as_ref().map_or(0, Message::json_size)
                    }
                    ChatEntry::Message(_) | ChatEntry::Update(_) => 0,
                };
                if rows == bounds.count || (rows > 0 && bytes + len > bounds.bytes) {
                    page.updated = updated.into_values().collect();
                    return Ok(page);
                }
                rows += 1;
                bytes += len;
                page.examined = entry.sequence();
                updated.extend(target.map(|message| (message.sequence, message)));
                match entry {
                    ChatEntry::Message(message) if alive => page.messages.push(message),
                    ChatEntry::Update(update) if alive => page.updates.push(update),
                    ChatEntry::Message(_) | ChatEntry::Update(_) => {}
                }
            }
            examined = covered;
        }
        page.updated = updated.into_values().collect();
        page.examined = range.head;
        Ok(page)
    }

    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        let query = PartitionQuery {
            bound: Some(Bound::Below(number(before.0))),
            descending: true,
            ..PartitionQuery::partition(Table::Messages, chat_id)
        };
        let (mut messages, mut start) = (vec![], None);
        while messages.len() < count {
            let asked = (count - messages.len()).min(ROWS_MAX);
            let (items, next) = self.db().page(&query, asked, start).await?;
            for item in &items {
                let message = read_message(item)?;
                if !message.is_expired(now) {
                    messages.push(message);
                }
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        Ok(messages)
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError> {
        let chat_ids: Vec<_> = of.iter().map(|query| query.chat_id).collect();
        let heads = self.heads(&chat_ids).await?;
        let counts = of.iter().copied().zip(heads).map(|(query, head)| async move {
            match head {
                // Most chats of an inbox are fully read, and need no query of their messages.
                Some(head) if head.sequence <= query.read => Ok(UnreadCount::NONE),
                Some(_) | None => self.unread_of(&query, now).await,
            }
        });
        stream::iter(counts).buffered(CONCURRENCY_MAX).try_collect().await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        let Some(key) = self.locate(message_id).await? else { return Ok(None) };
        // The row decides: it may be purged, and the index may lag.
        let item = self.db().get(&key).await?;
        let message = item.map(|item| read_message(&item)).transpose()?;
        Ok(message.filter(|message| message.message_id == message_id && !message.is_expired(now)))
    }

    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
        self.reactions_of(messages.iter().map(|message| message.message_id), user_id).await
    }

    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        self.members_with_reactions(message.message_id, after, count).await
    }
}

/// An entry of a chat.
enum ChatEntry {
    Message(Message),
    Update(MessageUpdate),
}

impl ChatEntry {
    fn read(entry: &EntryItem) -> Result<Self, StoreError> {
        match entry.table {
            Table::Updates => read_update(&entry.item).map(Self::Update),
            _ => read_message(&entry.item).map(Self::Message),
        }
    }

    fn sequence(&self) -> Sequence {
        match self {
            Self::Message(message) => message.sequence,
            Self::Update(update) => update.sequence,
        }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        match self {
            Self::Message(message) => message.is_expired(now),
            Self::Update(update) => update.is_expired(now),
        }
    }

    /// The message of an update that has not expired.
    fn target(&self, now: Timestamp) -> Option<Sequence> {
        match self {
            Self::Update(update) if !update.is_expired(now) => Some(update.target),
            Self::Message(_) | Self::Update(_) => None,
        }
    }
}

impl DynamoStore {
    /// The sequence of the last entry of a chat, from the entries. It replaces a lost head row.
    pub(crate) async fn last_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        let last = |table| async move {
            let last = PartitionQuery {
                descending: true,
                attributes: &["sequence"],
                ..PartitionQuery::partition(table, chat_id)
            };
            match self.db().query(&last, 1).await?.pop() {
                Some(item) => Ok(Sequence(ItemReader { table, item: &item }.number("sequence")?)),
                None => Ok(Sequence::ZERO),
            }
        };
        let (message, update) = try_join(last(Table::Messages), last(Table::Updates)).await?;
        Ok(message.max(update))
    }

    async fn unread_of(&self, query: &UnreadQuery, now: Timestamp) -> Result<UnreadCount, StoreError> {
        let newest_first = PartitionQuery {
            bound: Some(Bound::Above(number(query.read.0))),
            descending: true,
            attributes: &["sequence", "sender_id", EXPIRES_AT],
            ..PartitionQuery::partition(Table::Messages, query.chat_id)
        };
        let mut tally = UnreadTally::default();
        // One more row than the exact count shows whether there are more. Most chats end long before that.
        let (mut asked, mut start) = (UNREAD_EXACT_MAX as usize + 1, None);
        loop {
            let (items, next) = self.db().page(&newest_first, asked, start).await?;
            for item in &items {
                let row = ItemReader { table: Table::Messages, item };
                let expired = row.maybe_parsed::<Timestamp>(EXPIRES_AT)?.is_some_and(|at| at <= now);
                let is_unread = row.parsed::<UserId>("sender_id")? != query.reader && !expired;
                if let Some(unread) = tally.row(is_unread) {
                    return Ok(unread);
                }
            }
            start = next;
            if start.is_none() {
                return Ok(tally.finish());
            }
            asked = UNREAD_ROWS_MAX + 1 - UNREAD_EXACT_MAX as usize;
        }
    }
}

pub(crate) fn message_key(chat_id: ChatId, sequence: Sequence) -> ItemKey {
    ItemKey::of(Table::Messages, chat_id, sequence)
}

/// A message, with the connection that sent it and the number of its event, for the relay.
pub(crate) fn message_item(
    message: &Message,
    origin_connection_id: Option<ConnectionId>,
    event_number: Option<EventNumber>,
) -> DynamoItem {
    let [expires_at, ttl] = end(message.expires_at);
    let [revision, edited_at, edit_count, reactions] = state_attributes(&message.state);
    item([
        ("message_id", Some(text(message.message_id))),
        ("sender_id", Some(text(message.sender_id))),
        ("client_message_id", Some(text(message.client_message_id))),
        ("content", Some(text(message.body.content.as_str()))),
        ("content_type", Some(text(message.body.content_type.as_str()))),
        ("metadata", message.body.metadata.as_ref().map(|metadata| text(metadata.as_str()))),
        ("created_at", Some(text(message.created_at))),
        ("origin_connection_id", origin_connection_id.map(text)),
        (EVENT_NUMBER, event_number.map(|event_number| number(event_number.0))),
        expires_at,
        ttl,
        revision,
        edited_at,
        edit_count,
        reactions,
    ])
}

pub(crate) fn read_message(item: &DynamoItem) -> Result<Message, StoreError> {
    let row = ItemReader { table: Table::Messages, item };
    Ok(Message {
        message_id: row.parsed("message_id")?,
        chat_id: row.parsed("chat_id")?,
        sequence: Sequence(row.number("sequence")?),
        sender_id: row.parsed("sender_id")?,
        client_message_id: row.parsed("client_message_id")?,
        body: Body::new(row.made("content")?, row.parsed("content_type")?).with_metadata(row.maybe_made("metadata")?),
        created_at: row.parsed("created_at")?,
        expires_at: row.maybe_parsed(EXPIRES_AT)?,
        state: read_state(row)?,
    })
}

/// The attributes that an update of a message changes.
pub(crate) fn message_changes(message: &Message) -> Vec<AttributeChange> {
    let body = [
        ("content", Some(text(message.body.content.as_str()))),
        ("content_type", Some(text(message.body.content_type.as_str()))),
        ("metadata", message.body.metadata.as_ref().map(|metadata| text(metadata.as_str()))),
    ];
    let attributes = body.into_iter().chain(end(message.expires_at)).chain(state_attributes(&message.state));
    attributes.map(|(name, value)| AttributeChange::Set(name, value)).collect()
}

/// The attributes of a counter row that follow the last entry. The chat's TTL and its number of changes are not among
/// them; the commit has conditions on them instead. After an update the caller also sets [`UPDATES_THROUGH`].
pub(crate) fn sequence_changes(head: &Head) -> Vec<AttributeChange> {
    let sequence = AttributeChange::Set("sequence_counter", Some(number(head.sequence.0)));
    let last = head.last_message.as_ref().filter(|last| last.sequence != head.sequence);
    let last = last.map(|last| AttributeChange::Set(LAST_SEQUENCE, Some(number(last.sequence.0))));
    [Some(sequence), last].into_iter().flatten().collect()
}

/// The attributes of a counter row that follow the last entry and the last message.
pub(crate) fn head_changes(head: &Head) -> Vec<AttributeChange> {
    let last = head.last_message.as_ref();
    let mut changes = sequence_changes(head);
    changes.extend([
        AttributeChange::Set("last_message_id", last.map(|last| text(last.message_id))),
        AttributeChange::Set("last_sender_id", last.map(|last| text(last.sender_id))),
        AttributeChange::Set(
            "last_preview",
            last.and_then(|last| last.preview.as_ref()).map(|preview| text(preview.as_str())),
        ),
        AttributeChange::Set("last_created_at", last.map(|last| text(last.created_at))),
        AttributeChange::Set("last_expires_at", last.and_then(|last| last.expires_at).map(text)),
    ]);
    changes
}

/// The counter row of a chat without messages.
pub(crate) fn new_counter(chat: &domain::Chat, changes: u64) -> DynamoItem {
    item([
        ("sequence_counter", Some(number(0))),
        (PUBLISHED, Some(number(0))),
        ("message_ttl", chat.message_ttl.map(seconds)),
        ("created_at", Some(text(chat.created_at))),
        (UPDATED_AT, Some(text(chat.created_at))),
        (CHANGES, count_value(changes)),
    ])
}

/// A number of changes as stored: 0 is an absent attribute, as in the rows of an earlier version.
pub(crate) fn count_value(changes: u64) -> Option<AttributeValue> {
    (changes > 0).then(|| number(changes))
}

/// The number of changes in a counter row.
pub(crate) fn counter_changes(counter: &DynamoItem) -> Result<u64, StoreError> {
    let row = ItemReader { table: Table::ChatCounters, item: counter };
    Ok(row.maybe_number(CHANGES)?.unwrap_or(0))
}

/// The counter row of a chat with this head, with everything published.
pub(crate) fn counter_item(chat: &domain::Chat, head: &Head) -> DynamoItem {
    let attributes = head_changes(head).into_iter().filter_map(|change| match change {
        AttributeChange::Set(name, Some(value)) => Some((name.to_owned(), value)),
        AttributeChange::Set(..) | AttributeChange::SetIfAbsent(..) | AttributeChange::Increment(_) => None,
    });
    let published = (PUBLISHED.to_owned(), number(head.sequence.0));
    let is_message = head.last_message.as_ref().is_none_or(|last| last.sequence == head.sequence);
    let updates = (!is_message).then(|| (UPDATES_THROUGH.to_owned(), number(head.sequence.0)));
    new_counter(chat, head.changes).into_iter().chain(attributes).chain([published]).chain(updates).collect()
}

/// The sequence in a counter row.
pub(crate) fn counter_sequence(counter: &DynamoItem) -> Result<Sequence, StoreError> {
    let row = ItemReader { table: Table::ChatCounters, item: counter };
    match row.number("sequence_counter")? {
        // A valid counter leaves room for another round of messages.
        sequence if sequence > u64::MAX - TRANSACTION_SENDS_MAX as u64 => {
            Err(row.unreadable(format!("a chat cannot hold {sequence} messages")))
        }
        sequence => Ok(Sequence(sequence)),
    }
}

/// The last activity in a counter row: the time of the last message, or of the creation of an empty chat.
pub(crate) fn counter_activity(counter: &DynamoItem) -> Result<Timestamp, StoreError> {
    let row = ItemReader { table: Table::ChatCounters, item: counter };
    row.maybe_parsed("last_created_at")?.map_or_else(|| row.parsed("created_at"), Ok)
}

/// Reads a head row at `now`: the preview of an expired last message is left out (G11).
pub(crate) fn read_head(item: &DynamoItem, now: Timestamp) -> Result<Head, StoreError> {
    let row = ItemReader { table: Table::ChatCounters, item };
    let sequence = counter_sequence(item)?;
    let last_message = match row.maybe_parsed("last_message_id")? {
        None => None,
        Some(message_id) => {
            let expires_at: Option<Timestamp> = row.maybe_parsed("last_expires_at")?;
            let expired = expires_at.is_some_and(|at| at <= now);
            let last_sequence = match row.maybe_number(UPDATES_THROUGH)? {
                Some(through) if through == sequence.0 => row.maybe_number(LAST_SEQUENCE)?,
                Some(_) | None => None,
            };
            Some(LastMessage {
                message_id,
                sequence: last_sequence.map_or(sequence, Sequence),
                sender_id: row.parsed("last_sender_id")?,
                preview: if expired { None } else { row.maybe_made("last_preview")? },
                created_at: row.parsed("last_created_at")?,
                expires_at,
            })
        }
    };
    Ok(Head { sequence, last_message, message_ttl: row.maybe_life("message_ttl")?, changes: counter_changes(item)? })
}
