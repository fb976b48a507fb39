use async_trait::async_trait;
use domain::limits::UNREAD_EXACT_MAX;
use domain::{ChatId, ConnectionId, Message, MessageId, Sequence, Timestamp, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Head, LastMessage, MessageReader, Page, PageBounds, StoreError, UnreadQuery};

use crate::DynamoStore;
use crate::commit::ROUND_LEN_MAX;
use crate::db::{Bound, CONCURRENCY_MAX, Query};
use crate::item::{EXPIRES_AT, Item, Key, Row, end, item, number, seconds, text};
use crate::outbox::PUBLISHED;
use crate::schema::Table;
use crate::write::Change;

/// Rows that are asked for at once, at the most: the service ends a page at 1 MB, and so many of the longest fit.
pub(crate) const ROWS_MAX: usize = 200;

#[async_trait]
impl MessageReader for DynamoStore {
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        let item = self.db().get(&Key::one(Table::ChatCounters, chat_id)).await?;
        item.map(|item| read_head(&item, self.clock().now())).transpose()
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        let keys: Vec<_> = chat_ids.iter().map(|chat_id| Key::one(Table::ChatCounters, chat_id)).collect();
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
        // The head is read first, and nothing above it: a message that is committed meanwhile is for the next page, and
        // every one up to the head is visible by now or never will be (G3).
        let head = self.head_sequence(chat_id).await?;
        let (mut messages, mut bytes, mut examined, mut rows) = (vec![], 0, after, 0);
        while examined < head {
            let query = Query {
                bound: Some(Bound::Between(number(examined.0 + 1), number(head.0))),
                ..Query::partition(Table::Messages, chat_id)
            };
            // One more than may be examined tells a full page from the end of the chat.
            let asked = (bounds.count.saturating_sub(rows)).saturating_add(1).min(ROWS_MAX);
            let (items, more) = self.db().page(&query, asked, None).await?;
            for item in items {
                let message = read_message(&item)?;
                let expired = message.is_expired(now);
                let len = if expired { 0 } else { message.content.as_str().len() };
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
        let query = Query {
            bound: Some(Bound::Below(number(before.0))),
            descending: true,
            ..Query::partition(Table::Messages, chat_id)
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

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<u64>, StoreError> {
        let chat_ids: Vec<_> = of.iter().map(|query| query.chat_id).collect();
        let heads = self.heads(&chat_ids).await?;
        let counts = of.iter().copied().zip(heads).map(|(query, head)| async move {
            match head {
                // Most chats of an inbox are read to their end, and cost no look at their messages.
                Some(head) if head.sequence <= query.read => Ok(0),
                Some(_) | None => self.unread_of(&query, now).await,
            }
        });
        stream::iter(counts).buffered(CONCURRENCY_MAX).try_collect().await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        let index =
            Query { index: Table::Messages.definition().index, ..Query::partition(Table::Messages, message_id) };
        let Some(keys) = self.db().query(&index, 1).await?.pop() else { return Ok(None) };
        // The index may be behind: what counts is the row.
        let item = self.db().get(&Key::read(Table::Messages, &keys)?).await?;
        let message = item.map(|item| read_message(&item)).transpose()?;
        Ok(message.filter(|message| !message.is_expired(now)))
    }
}

impl DynamoStore {
    /// The sequence of the last message. Where the head row is lost, readers and watermarks go by the messages.
    pub(crate) async fn head_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        match self.db().get(&Key::one(Table::ChatCounters, chat_id)).await? {
            Some(counter) => counter_sequence(&counter),
            None => self.last_sequence(chat_id).await,
        }
    }

    /// The sequence of the last row of a chat.
    pub(crate) async fn last_sequence(&self, chat_id: ChatId) -> Result<Sequence, StoreError> {
        let last = Query { descending: true, attributes: &["sequence"], ..Query::partition(Table::Messages, chat_id) };
        match self.db().query(&last, 1).await?.pop() {
            Some(item) => Ok(Sequence(Row { table: Table::Messages, item: &item }.number("sequence")?)),
            None => Ok(Sequence::ZERO),
        }
    }

    async fn unread_of(&self, query: &UnreadQuery, now: Timestamp) -> Result<u64, StoreError> {
        let above = Query {
            bound: Some(Bound::Above(number(query.read.0))),
            attributes: &["sequence", "sender_id", EXPIRES_AT],
            ..Query::partition(Table::Messages, query.chat_id)
        };
        let items = self.db().query(&above, UNREAD_EXACT_MAX).await?;
        let mut unread = 0;
        for item in &items {
            let row = Row { table: Table::Messages, item };
            let expired = row.maybe_parsed::<Timestamp>(EXPIRES_AT)?.is_some_and(|at| at <= now);
            unread += u64::from(row.parsed::<UserId>("sender_id")? != query.reader && !expired);
        }
        match items.last() {
            Some(last) if items.len() == UNREAD_EXACT_MAX => {
                let looked_to = Row { table: Table::Messages, item: last }.number("sequence")?;
                Ok(unread + self.head_sequence(query.chat_id).await?.0.saturating_sub(looked_to))
            }
            _ => Ok(unread),
        }
    }
}

pub(crate) fn message_key(chat_id: ChatId, sequence: Sequence) -> Key {
    Key::of(Table::Messages, chat_id, sequence)
}

/// A message, and for the relay the connection it came in on.
pub(crate) fn message_item(message: &Message, origin_connection_id: Option<ConnectionId>) -> Item {
    let [expires_at, ttl] = end(message.expires_at);
    item([
        ("message_id", Some(text(message.message_id))),
        ("sender_id", Some(text(message.sender_id))),
        ("client_message_id", Some(text(message.client_message_id))),
        ("content", Some(text(message.content.as_str()))),
        ("content_type", Some(text(message.content_type.as_str()))),
        ("created_at", Some(text(message.created_at))),
        ("origin_connection_id", origin_connection_id.map(text)),
        expires_at,
        ttl,
    ])
}

pub(crate) fn read_message(item: &Item) -> Result<Message, StoreError> {
    let row = Row { table: Table::Messages, item };
    Ok(Message {
        message_id: row.parsed("message_id")?,
        chat_id: row.parsed("chat_id")?,
        sequence: Sequence(row.number("sequence")?),
        sender_id: row.parsed("sender_id")?,
        client_message_id: row.parsed("client_message_id")?,
        content: row.made("content")?,
        content_type: row.parsed("content_type")?,
        created_at: row.parsed("created_at")?,
        expires_at: row.maybe_parsed(EXPIRES_AT)?,
    })
}

/// What of a counter row follows its last message. The ttl of the chat is not among it: the commit demands it instead.
pub(crate) fn head_changes(head: &Head) -> Vec<Change> {
    let last = head.last_message.as_ref();
    vec![
        Change::Set("sequence_counter", Some(number(head.sequence.0))),
        Change::Set("last_message_id", last.map(|last| text(last.message_id))),
        Change::Set("last_sender_id", last.map(|last| text(last.sender_id))),
        Change::Set("last_preview", last.and_then(|last| last.preview.as_ref()).map(|preview| text(preview.as_str()))),
        Change::Set("last_created_at", last.map(|last| text(last.created_at))),
        Change::Set("last_expires_at", last.and_then(|last| last.expires_at).map(text)),
    ]
}

/// The counter row of a chat without messages.
pub(crate) fn new_counter(chat: &domain::Chat) -> Item {
    item([
        ("sequence_counter", Some(number(0))),
        (PUBLISHED, Some(number(0))),
        ("message_ttl", chat.message_ttl.map(seconds)),
        ("created_at", Some(text(chat.created_at))),
    ])
}

/// The sequence that a counter row says.
pub(crate) fn counter_sequence(counter: &Item) -> Result<Sequence, StoreError> {
    let row = Row { table: Table::ChatCounters, item: counter };
    match row.number("sequence_counter")? {
        // Nobody has come so far that no round of messages can follow.
        sequence if sequence > u64::MAX - ROUND_LEN_MAX as u64 => {
            Err(row.unreadable(format!("a chat cannot hold {sequence} messages")))
        }
        sequence => Ok(Sequence(sequence)),
    }
}

/// A head row at `now`: of a last message that has expired, no words are left (G11).
pub(crate) fn read_head(item: &Item, now: Timestamp) -> Result<Head, StoreError> {
    let row = Row { table: Table::ChatCounters, item };
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
