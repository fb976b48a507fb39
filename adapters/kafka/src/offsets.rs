use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use domain::{Event, Timestamp};
use ports::{BoxError, Start};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, OwnedMessage};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::client::{CALL_TIMEOUT, Monitor, OpenError, group_settings, is_away};
use crate::config::Config;
use crate::names::Names;
use crate::place::{Partition, Place};
use crate::record::{Unreadable, read};

/// How often a group that is to be moved is looked at until nobody consumes as it.
const ACTIVE_PAUSE: Duration = Duration::from_millis(200);
/// What the brokers take in the place of a time for the first offset that is kept, and the one behind the last.
const OLDEST: i64 = -2;
const END: i64 = -1;

/// A group that cannot be moved, because somebody consumes as it.
#[derive(Debug, thiserror::Error)]
#[error("somebody consumes as group `{group}`; stop its consumers, then move it")]
pub struct GroupActive {
    group: String,
}

/// Asks the brokers about the topics and the place of one group, and moves it. It never joins the group. Every call
/// blocks, all of them together no longer than a call may.
pub(crate) struct Offsets {
    consumer: BaseConsumer<Monitor>,
    group: String,
    names: Names,
    deadline: Instant,
}

impl ConsumerContext for Monitor {}

impl Offsets {
    pub(crate) fn open(config: &Config, group: &str, monitor: Monitor) -> Result<Self, OpenError> {
        let consumer = BaseConsumer::from_config_and_context(&group_settings(config, group)?, monitor)?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        Ok(Self { consumer, group: config.group(group), names: Names::new(config), deadline })
    }

    /// Places of the log that the group has not committed.
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

    /// The first offset that each partition keeps, and the one behind its last.
    pub(crate) fn bounds(&self) -> Result<BTreeMap<Partition, (i64, i64)>, BoxError> {
        let partitions = self.partitions()?;
        let (oldest, ends) = (self.at(&partitions, OLDEST)?, self.at(&partitions, END)?);
        let bounds = ends.into_iter().map(|(partition, end)| {
            let oldest = oldest.get(&partition).copied().unwrap_or(end);
            (partition, (oldest, end))
        });
        Ok(bounds.collect())
    }

    /// Where the group is in each partition that it has committed, and the end of that, read behind it.
    pub(crate) fn places(&self) -> Result<Vec<(Partition, i64, i64)>, BoxError> {
        let partitions = self.partitions()?;
        let committed = self.committed(&partitions)?;
        let ends = self.at(&partitions, END)?;
        let place = |(partition, next)| Some((partition, next, *ends.get(&partition)?));
        Ok(committed.into_iter().filter_map(place).collect())
    }

    /// Hands up to `count` records of a partition to `take`, from a place to an end that it has. Says where to go on.
    pub(crate) fn records(
        &self,
        from: Place,
        end: i64,
        count: usize,
        mut take: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<i64, BoxError> {
        self.consumer.assign(&self.names.list(&BTreeMap::from([(from.partition, from.offset)]))?)?;
        let (mut next, mut left) = (from.offset, count);
        while next < end && left > 0 {
            match self.consumer.poll(self.left()) {
                Some(Ok(record)) => {
                    // What was trimmed meanwhile is passed over.
                    next = record.offset() + 1;
                    left -= 1;
                    take(&record);
                }
                Some(Err(error)) if is_away(&error) => {}
                Some(Err(error)) => return Err(error.into()),
                None if !self.left().is_zero() => {}
                // The rest is asked for again.
                None if next > from.offset => break,
                None => return Err(KafkaError::NoMessageReceived.into()),
            }
        }
        Ok(next)
    }

    /// Has the group begin elsewhere, once nobody consumes as it.
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

    /// The event at a place; `None` if it is not kept any more, or not there yet.
    pub(crate) fn event(&self, place: Place) -> Result<Option<Result<Event, Unreadable>>, BoxError> {
        let record = self.record_from(place)?.filter(|record| record.offset() == place.offset);
        Ok(record.map(|record| read(place.partition.kind, record.key(), record.payload())))
    }

    /// Where each partition is to begin.
    fn find(&self, to: Start) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let partitions = self.partitions()?;
        // They are asked for first: what is written while we look is behind them, and so is not skipped.
        let ends = self.at(&partitions, END)?;
        match to {
            Start::Oldest => self.at(&partitions, OLDEST),
            Start::Time(time) => self.at_time(ends, time),
            Start::At(position) => {
                let place = Place::of(position).filter(|place| ends.contains_key(&place.partition));
                let Some(place) = place else { return Ok(ends) };
                let Some(record) = self.record_from(place)? else { return Ok(ends) };
                // The others begin at the same time.
                let mut offsets = self.at_time(ends, timestamp(&record))?;
                offsets.insert(place.partition, record.offset());
                Ok(offsets)
            }
        }
    }

    /// The first record of each partition that is not older than a time, or its end.
    fn at_time(&self, ends: BTreeMap<Partition, i64>, time: Timestamp) -> Result<BTreeMap<Partition, i64>, BoxError> {
        let partitions: Vec<_> = ends.keys().copied().collect();
        let mut offsets = ends;
        // Where no record is so young, there is nothing to answer. Some brokers name the first record then, which is seen
        // by asking for a time that no record has; what they say is looked at.
        let names_any = !self.at(&partitions, i64::MAX)?.is_empty();
        for (partition, offset) in self.at(&partitions, i64::try_from(time.as_millis()).unwrap_or(i64::MAX))? {
            if !names_any || self.is_of_time(Place { partition, offset }, time)? {
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }

    fn is_of_time(&self, place: Place, time: Timestamp) -> Result<bool, BoxError> {
        Ok(self.record_from(place)?.is_some_and(|record| timestamp(&record) >= time))
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

    /// The first offset of each partition whose record is not older than `millis`, in one round; those that have none
    /// are left out.
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

    /// The record at a place, or the next that is kept; `None` behind the end.
    fn record_from(&self, place: Place) -> Result<Option<OwnedMessage>, BoxError> {
        let name = self.names.of(place.partition.kind);
        let (oldest, end) = match self.consumer.fetch_watermarks(name, place.partition.number, self.left()) {
            Err(error) if is_unknown(&error) => return Ok(None),
            watermarks => watermarks?,
        };
        if place.offset >= end {
            return Ok(None);
        }
        let from = BTreeMap::from([(place.partition, place.offset.max(oldest))]);
        self.consumer.assign(&self.names.list(&from)?)?;
        loop {
            match self.consumer.poll(self.left()) {
                Some(record) => return Ok(Some(record?.detach())),
                None if self.left().is_zero() => return Err(KafkaError::NoMessageReceived.into()),
                None => {}
            }
        }
    }

    /// Commits for a group that nobody consumes as; `false` if somebody does after all.
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

/// The time of a record. One that has none is as old as any.
fn timestamp(record: &OwnedMessage) -> Timestamp {
    let millis = record.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    Timestamp::from_millis(millis.unwrap_or(0))
}

/// Whether a topic or partition is not there.
fn is_unknown(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(error.rdkafka_error_code(), Some(UnknownPartition | UnknownTopic | UnknownTopicOrPartition))
}
