use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::limits::{MESSAGE_FIELDS_BYTES, RETENTION};
use domain::{
    ChatId, Event, EventNumber, Invariant, Message, MessageId, MessageUpdate, Reaction, Sequence, StorageLimit,
    Timestamp, UserId,
};
use ports::{
    AppendOutcome, Head, MemberReactions, MessageKey, MessageReader, MessageWriter, NewEntry, NewMessage, Page,
    PageBounds, Receipt, SendRefusal, StoreError, UnreadCount, UnreadQuery, UnreadTally, error_chain,
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
use crate::updates;

#[async_trait]
impl MessageWriter for EmbeddedStore {
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
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
    new: NewEntry,
    fingerprint: Fingerprint,
    full: Option<StorageLimit>,
) -> Result<AppendOutcome, StoreError> {
    let chat_id = new.chat_id();
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
    new: NewEntry,
    fingerprint: Fingerprint,
    full: Option<StorageLimit>,
) -> Result<AppendOutcome, StoreError> {
    let (chat_id, sender_id) = (new.chat_id(), new.sender_id());
    if restrictions::is_suspended(tx, sender_id)? {
        return Ok(AppendOutcome::Refused(SendRefusal::Suspended));
    }
    if tx.get_bytes(Table::Members, &keys::member(chat_id, sender_id))?.is_none() {
        let chat = tx.get_bytes(Table::Chats, &keys::chat(chat_id))?;
        let refusal = if chat.is_some() { SendRefusal::NotAMember } else { SendRefusal::ChatNotFound };
        return Ok(AppendOutcome::Refused(refusal));
    }
    let send_key = keys::send(chat_id, sender_id, new.client_message_id());
    if let Some(known) = tx.get::<SendKey>(Table::SendKeys, &send_key)?
        // An expired key is void even if the trimmer has not purged it yet.
        && new.created_at().since(known.receipt.created_at) < RETENTION
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
    if let Some(limit) = full
        && !new.frees_space()
    {
        return Ok(AppendOutcome::Refused(SendRefusal::StorageFull(limit)));
    }
    match new {
        NewEntry::Message(new) => append_message(tx, new, &send_key, fingerprint),
        NewEntry::Update(new) => updates::append(tx, &new, &send_key, fingerprint),
    }
}

/// Appends a message whose sender may write to the chat.
fn append_message(
    tx: &mut Tx<'_>,
    new: NewMessage,
    send_key: &[u8],
    fingerprint: Fingerprint,
) -> Result<AppendOutcome, StoreError> {
    let NewMessage { chat_id, message_id, created_at, origin_connection_id, .. } = new;
    let Some(HeadSummary { sequence, message_ttl, changes }) = tx.counter(chat_id)? else {
        return Ok(AppendOutcome::Refused(SendRefusal::CounterMissing));
    };

    let message = new.at(sequence.next(), message_ttl);
    let receipt = Receipt { message_id, sequence: message.sequence, created_at };
    let location = MessageLocation { chat_id, sequence: message.sequence };
    tx.put_new(Table::Messages, &keys::message(location), encode_message(&message));
    tx.put_new(Table::MessagePlaces, &message_id.to_bytes(), location.encode());
    tx.put(Table::SendKeys, send_key, &SendKey { receipt, fingerprint });
    tx.put(Table::Heads, &keys::chat(chat_id), &Head::at(&message, message_ttl, changes));
    if let Some(expires_at) = message.expires_at {
        tx.expire(expires_at, Expiring::Message(location));
    }
    let event_number = EventNumber::at(message.sequence, changes);
    tx.log_event(Event::message_persisted(message, origin_connection_id).numbered(Some(event_number)));
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
        let Some(location) = view.get::<MessageLocation>(Table::MessagePlaces, &message_id.to_bytes())? else {
            return Ok(None);
        };
        let Some(row) = view.get_bytes(Table::Messages, &keys::message(location))? else { return Ok(None) };
        let message = decode_message(location, &row).map_err(|error| unreadable(Table::Messages, error))?;
        let other = || format!("the place of message {message_id} holds {}", message.message_id);
        if !ports::holds(Invariant::StoreIsAuthoritative, message.message_id == message_id, other) {
            return Err(unreadable(Table::MessagePlaces, other()));
        }
        Ok((!message.is_expired(now)).then_some(message))
    }

    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
        let messages = messages.to_vec();
        self.read(move |tables| updates::own(tables, &messages, user_id)).await
    }

    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        self.read(move |tables| updates::reactions(tables, &message, after, count)).await
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
    let mut page = Page { examined: head, head, ..Page::default() };
    if after >= head {
        return Ok(page);
    }
    let (mut bytes, mut updated) = (0, BTreeMap::new());
    page.examined = after;
    // Read no row above the head, which was read first: every row up to it was written before it.
    for (examined, entry) in entries(&view, chat_id, after.next(), head).enumerate() {
        let entry = entry?;
        let alive = !entry.is_expired(now);
        // A message below the page is in it once, however many updates of it follow.
        let other = match &entry {
            Entry::Update(update) if alive && update.target <= after && !updated.contains_key(&update.target) => {
                updates::message_of(&view, update, now)?
            }
            _ => None,
        };
        let size = match &entry {
            Entry::Message(message) if alive => message.json_size(),
            Entry::Update(_) if alive => MESSAGE_FIELDS_BYTES + other.as_ref().map_or(0, Message::json_size),
            _ => 0,
        };
        if examined > 0 && (examined >= bounds.count || bytes + size > bounds.bytes) {
            page.updated = updated.into_values().collect();
            return Ok(page);
        }
        bytes += size;
        page.examined = entry.sequence();
        updated.extend(other.map(|message| (message.sequence, message)));
        match entry {
            Entry::Message(message) if alive => page.messages.push(message),
            Entry::Update(update) if alive => page.updates.push(update),
            _ => {}
        }
    }
    page.updated = updated.into_values().collect();
    page.examined = head;
    Ok(page)
}

/// An entry of a chat.
enum Entry {
    Message(Message),
    Update(MessageUpdate),
}

impl Entry {
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
}

/// The entries of a range of sequences, ascending. A row that does not decode comes first.
fn entries(
    view: &View<'_>,
    chat_id: ChatId,
    first: Sequence,
    last: Sequence,
) -> impl Iterator<Item = Result<Entry, StoreError>> {
    let key = |sequence| keys::message(MessageLocation { chat_id, sequence });
    let mut messages = messages(view, key(first)..=key(last)).peekable();
    let mut updates = updates::updates(view, chat_id, first, last).peekable();
    std::iter::from_fn(move || {
        let takes_update = match (messages.peek(), updates.peek()) {
            (Some(Ok(message)), Some(Ok(update))) => update.sequence < message.sequence,
            (None, _) | (_, Some(Err(_))) => true,
            _ => false,
        };
        match takes_update {
            true => updates.next().map(|update| update.map(Entry::Update)),
            false => messages.next().map(|message| message.map(Entry::Message)),
        }
    })
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

/// The sequence of a chat's last entry. It replaces a lost head row.
pub(crate) fn last_sequence(view: &View<'_>, chat_id: ChatId) -> Result<Sequence, StoreError> {
    let last = messages(view, first_key(chat_id)..=last_key(chat_id)).next_back().transpose()?;
    let update = updates::updates(view, chat_id, Sequence::ZERO, Sequence(u64::MAX)).next_back().transpose()?;
    let last = last.map_or(Sequence::ZERO, |message| message.sequence);
    Ok(last.max(update.map_or(Sequence::ZERO, |update| update.sequence)))
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
        let message = keys::parse_message(&key).and_then(|location| decode_message(location, &row));
        message.map_err(|error| unreadable(Table::Messages, error))
    })
}
