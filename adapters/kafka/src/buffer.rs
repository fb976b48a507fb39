use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use domain::{Event, Timestamp};
use ports::Record;

use crate::location::{Partition, RecordLocation};
use crate::record::DamagedRecord;

/// Limits of the batch that one call returns: records and bytes. A batch has at least one record.
const BATCH_LEN_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Fetched records that `next` has not returned yet, and the progress of each assigned partition.
pub(crate) struct Buffer {
    len_max: usize,
    bytes_max: usize,
    entries: VecDeque<BufferedRecord>,
    bytes: usize,
    /// The partitions that are assigned to this consumer.
    ours: BTreeMap<Partition, PartitionProgress>,
}

pub(crate) struct BufferedRecord {
    pub(crate) location: RecordLocation,
    pub(crate) bytes: usize,
    pub(crate) what: Result<Arc<Event>, Box<DamagedRecord>>,
}

/// Offsets of a partition since its assignment: one past the last returned record, and the last committed offset.
#[derive(Clone, Copy, Default)]
struct PartitionProgress {
    returned: Option<i64>,
    committed: Option<i64>,
}

/// Result of [`Buffer::take`].
pub(crate) enum NextBatch {
    Records(Vec<Record>),
    /// A damaged record is at the front. It stays there until [`Buffer::pass_over`].
    Damaged(Box<DamagedRecord>),
    Nothing,
}

impl Buffer {
    pub(crate) fn new(len_max: usize, bytes_max: usize) -> Self {
        Self { len_max, bytes_max, entries: VecDeque::new(), bytes: 0, ours: BTreeMap::new() }
    }

    /// Records that a partition was assigned to this consumer.
    pub(crate) fn assign(&mut self, partition: Partition) {
        self.ours.insert(partition, PartitionProgress::default());
    }

    /// Records that a partition was revoked. Its buffered records are dropped, since the new owner returns them, and
    /// its returned records can no longer be committed here.
    pub(crate) fn revoke(&mut self, partition: Partition) {
        self.ours.remove(&partition);
        self.entries.retain(|entry| entry.location.partition != partition);
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }

    /// Adds a record, unless its partition was revoked meanwhile.
    pub(crate) fn push(&mut self, entry: BufferedRecord) {
        if self.ours.contains_key(&entry.location.partition) {
            self.bytes += entry.bytes;
            self.entries.push_back(entry);
        }
    }

    /// Whether fetching must pause.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.len_max || self.bytes >= self.bytes_max
    }

    /// Whether fetching may resume. The buffer must be half empty, so that fetching does not pause and resume with
    /// every record.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() <= self.len_max / 2 && self.bytes <= self.bytes_max / 2
    }

    /// Takes the next batch. Expired messages and updates are left out (G11).
    pub(crate) fn take(&mut self, now: Timestamp) -> NextBatch {
        let mut records = vec![];
        let mut bytes = 0;
        while records.len() < BATCH_LEN_MAX && bytes < BATCH_BYTES_MAX {
            match self.entries.front().map(|entry| &entry.what) {
                Some(Ok(_)) => {}
                Some(Err(damaged)) if records.is_empty() => return NextBatch::Damaged(damaged.clone()),
                Some(Err(_)) | None => break,
            }
            let Some(entry) = self.pop() else { break };
            bytes += entry.bytes;
            let position = entry.location.position();
            let event = entry.what.ok().and_then(|event| event.read_at(now));
            records.extend(event.map(|event| Record { position, event }));
        }
        if records.is_empty() { NextBatch::Nothing } else { NextBatch::Records(records) }
    }

    /// Skips the damaged record at the front, if it is still there.
    pub(crate) fn skip(&mut self, location: RecordLocation) {
        if self.entries.front().is_some_and(|entry| entry.location == location) {
            self.pop();
        }
    }

    /// The offsets to commit: one past the last returned record of each assigned partition.
    pub(crate) fn uncommitted(&self) -> BTreeMap<Partition, i64> {
        let uncommitted = self.ours.iter().filter(|(_, progress)| progress.returned != progress.committed);
        uncommitted.filter_map(|(partition, progress)| Some((*partition, progress.returned?))).collect()
    }

    /// Records which offsets were committed.
    pub(crate) fn committed(&mut self, offsets: &BTreeMap<Partition, i64>) {
        for (partition, offset) in offsets {
            if let Some(progress) = self.ours.get_mut(partition) {
                progress.committed = Some(*offset);
            }
        }
    }

    fn pop(&mut self) -> Option<BufferedRecord> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        if let Some(progress) = self.ours.get_mut(&entry.location.partition) {
            progress.returned = Some(entry.location.offset + 1);
        }
        Some(entry)
    }
}

/// Memory of a buffered record besides its bytes.
pub(crate) const ENTRY_BYTES: usize = mem::size_of::<BufferedRecord>() + mem::size_of::<Event>();

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{ChatId, EventBody, EventId, EventKind, UserId};

    use super::*;
    use crate::record::UnreadableReason;

    fn partition(number: i32) -> Partition {
        Partition { kind: EventKind::Chat, number }
    }

    fn location(number: i32, offset: i64) -> RecordLocation {
        RecordLocation::new(partition(number), offset).unwrap()
    }

    fn entry(number: i32, offset: i64) -> BufferedRecord {
        let body = EventBody::ChatRenamed {
            chat_id: ChatId::from_bytes([0; 16]),
            name: "name".to_owned().try_into().unwrap(),
            changed_by: UserId::from_bytes([0; 16]),
        };
        let event = Event {
            event_id: EventId::from_bytes([0; 16]),
            event_time: Timestamp::default(),
            event_number: None,
            body,
        };
        BufferedRecord { location: location(number, offset), bytes: 100, what: Ok(Arc::new(event)) }
    }

    fn damaged(number: i32, offset: i64) -> BufferedRecord {
        let location = location(number, offset);
        let what = DamagedRecord { location, reason: UnreadableReason::Empty, key: None, value: Bytes::new() };
        BufferedRecord { location, bytes: 100, what: Err(Box::new(what)) }
    }

    fn buffer(partitions: &[i32]) -> Buffer {
        let mut buffer = Buffer::new(4, 1000);
        partitions.iter().for_each(|number| buffer.assign(partition(*number)));
        buffer
    }

    /// Takes the next batch and returns the locations of its records.
    fn take(buffer: &mut Buffer) -> Vec<RecordLocation> {
        match buffer.take(Timestamp::default()) {
            NextBatch::Records(records) => {
                records.iter().map(|record| RecordLocation::of(record.position).unwrap()).collect()
            }
            NextBatch::Damaged(damaged) => panic!("{damaged:?}"),
            NextBatch::Nothing => vec![],
        }
    }

    #[test]
    fn a_revoked_partition_loses_its_records_and_position() {
        let mut buffer = buffer(&[0, 1]);
        buffer.push(entry(0, 5));
        assert_eq!(take(&mut buffer), [location(0, 5)]);
        for entry in [entry(0, 6), entry(1, 3), entry(0, 7)] {
            buffer.push(entry);
        }
        buffer.revoke(partition(0));
        buffer.push(entry(0, 8));
        assert_eq!(buffer.uncommitted(), BTreeMap::new());
        assert_eq!(take(&mut buffer), [location(1, 3)]);
        assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(1), 4)]));
        assert_eq!(buffer.bytes, 0);
    }

    #[test]
    fn a_returned_event_is_committed_once() {
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
        buffer.push(BufferedRecord { bytes: 1000, ..entry(0, 4) });
        assert!(buffer.is_full() && !buffer.has_room());
    }

    #[test]
    fn a_damaged_record_is_next_until_it_is_passed_over() {
        let mut buffer = buffer(&[0]);
        for entry in [entry(0, 0), damaged(0, 1), entry(0, 2)] {
            buffer.push(entry);
        }
        assert_eq!(take(&mut buffer), [location(0, 0)]);
        for _ in 0..2 {
            assert!(
                matches!(buffer.take(Timestamp::default()), NextBatch::Damaged(damaged) if damaged.location == location(0, 1))
            );
            assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(0), 1)]));
        }
        buffer.skip(location(0, 1));
        buffer.skip(location(0, 1));
        assert_eq!(take(&mut buffer), [location(0, 2)]);
        assert_eq!(buffer.uncommitted(), BTreeMap::from([(partition(0), 3)]));
    }

    #[test]
    fn a_batch_is_bounded() {
        let mut buffer = Buffer::new(1000, usize::MAX);
        buffer.assign(partition(0));
        (0..300).for_each(|offset| buffer.push(entry(0, offset)));
        assert_eq!(take(&mut buffer).len(), BATCH_LEN_MAX);
        assert_eq!(take(&mut buffer).len(), 300 - BATCH_LEN_MAX);
        (300..303).for_each(|offset| buffer.push(BufferedRecord { bytes: BATCH_BYTES_MAX, ..entry(0, offset) }));
        assert_eq!(take(&mut buffer), [location(0, 300)]);
    }
}
