use std::collections::BTreeMap;

use domain::EventKind;
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::config::Config;
use crate::place::Partition;
use crate::topics::Topic;

const KINDS: [EventKind; 3] = [EventKind::Message, EventKind::Member, EventKind::Chat];

/// The names of the topics of events, both ways.
#[derive(Clone)]
pub(crate) struct Names([String; 3]);

impl Names {
    pub(crate) fn new(config: &Config) -> Self {
        Self(KINDS.map(|kind| config.topic(Topic::of(kind))))
    }

    /// All of them.
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

    /// The partition with a number of a topic; `None` if the topic is not ours.
    pub(crate) fn partition(&self, name: &str, number: i32) -> Option<Partition> {
        let kind = KINDS.into_iter().find(|kind| self.of(*kind) == name)?;
        Some(Partition { kind, number })
    }

    /// Those of a list that are ours.
    pub(crate) fn partitions(&self, list: &TopicPartitionList) -> Vec<Partition> {
        let elements = list.elements();
        elements.iter().filter_map(|element| self.partition(element.topic(), element.partition())).collect()
    }

    /// Offsets of partitions, or times, as the library wants them.
    pub(crate) fn list(&self, offsets: &BTreeMap<Partition, i64>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (partition, offset) in offsets {
            list.add_partition_offset(self.of(partition.kind), partition.number, Offset::from_raw(*offset))?;
        }
        Ok(list)
    }
}
