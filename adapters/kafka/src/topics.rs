//! The topics: the single definition that provisioning, drift checks and commands derive from.
//!
//! All event topics have the same number of partitions, so that a chat has the same partition number in each.

mod live;

use std::time::Duration;

use domain::EventKind;

use protocol::event::{DEAD_LETTERS_TOPIC, topic};

pub use live::{TopicAspect, TopicDrift, TopicError, apply, diff};

use crate::client::RECORD_BYTES_MAX;
use crate::config::Config;

/// Default number of partitions of an event topic; also the largest useful number of consumers per group.
pub const PARTITIONS: u16 = 12;
/// Default number of replicas.
pub const REPLICATION: u16 = 3;
/// Retention time of records.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A Kafka topic of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Messages that were sent, and that expired.
    Messages,
    /// Members who joined, left, or changed role.
    Members,
    /// Chats that were created or changed.
    Chats,
    /// Unreadable records of the other topics, each with its origin.
    DeadLetters,
}

/// Sizing of the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSize {
    /// Partitions of each event topic.
    pub partitions: u16,
    /// Replicas of each partition.
    pub replication: u16,
}

impl Default for TopicSize {
    fn default() -> Self {
        Self { partitions: PARTITIONS, replication: REPLICATION }
    }
}

/// The definition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDefinition {
    /// Its name, with the prefix.
    pub name: String,
    /// Number of partitions. It is permanent: another number would move chats to other partitions and lose their order.
    pub partitions: u16,
    /// Replicas of each partition.
    pub replication: u16,
    /// Its settings, by Kafka's names for them.
    pub settings: Vec<(&'static str, String)>,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Members, Self::Chats, Self::DeadLetters];

    /// The topic for a kind of event.
    pub fn of(kind: EventKind) -> Self {
        match kind {
            EventKind::Message => Self::Messages,
            EventKind::Member => Self::Members,
            EventKind::Chat => Self::Chats,
        }
    }

    /// The topic name without the prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => topic(EventKind::Message),
            Self::Members => topic(EventKind::Member),
            Self::Chats => topic(EventKind::Chat),
            Self::DeadLetters => DEAD_LETTERS_TOPIC,
        }
    }

    /// The definition of the topic.
    pub fn definition(self, config: &Config, size: TopicSize) -> TopicDefinition {
        let settings = vec![
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", RETENTION.as_millis().to_string()),
            // With one replica unavailable, writes continue; with two unavailable, writes stop, and no acknowledged
            // record is lost.
            ("min.insync.replicas", size.replication.saturating_sub(1).max(1).to_string()),
            // Leaves room for the key, the headers and Kafka's overhead.
            ("max.message.bytes", (RECORD_BYTES_MAX + RECORD_BYTES_MAX / 16).to_string()),
            // Seeking by time refers to event times, not to publish times.
            ("message.timestamp.type", "CreateTime".to_owned()),
        ];
        // Dead letters need no throughput.
        let partitions = if self == Self::DeadLetters { 1 } else { size.partitions };
        TopicDefinition { name: config.topic(self), partitions, replication: size.replication, settings }
    }
}

/// Shell commands with which an operator can create the topics by hand.
pub fn commands(config: &Config, size: TopicSize) -> String {
    let brokers = config.brokers.join(",");
    let command = |topic: Topic| {
        let TopicDefinition { name, partitions, replication, settings } = topic.definition(config, size);
        let create = format!("kafka-topics.sh --bootstrap-server {brokers} --create --if-not-exists");
        let topic = format!("--topic {name} --partitions {partitions} --replication-factor {replication}");
        let settings = settings.into_iter().map(|(key, value)| format!(" \\\n    --config {key}={value}"));
        format!("{create} {topic}{}\n", settings.collect::<String>())
    };
    Topic::ALL.map(command).concat()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_operator_can_make_the_topics_by_hand() {
        let config = Config { topic_prefix: "blue.".to_owned(), ..Config::new(vec!["kafka:9092".to_owned()]) };
        expect![[r#"
            kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic blue.messages.persisted --partitions 12 --replication-factor 3 \
                --config cleanup.policy=delete \
                --config retention.ms=604800000 \
                --config min.insync.replicas=2 \
                --config max.message.bytes=1114112 \
                --config message.timestamp.type=CreateTime
            kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic blue.memberships.changed --partitions 12 --replication-factor 3 \
                --config cleanup.policy=delete \
                --config retention.ms=604800000 \
                --config min.insync.replicas=2 \
                --config max.message.bytes=1114112 \
                --config message.timestamp.type=CreateTime
            kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic blue.chats.created --partitions 12 --replication-factor 3 \
                --config cleanup.policy=delete \
                --config retention.ms=604800000 \
                --config min.insync.replicas=2 \
                --config max.message.bytes=1114112 \
                --config message.timestamp.type=CreateTime
            kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic blue.dead_letters --partitions 1 --replication-factor 3 \
                --config cleanup.policy=delete \
                --config retention.ms=604800000 \
                --config min.insync.replicas=2 \
                --config max.message.bytes=1114112 \
                --config message.timestamp.type=CreateTime
        "#]].assert_eq(&commands(&config, TopicSize::default()));
    }

    #[test]
    fn a_record_survives_the_loss_of_a_copy_where_there_are_three() {
        let config = Config::new(vec![]);
        for (replication, in_sync) in [(1, "1"), (2, "1"), (3, "2"), (5, "4")] {
            let definition = Topic::Messages.definition(&config, TopicSize { replication, ..TopicSize::default() });
            assert!(definition.settings.contains(&("min.insync.replicas", in_sync.to_owned())), "{definition:?}");
        }
    }
}
