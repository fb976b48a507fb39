use std::collections::BTreeMap;

use domain::EventKind;
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::config::Config;
use crate::location::Partition;
use crate::topics::Topic;

const KINDS: [EventKind; 3] = [EventKind::Message, EventKind::Member, EventKind::Chat];

/// Maps event kinds to topic names, and back.
#[derive(Clone)]
pub(crate) struct TopicNames([String; 3]);

impl TopicNames {
    pub(crate) fn new(config: &Config) -> Self {
        Self(KINDS.map(|kind| config.topic(Topic::of(kind))))
    }

    pub(crate) fn all(&self) -> [&str; 3] {
        self.0.each_ref().map(|name| &**name)
    }

    pub(crate) fn of(&self, kind: EventKind) -> &str {
        let [messages, members, chats] = self.all();
        match kind {
            EventKind::Message => messages,
            EventKind::Member => members,
            EventKind::Chat => chats,
        }
    }

    /// The partition of an event topic; `None` for any other topic.
    pub(crate) fn partition(&self, name: &str, number: i32) -> Option<Partition> {
        let kind = KINDS.into_iter().find(|kind| self.of(*kind) == name)?;
        Some(Partition { kind, number })
    }

    /// The partitions of the list that belong to event topics.
    pub(crate) fn partitions(&self, list: &TopicPartitionList) -> Vec<Partition> {
        let elements = list.elements();
        elements.iter().filter_map(|element| self.partition(element.topic(), element.partition())).collect()
    }

    /// Converts offsets, or timestamps, per partition to the library's list.
    pub(crate) fn list(&self, offsets: &BTreeMap<Partition, i64>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (partition, offset) in offsets {
            list.add_partition_offset(self.of(partition.kind), partition.number, Offset::from_raw(*offset))?;
        }
        Ok(list)
    }
}
