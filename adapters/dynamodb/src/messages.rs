use async_trait::async_trait;
use domain::limits::{UNREAD_EXACT_MAX, UNREAD_ROWS_MAX};
use domain::{Body, ChatId, ConnectionId, Message, MessageId, Sequence, Timestamp, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Head, LastMessage, MessageReader, Page, PageBounds, StoreError, UnreadCount, UnreadQuery, UnreadTally};

use crate::DynamoStore;
use crate::commit::TRANSACTION_SENDS_MAX;
use crate::db::{Bound, CONCURRENCY_MAX, PartitionQuery};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, end, item, number, seconds, text};
use crate::outbox::PUBLISHED;
use crate::schema::Table;
use crate::write::AttributeChange;

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
        // The head is read first, and nothing above it: a message that is committed meanwhile is for the next page.
        // Every message up to the head is visible by now or never will be (G3).
        let head = self.head_sequence(chat_id).await?;
        let (mut messages, mut bytes, mut examined, mut rows) = (vec![], 0, after, 0);
        while examined < head {
            let query = PartitionQuery {
                bound: Some(Bound::Between(number(examined.0 + 1), number(head.0))),
                ..PartitionQuery::partition(Table::Messages, chat_id)
            };
            // One more row than the limit distinguishes a full page from the end of the chat.
            let asked = (bounds.count.saturating_sub(rows)).saturating_add(1).min(ROWS_MAX);
            let (items, more) = self.db().page(&query, asked, None).await?;
            for item in items {
                let message = read_message(&item)?;
                let expired = message.is_expired(now);
                let len = if expired { 0 } else { message.body.size() };
                if rows == bounds.count || (rows > 0 && bytes + len > bounds.bytes) {
                    return Ok(Page { messages, examined, head });
                }
                rows += 1;
                bytes += len;
                examined = message.sequence;
                if !expired {
                    messages.push(message);
                }
            }
            if more.is_none() {
                break;
            }
        }
        Ok(Page { messages, examined: head, head })
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
        let index = PartitionQuery {
            index: Table::Messages.definition().index,
            ..PartitionQuery::partition(Table::Messages, message_id)
        };
        let Some(keys) = self.db().query(&index, 1).await?.pop() else { return Ok(None) };
        // The index may lag, so the row decides.
        let item = self.db().get(&ItemKey::read(Table::Messages, &keys)?).await?;
        let message = item.map(|item| read_message(&item)).transpose()?;
        Ok(message.filter(|message| !message.is_expired(now)))
    }
}

impl DynamoStore {
    /// The sequence of the last message. If the head row is lost, it is derived from the messages.
    pub(crate) async fn head_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        match self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? {
            Some(counter) => counter_sequence(&counter),
            None => self.last_sequence(chat_id).await,
        }
    }

    /// The sequence of the last row of a chat.
    pub(crate) async fn last_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        let last = PartitionQuery {
            descending: true,
            attributes: &["sequence"],
            ..PartitionQuery::partition(Table::Messages, chat_id)
        };
        match self.db().query(&last, 1).await?.pop() {
            Some(item) => Ok(Sequence(ItemReader { table: Table::Messages, item: &item }.number("sequence")?)),
            None => Ok(Sequence::ZERO),
        }
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

/// A message, and the connection that sent it, for the relay.
pub(crate) fn message_item(message: &Message, origin_connection_id: Option<ConnectionId>) -> DynamoItem {
    let [expires_at, ttl] = end(message.expires_at);
    item([
        ("message_id", Some(text(message.message_id))),
        ("sender_id", Some(text(message.sender_id))),
        ("client_message_id", Some(text(message.client_message_id))),
        ("content", Some(text(message.body.content.as_str()))),
        ("content_type", Some(text(message.body.content_type.as_str()))),
        ("metadata", message.body.metadata.as_ref().map(|metadata| text(metadata.as_str()))),
        ("created_at", Some(text(message.created_at))),
        ("origin_connection_id", origin_connection_id.map(text)),
        expires_at,
        ttl,
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
    })
}

/// The attributes of a counter row that follow the last message. The chat's TTL is not among them; the commit has a
/// condition on it instead.
pub(crate) fn head_changes(head: &Head) -> Vec<AttributeChange> {
    let last = head.last_message.as_ref();
    vec![
        AttributeChange::Set("sequence_counter", Some(number(head.sequence.0))),
        AttributeChange::Set("last_message_id", last.map(|last| text(last.message_id))),
        AttributeChange::Set("last_sender_id", last.map(|last| text(last.sender_id))),
        AttributeChange::Set(
            "last_preview",
            last.and_then(|last| last.preview.as_ref()).map(|preview| text(preview.as_str())),
        ),
        AttributeChange::Set("last_created_at", last.map(|last| text(last.created_at))),
        AttributeChange::Set("last_expires_at", last.and_then(|last| last.expires_at).map(text)),
    ]
}

/// The counter row of a chat without messages.
pub(crate) fn new_counter(chat: &domain::Chat) -> DynamoItem {
    item([
        ("sequence_counter", Some(number(0))),
        (PUBLISHED, Some(number(0))),
        ("message_ttl", chat.message_ttl.map(seconds)),
        ("created_at", Some(text(chat.created_at))),
    ])
}

/// The counter row of a chat with this head, with everything published.
pub(crate) fn counter_item(chat: &domain::Chat, head: &Head) -> DynamoItem {
    let attributes = head_changes(head).into_iter().filter_map(|change| match change {
        AttributeChange::Set(name, Some(value)) => Some((name.to_owned(), value)),
        AttributeChange::Set(..) | AttributeChange::SetIfAbsent(..) | AttributeChange::Increment(_) => None,
    });
    let published = (PUBLISHED.to_owned(), number(head.sequence.0));
    new_counter(chat).into_iter().chain(attributes).chain([published]).collect()
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
    let last_message = match row.maybe_parsed("last_message_id")? {
        None => None,
        Some(message_id) => {
            let expires_at: Option<Timestamp> = row.maybe_parsed("last_expires_at")?;
            let expired = expires_at.is_some_and(|at| at <= now);
            Some(LastMessage {
                message_id,
                sender_id: row.parsed("last_sender_id")?,
                preview: if expired { None } else { row.maybe_made("last_preview")? },
                created_at: row.parsed("last_created_at")?,
                expires_at,
            })
        }
    };
    Ok(Head { sequence: counter_sequence(item)?, last_message, message_ttl: row.maybe_life("message_ttl")? })
}
