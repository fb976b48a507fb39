use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{ChatId, Event, Invariant, Message, MessageId, Sequence, StorageLimit, Timestamp};
use ports::{
    AppendOutcome, Head, MessageReader, MessageWriter, NewMessage, Page, PageBounds, Receipt, SendRefusal, StoreError,
    UnreadCount, UnreadQuery, UnreadTally, error_chain,
};
use tracing::error;

use crate::EmbeddedStore;
use crate::blocks;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{
    Fingerprint, Glance, HeadSummary, MessageLocation, SendKey, Stored, decode_message, encode_message,
};
use crate::restrictions;
use crate::tables::{Table, Tables, View};
use crate::tx::Tx;

#[async_trait]
impl MessageWriter for EmbeddedStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<AppendOutcome>, StoreError> {
        // Compute fingerprints here: the single committer thread is the bottleneck of all writes.
        let batch: Vec<_> = batch.into_iter().map(|new| (new.fingerprint(), new)).collect();
        let full = self.space().reached();
        self.write(move |tx| batch.into_iter().map(|(fingerprint, new)| judge(tx, new, fingerprint, full)).collect())
            .await
    }
}

/// Appends one send of a batch. A row that does not decode refuses this send only: a send reads everything before it
/// writes, so it leaves nothing behind, and the other sends continue.
fn judge(
    tx: &mut Tx<'_>,
    new: NewMessage,
    fingerprint: Fingerprint,
    full: Option<StorageLimit>,
) -> Result<AppendOutcome, StoreError> {
    let chat_id = new.chat_id;
    match append(tx, new, fingerprint, full) {
        Err(failure @ StoreError::Corrupt { .. }) => {
            error!(error = %error_chain(&failure), %chat_id, "refused a send: a stored row is damaged");
            Ok(AppendOutcome::Refused(SendRefusal::Unreadable))
        }
        outcome => outcome,
    }
}

fn append(
    tx: &mut Tx<'_>,
    new: NewMessage,
    fingerprint: Fingerprint,
    full: Option<StorageLimit>,
) -> Result<AppendOutcome, StoreError> {
    let NewMessage { chat_id, sender_id, client_message_id, message_id, created_at, origin_connection_id, .. } = new;
    if restrictions::is_suspended(tx, sender_id)? {
        return Ok(AppendOutcome::Refused(SendRefusal::Suspended));
    }
    if tx.get_bytes(Table::Members, &keys::member(chat_id, sender_id))?.is_none() {
        let chat = tx.get_bytes(Table::Chats, &keys::chat(chat_id))?;
        let refusal = if chat.is_some() { SendRefusal::NotAMember } else { SendRefusal::ChatNotFound };
        return Ok(AppendOutcome::Refused(refusal));
    }
    let send_key = keys::send(chat_id, sender_id, client_message_id);
    if let Some(known) = tx.get::<SendKey>(Table::SendKeys, &send_key)?
        // An expired key is void even if the trimmer has not purged it yet.
        && created_at.since(known.receipt.created_at) < RETENTION
    {
        return Ok(if known.fingerprint == fingerprint {
            AppendOutcome::Duplicate(known.receipt)
        } else {
            AppendOutcome::Refused(SendRefusal::KeyReused)
        });
    }
    if let Some(refusal) = blocks::between(tx, chat_id, sender_id)? {
        return Ok(AppendOutcome::Refused(refusal));
    }
    if let Some(limit) = full {
        return Ok(AppendOutcome::Refused(SendRefusal::StorageFull(limit)));
    }
    let Some(HeadSummary { sequence, message_ttl }) = tx.counter(chat_id)? else {
        return Ok(AppendOutcome::Refused(SendRefusal::CounterMissing));
    };

    let message = new.at(sequence.next(), message_ttl);
    let receipt = Receipt { message_id, sequence: message.sequence, created_at };
    let place = MessageLocation { chat_id, sequence: message.sequence };
    tx.put_new(Table::Messages, &keys::message(place), encode_message(&message));
    tx.put_new(Table::MessagePlaces, &message_id.to_bytes(), place.encode());
    tx.put(Table::SendKeys, &send_key, &SendKey { receipt, fingerprint });
    tx.put(Table::Heads, &keys::chat(chat_id), &Head::at(&message, message_ttl));
    if let Some(expires_at) = message.expires_at {
        tx.expire(expires_at, Expiring::Message(place));
    }
    tx.log_event(Event::message_persisted(message, origin_connection_id));
    Ok(AppendOutcome::New(receipt))
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
            let range = first_key(chat_id)..keys::message(MessageLocation { chat_id, sequence: before });
            let newest_first = messages(&view, range).rev();
            let alive = |message: &Result<Message, _>| !message.as_ref().is_ok_and(|message| message.is_expired(now));
            newest_first.filter(alive).take(count).collect()
        })
        .await
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError> {
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
        let Some(place) = view.get::<MessageLocation>(Table::MessagePlaces, &message_id.to_bytes())? else {
            return Ok(None);
        };
        let Some(row) = view.get_bytes(Table::Messages, &keys::message(place))? else { return Ok(None) };
        let message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
        let other = || format!("the place of message {message_id} holds {}", message.message_id);
        if !ports::holds(Invariant::StoreIsAuthoritative, message.message_id == message_id, other) {
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
    let message_key = |sequence| keys::message(MessageLocation { chat_id, sequence });
    let mut page = Page { messages: vec![], examined: head, head };
    if after >= head {
        return Ok(page);
    }
    let mut bytes = 0;
    let mut last = after;
    // Read no row above the head, which was read first: every row up to it was written before it.
    let rows = messages(&view, message_key(after.next())..=message_key(head));
    for (examined, message) in rows.enumerate() {
        let message = message?;
        let expired = message.is_expired(now);
        let size = if expired { 0 } else { message.body.size() };
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

fn unread(view: &View<'_>, query: &UnreadQuery, now: Timestamp) -> Result<UnreadCount, StoreError> {
    let UnreadQuery { chat_id, reader, read } = *query;
    let head = head_sequence(view, chat_id)?;
    if read >= head {
        return Ok(UnreadCount::NONE);
    }
    let message_key = |sequence| keys::message(MessageLocation { chat_id, sequence });
    let newest_first = view.range(Table::Messages, message_key(read.next())..=message_key(head)).rev();
    let mut tally = UnreadTally::default();
    for row in newest_first {
        let glance = Glance::decode(&row?.1).map_err(|error| unreadable(Table::Messages, error))?;
        let is_unread = glance.sender_id != reader && glance.expires_at.is_none_or(|at| at > now);
        if let Some(unread) = tally.row(is_unread) {
            return Ok(unread);
        }
    }
    Ok(tally.finish())
}

/// The head sequence of a chat.
fn head_sequence(view: &View<'_>, chat_id: ChatId) -> Result<Sequence, StoreError> {
    match view.get_bytes(Table::Heads, &keys::chat(chat_id))? {
        Some(row) => Ok(HeadSummary::decode(&row).map_err(|error| unreadable(Table::Heads, error))?.sequence),
        None => last_sequence(view, chat_id),
    }
}

/// The sequence of a chat's last message. It replaces a lost head row.
pub(crate) fn last_sequence(view: &View<'_>, chat_id: ChatId) -> Result<Sequence, StoreError> {
    let last = messages(view, first_key(chat_id)..=last_key(chat_id)).next_back().transpose()?;
    Ok(last.map_or(Sequence::ZERO, |message| message.sequence))
}

fn first_key(chat_id: ChatId) -> [u8; 24] {
    keys::message(MessageLocation { chat_id, sequence: Sequence::ZERO })
}

fn last_key(chat_id: ChatId) -> [u8; 24] {
    keys::message(MessageLocation { chat_id, sequence: Sequence(u64::MAX) })
}

/// The messages of a key range, in key order.
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
