//! The cost table: each figure with its source and how it was obtained.
//!
//! The estimates of the original design use other figures, which are in [`founding`](super::founding). Measured figures
//! replace them; figures without a measurement are marked as assumed.

use serde::Serialize;

/// One input figure of the estimate.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) basis: Basis,
    /// The test, load run or document that the figure comes from.
    pub(super) source: &'static str,
}

/// How a figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Basis {
    /// By a repeatable test or load run.
    Measured,
    /// By counting the requests that the code makes, under the provider's billing rules.
    Counted,
    /// A limit or a rule from third-party documentation.
    Published,
    /// Not measured: a conservative guess.
    Assumed,
}

impl Basis {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Counted => "counted",
            Self::Published => "published",
            Self::Assumed => "assumed",
        }
    }
}

macro_rules! costs {
    ($($constant:ident = $value:expr, $unit:literal, $basis:ident, $name:literal, $source:literal;)*) => {
        $(pub(super) const $constant: f64 = $value;)*

        /// All figures, in the order of the stages that a message passes.
        pub(super) const ALL: &[Cost] = &[
            $(Cost { name: $name, value: $value, unit: $unit, basis: Basis::$basis, source: $source },)*
        ];
    };
}

costs! {
    // DynamoDB.
    COMMIT_COUNTER = 2.0, "write units", Measured, "the counter of a chat, for each commit",
        "a_commit_is_one_request_with_the_planned_cost";
    COMMIT_MEMBER = 2.0, "write units", Measured, "the membership of a sender, for each commit",
        "a_commit_is_one_request_with_the_planned_cost";
    MESSAGE_ROW = 2.0, "write units", Measured, "the row of a message, for each KiB of it",
        "a_commit_is_one_request_with_the_planned_cost";
    MESSAGE_LOCATION = 2.0, "write units", Measured, "the location of a message, by its id",
        "a_commit_is_one_request_with_the_planned_cost";
    MESSAGE_INDEX = 1.0, "write units", Measured, "message_id-index, for each message",
        "a_commit_is_one_request_with_the_planned_cost";
    MESSAGE_KEY = 2.0, "write units", Measured, "the send key of a message",
        "a_commit_is_one_request_with_the_planned_cost";
    UPDATE_ROW = 2.0, "write units", Measured, "the entry of an update", "updates_cost_the_planned_units";
    REACTION_ROW = 2.0, "write units", Measured, "the reactions of a member on a message",
        "updates_cost_the_planned_units";
    REACTED_EXPIRATION = 2.0, "write units", Measured, "the expiration of a message, with its first reaction",
        "updates_cost_the_planned_units";
    UPDATE_READ = 1.0, "read units", Measured, "each of counter, membership and reactions, before an update",
        "updates_cost_the_planned_units";
    PUBLISHED_MARK = 1.0, "write units", Measured, "marking a chat as published",
        "docs/performance.md, What a fleet costs";
    DIRTY_INDEX = 2.0, "write units", Counted, "dirty-index: adding and removing the entry of a chat",
        "adapters/dynamodb/src/outbox.rs";
    WATERMARK_WRITE = 2.0, "write units", Counted, "moving a watermark", "adapters/dynamodb/src/watermarks.rs";
    WATERMARK_READ = 2.0, "read units", Counted, "a watermark, and the head sequence that bounds it",
        "adapters/dynamodb/src/watermarks.rs";
    NOTICE_ROW = 6.0, "write units", Counted, "a notice: added, claimed and settled",
        "adapters/dynamodb/src/notices.rs";
    NOTICE_INDEX = 4.0, "write units", Counted, "due-index: an entry added, postponed and removed",
        "adapters/dynamodb/src/notices.rs";
    SESSION_READ = 2.0, "read units", Counted, "a new connection", "docs/performance.md, What a fleet costs";
    SESSION_WRITE = 2.0, "write units", Counted, "a token refresh, once an hour for each connection",
        "adapters/dynamodb/src/sessions.rs";
    LAST_SEEN_WRITE = 1.0, "write units", Counted, "a presence change", "docs/adr/007-presence-and-routes.md";
    PRESENCE_READ = 5.0, "read units", Counted, "a presence change: the user, and who may see it",
        "docs/adr/007-presence-and-routes.md";
    READ_BYTES = 4096.0, "bytes", Published, "a read unit, of a strong read", "DynamoDB, read consistency";
    EVENTUAL = 0.5, "of a strong one", Published, "an eventual read", "DynamoDB, read consistency";
    INBOX_ROWS = 20.0, "chats", Counted, "on a page of an inbox", "HISTORY_PAGE_DEFAULT";
    INBOX_PEOPLE = 5.0, "users", Counted, "that a group shows in an inbox, at most", "crates/chats/src/views/chat.rs";
    INBOX_HEADS = 2.0, "read units", Counted, "the head of a chat of a page, for its row and its unread count",
        "crates/chats/src/routes/inbox.rs, adapters/dynamodb/src/messages.rs";
    UNREAD_CHATS = 0.25, "of a page", Assumed, "chats of an inbox with unread messages", "not measured";
    UNREAD_READ = 1.0, "read units", Measured, "the count of a few unread messages of a chat",
        "reads_cost_the_planned_units";
    HISTORY_PAGES = 2.0, "pages", Assumed, "of history, for each connect", "not measured";
    HISTORY_ROWS = 21.0, "messages", Counted, "read for a page of history", "HISTORY_PAGE_DEFAULT, and one more";
    ID_LOOKUPS = 1.0, "lookups", Assumed, "of a message by its id, for an active user in a day", "not measured";
    LOCATION_READ = 1.0, "read units", Measured, "the location of a message, by its id",
        "reads_cost_the_planned_units";
    MESSAGE_READ = 1.0, "read units", Measured, "a message at its location", "reads_cost_the_planned_units";
    DEVICES_READ = 1.0, "read units", Measured, "the devices of a user", "reads_cost_the_planned_units";
    NOTICE_ROWS = 10.0, "messages", Counted, "read for the text of a notice", "crates/notify/src/notice_delivery.rs";
    NOTICE_HEADS = 2.0, "read units", Counted, "the head of a chat, for the text and the unread count of a notice",
        "crates/notify/src/notice_delivery.rs";
    EXPIRATION_WRITE = 4.0, "write units", Counted, "an expiration, written and deleted",
        "adapters/dynamodb/src/expiry.rs";
    PURGE_EVENT = 6.0, "write units", Counted, "the event of a purge and its entry in age-index, in and out",
        "adapters/dynamodb/src/outbox.rs";
    PURGE_SECONDS = 5.0, "seconds", Counted, "between two purges of a process", "adapters/dynamodb/src/expiry.rs";
    PURGE_SHARDS = 16.0, "partitions", Counted, "of the expirations", "adapters/dynamodb/src/expiry.rs";
    FEED_READ = 1.0, "read units", Counted, "the feed of restrictions, by each process in a second",
        "adapters/dynamodb/src/restrictions.rs";
    RETENTION_READ = 1.0, "read units", Counted, "the head or the oldest message of a chat, in a pass of the retention",
        "crates/chats/src/retention.rs";
    MEMBER_MISSES = 0.1, "of all", Assumed, "messages whose members are not in the cache", "not measured";
    MESSAGE_BYTES = 297.0, "bytes", Counted, "a message in DynamoDB beside its content, names of attributes included",
        "adapters/dynamodb/src/messages.rs";
    SEND_KEY_BYTES = 252.0, "bytes", Counted, "a send key in DynamoDB, for 7 days", "adapters/dynamodb/src/commit.rs";
    UPDATE_BYTES = 230.0, "bytes", Counted, "an update in DynamoDB", "adapters/dynamodb/src/updates.rs";
    REACTION_BYTES = 160.0, "bytes", Counted, "the reactions of a member in DynamoDB",
        "adapters/dynamodb/src/updates.rs";
    LOCATION_BYTES = 90.0, "bytes", Counted, "a message location in DynamoDB", "adapters/dynamodb/src/locations.rs";
    ITEM_BYTES = 100.0, "bytes", Published, "DynamoDB's own part of each item", "DynamoDB, item sizes";
    MEMBERSHIP_BYTES = 400.0, "bytes", Counted, "a membership and its watermarks, in two tables",
        "adapters/dynamodb/src/chats.rs";
    USER_BYTES = 1500.0, "bytes", Counted, "a user with keys, sessions and devices", "adapters/dynamodb/src/users.rs";
    PARTITION_WRITES = 1000.0, "write units/s", Published, "one partition of DynamoDB", "ADR-004 §A";
    TABLE_UNITS = 40_000.0, "units/s", Published, "one table, with the default quota", "DynamoDB, quotas";
    DIRTY_SHARDS = 16.0, "partitions", Counted, "of dirty-index", "adapters/dynamodb/src/outbox.rs";
    OUTBOX_SHARDS = 16.0, "partitions", Counted, "of age-index", "adapters/dynamodb/src/outbox/item.rs";
    DUE_SHARDS = 8.0, "partitions", Counted, "of due-index", "adapters/dynamodb/src/notices.rs";
    // Kafka.
    RECORD_BYTES = 673.0, "bytes", Measured, "a message in Kafka beside its content: key, envelope and headers",
        "the_size_of_a_log_record_matches_the_cost_table";
    LOG_GROUPS = 3.0, "groups", Counted, "that read every message: fanout, notifications, webhook",
        "crates/server/src/compose/fleet.rs";
    LOG_DAYS = 7.0, "days", Counted, "that Kafka keeps events", "adapters/kafka/src/topics.rs";
    LOG_COPIES = 3.0, "copies", Counted, "of each event in Kafka", "adapters/kafka/src/topics.rs";
    LOG_PARTITIONS = 12.0, "partitions", Counted, "of a topic, unless kafka.partitions says otherwise",
        "adapters/kafka/src/topics.rs";
    PARTITION_EVENTS = 2000.0, "events/s", Assumed, "that one reader of a partition fans out", "not measured";
    BROKER_BYTES = 30e6, "bytes/s", Assumed, "that one broker accepts, copies included", "not measured";
    // Redis.
    ROUTE_BYTES = 1032.0, "bytes", Measured, "a connection in Redis", "tidings load --workload connections";
    BEAT_COMMANDS = 0.33, "commands", Measured, "a connection, for each heartbeat interval of 5 s",
        "tidings load --workload connections";
    CONNECT_COMMANDS = 32.7, "commands", Measured, "a new connection, with the announcement of its user",
        "tidings load --workload connections";
    SEND_COMMANDS = 7.0, "commands", Counted, "limits, members and routes of one message",
        "crates/fanout/src/fanout.rs, adapters/redis/src/limits.rs";
    BEAT_SECONDS = 5.0, "seconds", Counted, "between two heartbeats", "docs/tidings.example.toml";
    SHARD_COMMANDS = 80_000.0, "commands/s", Assumed, "that one node of Redis answers", "not measured";
    // Processes.
    CONNECTION_BYTES = 8.1 * 1024.0, "bytes", Measured, "an idle connection of a gateway",
        "tidings load --workload idle";
    GATEWAY_CONNECTIONS = 50_000.0, "connections", Assumed, "planned for one gateway, half of its bound",
        "docs/tidings.example.toml";
    PUSH_SECONDS = 2.2e-6, "core-s", Measured, "a push", "tidings load --workload group";
    HANDSHAKE_SECONDS = 150e-6, "core-s", Measured, "a new connection", "tidings load --workload storm";
    SEND_SECONDS = 37e-6, "core-s", Measured, "a message on one machine, from frame to delivery",
        "tidings load --workload pairs-deep";
    COMMIT_SECONDS = 250e-6, "core-s", Assumed, "a commit in DynamoDB: signing and TLS", "not measured";
    EVENT_SECONDS = 50e-6, "core-s", Assumed, "an event that fanout reads", "not measured";
    PAGE_SECONDS = 292e-6, "core-s", Measured, "a page of history", "tidings load --workload history";
    ANNOUNCED = 1000.0, "users/s", Counted, "that one api process announces", "docs/adr/007-presence-and-routes.md";
    FRAME_BYTES = 330.0, "bytes", Counted, "a push beside its content, with TLS and TCP", "docs/asyncapi.json";
    // One machine.
    STORE_SENDS = 23_244.0, "sends/s", Measured, "that the embedded store sustains",
        "docs/adr/002-the-embedded-store.md, 8 MiB";
    STORED_BYTES = 310.0, "bytes", Counted, "a message on disk beside its content: five rows, before compression",
        "docs/adr/002-the-embedded-store.md";
    MACHINE_CONNECTIONS = 100_000.0, "connections", Counted, "that one process accepts", "gateway.connections_max";
    HEADROOM = 0.5, "of capacity", Assumed, "planned at the peak, of every measured capacity", "a planning rule";
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use domain::{
        Body, ChatId, ClientMessageId, ConnectionId, ContentType, Event, Message, MessageId, MessageState, Sequence,
        Timestamp, UserId,
    };
    use protocol::event::EventEnvelope;

    use super::*;

    /// Bytes that Kafka adds to a record: lengths, timestamps, offsets, and a share of the batch header.
    const OF_KAFKA: usize = 30;

    #[test]
    fn the_size_of_a_log_record_matches_the_cost_table() {
        let content = "x".repeat(100);
        let message = Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(123_456),
            sender_id: UserId::from_bytes([3; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            body: Body::new(content.clone().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(1_700_000_000_123),
            expires_at: None,
            state: MessageState::default(),
        };
        let event = Event::message_persisted(message, Some(ConnectionId::from_bytes([5; 16])));
        let headers = ["event_type", "MessagePersisted", "event_id", &event.event_id.to_string()].concat().len();
        let key = event.body.chat_id().to_string().len();
        let value = EventEnvelope { event: Cow::Owned(event), position: None }.encode().len();
        assert_eq!(key + headers + value + OF_KAFKA - content.len(), RECORD_BYTES as usize);
    }
}
