//! Shows every row of the store to an audit. Each page is read from one view, so rows written together are seen
//! together, except for a batch that is being applied.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;

use async_trait::async_trait;
use domain::{
    Chat, ChatId, ChatType, DeliveryState, DirectPair, EventBody, Member, Message, MessageUpdate, Reaction, Sequence,
};
use fjall::Slice;
use ports::{
    AUDIT_MEMBERS_MAX, AuditLog, AuditPage, AuditSource, AuditedChatRows, AuditedChatState, AuditedRecord, AuditedRow,
    BoxError, ConsumerOffset, End, Head, IndexedLocation, ListingRows, ListingState, LoggedChange, MemberRows,
    MessageRows, PageBookmark, PairRows, Position, ReactionCounts, SendKeyRows, SentEntry, StoreError, StoredEntry,
    UpdateRows, count_reactions,
};

use crate::EmbeddedStore;
use crate::bookmark::{hex, range_after, start_after, strange, unhex};
use crate::error::unreadable;
use crate::keys;
use crate::log::end_of_log;
use crate::records::{HeadSummary, LogRecord, MessageLocation, SendKey, Stored, decode_message, decode_update};
use crate::tables::{Table, View};

/// Upper limit for plausible rows. The longest rows are answers to REST requests, bounded by the size of a list in a
/// request. A longer row was not written by this program.
const ROW_BYTES_MAX: usize = 1 << 20;

/// The tables that other methods than [`AuditSource::others`] show, and an index.
const NOT_OTHERS: [Table; 11] = [
    Table::Chats,
    Table::DirectChats,
    Table::Watermarks,
    Table::Members,
    Table::Memberships,
    Table::Heads,
    Table::Messages,
    Table::Updates,
    Table::SendKeys,
    Table::Log,
    Table::NoticesDue,
];

#[async_trait]
impl AuditSource for EmbeddedStore {
    async fn size(&self) -> Result<u64, StoreError> {
        self.read(|tables| Ok(tables.rows())).await
    }

    fn row_bytes_max(&self) -> usize {
        ROW_BYTES_MAX
    }

    async fn chats(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError> {
        let after = start_after(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::Chats, range_after(after), count, |_, key, _| {
                Ok((End::Lasting, keys::parse_chat(key.as_ref().try_into()?)))
            })
        })
        .await
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError> {
        self.read(move |tables| chat_rows(&tables.view(), chat_id)).await
    }

    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let location = |sequence| keys::message(MessageLocation { chat_id, sequence });
            let rows = view.range(Table::Messages, location(from)..=location(Sequence(u64::MAX)));
            rows.take(count).map(|row| message_rows(&view, row?)).collect()
        })
        .await
    }

    async fn updates(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<UpdateRows>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let location = |sequence| keys::message(MessageLocation { chat_id, sequence });
            let rows = view.range(Table::Updates, location(from)..=location(Sequence(u64::MAX)));
            rows.take(count).map(|row| update_rows(&view, row?)).collect()
        })
        .await
    }

    async fn listings(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError> {
        let after = start_after(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::Memberships, range_after(after), count, |view, key, row| {
                Member::decode(row)?;
                let (user_id, chat_id) = keys::parse_listing(key)?;
                let is_member = view.get_bytes(Table::Members, &keys::member(chat_id, user_id))?.is_some();
                Ok((End::Lasting, ListingRows { user_id, chat_id, is_member }))
            })
        })
        .await
    }

    async fn pairs(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError> {
        let after = start_after(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::DirectChats, range_after(after), count, |view, key, row| {
                let (pair, chat_id) = (keys::parse_direct(key)?, ChatId::decode(row)?);
                let chat: Option<Chat> = view.get(Table::Chats, &keys::chat(chat_id))?;
                let members = view.prefix(Table::Members, &keys::chat(chat_id)).take(3);
                let members = members.map(|row| Ok(keys::parse_member(&row?.0)?.1)).collect::<Result<_, BoxError>>()?;
                let chat_type = chat.map(|chat| chat.chat_type);
                Ok((End::Lasting, PairRows { pair, chat_id, chat_type, members }))
            })
        })
        .await
    }

    async fn send_keys(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<SendKeyRows>, StoreError> {
        let after = start_after(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::SendKeys, range_after(after), count, |view, key, row| {
                let (chat_id, sender_id, client_message_id) = keys::parse_send(key)?;
                let SendKey { receipt, .. } = SendKey::decode(row)?;
                let location = MessageLocation { chat_id, sequence: receipt.sequence };
                let entry = match entry_at(view, location)? {
                    Some(EntryRow::Message(row)) => decode_message(location, &row).as_ref().ok().map(SentEntry::from),
                    Some(EntryRow::Update(row)) => decode_update(location, &row).as_ref().ok().map(SentEntry::from),
                    None => None,
                };
                let head = standing(view, chat_id)?.head;
                // It is purged with its log record, or has its own expiry row.
                let end = End::Timed;
                Ok((end, SendKeyRows { chat_id, sender_id, client_message_id, receipt, entry, head }))
            })
        })
        .await
    }

    async fn others(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<()>, StoreError> {
        let (number, after) = match after {
            None => (0, None),
            Some(PageBookmark(text)) => {
                let (number, key) = text.split_once(' ').ok_or_else(|| strange(text))?;
                (number.parse().map_err(|_| strange(text))?, Some(unhex(key)?).filter(|key| !key.is_empty()))
            }
        };
        let others = || Table::ALL.into_iter().filter(|table| !NOT_OTHERS.contains(table));
        let Some(table) = others().nth(number) else { return Ok(AuditPage { rows: vec![], next: None }) };
        let AuditPage { rows, next } = self
            .read(move |tables| {
                scan(&tables.view(), table, range_after(after), count, |view, key, row| {
                    Ok((end(view, table.rows().decode(key, row)?)?, ()))
                })
            })
            .await?;
        let next = match next {
            Some(PageBookmark(key)) => Some(PageBookmark(format!("{number} {key}"))),
            None => others().nth(number + 1).map(|_| PageBookmark(format!("{} ", number + 1))),
        };
        Ok(AuditPage { rows, next })
    }

    async fn stored(&self, locations: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredEntry>>, StoreError> {
        let locations: Vec<_> = locations
            .iter()
            .map(|(chat_id, sequence)| MessageLocation { chat_id: *chat_id, sequence: *sequence })
            .collect();
        self.read(move |tables| {
            let view = tables.view();
            let stored = |location: &MessageLocation| {
                let entry = match entry_at(&view, *location)? {
                    Some(EntryRow::Message(row)) => {
                        decode_message(*location, &row).as_ref().ok().map(StoredEntry::from)
                    }
                    Some(EntryRow::Update(row)) => decode_update(*location, &row).as_ref().ok().map(StoredEntry::from),
                    None => return Ok(None),
                };
                Ok(Some(entry.unwrap_or(StoredEntry::UNREADABLE)))
            };
            locations.iter().map(stored).collect()
        })
        .await
    }

    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<AuditedChatState>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            chat_ids.iter().map(|chat_id| standing(&view, *chat_id)).collect()
        })
        .await
    }

    async fn leaving(&self, _: ChatId) -> Result<Vec<Sequence>, StoreError> {
        Ok(vec![])
    }
}

#[async_trait]
impl AuditLog for EmbeddedStore {
    async fn records(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<AuditedRecord>, StoreError> {
        let round =
            after.map(|PageBookmark(text)| LogAuditProgress::parse(text).ok_or_else(|| strange(text))).transpose()?;
        let page = self.read(move |tables| {
            // Read from disk: an audit that saw there that a message is gone also finds the event that announces it.
            let mut round = match round {
                Some(round) => round,
                None => LogAuditProgress { came_since: false, next: 0, end: end_of_log(tables)? },
            };
            if round.next >= round.end && !round.came_since {
                round = LogAuditProgress { came_since: true, end: end_of_log(tables)?, ..round };
            }
            let LogAuditProgress { came_since, next, end } = round;
            let range = keys::offset(next)..keys::offset(end);
            let page = scan(&tables.view(), Table::Log, range, count, |_, key, row| {
                let (position, record) = (Position(keys::parse_offset(key)?), LogRecord::decode(row)?);
                let time = record.time();
                let (chat_id, what) = match record {
                    LogRecord::Message(logged) | LogRecord::Update(logged) => {
                        let MessageLocation { chat_id, sequence } = logged.location;
                        let expires_at = logged.expires_at;
                        (chat_id, LoggedChange::Message { sequence, message_id: None, expires_at })
                    }
                    LogRecord::Event(event) => match event.body {
                        EventBody::MessagesExpired { chat_id, sequences } => {
                            (chat_id, LoggedChange::Expired(sequences))
                        }
                        body => (body.chat_id(), LoggedChange::Change),
                    },
                };
                Ok((End::Timed, AuditedRecord { position, time, chat_id, what, came_since }))
            });
            Ok((page?, round))
        });
        let (AuditPage { rows, next: last }, round) = page.await?;
        let LogAuditProgress { came_since, end, .. } = round;
        // A page that is not full has reached the end, even if rows before it were trimmed.
        let next = match last {
            Some(last) => keys::parse_offset(&unhex(&last.0)?).map_or(end, |last| last + 1),
            None => end,
        };
        let is_over = came_since && next >= end;
        Ok(AuditPage { rows, next: (!is_over).then(|| PageBookmark(LogAuditProgress { next, ..round }.to_string())) })
    }

    fn has_each_once(&self) -> bool {
        true
    }

    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError> {
        let saved = self.read(|tables| {
            let mut saved = BTreeMap::new();
            for row in tables.view().range::<&[u8]>(Table::Consumers, ..) {
                let (key, row) = row?;
                // Unreadable offsets are reported with the other tables.
                saved.extend(u64::decode(&row).ok().map(|next| (String::from_utf8_lossy(&key).into_owned(), next)));
            }
            Ok(saved)
        });
        let mut offsets = saved.await?;
        offsets.extend(self.link().offsets.unsaved());
        let end = self.link().tail.end();
        let consumer_offset = |(group, next)| ConsumerOffset { group, part: String::new(), next, end };
        Ok(offsets.into_iter().map(consumer_offset).collect())
    }
}

/// Progress of an audit of the log: first up to the end of the log at the start of the audit, then up to the end at
/// that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogAuditProgress {
    came_since: bool,
    next: u64,
    end: u64,
}

impl LogAuditProgress {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let came_since = match words.next()? {
            "first" => false,
            "second" => true,
            _ => return None,
        };
        Some(Self { came_since, next: words.next()?.parse().ok()?, end: words.next()?.parse().ok()? })
    }
}

impl fmt::Display for LogAuditProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { came_since, next, end } = self;
        write!(f, "{} {next} {end}", if *came_since { "second" } else { "first" })
    }
}

/// Scans rows of a table and decodes each with `read`.
fn scan<K: AsRef<[u8]>, T>(
    view: &View<'_>,
    table: Table,
    range: impl RangeBounds<K>,
    count: usize,
    read: impl Fn(&View<'_>, &Slice, &Slice) -> Result<(End, T), BoxError>,
) -> Result<AuditPage<T>, StoreError> {
    let (mut rows, mut last) = (vec![], None);
    for row in view.range(table, range).take(count) {
        let (key, row) = row?;
        let (end, outcome) = match read(view, &key, &row) {
            Ok((end, value)) => (end, Ok(value)),
            Err(reason) => (End::Lasting, Err(reason)),
        };
        rows.push(audited(table, &key, &row, end, outcome));
        last = Some(key);
    }
    let next = last.filter(|_| rows.len() == count).map(|key| PageBookmark(hex(&key)));
    Ok(AuditPage { rows, next })
}

/// One row, with its decoded value or the error.
fn audited<T>(table: Table, key: &[u8], row: &[u8], end: End, value: Result<T, BoxError>) -> AuditedRow<T> {
    AuditedRow {
        table: table.name(),
        key: table.rows().name(key, row),
        bytes: key.len() + row.len(),
        end,
        row: value.map_err(|why| why.to_string()),
    }
}

/// An optional row.
fn maybe<T: Stored>(view: &View<'_>, table: Table, key: &[u8]) -> Result<Option<AuditedRow<T>>, StoreError> {
    let row = view.get_bytes(table, key)?;
    Ok(row.map(|row| audited(table, key, &row, End::Lasting, T::decode(&row))))
}

fn chat_rows(view: &View<'_>, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError> {
    let Some(chat) = maybe::<Chat>(view, Table::Chats, &keys::chat(chat_id))? else { return Ok(None) };
    let mut members = vec![];
    for row in view.prefix(Table::Members, &keys::chat(chat_id)).take(AUDIT_MEMBERS_MAX) {
        let (key, row) = row?;
        // A key with the wrong length belongs to no member, and no lookup finds it.
        let Ok((_, user_id)) = keys::parse_member(&key) else { continue };
        let of_user = keys::membership(user_id, chat_id);
        let listing = match view.get_bytes(Table::Memberships, &of_user)? {
            None => ListingState::Missing,
            Some(listed) if listed == row => ListingState::Same,
            Some(_) => ListingState::Different,
        };
        let watermarks = view.get_bytes(Table::Watermarks, &of_user)?.map(|row| {
            let watermarks = DeliveryState::decode(&row).map(|state| state.watermarks);
            audited(Table::Watermarks, &of_user, &row, End::Lasting, watermarks)
        });
        let member = audited(Table::Members, &key, &row, End::Lasting, Member::decode(&row));
        members.push(MemberRows { user_id, member, listing, watermarks });
    }
    let is_direct = chat.row.as_ref().is_ok_and(|chat| chat.chat_type == ChatType::Direct);
    let pair = match &members[..] {
        [one, other] if is_direct => DirectPair::new(one.user_id, other.user_id),
        _ => None,
    };
    let pair_leads_to = match pair {
        Some(pair) => {
            view.get_bytes(Table::DirectChats, &keys::direct(pair))?.and_then(|row| ChatId::decode(&row).ok())
        }
        None => None,
    };
    let head = maybe::<Head>(view, Table::Heads, &keys::chat(chat_id))?;
    Ok(Some(AuditedChatRows { chat, members, pair_leads_to, head, waiting_since: None }))
}

/// The row of an entry.
enum EntryRow {
    Message(Slice),
    Update(Slice),
}

/// The entry at a location. A message, if a message and an update are there.
fn entry_at(view: &View<'_>, location: MessageLocation) -> Result<Option<EntryRow>, StoreError> {
    let key = keys::message(location);
    if let Some(row) = view.get_bytes(Table::Messages, &key)? {
        return Ok(Some(EntryRow::Message(row)));
    }
    Ok(view.get_bytes(Table::Updates, &key)?.map(EntryRow::Update))
}

fn message_rows(view: &View<'_>, (key, row): (Slice, Slice)) -> Result<MessageRows, StoreError> {
    let location = keys::parse_message(&key).map_err(|error| unreadable(Table::Messages, error))?;
    let message = decode_message(location, &row);
    let end = match Table::Messages.rows().decode(&key, &row) {
        Ok(schedule) => end(view, schedule)?,
        Err(_) => End::Lasting,
    };
    let (mut id_leads_to, mut send_key) = (IndexedLocation::Nowhere, None);
    if let Ok(message) = &message {
        let Message { message_id, sender_id, client_message_id, .. } = message;
        let leads_to = view.get_bytes(Table::MessagePlaces, &message_id.to_bytes())?;
        if let Some(location) = leads_to.and_then(|row| MessageLocation::decode(&row).ok()) {
            id_leads_to = IndexedLocation::To(location.chat_id, location.sequence);
        }
        let send = view.get_bytes(Table::SendKeys, &keys::send(location.chat_id, *sender_id, *client_message_id))?;
        send_key = send.and_then(|row| SendKey::decode(&row).ok()).map(|send| send.receipt);
    }
    let is_update = view.get_bytes(Table::Updates, &key)?.is_some();
    let is_updated = message.as_ref().is_ok_and(|message| message.state.revision > Sequence::ZERO);
    let reactions = if is_updated { Some(reactions_to(view, &key)?) } else { None };
    let message = audited(Table::Messages, &key, &row, end, message);
    Ok(MessageRows { sequence: location.sequence, message, id_leads_to, send_key, is_update, reactions })
}

/// Counts the reactions of the members on a message. Unreadable rows are reported with the other tables.
fn reactions_to(view: &View<'_>, message: &[u8]) -> Result<ReactionCounts, StoreError> {
    let mut counts = ReactionCounts::new();
    for row in view.prefix(Table::Reactions, message) {
        count_reactions(&mut counts, Vec::<Reaction>::decode(&row?.1).unwrap_or_default());
    }
    Ok(counts)
}

fn update_rows(view: &View<'_>, (key, row): (Slice, Slice)) -> Result<UpdateRows, StoreError> {
    let location = keys::parse_message(&key).map_err(|error| unreadable(Table::Updates, error))?;
    let update = decode_update(location, &row);
    let end = match Table::Updates.rows().decode(&key, &row) {
        Ok(schedule) => end(view, schedule)?,
        Err(_) => End::Lasting,
    };
    let (mut message, mut send_key) = (None, None);
    if let Ok(MessageUpdate { user_id, client_message_id, target, .. }) = &update {
        let of_message = MessageLocation { sequence: *target, ..location };
        let target = view.get_bytes(Table::Messages, &keys::message(of_message))?;
        message = target.and_then(|row| decode_message(of_message, &row).ok());
        let send = view.get_bytes(Table::SendKeys, &keys::send(location.chat_id, *user_id, *client_message_id))?;
        send_key = send.and_then(|row| SendKey::decode(&row).ok()).map(|send| send.receipt);
    }
    let update = audited(Table::Updates, &key, &row, end, update);
    Ok(UpdateRows { sequence: location.sequence, update, message, send_key })
}

fn standing(view: &View<'_>, chat_id: ChatId) -> Result<AuditedChatState, StoreError> {
    let exists = view.get_bytes(Table::Chats, &keys::chat(chat_id))?.is_some();
    let head = view.get_bytes(Table::Heads, &keys::chat(chat_id))?;
    let head = head.and_then(|row| HeadSummary::decode(&row).ok()).map(|counter| counter.sequence);
    Ok(AuditedChatState { exists, head })
}

/// How a row ends: with the row that schedules its purge, if it needs one.
fn end(view: &View<'_>, schedule: Option<(Table, Vec<u8>)>) -> Result<End, StoreError> {
    let Some((table, key)) = schedule else { return Ok(End::Lasting) };
    Ok(if view.get_bytes(table, &key)?.is_some() { End::Timed } else { End::Missing })
}

#[cfg(test)]
mod tests;
