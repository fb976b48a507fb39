//! The event log of a fleet: implements the log ports on Kafka topics.
//!
//! Records are keyed by chat, so the events of a chat are in one partition of each topic, in order. [`KafkaProducer`]
//! keeps that order across failures: of two events of a chat and a kind, the earlier one enters the log first.
//! [`KafkaLog`] reads the topics in consumer groups. All events of a chat go to one member, and every member gets a
//! share of every topic. A crash repeats records and skips none. A record that cannot be read is skipped, and processes
//! with write access bury it.
//!
//! Works with Kafka 3 and compatible brokers. An ACL user that publishes needs `Write`, `Describe` and
//! `IdempotentWrite`. An ACL user that consumes needs `Read` and `Describe`, on the topics and on the groups
//! `tidings.*`. The number of partitions of a topic is permanent: another number would move chats to other partitions
//! and lose their order.
//!
//! Reading order: [`topics`] defines the topics and `record` the record format. `publisher` and `producer` write.
//! `reader`, `buffer` and `consumer` read, and `offsets` queries and moves groups from outside; `audit` exposes every
//! record to audits.
#![warn(missing_docs)]

mod audit;
mod buffer;
mod burial;
mod client;
mod config;
mod consumer;
mod location;
mod log;
mod names;
mod offsets;
mod producer;
mod publisher;
mod reader;
mod record;
pub mod topics;

pub use audit::KafkaAudit;
pub use client::KafkaOpenError;
pub use config::{Config, Security};
pub use log::KafkaLog;
pub use ports::EngineHealth;
pub use producer::KafkaProducer;
