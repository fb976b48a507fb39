//! The topics: the one definition that everything else about them is made from.
//!
//! The topics of events have the same number of partitions, so that a chat has the same number in each.

mod live;

use std::time::Duration;

use domain::EventKind;

pub use live::{Aspect, Drift, TopicError, apply, diff};

use crate::client::RECORD_BYTES_MAX;
use crate::config::Config;

/// Partitions of a topic of events, where nobody says otherwise: as many consumers of a group can share it.
pub const PARTITIONS: u16 = 12;
/// Copies of each record, where nobody says otherwise.
pub const REPLICATION: u16 = 3;
/// How long records are kept.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A topic of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Messages that were sent, and that expired.
    Messages,
    /// Members who came, went, or got another role.
    Members,
    /// Chats that were opened or changed.
    Chats,
    /// Records of the others that cannot be read, each with where it came from.
    DeadLetters,
}

/// How large a cluster the topics are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Partitions of each topic of events.
    pub partitions: u16,
    /// Copies of each record.
    pub replication: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { partitions: PARTITIONS, replication: REPLICATION }
    }
}

/// What a topic is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name, with the prefix.
    pub name: String,
    /// How many partitions it has. It never changes: the chats would change places, and their order be lost.
    pub partitions: u16,
    /// Copies of each record.
    pub replication: u16,
    /// Its settings, by Kafka's names for them.
    pub settings: Vec<(&'static str, String)>,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Members, Self::Chats, Self::DeadLetters];

    /// The topic of a kind of event.
    pub fn of(kind: EventKind) -> Self {
        match kind {
            EventKind::Message => Self::Messages,
            EventKind::Member => Self::Members,
            EventKind::Chat => Self::Chats,
        }
    }

    /// Its name without the prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages.persisted",
            Self::Members => "memberships.changed",
            Self::Chats => "chats.created",
            Self::DeadLetters => "dead_letters",
        }
    }

    /// What the topic is made of.
    pub fn definition(self, config: &Config, size: Size) -> Definition {
        let settings = vec![
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", RETENTION.as_millis().to_string()),
            // One copy may be away and writing goes on; with two away it stops, and nothing that was written is lost.
            ("min.insync.replicas", size.replication.saturating_sub(1).max(1).to_string()),
            // With room for the key, the headers and what Kafka adds.
            ("max.message.bytes", (RECORD_BYTES_MAX + RECORD_BYTES_MAX / 16).to_string()),
            // Groups are sent to the times of events, not to those of their publishing.
            ("message.timestamp.type", "CreateTime".to_owned()),
        ];
        // Nobody reads dead letters in a hurry.
        let partitions = if self == Self::DeadLetters { 1 } else { size.partitions };
        Definition { name: config.topic(self), partitions, replication: size.replication, settings }
    }
}

/// What an operator runs to make the topics by hand.
pub fn commands(config: &Config, size: Size) -> String {
    let brokers = config.brokers.join(",");
    let command = |topic: Topic| {
        let Definition { name, partitions, replication, settings } = topic.definition(config, size);
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
        "#]].assert_eq(&commands(&config, Size::default()));
    }

    #[test]
    fn a_record_survives_the_loss_of_a_copy_where_there_are_three() {
        let config = Config::new(vec![]);
        for (replication, in_sync) in [(1, "1"), (2, "1"), (3, "2"), (5, "4")] {
            let definition = Topic::Messages.definition(&config, Size { replication, ..Size::default() });
            assert!(definition.settings.contains(&("min.insync.replicas", in_sync.to_owned())), "{definition:?}");
        }
    }
}
