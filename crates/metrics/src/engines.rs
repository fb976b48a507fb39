use crate::metric::{BATCH, DELAY, LATENCY, Metric, Part, WORK, counter, gauge, histogram, label};

pub(crate) const METRICS: &[Metric] = &[
    counter("tidings_store_purged_messages_total", Part::Purge, "Expired messages whose rows were deleted."),
    // The store of one machine.
    counter("tidings_store_commits_total", Part::Store, "Commits, each with one fsync."),
    histogram("tidings_store_commit_seconds", Part::Store, LATENCY, "How long a commit took, its fsync included."),
    counter(
        "tidings_store_commit_errors_total",
        Part::Store,
        "Commits that failed; the store then reopens its engine.",
    ),
    histogram("tidings_store_commit_batch_messages", Part::Store, BATCH, "Events of one commit."),
    histogram(
        "tidings_store_stall_seconds",
        Part::Store,
        LATENCY,
        "How long a commit waited for the engine's workers, if it did.",
    ),
    gauge("tidings_store_queue_jobs", Part::Store, "Transactions that wait for the committer."),
    gauge("tidings_store_rows", Part::Store, "Rows of all tables, roughly."),
    gauge("tidings_store_disk_bytes", Part::Store, "Bytes that the files of all tables take."),
    gauge("tidings_store_free_bytes", Part::Store, "Bytes that the disk has left."),
    gauge("tidings_store_log_events", Part::Store, "Events that the log keeps."),
    gauge(
        "tidings_store_log_age_seconds",
        Part::Store,
        "Age of the oldest event that is kept; past 7 days it is trimmed.",
    ),
    counter("tidings_store_purged_bytes_total", Part::Store, "Bytes of expired messages that were deleted."),
    histogram("tidings_store_compaction_seconds", Part::Store, WORK, "How long it took to give purged space back."),
    // What a fleet brings into the log.
    gauge("tidings_relay_overdue_chats", Part::Relay, "Chats with something that should be in the log by now."),
    histogram(
        "tidings_relay_delay_seconds",
        Part::Relay,
        DELAY,
        "From the commit of an event to its place in the log.",
    ),
    counter("tidings_relay_published_total", Part::Relay, "Events that a relay has brought into the log."),
    counter("tidings_relay_failures_total", Part::Relay, "Times that a relay could not publish, or not note it."),
    counter("tidings_outbox_dropped_total", Part::Relay, "Commits that a sweep will find, because the queue was full."),
    counter("tidings_outbox_unreadable_total", Part::Relay, "Rows that wait for the log and cannot be read.")
        .by(&[label("table", TABLES)]),
    // The store of a fleet.
    histogram(
        "tidings_dynamodb_request_seconds",
        Part::Dynamodb,
        LATENCY,
        "How long a request took, with all its tries.",
    )
    .by(&[label("operation", OPERATIONS)]),
    counter("tidings_dynamodb_tries_total", Part::Dynamodb, "Requests that were sent, repeated ones too."),
    counter("tidings_dynamodb_throttles_total", Part::Dynamodb, "Requests refused for want of capacity."),
    counter(
        "tidings_dynamodb_conflicts_total",
        Part::Dynamodb,
        "Transactions that met another one, and were repeated.",
    ),
    counter("tidings_dynamodb_consumed_units_total", Part::Dynamodb, "Capacity units that were charged.").by(&[
        label("operation", OPERATIONS),
        label("table", TABLES),
        label("kind", &["read", "write"]),
    ]),
    // The log of a fleet.
    histogram(
        "tidings_kafka_publish_seconds",
        Part::Kafka,
        LATENCY,
        "How long the brokers took for a batch of events.",
    ),
    counter("tidings_kafka_published_total", Part::Kafka, "Events that the brokers took."),
    counter(
        "tidings_kafka_publish_failures_total",
        Part::Kafka,
        "Events that they did not, or of which it is unknown.",
    ),
    counter("tidings_kafka_unreadable_total", Part::Kafka, "Records that cannot be read and were buried."),
    // What a fleet shares.
    gauge("tidings_redis_available", Part::Redis, "1 if Redis answers."),
    gauge(
        "tidings_redis_used_memory_ratio",
        Part::Redis,
        "Part of its memory that the fullest server uses; absent without a bound.",
    ),
    counter("tidings_redis_keyspace_hits_total", Part::Redis, "Keys that were there."),
    counter("tidings_redis_keyspace_misses_total", Part::Redis, "Keys that were not."),
    counter("tidings_redis_expired_keys_total", Part::Redis, "Keys that went in their time."),
    counter("tidings_redis_evicted_keys_total", Part::Redis, "Keys that went before their time, for want of memory."),
    gauge("tidings_redis_connected_clients", Part::Redis, "Connections that Redis has."),
    gauge("tidings_redis_pubsub_channels", Part::Redis, "Channels that somebody listens to."),
    gauge("tidings_redis_pubsub_patterns", Part::Redis, "Patterns that somebody listens to; we use none."),
    counter("tidings_routing_lookups_total", Part::Redis, "Questions where somebody is connected.")
        .by(&[label("outcome", &["ok", "error"])]),
    counter("tidings_fanout_fallback_total", Part::Rpc, "Pushes that went directly to gateways while Redis was away."),
    // Calls between processes.
    counter("tidings_rpc_calls_total", Part::Rpc, "Calls to other processes.")
        .by(&[label("method", METHODS), label("outcome", &["answered", "failed"])]),
    histogram("tidings_rpc_call_seconds", Part::Rpc, LATENCY, "How long a call took.").by(&[label("method", METHODS)]),
    gauge("tidings_rpc_breakers_open", Part::Rpc, "Processes that are not called for a while because calls failed."),
    counter("tidings_rpc_strangers_total", Part::Rpc, "Calls without the secret of the fleet."),
    counter("tidings_receipts_dropped_total", Part::Rpc, "Receipts that did not reach fanout; the next says it all."),
];

const METHODS: &[&str] =
    &["send", "sync", "advance", "deliver", "revoke", "identify", "redeem", "live", "look", "signal"];

const OPERATIONS: &[&str] =
    &["GetItem", "BatchGetItem", "Query", "Scan", "UpdateItem", "BatchWriteItem", "TransactWriteItems"];

/// The tables of `dynamodb::schema`.
const TABLES: &[&str] = &[
    "users",
    "user_keys",
    "chats",
    "chat_memberships",
    "messages",
    "expirations",
    "chat_counters",
    "idempotency_keys",
    "delivery_state",
    "sessions",
    "direct_chats",
    "one_time_codes",
    "outbox",
    "push_devices",
    "notices",
    "dead_letters",
    "requests",
    "contacts",
    "blocks",
    "reports",
    "deletions",
];
