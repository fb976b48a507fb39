use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use domain::{Event, EventBody, Timestamp};
use ports::Record;

use crate::place::{Partition, Place};
use crate::record::Damaged;

/// Records that one call returns, at the most, and their bytes; at least one.
const BATCH_LEN_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// What a consumer has fetched and nobody has asked for yet, and how far each of its partitions has come.
pub(crate) struct Buffer {
    len_max: usize,
    bytes_max: usize,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The partitions that are ours now.
    ours: BTreeMap<Partition, Progress>,
}

pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) bytes: usize,
    pub(crate) what: Result<Arc<Event>, Box<Damaged>>,
}

/// How far a partition has come since it is ours: the offsets behind the last record that was returned, and behind the
/// last that was committed.
#[derive(Clone, Copy, Default)]
struct Progress {
    returned: Option<i64>,
    committed: Option<i64>,
}

/// What is next.
pub(crate) enum Next {
    Records(Vec<Record>),
    /// It stays where it is until it is passed over.
    Damaged(Box<Damaged>),
    Nothing,
}

impl Buffer {
    pub(crate) fn new(len_max: usize, bytes_max: usize) -> Self {
        Self { len_max, bytes_max, entries: VecDeque::new(), bytes: 0, ours: BTreeMap::new() }
    }

    /// A partition is ours from now on.
    pub(crate) fn assign(&mut self, partition: Partition) {
        self.ours.insert(partition, Progress::default());
    }

    /// A partition is somebody else's from now on. What was fetched of it is theirs to return, and what was returned is
    /// not ours to commit.
    pub(crate) fn revoke(&mut self, partition: Partition) {
        self.ours.remove(&partition);
        self.entries.retain(|entry| entry.place.partition != partition);
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }

    /// Adds a record, unless its partition is not ours any more.
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.ours.contains_key(&entry.place.partition) {
            self.bytes += entry.bytes;
            self.entries.push_back(entry);
        }
    }

    /// Whether no more is to be fetched.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.len_max || self.bytes >= self.bytes_max
    }

    /// Whether there is room again. It is half empty then, so that fetching does not stop and go with every record.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() <= self.len_max / 2 && self.bytes <= self.bytes_max / 2
    }

    /// Takes what is next. A message that has expired is left out (G11).
    pub(crate) fn take(&mut self, now: Timestamp) -> Next {
        let mut records = vec![];
        let mut bytes = 0;
        while records.len() < BATCH_LEN_MAX && bytes < BATCH_BYTES_MAX {
            match self.entries.front().map(|entry| &entry.what) {
                Some(Ok(_)) => {}
                Some(Err(damaged)) if records.is_empty() => return Next::Damaged(damaged.clone()),
                Some(Err(_)) | None => break,
            }
            let Some(entry) = self.pop() else { break };
            bytes += entry.bytes;
            if let Ok(event) = entry.what
                && !is_expired(&event, now)
            {
                records.push(Record { position: entry.place.position(), event });
            }
        }
        if records.is_empty() { Next::Nothing } else { Next::Records(records) }
    }

    /// Leaves the damaged record behind that is next, if it still is.
    pub(crate) fn pass_over(&mut self, place: Place) {
        if self.entries.front().is_some_and(|entry| entry.place == place) {
            self.pop();
        }
    }

    /// The offsets that are to be committed: behind what was returned of each partition that is ours.
    pub(crate) fn uncommitted(&self) -> BTreeMap<Partition, i64> {
        let uncommitted = self.ours.iter().filter(|(_, progress)| progress.returned != progress.committed);
        uncommitted.filter_map(|(partition, progress)| Some((*partition, progress.returned?))).collect()
    }

    /// Notes what was committed.
    pub(crate) fn committed(&mut self, offsets: &BTreeMap<Partition, i64>) {
        for (partition, offset) in offsets {
            if let Some(progress) = self.ours.get_mut(partition) {
                progress.committed = Some(*offset);
            }
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        if let Some(progress) = self.ours.get_mut(&entry.place.partition) {
            progress.returned = Some(entry.place.offset + 1);
        }
        Some(entry)
    }
}

/// What a record takes in memory besides its bytes.
pub(crate) const ENTRY_BYTES: usize = mem::size_of::<Entry>() + mem::size_of::<Event>();

fn is_expired(event: &Event, now: Timestamp) -> bool {
    matches!(&event.body, EventBody::MessagePersisted { message, .. } if message.is_expired(now))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{ChatId, EventId, EventKind, UserId};

    use super::*;
    use crate::record::Unreadable;

    fn partition(number: i32) -> Partition {
        Partition { kind: EventKind::Chat, number }
    }

    fn place(number: i32, offset: i64) -> Place {
        Place::new(partition(number), offset).unwrap()
    }

    fn entry(number: i32, offset: i64) -> Entry {
        let body = EventBody::ChatRenamed {
            chat_id: ChatId::from_bytes([0; 16]),
            name: "name".to_owned().try_into().unwrap(),
            changed_by: UserId::from_bytes([0; 16]),
        };
        let event = Event { event_id: EventId::from_bytes([0; 16]), event_time: Timestamp::default(), body };
        Entry { place: place(number, offset), bytes: 100, what: Ok(Arc::new(event)) }
    }

    fn damaged(number: i32, offset: i64) -> Entry {
        let place = place(number, offset);
        let what = Damaged { place, reason: Unreadable::Empty, key: None, value: Bytes::new() };
        Entry { place, bytes: 100, what: Err(Box::new(what)) }
    }

    fn buffer(partitions: &[i32]) -> Buffer {
        let mut buffer = Buffer::new(4, 1000);
        partitions.iter().for_each(|number| buffer.assign(partition(*number)));
        buffer
    }

    /// The places of what is next.
    fn take(buffer: &mut Buffer) -> Vec<Place> {
        match buffer.take(Timestamp::default()) {
            Next::Records(records) => records.iter().map(|record| Place::of(record.position).unwrap()).collect(),
            Next::Damaged(damaged) => panic!("{damaged:?}"),
            Next::Nothing => vec![],
        }
    }

    #[test]
    fn a_partition_that_is_gone_takes_its_records_and_its_place_along() {
        let mut buffer = buffer(&[0, 1]);
        buffer.push(entry(0, 5));
        assert_eq!(take(&mut buffer), [place(0, 5)]);
        for entry in [entry(0, 6), entry(1, 3), entry(0, 7)] {
            buffer.push(entry);
        }
        buffer.revoke(partition(0));
        buffer.push(entry(0, 8));
        assert_eq!(buffer.uncommitted(), BTreeMap::new());
        assert_eq!(take(&mut buffer), [place(1, 3)]);
        assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(1), 4)]));
        assert_eq!(buffer.bytes, 0);
    }

    #[test]
    fn what_was_committed_is_committed_once() {
        let mut buffer = buffer(&[0, 1]);
        buffer.push(entry(0, 5));
        buffer.push(entry(1, 3));
        assert_eq!(buffer.uncommitted(), BTreeMap::new());
        take(&mut buffer);
        let returned = buffer.uncommitted();
        assert_eq!(returned, BTreeMap::from([(partition(0), 6), (partition(1), 4)]));
        buffer.push(entry(0, 6));
        take(&mut buffer);
        buffer.committed(&returned);
        assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(0), 7)]));
    }

    #[test]
    fn a_buffer_is_full_in_records_or_bytes_and_has_room_when_half_is_free() {
        let mut buffer = buffer(&[0]);
        for offset in 0..4 {
            assert!(!buffer.is_full());
            buffer.push(entry(0, offset));
        }
        assert!(buffer.is_full() && !buffer.has_room());
        take(&mut buffer);
        assert!(!buffer.is_full() && buffer.has_room());
        buffer.push(Entry { bytes: 1000, ..entry(0, 4) });
        assert!(buffer.is_full() && !buffer.has_room());
    }

    #[test]
    fn a_damaged_record_is_next_until_it_is_passed_over() {
        let mut buffer = buffer(&[0]);
        for entry in [entry(0, 0), damaged(0, 1), entry(0, 2)] {
            buffer.push(entry);
        }
        assert_eq!(take(&mut buffer), [place(0, 0)]);
        for _ in 0..2 {
            assert!(
                matches!(buffer.take(Timestamp::default()), Next::Damaged(damaged) if damaged.place == place(0, 1))
            );
            assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(0), 1)]));
        }
        buffer.pass_over(place(0, 1));
        buffer.pass_over(place(0, 1));
        assert_eq!(take(&mut buffer), [place(0, 2)]);
        assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(0), 3)]));
    }

    #[test]
    fn a_batch_is_bounded() {
        let mut buffer = Buffer::new(1000, usize::MAX);
        buffer.assign(partition(0));
        (0..300).for_each(|offset| buffer.push(entry(0, offset)));
        assert_eq!(take(&mut buffer).len(), BATCH_LEN_MAX);
        assert_eq!(take(&mut buffer).len(), 300 - BATCH_LEN_MAX);
        (300..303).for_each(|offset| buffer.push(Entry { bytes: BATCH_BYTES_MAX, ..entry(0, offset) }));
        assert_eq!(take(&mut buffer), [place(0, 300)]);
    }
}
