/// A metric that a founding document names, and the recorded metrics that correspond to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundingMetric {
    /// The document that names it.
    pub document: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// Names of our metrics; empty if another system reports the value.
    pub ours: &'static [&'static str],
    /// How ours differ from it, and why.
    pub why: &'static str,
}

const fn named(
    document: &'static str,
    name: &'static str,
    ours: &'static [&'static str],
    why: &'static str,
) -> FoundingMetric {
    FoundingMetric { document, name, ours, why }
}

const SEQUENCES: &str = "ADR-004 §12";
const TABLES: &str = "ADR-007 §6.3";
const COLLECTIONS: &str = "ADR-007 §8.2";
const ROUTING: &str = "ADR-010 §3.3";

/// Every metric that the founding documents name.
pub const FOUNDING: &[FoundingMetric] = &[
    named(
        SEQUENCES,
        "sequence_allocation_latency_p99",
        &["tidings_store_commit_seconds", "tidings_dynamodb_request_seconds"],
        "a sequence is allocated in the commit, so the commit is measured; on DynamoDB as operation `TransactWriteItems`",
    ),
    named(
        SEQUENCES,
        "sequence_allocation_errors",
        &["tidings_ingest_sends_total", "tidings_store_commit_errors_total"],
        "a commit that fails is a send with the outcome `unavailable`",
    ),
    named(SEQUENCES, "counter_missing_errors", &["tidings_ingest_sends_total"], "outcome `counter_missing`"),
    named(SEQUENCES, "idempotency_hit_rate", &["tidings_ingest_sends_total"], "outcome `duplicate`, as a share of all"),
    named(
        SEQUENCES,
        "sequence_gap_rate",
        &["tidings_ingest_sends_total"],
        "sequences have no gaps here: allocation and persistence are one commit. The corresponding figure is the share \
         of sends that were started and not stored: the outcome `unavailable`. A gap would be a violation, which \
         `verify` finds",
    ),
    named(
        SEQUENCES,
        "transaction_conflict_rate",
        &["tidings_dynamodb_conflicts_total", "tidings_dynamodb_tries_total"],
        "one machine has a single writer and no conflicts",
    ),
    named(
        SEQUENCES,
        "messages_per_chat_per_minute",
        &["tidings_ingest_hot_chat_minutes_total"],
        "labels contain no ids, so minutes above the bound are counted over all chats; `log tail` shows which chats",
    ),
    named(
        TABLES,
        "ConsumedReadCapacityUnits",
        &["tidings_dynamodb_consumed_units_total"],
        "kind `read`; tables are billed on demand, so there is no provisioned capacity to compare with",
    ),
    named(TABLES, "ConsumedWriteCapacityUnits", &["tidings_dynamodb_consumed_units_total"], "kind `write`"),
    named(TABLES, "ThrottledRequests", &["tidings_dynamodb_throttles_total"], "as seen by the processes"),
    named(TABLES, "SuccessfulRequestLatency P99", &["tidings_dynamodb_request_seconds"], "including retries"),
    named(
        COLLECTIONS,
        "ItemCollectionSizeLimit",
        &[],
        "the limit of 10 GB applies to tables with local indexes, and ours have none, so a chat may grow",
    ),
    named(ROUTING, "redis.available", &["tidings_redis_available"], "for each process"),
    named(
        ROUTING,
        "redis.used_memory_pct",
        &["tidings_redis_used_memory_ratio"],
        "from 0 to 1, for the fullest server",
    ),
    named(
        ROUTING,
        "routing.lookup_errors_rate",
        &["tidings_routing_lookups_total"],
        "outcome `error`, as a share of all",
    ),
    named(ROUTING, "presence.stale_entries", &["tidings_presence_stale_entries"], "unchanged"),
    named(ROUTING, "redis.keyspace_hits", &["tidings_redis_keyspace_hits_total"], "sum over all servers"),
    named(ROUTING, "redis.keyspace_misses", &["tidings_redis_keyspace_misses_total"], "sum over all servers"),
    named(ROUTING, "redis.expired_keys", &["tidings_redis_expired_keys_total"], "sum over all servers"),
    named(ROUTING, "redis.evicted_keys", &["tidings_redis_evicted_keys_total"], "sum over all servers"),
    named(ROUTING, "routing.keys_count", &["tidings_routing_keys"], "for each gateway; sum them"),
    named(ROUTING, "heartbeat.qps", &["tidings_heartbeats_total"], "heartbeats of clients, which do not reach Redis"),
    named(
        ROUTING,
        "heartbeat.latency_p99",
        &["tidings_heartbeat_seconds"],
        "of the gateway's heartbeat, which refreshes all its routes at once",
    ),
    named(ROUTING, "redis.connected_clients", &["tidings_redis_connected_clients"], "unchanged"),
    named(ROUTING, "redis.pubsub_channels", &["tidings_redis_pubsub_channels"], "unchanged"),
    named(ROUTING, "redis.pubsub_patterns", &["tidings_redis_pubsub_patterns"], "unchanged; Tidings uses none"),
    named(ROUTING, "routing.multi_device_users", &["tidings_routing_multi_device_users"], "for each gateway"),
    named(ROUTING, "presence.transitions_per_sec", &["tidings_presence_transitions_total"], "its rate, by status"),
];
