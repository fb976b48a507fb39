use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use domain::{Event, Timestamp};
use ports::{BoxError, GroupActive, Start};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, OwnedMessage};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::client::{CALL_TIMEOUT, KafkaOpenError, Monitor, group_settings, is_unavailable};
use crate::config::Config;
use crate::location::{Partition, RecordLocation};
use crate::names::TopicNames;
use crate::record::{UnreadableReason, read};

/// Delay between attempts to move a group that still has active consumers.
const ACTIVE_PAUSE: Duration = Duration::from_millis(200);
/// Special timestamps in the Kafka protocol: the first retained offset, and the end offset.
const OLDEST: i64 = -2;
const END: i64 = -1;

/// Queries the topics and the offsets of one group, and moves the group, without joining it. Calls block; one deadline
/// bounds all calls together.
pub(crate) struct Offsets {
    consumer: BaseConsumer<Monitor>,
    group: String,
    names: TopicNames,
    deadline: Instant,
}

impl ConsumerContext for Monitor {}

impl Offsets {
    pub(crate) fn open(config: &Config, group: &str, monitor: Monitor) -> Result<Self, KafkaOpenError> {
        let consumer = BaseConsumer::from_config_and_context(&group_settings(config, group)?, monitor)?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        Ok(Self { consumer, group: config.group(group), names: TopicNames::new(config), deadline })
    }

    /// Number of records that the group has not committed.
    pub(crate) fn lag(&self) -> Result<u64, BoxError> {
        let partitions = self.partitions()?;
        let committed = self.committed(&partitions)?;
        let oldest = self.at(&partitions, OLDEST)?;
        let ends = self.at(&partitions, END)?;
        let lag = ends.iter().map(|(partition, end)| {
            let oldest = oldest.get(partition).copied().unwrap_or(0);
            let next = committed.get(partition).map_or(oldest, |committed| oldest.max(*committed));
            u64::try_from(end - next).unwrap_or(0)
        });
        Ok(lag.sum())
    }

    /// The first retained offset and the end offset of each partition.
    pub(crate) fn bounds(&self) -> Result<BTreeMap<Partition, (i64, i64)>, BoxError> {
        let partitions = self.partitions()?;
        let (oldest, ends) = (self.at(&partitions, OLDEST)?, self.at(&partitions, END)?);
        let bounds = ends.into_iter().map(|(partition, end)| {
            let oldest = oldest.get(&partition).copied().unwrap_or(end);
            (partition, (oldest, end))
        });
        Ok(bounds.collect())
    }

    /// The group's committed offset in each partition, and the partition's end offset, which is read afterwards.
    pub(crate) fn progress(&self) -> Result<Vec<(Partition, i64, i64)>, BoxError> {
        let partitions = self.partitions()?;
        let committed = self.committed(&partitions)?;
        let ends = self.at(&partitions, END)?;
        let offsets = |(partition, next)| Some((partition, next, *ends.get(&partition)?));
        Ok(committed.into_iter().filter_map(offsets).collect())
    }

    /// Passes up to `count` records of a partition to `take`, from `from` up to `end`. Returns the next offset to read.
    pub(crate) fn records(
        &self,
        from: RecordLocation,
        end: i64,
        count: usize,
        mut take: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<i64, BoxError> {
        self.consumer.assign(&self.names.list(&BTreeMap::from([(from.partition, from.offset)]))?)?;
        let (mut next, mut left) = (from.offset, count);
        while next < end && left > 0 {
            match self.consumer.poll(self.left()) {
                Some(Ok(record)) => {
                    // Offsets may jump here: retention can delete records meanwhile.
                    next = record.offset() + 1;
                    left -= 1;
                    take(&record);
                }
                Some(Err(error)) if is_unavailable(&error) => {}
                Some(Err(error)) => return Err(error.into()),
                None if !self.left().is_zero() => {}
                // The caller requests the rest with its next call.
                None if next > from.offset => break,
                None => return Err(KafkaError::NoMessageReceived.into()),
            }
        }
        Ok(next)
    }

    /// Moves the group to another start, once it has no active consumers.
    pub(crate) fn seek(&self, to: Start) -> Result<Result<(), GroupActive>, BoxError> {
        let offsets = self.find(to)?;
        loop {
            match self.try_commit(&offsets)? {
                true => return Ok(Ok(())),
                false if self.left() > ACTIVE_PAUSE => thread::sleep(ACTIVE_PAUSE),
                false => return Ok(Err(GroupActive { group: self.group.clone() })),
            }
        }
    }

    /// The event at a location; `None` if it was deleted by retention, or is not written yet.
    pub(crate) fn event(&self, location: RecordLocation) -> Result<Option<Result<Event, UnreadableReason>>, BoxError> {
        let record = self.record_from(location)?.filter(|record| record.offset() == location.offset);
        Ok(record.map(|record| read(location.partition.kind, record.key(), record.payload())))
    }

    /// The start offset of each partition.
    fn find(&self, to: Start) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let partitions = self.partitions()?;
        // Read the end offsets first: records appended during the search lie past them, so they are not skipped.
        let ends = self.at(&partitions, END)?;
        match to {
            Start::Oldest => self.at(&partitions, OLDEST),
            Start::Time(time) => self.at_time(ends, time),
            Start::At(position) => {
                let location = RecordLocation::of(position).filter(|location| ends.contains_key(&location.partition));
                let Some(location) = location else { return Ok(ends) };
                let Some(record) = self.record_from(location)? else { return Ok(ends) };
                // The other partitions start at the same time.
                let mut offsets = self.at_time(ends, timestamp(&record))?;
                offsets.insert(location.partition, record.offset());
                Ok(offsets)
            }
        }
    }

    /// The first record of each partition that is not older than `time`, or the partition's end.
    fn at_time(&self, ends: BTreeMap<Partition, i64>, time: Timestamp) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let partitions: Vec<_> = ends.keys().copied().collect();
        let mut offsets = ends;
        // Brokers omit a partition that has no record this recent, but some return its first record instead. A query
        // for a time in the far future detects such brokers; their results are then verified against the record.
        let names_any = !self.at(&partitions, i64::MAX)?.is_empty();
        for (partition, offset) in self.at(&partitions, i64::try_from(time.as_millis()).unwrap_or(i64::MAX))? {
            if !names_any || self.is_of_time(RecordLocation { partition, offset }, time)? {
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }

    fn is_of_time(&self, location: RecordLocation, time: Timestamp) -> Result<bool, BoxError> {
        Ok(self.record_from(location)?.is_some_and(|record| timestamp(&record) >= time))
    }

    fn partitions(&self) -> Result<Vec<Partition>, BoxError> {
        let mut partitions = vec![];
        for name in self.names.all() {
            let metadata = self.consumer.fetch_metadata(Some(name), self.left())?;
            for topic in metadata.topics().iter().filter(|topic| topic.name() == name) {
                if let Some(error) = topic.error() {
                    return Err(KafkaError::MetadataFetch(error.into()).into());
                }
                let found =
                    topic.partitions().iter().filter_map(|partition| self.names.partition(name, partition.id()));
                partitions.extend(found);
            }
        }
        Ok(partitions)
    }

    /// The first offset of each partition with a record not older than `millis`, in one request. Partitions without
    /// such a record are left out.
    fn at(&self, partitions: &[Partition], millis: i64) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let times = partitions.iter().map(|partition| (*partition, millis)).collect();
        let found = self.consumer.offsets_for_times(self.names.list(&times)?, self.left())?;
        self.offsets(&found)
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let wanted = partitions.iter().map(|partition| (*partition, 0)).collect();
        let found = self.consumer.committed_offsets(self.names.list(&wanted)?, self.left())?;
        self.offsets(&found)
    }

    fn offsets(&self, list: &TopicPartitionList) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let mut offsets = BTreeMap::new();
        for element in list.elements() {
            element.error()?;
            if let Offset::Offset(offset) = element.offset()
                && let Some(partition) = self.names.partition(element.topic(), element.partition())
            {
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }

    /// The record at a location, or the next retained one; `None` past the end.
    fn record_from(&self, location: RecordLocation) -> Result<Option<OwnedMessage>, BoxError> {
        let name = self.names.of(location.partition.kind);
        let (oldest, end) = match self.consumer.fetch_watermarks(name, location.partition.number, self.left()) {
            Err(error) if is_unknown(&error) => return Ok(None),
            watermarks => watermarks?,
        };
        if location.offset >= end {
            return Ok(None);
        }
        let from = BTreeMap::from([(location.partition, location.offset.max(oldest))]);
        self.consumer.assign(&self.names.list(&from)?)?;
        loop {
            match self.consumer.poll(self.left()) {
                Some(record) => return Ok(Some(record?.detach())),
                None if self.left().is_zero() => return Err(KafkaError::NoMessageReceived.into()),
                None => {}
            }
        }
    }

    /// Commits offsets for an inactive group; `false` if the group turns out to have active members.
    fn try_commit(&self, offsets: &BTreeMap<Partition, i64>) -> Result<bool, BoxError> {
        use RDKafkaErrorCode::{IllegalGeneration, RebalanceInProgress, UnknownMemberId};
        match self.consumer.commit(&self.names.list(offsets)?, CommitMode::Sync) {
            Ok(()) => Ok(true),
            Err(KafkaError::ConsumerCommit(IllegalGeneration | RebalanceInProgress | UnknownMemberId)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The timestamp of a record; 0 if the record has none.
fn timestamp(record: &OwnedMessage) -> Timestamp {
    let millis = record.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    Timestamp::from_millis(millis.unwrap_or(0))
}

/// Whether a topic or partition does not exist.
fn is_unknown(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(error.rdkafka_error_code(), Some(UnknownPartition | UnknownTopic | UnknownTopicOrPartition))
}
