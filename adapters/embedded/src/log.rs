use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::{Event, EventBody, Timestamp};
use ports::{
    DeadLetter, EventConsumer, EventLog, LogOrder, Position, Record, Start, StoreError, UndeliveredItem, lock,
};
use tokio::sync::watch;
use tracing::error;
use ulid::Ulid;

use crate::EmbeddedStore;
use crate::dead_letters;
use crate::error::unreadable;
use crate::keys;
use crate::records::{self, LogRecord, LoggedMessage, decode_message, decode_update};
use crate::store::closed;
use crate::tables::{Table, Tables, View};
use crate::updates;

/// Maximum number of events per page.
const PAGE_LEN_MAX: usize = 512;

/// The key in [`Table::Meta`] of the first retained offset.
pub(crate) const LOG_START: &[u8] = b"log_start";

#[async_trait]
impl EventLog for EmbeddedStore {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let next = self.offset(group).await?;
        let log_end = self.link().log_end.clone();
        Ok(Box::new(Consumer { store: self.clone(), log_end, group: group.to_owned(), next }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        let end = self.link().tail.end();
        let next = match to {
            Start::Oldest => 0,
            // An offset past the end is clamped to the end.
            Start::At(Position(offset)) => offset.min(end),
            Start::Time(time) => self.read(move |tables| offset_at(tables, time, end)).await?,
        };
        let (offsets, group) = (self.link().offsets.clone(), group.to_owned());
        self.write(move |tx| {
            // Set inside the job: after the commit, the committer could save an older offset of the group over this
            // one.
            offsets.set(&group, next);
            tx.put(Table::Consumers, group.as_bytes(), &next);
            Ok(())
        })
        .await
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        let start = self.tables().await?.get(Table::Meta, LOG_START)?.unwrap_or(0);
        let next = self.offset(group).await?.max(start);
        Ok(self.link().tail.end().saturating_sub(next))
    }

    fn order(&self) -> LogOrder {
        LogOrder::Commit
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        let tables = self.tables().await?;
        let view = tables.view();
        match view.get_bytes(Table::Log, &keys::offset(position.0))? {
            Some(row) => Ok(read_event(&view, &row)?.map(Arc::new)),
            None => Ok(None),
        }
    }
}

impl EmbeddedStore {
    /// The next offset of a consumer group, after its last committed event.
    async fn offset(&self, group: &str) -> Result<u64, StoreError> {
        match self.link().offsets.get(group) {
            Some(offset) => Ok(offset),
            None => Ok(self.tables().await?.get(Table::Consumers, group.as_bytes())?.unwrap_or(0)),
        }
    }
}

struct Consumer {
    store: EmbeddedStore,
    log_end: watch::Receiver<u64>,
    group: String,
    /// The offset of the next event to return.
    next: u64,
}

#[async_trait]
impl EventConsumer for Consumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            let next = self.next;
            let end = *self.log_end.wait_for(|end| *end > next).await.map_err(closed)?;
            let page = match self.store.link().tail.read(next) {
                Some(page) => page,
                None => self.store.read(move |tables| read_page(tables, next, end)).await?,
            };
            let LogPage { records, next, damaged } = page;
            for (position, reason) in damaged {
                self.add_dead_letter(position, reason).await?;
            }
            self.next = next;
            // A page whose messages are all purged has no events.
            if !records.is_empty() {
                return Ok(records);
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.store.link().offsets.set(&self.group, self.next);
        Ok(())
    }
}

impl Consumer {
    /// Buries an unreadable record as a dead letter, once for all consumers, and logs the skip.
    async fn add_dead_letter(&self, position: Position, reason: String) -> Result<(), StoreError> {
        error!(position = position.0, reason, "skipping an unreadable record of the log");
        let buried = self.store.write(move |tx| {
            let id = Ulid::from_parts(0, position.0.into());
            let what = UndeliveredItem::Unreadable { position };
            dead_letters::add_dead_letter(tx, &DeadLetter { id, what, attempts: 1, reason, dead_at: tx.now() })
        });
        buried.await
    }
}

/// A page of the log.
struct LogPage {
    records: Vec<Record>,
    /// The offset after its last record.
    next: u64,
    /// Unreadable records in it, with the reasons.
    damaged: Vec<(Position, String)>,
}

/// The end offset of the log: one past the last event ever logged.
pub(crate) fn end_of_log(tables: &Tables) -> Result<u64, StoreError> {
    let view = tables.view();
    let start = view.get(Table::Meta, LOG_START)?.unwrap_or(0);
    match view.range::<&[u8]>(Table::Log, ..).next_back().transpose()? {
        Some((key, _)) => {
            let last = keys::parse_offset(&key).map_err(|error| unreadable(Table::Log, error))?;
            Ok(start.max(last + 1))
        }
        None => Ok(start),
    }
}

/// Reads events from disk, starting at an offset. Everything below `end` is committed.
fn read_page(tables: &Tables, from: u64, end: u64) -> Result<LogPage, StoreError> {
    let view = tables.view();
    let (mut records, mut damaged) = (vec![], vec![]);
    let mut next = from;
    for row in view.range(Table::Log, keys::offset(from)..keys::offset(end)).take(PAGE_LEN_MAX) {
        let (key, row) = row?;
        let offset = keys::parse_offset(&key).map_err(|error| unreadable(Table::Log, error))?;
        match read_event(&view, &row) {
            Ok(Some(event)) => records.push(Record { position: Position(offset), event: Arc::new(event) }),
            Ok(None) => {}
            Err(StoreError::Corrupt { table, source }) => {
                damaged.push((Position(offset), format!("a row of `{table}` does not decode: {source}")));
            }
            Err(failure) => return Err(failure),
        }
        next = offset + 1;
    }
    if next == from {
        // All events of this range have been trimmed.
        next = end;
    }
    Ok(LogPage { records, next, damaged })
}

/// Decodes the event of a log row. No read returns a message that has expired and was purged, including this one (G11).
fn read_event(view: &View<'_>, row: &[u8]) -> Result<Option<Event>, StoreError> {
    let logged = match LogRecord::decode(row).map_err(|error| unreadable(Table::Log, error))? {
        LogRecord::Event(event) => return Ok(Some(*event)),
        LogRecord::Update(logged) => return read_update(view, &logged),
        LogRecord::Message(logged) => logged,
    };
    let Some(row) = view.get_bytes(Table::Messages, &keys::message(logged.location))? else { return Ok(None) };
    let message = decode_message(logged.location, &row).map_err(|error| unreadable(Table::Messages, error))?;
    Ok(Some(Event::message_persisted(message, logged.origin_connection_id).numbered(logged.event_number)))
}

/// Reads the event of an update, with its message in the current state.
fn read_update(view: &View<'_>, logged: &LoggedMessage) -> Result<Option<Event>, StoreError> {
    let Some(row) = view.get_bytes(Table::Updates, &keys::message(logged.location))? else { return Ok(None) };
    let update = decode_update(logged.location, &row).map_err(|error| unreadable(Table::Updates, error))?;
    let message = updates::message_of(view, &update, update.created_at)?;
    Ok(Some(Event::message_updated(update, message).numbered(logged.event_number)))
}

/// The offset of the first event at or after `time`; `end` if there is none.
///
/// This is a binary search, so it relies on times that grow with offsets. Exceptions are a clock that stepped back and
/// sends that overtook each other before the commit; then the result may be a neighbour.
fn offset_at(tables: &Tables, time: Timestamp, end: u64) -> Result<u64, StoreError> {
    let view = tables.view();
    let (mut older, mut found) = (view.get(Table::Meta, LOG_START)?.unwrap_or(0), end);
    while older < found {
        let middle = older + (found - older) / 2;
        let is_older = match view.get_bytes(Table::Log, &keys::offset(middle))? {
            // Consumers that start at an unreadable record skip it.
            Some(row) => LogRecord::decode(&row).map_or(true, |record| record.time() < time),
            None => true,
        };
        if is_older {
            older = middle + 1;
        } else {
            found = middle;
        }
    }
    Ok(found)
}

/// The last events of the log in memory, for consumers that keep up.
pub(crate) struct LogTail {
    ring: Mutex<Ring>,
    events_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct Ring {
    /// `None` for a purged message.
    events: VecDeque<Option<Arc<Event>>>,
    /// The end offset of the log.
    end: u64,
    bytes: usize,
}

impl LogTail {
    /// An empty tail at the end of a log.
    pub(crate) fn new(end: u64, events_max: usize, bytes_max: usize) -> Self {
        Self { ring: Mutex::new(Ring { end, ..Ring::default() }), events_max, bytes_max }
    }

    /// The end offset of the log. It advances before the commit is acknowledged, unlike the watch channel that
    /// consumers wait on.
    pub(crate) fn end(&self) -> u64 {
        self.lock().end
    }

    /// Appends events that end at offset `end`. If there is a gap before them, the tail restarts with them.
    pub(crate) fn push(&self, end: u64, events: Vec<Arc<Event>>) {
        let mut ring = self.lock();
        if ring.end + events.len() as u64 != end {
            *ring = Ring::default();
        }
        ring.end = end;
        for event in events {
            ring.bytes += size(&event);
            ring.events.push_back(Some(event));
        }
        while ring.events.len() > self.events_max || ring.bytes > self.bytes_max {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.map_or(0, |oldest| size(&oldest));
        }
    }

    /// Drops purged messages: no read returns them any more, from disk or from memory (G11).
    pub(crate) fn forget(&self, purged: &HashSet<records::MessageLocation>) {
        if purged.is_empty() {
            return;
        }
        let at = |chat_id, sequence| purged.contains(&records::MessageLocation { chat_id, sequence });
        let mut ring = self.lock();
        let mut freed = 0;
        for slot in &mut ring.events {
            let Some(event) = slot else { continue };
            let before = size(event);
            let is_purged = match &event.body {
                EventBody::MessagePersisted { message, .. } => at(message.chat_id, message.sequence),
                EventBody::MessageUpdated { update, .. } => at(update.chat_id, update.sequence),
                _ => false,
            };
            if is_purged {
                *slot = None;
                freed += before;
            } else if let EventBody::MessageUpdated { update, message: Some(_) } = &event.body
                && at(update.chat_id, update.target)
            {
                // The update itself stays, as on disk.
                let body = EventBody::MessageUpdated { update: update.clone(), message: None };
                let Event { event_id, event_time, event_number, .. } = **event;
                *event = Arc::new(Event { event_id, event_time, event_number, body });
                freed += before - size(event);
            }
        }
        ring.bytes -= freed;
    }

    /// Events from an offset on; `None` if the tail does not cover it.
    fn read(&self, from: u64) -> Option<LogPage> {
        let ring = self.lock();
        let behind = usize::try_from(ring.end.checked_sub(from)?).ok().filter(|behind| *behind > 0)?;
        let start = ring.events.len().checked_sub(behind)?;
        let page = ring.events.range(start..).take(PAGE_LEN_MAX);
        let next = from + page.len() as u64;
        let record = |(offset, event): (u64, &Option<Arc<Event>>)| {
            Some(Record { position: Position(offset), event: event.clone()? })
        };
        Some(LogPage { records: (from..).zip(page).filter_map(record).collect(), next, damaged: vec![] })
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        lock(&self.ring)
    }
}

/// Approximate memory size of an event.
fn size(event: &Event) -> usize {
    let content = match &event.body {
        EventBody::MessagePersisted { message, .. } | EventBody::MessageUpdated { message: Some(message), .. } => {
            message.body.size()
        }
        EventBody::MessageUpdated { message: None, .. } => 0,
        EventBody::ChatCreated { initial_members, .. } => size_of_val(&initial_members[..]),
        EventBody::MessagesExpired { sequences, .. } => size_of_val(&sequences[..]),
        EventBody::MembershipChanged { .. } | EventBody::ChatRenamed { .. } | EventBody::MessageTtlChanged { .. } => 0,
    };
    size_of::<Event>() + content
}

/// Committed offsets of the consumer groups. The committer saves them with the next commit, after at most one second. A
/// crash repeats some events and skips none.
#[derive(Default)]
pub(crate) struct GroupOffsets(Mutex<HashMap<String, GroupOffset>>);

struct GroupOffset {
    next: u64,
    saved: Option<u64>,
}

impl GroupOffsets {
    fn get(&self, group: &str) -> Option<u64> {
        self.lock().get(group).map(|offset| offset.next)
    }

    fn set(&self, group: &str, next: u64) {
        let mut offsets = self.lock();
        match offsets.get_mut(group) {
            Some(offset) => offset.next = next,
            None => drop(offsets.insert(group.to_owned(), GroupOffset { next, saved: None })),
        }
    }

    /// The offsets that are not saved yet.
    pub(crate) fn unsaved(&self) -> Vec<(String, u64)> {
        let offsets = self.lock();
        let unsaved = offsets.iter().filter(|(_, location)| location.saved != Some(location.next));
        unsaved.map(|(group, location)| (group.clone(), location.next)).collect()
    }

    /// Marks offsets as saved.
    pub(crate) fn saved(&self, saved: Vec<(String, u64)>) {
        let mut offsets = self.lock();
        for (group, next) in saved {
            if let Some(offset) = offsets.get_mut(&group) {
                offset.saved = Some(next);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, GroupOffset>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        Body, ChatId, ClientMessageId, ContentType, EventId, EventNumber, Message, MessageId, MessageState,
        MessageUpdate, Sequence, UpdateKind, UserId,
    };

    use super::*;

    fn events(numbers: std::ops::Range<u64>) -> Vec<Arc<Event>> {
        let event = |n| {
            let body = EventBody::ChatRenamed {
                chat_id: ChatId::from_bytes([0; 16]),
                name: "name".to_owned().try_into().unwrap(),
                changed_by: UserId::from_bytes([0; 16]),
            };
            let (event_id, event_time) = (EventId::from_bytes([0; 16]), Timestamp::from_millis(n));
            Arc::new(Event { event_id, event_time, event_number: None, body })
        };
        numbers.map(event).collect()
    }

    /// The events in the tail from an offset on. Each event has its offset as its time.
    fn read(tail: &LogTail, from: u64) -> Option<Vec<u64>> {
        let LogPage { records, next, .. } = tail.read(from)?;
        let offsets: Vec<_> = records.iter().map(|record| record.position.0).collect();
        assert_eq!(offsets, records.iter().map(|record| record.event.event_time.as_millis()).collect::<Vec<_>>());
        assert_eq!(next, tail.lock().end);
        Some(offsets)
    }

    #[test]
    fn the_tail_has_the_last_events_and_no_more() {
        let tail = LogTail::new(0, 3, usize::MAX);
        tail.push(2, events(0..2));
        assert_eq!(read(&tail, 0), Some(vec![0, 1]));
        tail.push(5, events(2..5));
        assert_eq!(read(&tail, 1), None);
        assert_eq!(read(&tail, 2), Some(vec![2, 3, 4]));
        assert_eq!(read(&tail, 4), Some(vec![4]));
        assert_eq!(read(&tail, 5), None);
        assert_eq!(read(&tail, 6), None);
    }

    #[test]
    fn the_tail_is_bounded_in_bytes() {
        let tail = LogTail::new(0, usize::MAX, 2 * size_of::<Event>());
        tail.push(5, events(0..5));
        assert_eq!(read(&tail, 2), None);
        assert_eq!(read(&tail, 3), Some(vec![3, 4]));
    }

    #[test]
    fn a_tail_with_a_gap_restarts_after_it() {
        let tail = LogTail::new(0, 10, usize::MAX);
        tail.push(2, events(0..2));
        tail.push(7, vec![]);
        tail.push(8, events(7..8));
        assert_eq!(read(&tail, 1), None);
        assert_eq!(read(&tail, 6), None);
        assert_eq!(read(&tail, 7), Some(vec![7]));
    }

    #[test]
    fn a_purged_message_leaves_a_gap_in_the_tail_and_no_bytes() {
        let location = |n: u8| records::MessageLocation { chat_id: ChatId::from_bytes([n; 16]), sequence: Sequence(1) };
        let message = |n: u8| Message {
            message_id: MessageId::from_bytes([n; 16]),
            chat_id: location(n).chat_id,
            sequence: location(n).sequence,
            sender_id: UserId::from_bytes([0; 16]),
            client_message_id: ClientMessageId::from_bytes([0; 16]),
            body: Body::new("words".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(n.into()),
            expires_at: None,
            state: MessageState::default(),
        };
        let tail = LogTail::new(0, 3, usize::MAX);
        tail.push(3, (0..3).map(|n| Arc::new(Event::message_persisted(message(n), None))).collect());
        tail.forget(&HashSet::from([location(0), location(1), location(7)]));
        assert_eq!(read(&tail, 0), Some(vec![2]));
        assert_eq!(read(&tail, 1), Some(vec![2]));
        assert_eq!(tail.lock().bytes, size_of::<Event>() + "words".len());
        tail.push(6, events(3..6));
        assert_eq!(read(&tail, 3), Some(vec![3, 4, 5]));
        tail.push(9, events(6..9));
        assert_eq!(tail.lock().bytes, 3 * size_of::<Event>());
    }

    #[test]
    fn an_update_of_a_purged_message_stays_in_the_tail_without_it() {
        let chat_id = ChatId::from_bytes([1; 16]);
        let location = |sequence| records::MessageLocation { chat_id, sequence: Sequence(sequence) };
        let message = Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id,
            sequence: Sequence(1),
            sender_id: UserId::from_bytes([0; 16]),
            client_message_id: ClientMessageId::from_bytes([0; 16]),
            body: Body::new("words".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(0),
            expires_at: None,
            state: MessageState::default(),
        };
        let update = |sequence| MessageUpdate {
            update_id: MessageId::from_bytes([2; 16]),
            chat_id,
            sequence: Sequence(sequence),
            user_id: UserId::from_bytes([0; 16]),
            client_message_id: ClientMessageId::from_bytes([0; 16]),
            target: Sequence(1),
            kind: UpdateKind::Edited,
            created_at: Timestamp::from_millis(sequence),
            expires_at: None,
        };
        let number = Some(EventNumber(7));
        let updated = |sequence, message| Event::message_updated(update(sequence), message).numbered(number);
        let tail = LogTail::new(0, 9, usize::MAX);
        let events = (2..=4).map(|sequence| Arc::new(updated(sequence, Some(message.clone()))));
        tail.push(3, events.collect());
        tail.forget(&HashSet::from([location(1), location(3)]));
        let events: Vec<_> = tail.read(0).unwrap().records.into_iter().map(|record| record.event).collect();
        assert_eq!(events, [2, 4].map(|sequence| Arc::new(updated(sequence, None))));
        assert_eq!(tail.lock().bytes, 2 * size_of::<Event>());
    }

    #[test]
    fn an_offset_is_unsaved_until_that_very_offset_was_saved() {
        let offsets = GroupOffsets::default();
        offsets.set("group", 3);
        let saving = offsets.unsaved();
        assert_eq!(saving, [("group".to_owned(), 3)]);
        offsets.set("group", 5);
        offsets.saved(saving);
        assert_eq!(offsets.unsaved(), [("group".to_owned(), 5)]);
        offsets.saved(offsets.unsaved());
        assert_eq!(offsets.unsaved(), []);
        assert_eq!(offsets.get("group"), Some(5));
    }
}
