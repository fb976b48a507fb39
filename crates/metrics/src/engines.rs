use crate::metric::{BATCH, DELAY, LATENCY, Metric, Part, WORK, counter, gauge, histogram, label};

pub(crate) const METRICS: &[Metric] = &[
    counter("tidings_store_purged_messages_total", Part::Purge, "Purged expired messages."),
    counter("tidings_retention_chats_total", Part::Api, "Chats examined for the retention of the service."),
    counter(
        "tidings_retention_messages_total",
        Part::Api,
        "Messages that expire earlier because of the retention of the service.",
    ),
    gauge(
        "tidings_retention_pass_time_seconds",
        Part::Api,
        "Time of the last complete pass of the service's retention over all chats, in seconds since 1970.",
    ),
    // The store of one machine.
    counter("tidings_store_commits_total", Part::Store, "Commits, each with one fsync."),
    histogram("tidings_store_commit_seconds", Part::Store, LATENCY, "Duration of a commit, including its fsync."),
    counter("tidings_store_commit_errors_total", Part::Store, "Failed commits; the store then reopens its engine."),
    histogram("tidings_store_commit_batch_messages", Part::Store, BATCH, "Events in one commit."),
    histogram(
        "tidings_store_stall_seconds",
        Part::Store,
        LATENCY,
        "How long a commit stalled until the engine's background workers caught up; only stalls are recorded.",
    ),
    gauge("tidings_store_queue_jobs", Part::Store, "Transactions queued for the committer."),
    gauge("tidings_store_rows", Part::Store, "Approximate number of rows in all tables."),
    gauge("tidings_store_disk_bytes", Part::Store, "Bytes of the files of all tables."),
    gauge("tidings_store_free_bytes", Part::Store, "Free bytes of the disk."),
    gauge(
        "tidings_store_limit_bytes",
        Part::Store,
        "Bytes of the files of all tables from which on sends are refused (`store.max_gib`); 0 without a limit.",
    ),
    gauge("tidings_store_log_events", Part::Store, "Events kept in the log."),
    gauge(
        "tidings_store_log_age_seconds",
        Part::Store,
        "Age of the oldest event in the log; events older than 7 days are trimmed.",
    ),
    counter("tidings_store_purged_bytes_total", Part::Store, "Bytes of purged expired messages."),
    histogram(
        "tidings_store_compaction_seconds",
        Part::Store,
        WORK,
        "Duration of a compaction that reclaims purged space.",
    ),
    gauge(
        "tidings_store_erasure_lag_seconds",
        Part::Store,
        "Age of the oldest deletion whose bytes may still be in a file of the store; 0 if there is none.",
    ),
    gauge(
        "tidings_store_erase_within_seconds",
        Part::Store,
        "Time within which deleted bytes leave the files of the store, as configured; 0 if erasure is off.",
    ),
    counter("tidings_store_erasures_total", Part::Store, "Rounds of erasure, by outcome; a failed one is repeated.")
        .by(&[label("outcome", &["done", "failed"])]),
    histogram(
        "tidings_store_erasure_seconds",
        Part::Store,
        WORK,
        "Duration of a round of erasure, which rewrites the journal and the tables with deleted rows.",
    ),
    counter(
        "tidings_store_torn_commits_total",
        Part::Store,
        "Unacknowledged commits that a power cut interrupted and that a start truncated from the journal.",
    ),
    counter("tidings_store_scrubbed_bytes_total", Part::Store, "Bytes of files read by scrubs."),
    counter("tidings_store_scrubs_total", Part::Store, "Scrubs, which read every checksum of the files, by outcome.")
        .by(&[label("outcome", &["clean", "damaged", "failed"])]),
    gauge("tidings_store_damaged_files", Part::Store, "Damaged or missing files found by the last scrub."),
    // The relay of a fleet, from the store's outbox into the log.
    gauge("tidings_relay_overdue_chats", Part::Relay, "Chats with overdue unpublished events."),
    histogram(
        "tidings_relay_delay_seconds",
        Part::Relay,
        DELAY,
        "Time from the commit of an event to its publication in the log.",
    ),
    counter("tidings_relay_published_total", Part::Relay, "Events published to the log by a relay."),
    counter(
        "tidings_relay_failures_total",
        Part::Relay,
        "Failures of a relay to publish an event or to record that it was published.",
    ),
    counter(
        "tidings_outbox_dropped_total",
        Part::Relay,
        "Events not queued for the relay because its queue was full; a periodic sweep publishes them.",
    ),
    counter("tidings_outbox_unreadable_total", Part::Relay, "Unpublished rows that cannot be decoded.")
        .by(&[label("table", TABLES)]),
    // The store of a fleet.
    histogram("tidings_dynamodb_request_seconds", Part::Dynamodb, LATENCY, "Duration of a request, including retries.")
        .by(&[label("operation", OPERATIONS)]),
    counter("tidings_dynamodb_tries_total", Part::Dynamodb, "Requests sent, including retries."),
    counter("tidings_dynamodb_throttles_total", Part::Dynamodb, "Requests throttled for lack of capacity."),
    counter(
        "tidings_dynamodb_conflicts_total",
        Part::Dynamodb,
        "Transactions retried after a conflict with another one.",
    ),
    counter("tidings_dynamodb_consumed_units_total", Part::Dynamodb, "Consumed capacity units.").by(&[
        label("operation", OPERATIONS),
        label("table", TABLES),
        label("kind", &["read", "write"]),
    ]),
    // The log of a fleet.
    histogram("tidings_kafka_publish_seconds", Part::Kafka, LATENCY, "Duration of publishing a batch of events."),
    counter("tidings_kafka_published_total", Part::Kafka, "Events accepted by the brokers."),
    counter(
        "tidings_kafka_publish_failures_total",
        Part::Kafka,
        "Events that the brokers rejected, or with an unknown outcome.",
    ),
    counter("tidings_kafka_unreadable_total", Part::Kafka, "Records that cannot be decoded and became dead letters."),
    // The shared state of a fleet.
    gauge("tidings_redis_available", Part::Redis, "1 if Redis answers."),
    gauge(
        "tidings_redis_used_memory_ratio",
        Part::Redis,
        "Share of its memory limit that the fullest server uses; absent without a limit.",
    ),
    counter(
        "tidings_redis_round_trips_total",
        Part::Redis,
        "Batches of commands sent to Redis; a batch goes to all its servers at the same time.",
    ),
    counter("tidings_redis_keyspace_hits_total", Part::Redis, "Key lookups that found the key."),
    counter("tidings_redis_keyspace_misses_total", Part::Redis, "Key lookups that did not find the key."),
    counter("tidings_redis_expired_keys_total", Part::Redis, "Expired keys."),
    counter("tidings_redis_evicted_keys_total", Part::Redis, "Keys evicted for lack of memory."),
    gauge("tidings_redis_connected_clients", Part::Redis, "Client connections of Redis."),
    gauge("tidings_redis_pubsub_channels", Part::Redis, "Channels with a subscriber."),
    gauge("tidings_redis_pubsub_patterns", Part::Redis, "Pattern subscriptions; Tidings uses none."),
    counter("tidings_routing_lookups_total", Part::Redis, "Lookups of the gateways of users.")
        .by(&[label("outcome", &["ok", "error"])]),
    counter(
        "tidings_fanout_fallback_total",
        Part::Rpc,
        "Pushes sent directly to gateways while Redis was unavailable.",
    ),
    // Calls between processes.
    counter("tidings_rpc_calls_total", Part::Rpc, "Calls to other processes.")
        .by(&[label("method", METHODS), label("outcome", &["answered", "failed"])]),
    histogram("tidings_rpc_call_seconds", Part::Rpc, LATENCY, "Duration of a call.").by(&[label("method", METHODS)]),
    gauge("tidings_rpc_breakers_open", Part::Rpc, "Processes with an open circuit breaker after failed calls."),
    counter("tidings_rpc_strangers_total", Part::Rpc, "Calls refused because they lack a secret of the fleet."),
    counter(
        "tidings_rpc_forbidden_total",
        Part::Rpc,
        "Calls refused because the role of the caller may not make them.",
    )
    .by(&[label("service", SERVICES)]),
    counter("tidings_rpc_unasserted_total", Part::Rpc, "Calls to ingest without a valid assertion of their user.")
        .by(&[label("method", &["send", "sync", "advance"]), label("outcome", &["accepted", "refused"])]),
    counter(
        "tidings_receipts_dropped_total",
        Part::Rpc,
        "Receipts that did not reach fanout; the next one supersedes them.",
    ),
];

const METHODS: &[&str] =
    &["send", "sync", "advance", "deliver", "revoke", "identify", "redeem", "renew", "live", "look", "signal", "pause"];

/// The services between processes.
const SERVICES: &[&str] = &["ingest", "identity", "presence", "signals", "gateway", "webhook"];

const OPERATIONS: &[&str] =
    &["GetItem", "BatchGetItem", "Query", "Scan", "UpdateItem", "BatchWriteItem", "TransactWriteItems"];

/// The tables of `dynamodb::schema`.
const TABLES: &[&str] = &[
    "users",
    "user_keys",
    "chats",
    "chat_memberships",
    "messages",
    "updates",
    "reactions",
    "message_locations",
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
    "invitations",
    "passkeys",
    "restrictions",
    "deletions",
];
