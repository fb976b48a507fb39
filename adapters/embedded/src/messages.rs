use async_trait::async_trait;
use domain::limits::{RETENTION, UNREAD_EXACT_MAX};
use domain::{ChatId, Event, Invariant, Message, MessageId, Sequence, Timestamp};
use ports::{
    Appended, Head, MessageReader, MessageWriter, NewMessage, Page, PageBounds, Receipt, SendRefusal, StoreError,
    UnreadQuery,
};
use tracing::error;

use crate::EmbeddedStore;
use crate::blocks;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{Counter, Fingerprint, Glance, Place, SendKey, Stored, decode_message, encode_message};
use crate::tables::{Table, Tables, View};
use crate::tx::Tx;

#[async_trait]
impl MessageWriter for EmbeddedStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        // What needs no table is done here: the committer is the one thread that everybody waits for.
        let batch: Vec<_> = batch.into_iter().map(|new| (new.fingerprint(), new)).collect();
        self.write(move |tx| batch.into_iter().map(|(fingerprint, new)| judge(tx, new, fingerprint)).collect()).await
    }
}

/// Appends one send of a batch. A row that does not decode refuses this send alone: all that a send reads it reads before
/// it writes, so nothing of it is left, and the others go on.
fn judge(tx: &mut Tx<'_>, new: NewMessage, fingerprint: Fingerprint) -> Result<Appended, StoreError> {
    let chat_id = new.chat_id;
    match append(tx, new, fingerprint) {
        Err(failure @ StoreError::Corrupt { .. }) => {
            error!(error = &failure as &dyn std::error::Error, %chat_id, "a send met a damaged row");
            Ok(Appended::Refused(SendRefusal::Unreadable))
        }
        outcome => outcome,
    }
}

fn append(tx: &mut Tx<'_>, new: NewMessage, fingerprint: Fingerprint) -> Result<Appended, StoreError> {
    let NewMessage { chat_id, sender_id, client_message_id, message_id, created_at, origin_connection_id, .. } = new;
    if tx.get_bytes(Table::Members, &keys::member(chat_id, sender_id))?.is_none() {
        let chat = tx.get_bytes(Table::Chats, &keys::chat(chat_id))?;
        let refusal = if chat.is_some() { SendRefusal::NotAMember } else { SendRefusal::ChatNotFound };
        return Ok(Appended::Refused(refusal));
    }
    let send_key = keys::send(chat_id, sender_id, client_message_id);
    if let Some(known) = tx.get::<SendKey>(Table::SendKeys, &send_key)?
        // A key is void after its time, whether or not the trimmer has been there.
        && created_at.since(known.receipt.created_at) < RETENTION
    {
        return Ok(if known.fingerprint == fingerprint {
            Appended::Duplicate(known.receipt)
        } else {
            Appended::Refused(SendRefusal::KeyReused)
        });
    }
    if let Some(refusal) = blocks::between(tx, chat_id, sender_id)? {
        return Ok(Appended::Refused(refusal));
    }
    let Some(Counter { sequence, message_ttl }) = tx.counter(chat_id)? else {
        return Ok(Appended::Refused(SendRefusal::CounterMissing));
    };

    let message = new.at(sequence.next(), message_ttl);
    let receipt = Receipt { message_id, sequence: message.sequence, created_at };
    let place = Place { chat_id, sequence: message.sequence };
    tx.put_new(Table::Messages, &keys::message(place), encode_message(&message));
    tx.put_new(Table::MessagePlaces, &message_id.to_bytes(), place.encode());
    tx.put(Table::SendKeys, &send_key, &SendKey { receipt, fingerprint });
    tx.put(Table::Heads, &keys::chat(chat_id), &Head::at(&message, message_ttl));
    if let Some(expires_at) = message.expires_at {
        tx.expire(expires_at, Expiring::Message(place));
    }
    tx.log_event(Event::message_persisted(message, origin_connection_id));
    Ok(Appended::New(receipt))
}

#[async_trait]
impl MessageReader for EmbeddedStore {
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        self.tables().await?.get(Table::Heads, &keys::chat(chat_id))
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            chat_ids.iter().map(|chat_id| view.get(Table::Heads, &keys::chat(*chat_id))).collect()
        })
        .await
    }

    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.read(move |tables| page_after(tables, chat_id, after, bounds, now)).await
    }

    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let range = first_key(chat_id)..keys::message(Place { chat_id, sequence: before });
            let newest_first = messages(&view, range).rev();
            let alive = |message: &Result<Message, _>| !message.as_ref().is_ok_and(|message| message.is_expired(now));
            newest_first.filter(alive).take(count).collect()
        })
        .await
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<u64>, StoreError> {
        let of = of.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            of.iter().map(|query| unread(&view, query, now)).collect()
        })
        .await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        let tables = self.tables().await?;
        let view = tables.view();
        let Some(place) = view.get::<Place>(Table::MessagePlaces, &message_id.to_bytes())? else { return Ok(None) };
        let Some(row) = view.get_bytes(Table::Messages, &keys::message(place))? else { return Ok(None) };
        let message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
        let other = || format!("the place of message {message_id} holds {}", message.message_id);
        if !ports::holds(Invariant::DynamodbIsAuthoritative, message.message_id == message_id, other) {
            return Err(unreadable(Table::MessagePlaces, other()));
        }
        Ok((!message.is_expired(now)).then_some(message))
    }
}

fn page_after(
    tables: &Tables,
    chat_id: ChatId,
    after: Sequence,
    bounds: PageBounds,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let view = tables.view();
    let head = head_sequence(&view, chat_id)?;
    let message_key = |sequence| keys::message(Place { chat_id, sequence });
    let mut page = Page { messages: vec![], examined: head, head };
    if after >= head {
        return Ok(page);
    }
    let mut bytes = 0;
    let mut last = after;
    // Not above the head, which was read first: every row up to it was there before it was.
    let rows = messages(&view, message_key(after.next())..=message_key(head));
    for (examined, message) in rows.enumerate() {
        let message = message?;
        let expired = message.is_expired(now);
        let size = if expired { 0 } else { message.content.as_str().len() };
        let fits = page.messages.is_empty() || bytes + size <= bounds.bytes;
        if examined > 0 && (examined >= bounds.count || !fits) {
            page.examined = last;
            break;
        }
        bytes += size;
        last = message.sequence;
        if !expired {
            page.messages.push(message);
        }
    }
    Ok(page)
}

fn unread(view: &View<'_>, query: &UnreadQuery, now: Timestamp) -> Result<u64, StoreError> {
    let UnreadQuery { chat_id, reader, read } = *query;
    let head = head_sequence(view, chat_id)?;
    if read >= head {
        return Ok(0);
    }
    let message_key = |sequence| keys::message(Place { chat_id, sequence });
    let rows = view.range(Table::Messages, message_key(read.next())..=message_key(head));
    let mut unread = 0;
    for (looked_at, row) in (1..).zip(rows) {
        let (key, row) = row?;
        let glance = Glance::decode(&row).map_err(|error| unreadable(Table::Messages, error))?;
        unread += u64::from(glance.sender_id != reader && glance.expires_at.is_none_or(|at| at > now));
        if looked_at == UNREAD_EXACT_MAX {
            let last = keys::parse_message(&key).map_err(|error| unreadable(Table::Messages, error))?;
            return Ok(unread + head.0.saturating_sub(last.sequence.0));
        }
    }
    Ok(unread)
}

/// The sequence of a chat's head.
fn head_sequence(view: &View<'_>, chat_id: ChatId) -> Result<Sequence, StoreError> {
    match view.get_bytes(Table::Heads, &keys::chat(chat_id))? {
        Some(row) => Ok(Counter::decode(&row).map_err(|error| unreadable(Table::Heads, error))?.sequence),
        None => last_sequence(view, chat_id),
    }
}

/// The sequence of a chat's last message: what stands for the head where the head row is lost.
pub(crate) fn last_sequence(view: &View<'_>, chat_id: ChatId) -> Result<Sequence, StoreError> {
    let last = messages(view, first_key(chat_id)..=last_key(chat_id)).next_back().transpose()?;
    Ok(last.map_or(Sequence::ZERO, |message| message.sequence))
}

fn first_key(chat_id: ChatId) -> [u8; 24] {
    keys::message(Place { chat_id, sequence: Sequence::ZERO })
}

fn last_key(chat_id: ChatId) -> [u8; 24] {
    keys::message(Place { chat_id, sequence: Sequence(u64::MAX) })
}

/// The messages of a range of keys, in their order.
fn messages(
    view: &View<'_>,
    range: impl std::ops::RangeBounds<[u8; 24]>,
) -> impl DoubleEndedIterator<Item = Result<Message, StoreError>> {
    view.range(Table::Messages, range).map(|row| {
        let (key, row) = row?;
        let message = keys::parse_message(&key).and_then(|place| decode_message(place, &row));
        message.map_err(|error| unreadable(Table::Messages, error))
    })
}
