use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use domain::{Event, EventBody};
use ports::{EventConsumer, EventLog, StoreError};
use tokio::sync::watch;

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::{LogRecord, decode_message, message_event};
use crate::store::closed;
use crate::tables::{Table, Tables};

/// Events that a consumer gets at once, at the most.
const PAGE_LEN_MAX: usize = 512;

/// The key in [`Table::Meta`] of the first offset that is still kept.
pub(crate) const LOG_START: &[u8] = b"log_start";

#[async_trait]
impl EventLog for EmbeddedStore {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let next = match self.link().places.get(group) {
            Some(offset) => offset,
            None => self.tables().await?.get(Table::Consumers, group.as_bytes())?.unwrap_or(0),
        };
        let log_end = self.link().log_end.clone();
        Ok(Box::new(Consumer { store: self.clone(), log_end, group: group.to_owned(), next }))
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
    async fn next(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        loop {
            let next = self.next;
            let end = *self.log_end.wait_for(|end| *end > next).await.map_err(closed)?;
            let (events, next) = match self.store.link().tail.read(next) {
                Some(events) => {
                    let next = next + events.len() as u64;
                    (events, next)
                }
                None => self.store.read(move |tables| read_page(tables, next, end)).await?,
            };
            self.next = next;
            // A page of purged messages has no events.
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.store.link().places.set(&self.group, self.next);
        Ok(())
    }
}

/// The offset behind the last event that was ever logged.
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

/// Events from an offset on, read from disk, and the offset behind them. Everything below `end` is committed.
fn read_page(tables: &Tables, from: u64, end: u64) -> Result<(Vec<Arc<Event>>, u64), StoreError> {
    let view = tables.view();
    let mut events = vec![];
    let mut next = from;
    for row in view.range(Table::Log, keys::offset(from)..).take(PAGE_LEN_MAX) {
        let (key, row) = row?;
        next = 1 + keys::parse_offset(&key).map_err(|error| unreadable(Table::Log, error))?;
        match LogRecord::decode(&row).map_err(|error| unreadable(Table::Log, error))? {
            LogRecord::Event(event) => events.push(Arc::new(event)),
            // A message that has expired and was purged is in no read any more, this one included (G11).
            LogRecord::Message(logged) => {
                if let Some(row) = view.get_bytes(Table::Messages, &keys::message(logged.place))? {
                    let message =
                        decode_message(logged.place, &row).map_err(|error| unreadable(Table::Messages, error))?;
                    events.push(Arc::new(message_event(message, logged.origin_connection_id)));
                }
            }
        }
    }
    if next == from {
        // Everything that was here has been trimmed.
        next = end;
    }
    Ok((events, next))
}

/// The last events of the log, for consumers that keep up.
pub(crate) struct Tail {
    ring: Mutex<Ring>,
    events_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The offset behind the last event.
    end: u64,
    bytes: usize,
}

impl Tail {
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Self {
        Self { ring: Mutex::default(), events_max, bytes_max }
    }

    /// Adds the events that end at an offset. If there is a gap before them, the tail begins with them.
    pub(crate) fn push(&self, end: u64, events: Vec<Arc<Event>>) {
        let mut ring = self.lock();
        if ring.end + events.len() as u64 != end {
            *ring = Ring::default();
        }
        ring.end = end;
        for event in events {
            ring.bytes += size(&event);
            ring.events.push_back(event);
        }
        while ring.events.len() > self.events_max || ring.bytes > self.bytes_max {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= size(&oldest);
        }
    }

    /// Events from an offset on; `None` if the tail begins behind it or ends before it.
    fn read(&self, from: u64) -> Option<Vec<Arc<Event>>> {
        let ring = self.lock();
        let behind = usize::try_from(ring.end.checked_sub(from)?).ok()?;
        let start = ring.events.len().checked_sub(behind)?;
        let events: Vec<_> = ring.events.range(start..).take(PAGE_LEN_MAX).cloned().collect();
        (!events.is_empty()).then_some(events)
    }

    /// Each change leaves the ring whole, so one left by a panicking thread is as good as any.
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roughly what an event takes in memory.
fn size(event: &Event) -> usize {
    let content = match &event.body {
        EventBody::MessagePersisted { message, .. } => message.content.as_str().len(),
        EventBody::ChatCreated { initial_members, .. } => size_of_val(&initial_members[..]),
        EventBody::MembershipChanged { .. } | EventBody::ChatRenamed { .. } => 0,
    };
    size_of::<Event>() + content
}

/// How far each consumer group has come. The committer saves it with the next commit, at the latest after a second: a
/// crash repeats some events and skips none.
#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<String, Place>>);

struct Place {
    next: u64,
    saved: Option<u64>,
}

impl Places {
    fn get(&self, group: &str) -> Option<u64> {
        self.lock().get(group).map(|place| place.next)
    }

    fn set(&self, group: &str, next: u64) {
        let mut places = self.lock();
        match places.get_mut(group) {
            Some(place) => place.next = next,
            None => drop(places.insert(group.to_owned(), Place { next, saved: None })),
        }
    }

    /// The places that are not on disk.
    pub(crate) fn unsaved(&self) -> Vec<(String, u64)> {
        let places = self.lock();
        let unsaved = places.iter().filter(|(_, place)| place.saved != Some(place.next));
        unsaved.map(|(group, place)| (group.clone(), place.next)).collect()
    }

    /// Notes that places are on disk.
    pub(crate) fn saved(&self, saved: Vec<(String, u64)>) {
        let mut places = self.lock();
        for (group, next) in saved {
            if let Some(place) = places.get_mut(&group) {
                place.saved = Some(next);
            }
        }
    }

    /// Each change leaves the map whole, so one left by a panicking thread is as good as any.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, EventId, Timestamp, UserId};

    use super::*;

    fn events(numbers: std::ops::Range<u64>) -> Vec<Arc<Event>> {
        let event = |n| {
            let body = EventBody::ChatRenamed {
                chat_id: ChatId::from_bytes([0; 16]),
                name: "name".to_owned().try_into().unwrap(),
                changed_by: UserId::from_bytes([0; 16]),
            };
            Arc::new(Event { event_id: EventId::from_bytes([0; 16]), event_time: Timestamp::from_millis(n), body })
        };
        numbers.map(event).collect()
    }

    fn read(tail: &Tail, from: u64) -> Option<Vec<u64>> {
        tail.read(from).map(|events| events.iter().map(|event| event.event_time.as_millis()).collect())
    }

    #[test]
    fn the_tail_has_the_last_events_and_no_more() {
        let tail = Tail::new(3, usize::MAX);
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
        let tail = Tail::new(usize::MAX, 2 * size_of::<Event>());
        tail.push(5, events(0..5));
        assert_eq!(read(&tail, 2), None);
        assert_eq!(read(&tail, 3), Some(vec![3, 4]));
    }

    #[test]
    fn a_tail_with_a_gap_begins_behind_it() {
        let tail = Tail::new(10, usize::MAX);
        tail.push(2, events(0..2));
        tail.push(7, vec![]);
        tail.push(8, events(7..8));
        assert_eq!(read(&tail, 1), None);
        assert_eq!(read(&tail, 6), None);
        assert_eq!(read(&tail, 7), Some(vec![7]));
    }

    #[test]
    fn a_place_is_unsaved_until_that_very_place_was_saved() {
        let places = Places::default();
        places.set("group", 3);
        let saving = places.unsaved();
        assert_eq!(saving, [("group".to_owned(), 3)]);
        places.set("group", 5);
        places.saved(saving);
        assert_eq!(places.unsaved(), [("group".to_owned(), 5)]);
        places.saved(places.unsaved());
        assert_eq!(places.unsaved(), []);
        assert_eq!(places.get("group"), Some(5));
    }
}
