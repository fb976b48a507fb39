//! The event log of a fleet: topics of Kafka behind our ports.
//!
//! A chat is the key of its records, so its events are in one partition of each topic, in order. [`KafkaProducer`] gets
//! them there: of two events of a chat and a kind, the earlier one is in the log first, whatever fails in between.
//! [`KafkaLog`] reads them in groups that share the partitions: a chat's events of all kinds are with one member, and
//! every member has its share of all topics. A crash repeats records and skips none. A record that
//! cannot be read is passed over, and buried by those who may write.
//!
//! Kafka 3 and what speaks its protocol. A user of the ACL that publishes needs `Write`, `Describe` and
//! `IdempotentWrite`; one that consumes needs `Read` and `Describe`, on the topics and on the groups `tidings.*`. How
//! many partitions a topic has is decided once: with another number the chats would change places, and their order be
//! lost.
//!
//! Reading order: [`topics`] says what is in Kafka and `record` how it is written. `publisher` and `producer` are the
//! way in. `reader`, `buffer` and `consumer` are the way out, and `offsets` answers for groups from outside; `audit`
//! shows every record to whoever checks them.
#![warn(missing_docs)]

mod audit;
mod buffer;
mod burial;
mod client;
mod config;
mod consumer;
mod log;
mod names;
mod offsets;
mod place;
mod producer;
mod publisher;
mod reader;
mod record;
pub mod topics;

pub use audit::KafkaAudit;
pub use client::OpenError;
pub use config::{Config, Password, Security};
pub use log::KafkaLog;
pub use offsets::GroupActive;
pub use ports::Health;
pub use producer::KafkaProducer;
