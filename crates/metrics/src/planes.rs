use crate::metric::{BATCH, DELAY, LATENCY, Label, Metric, Part, Values, counter, gauge, histogram, label};

pub(crate) const METRICS: &[Metric] = &[
    // Gateway.
    gauge("tidings_gateway_connections", Part::Gateway, "Connections of clients."),
    gauge("tidings_gateway_connections_max", Part::Gateway, "Connections that the gateway takes at the most."),
    counter("tidings_gateway_handshakes_total", Part::Gateway, "Handshakes that were let in."),
    counter("tidings_gateway_handshakes_refused_total", Part::Gateway, "Handshakes that were refused.")
        .by(&[label("error", HANDSHAKE_ERRORS)]),
    histogram("tidings_gateway_handshake_seconds", Part::Gateway, LATENCY, "How long a handshake took to be judged."),
    counter(
        "tidings_gateway_commands_total",
        Part::Gateway,
        "Frames that asked for something, by what they asked for.",
    )
    .by(&[label("command", COMMANDS)]),
    counter("tidings_gateway_errors_total", Part::Gateway, "Commands that were answered with an error.")
        .by(&[label("code", CODES)]),
    counter("tidings_gateway_pushes_total", Part::Gateway, "Frames put into mailboxes of connections."),
    counter("tidings_gateway_pushes_missed_total", Part::Gateway, "Clients told to sync because a mailbox was full."),
    counter("tidings_gateway_presence_pushes_total", Part::Gateway, "Changes of presence that were pushed."),
    gauge("tidings_gateway_mailbox_messages_max", Part::Gateway, "Pushes that wait in the fullest mailbox; 1000 fit."),
    gauge("tidings_gateway_mailbox_bytes_max", Part::Gateway, "Bytes that wait in the fullest mailbox; 1 MiB fits."),
    counter("tidings_gateway_closes_total", Part::Gateway, "Connections that the gateway has closed.")
        .by(&[label("reason", CLOSE_REASONS)]),
    counter("tidings_gateway_gaps_total", Part::Gateway, "Times that all clients were told to sync: pushes were lost."),
    counter("tidings_gateway_routes_lost_total", Part::Gateway, "Routes that a beat found gone and wrote again."),
    counter(
        "tidings_gateway_departures_dropped_total",
        Part::Gateway,
        "Routes that were not taken back and expire by themselves.",
    ),
    counter("tidings_heartbeats_total", Part::Gateway, "Signs of life of clients."),
    histogram(
        "tidings_heartbeat_seconds",
        Part::Gateway,
        LATENCY,
        "How long a beat of a gateway took: all its routes.",
    ),
    gauge("tidings_routing_keys", Part::Gateway, "Routes that the gateway holds."),
    gauge("tidings_routing_multi_device_users", Part::Gateway, "Users with more than one connection to the gateway."),
    // Ingest.
    counter("tidings_ingest_sends_total", Part::Ingest, "Sends that were answered, by what became of them.")
        .by(&[label("outcome", SEND_OUTCOMES)]),
    histogram("tidings_ingest_answer_seconds", Part::Ingest, LATENCY, "From the queue to the answer of a send."),
    gauge("tidings_ingest_queue_sends", Part::Ingest, "Sends that wait for their commit."),
    gauge("tidings_ingest_queue_sends_max", Part::Ingest, "Sends that can wait; beyond it they are `SERVER_BUSY`."),
    histogram("tidings_ingest_batch_sends", Part::Ingest, BATCH, "Sends that were handed to the store at once."),
    counter("tidings_ingest_syncs_total", Part::Ingest, "Syncs that were answered, by what became of them.")
        .by(&[label("outcome", &["page", "refused", "unavailable"])]),
    histogram("tidings_ingest_sync_seconds", Part::Ingest, LATENCY, "How long a sync took."),
    counter(
        "tidings_ingest_hot_chat_minutes_total",
        Part::Ingest,
        "Minutes in which a chat got more than 100 messages, over all chats.",
    ),
    // Fanout.
    counter("tidings_fanout_events_total", Part::Fanout, "Events of the log that were turned into pushes."),
    histogram("tidings_fanout_lag_seconds", Part::Fanout, DELAY, "From the commit of an event to its pushes."),
    counter("tidings_fanout_pushes_total", Part::Fanout, "Pushes handed to gateways, one for all recipients of each."),
    counter("tidings_fanout_push_failures_total", Part::Fanout, "Pushes that a gateway did not take at once."),
    gauge("tidings_fanout_gateways_owed", Part::Fanout, "Gateways whose clients have yet to be told to sync."),
    counter("tidings_fanout_waits_total", Part::Fanout, "Times that fanout waited for the store or the log."),
    counter("tidings_fanout_members_total", Part::Fanout, "Lists of members that were wanted: remembered, or read.")
        .by(&[label("outcome", &["hit", "miss"])]),
    counter("tidings_fanout_receipt_frames_total", Part::Fanout, "Frames that tell how far members have come."),
    counter(
        "tidings_fanout_receipts_dropped_total",
        Part::Fanout,
        "Receipts that were not told; the next says it all.",
    ),
    // REST.
    counter("tidings_api_requests_total", Part::Api, "Requests that were answered.").by(&[
        label("method", &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "other"]),
        Label { name: "route", values: Values::Routes },
        label("status", &["1xx", "2xx", "3xx", "4xx", "5xx"]),
    ]),
    histogram("tidings_api_request_seconds", Part::Api, LATENCY, "How long a request took.")
        .by(&[Label { name: "route", values: Values::Routes }]),
    counter("tidings_api_errors_total", Part::Api, "Requests that were answered with an error.")
        .by(&[label("code", CODES)]),
    counter("tidings_reports_total", Part::Api, "Reports of users about messages and other users, by their reason.")
        .by(&[label("reason", &["spam", "abuse", "illegal", "other"])]),
    // Presence.
    counter("tidings_presence_transitions_total", Part::Presence, "Users who came or went.")
        .by(&[label("status", &["online", "offline"])]),
    counter("tidings_presence_swept_total", Part::Presence, "Routes of dead gateways that were swept away."),
    gauge("tidings_presence_stale_entries", Part::Presence, "Routes of dead gateways that wait to be swept."),
    counter("tidings_presence_doubts_dropped_total", Part::Presence, "Changes that watchers find out by the next one."),
    // Notify.
    counter("tidings_notify_notifications_total", Part::Notify, "Calls that tell a device, by what became of them.")
        .by(&[
            label("provider", &["webhook", "webpush"]),
            label("outcome", &["told", "gone", "refused", "unavailable"]),
        ]),
    counter("tidings_webhook_deliveries_total", Part::Notify, "Tries to deliver an event to the application.")
        .by(&[label("outcome", &["taken", "refused", "unavailable"])]),
    gauge("tidings_webhook_lag_events", Part::Notify, "Events that the application has not taken; absent without one."),
    gauge(
        "tidings_webhook_failing_seconds",
        Part::Notify,
        "For how long every delivery has failed; 0 if the last did not.",
    ),
    counter("tidings_dead_letters_total", Part::Notify, "What was given up, and waits for an operator.")
        .by(&[label("kind", &["event", "unreadable", "notification"])]),
];

const HANDSHAKE_ERRORS: &[&str] =
    &["invalid_request", "rate_limited", "service_unavailable", "token_revoked", "invalid_token", "forbidden_origin"];

const COMMANDS: &[&str] =
    &["send_message", "sync_request", "advance", "typing", "presence_subscribe", "presence_unsubscribe", "unknown"];

const SEND_OUTCOMES: &[&str] = &[
    "new",
    "duplicate",
    "chat_not_found",
    "not_a_member",
    "blocked",
    "blocking",
    "key_reused",
    "counter_missing",
    "unreadable",
    "above_head",
    "busy",
    "unavailable",
];

/// The codes of `protocol::ErrorCode`.
const CODES: &[&str] = &[
    "INVALID_MESSAGE",
    "VALIDATION_ERROR",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "NOT_A_MEMBER",
    "NOT_FOUND",
    "CONFLICT",
    "IDEMPOTENCY_KEY_REUSED",
    "ALREADY_A_MEMBER",
    "CHAT_FULL",
    "INVALID_OPERATION",
    "METHOD_NOT_ALLOWED",
    "MESSAGE_TOO_LARGE",
    "INVALID_CONTENT_TYPE",
    "INVALID_SEQUENCE",
    "RATE_LIMITED",
    "SLOW_CONSUMER",
    "SERVER_BUSY",
    "SERVICE_UNAVAILABLE",
    "COUNTER_MISSING",
    "INTERNAL_ERROR",
];

/// The reasons of `protocol::CloseReason`.
const CLOSE_REASONS: &[&str] = &[
    "server_shutdown",
    "protocol_error",
    "internal_error",
    "overloaded",
    "token_expired",
    "session_revoked",
    "idle_timeout",
    "duplicate_connection",
    "frame_too_large",
    "rate_limited",
    "slow_consumer",
];
