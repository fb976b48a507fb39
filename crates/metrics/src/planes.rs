use crate::metric::{BATCH, DELAY, LATENCY, Label, LabelValues, Metric, Part, counter, gauge, histogram, label};

pub(crate) const METRICS: &[Metric] = &[
    // Gateway.
    gauge("tidings_gateway_connections", Part::Gateway, "Open client connections."),
    gauge("tidings_gateway_connections_max", Part::Gateway, "Most client connections that the gateway accepts."),
    counter("tidings_gateway_handshakes_total", Part::Gateway, "Accepted handshakes."),
    counter("tidings_gateway_handshakes_refused_total", Part::Gateway, "Refused handshakes.")
        .by(&[label("error", HANDSHAKE_ERRORS)]),
    histogram("tidings_gateway_handshake_seconds", Part::Gateway, LATENCY, "Duration of the decision on a handshake."),
    counter("tidings_gateway_commands_total", Part::Gateway, "Commands received from clients, by command.")
        .by(&[label("command", COMMANDS)]),
    counter("tidings_gateway_limited_total", Part::Gateway, "Commands refused by a limit, by its name in `[limits]`.")
        .by(&[label("limit", GATEWAY_LIMITS)]),
    counter("tidings_gateway_errors_total", Part::Gateway, "Commands answered with an error.")
        .by(&[label("code", CODES)]),
    counter("tidings_gateway_pushes_total", Part::Gateway, "Frames put into mailboxes of connections."),
    counter(
        "tidings_gateway_pushes_missed_total",
        Part::Gateway,
        "Clients notified to resync because their mailbox was full.",
    ),
    counter(
        "tidings_gateway_ephemeral_pushes_dropped_total",
        Part::Gateway,
        "Typing indicators, receipts and presence changes dropped because their client reads slowly.",
    ),
    counter(
        "tidings_gateway_frames_limited_total",
        Part::Gateway,
        "Frames of clients that were refused or ignored beyond a limit of their connection.",
    )
    .by(&[label("frame", LIMITED_FRAMES)]),
    counter("tidings_gateway_presence_pushes_total", Part::Gateway, "Presence changes pushed to subscribers."),
    gauge(
        "tidings_gateway_mailbox_messages_max",
        Part::Gateway,
        "Pushes queued in the fullest mailbox; the limit is 1000.",
    ),
    gauge(
        "tidings_gateway_mailbox_bytes_max",
        Part::Gateway,
        "Bytes queued in the fullest mailbox; the limit is 1 MiB.",
    ),
    counter("tidings_gateway_closes_total", Part::Gateway, "Connections closed by the gateway.")
        .by(&[label("reason", CLOSE_REASONS)]),
    counter(
        "tidings_gateway_gaps_total",
        Part::Gateway,
        "Times that the gateway notified all its clients to resync because pushes may have been lost.",
    ),
    counter("tidings_gateway_routes_lost_total", Part::Gateway, "Routes that a heartbeat found missing and restored."),
    counter(
        "tidings_gateway_departures_dropped_total",
        Part::Gateway,
        "Routes not deregistered because the queue was full; they expire later.",
    ),
    counter("tidings_heartbeats_total", Part::Gateway, "Heartbeats received from clients."),
    histogram(
        "tidings_heartbeat_seconds",
        Part::Gateway,
        LATENCY,
        "Duration of a gateway's heartbeat, which covers all its routes.",
    ),
    gauge("tidings_routing_keys", Part::Gateway, "Routes of the gateway."),
    gauge("tidings_routing_multi_device_users", Part::Gateway, "Users with more than one connection to the gateway."),
    // Ingest.
    counter("tidings_ingest_sends_total", Part::Ingest, "Answered sends, by outcome.")
        .by(&[label("outcome", SEND_OUTCOMES)]),
    histogram("tidings_ingest_answer_seconds", Part::Ingest, LATENCY, "Time from the queue to the answer of a send."),
    gauge("tidings_ingest_queue_sends", Part::Ingest, "Sends queued for their commit."),
    gauge(
        "tidings_ingest_queue_sends_max",
        Part::Ingest,
        "Capacity of the queue of sends; beyond it they are answered `SERVER_BUSY`.",
    ),
    histogram("tidings_ingest_batch_sends", Part::Ingest, BATCH, "Sends in one batch to the store."),
    counter("tidings_ingest_syncs_total", Part::Ingest, "Answered syncs, by outcome.")
        .by(&[label("outcome", &["page", "refused", "unavailable"])]),
    histogram("tidings_ingest_sync_seconds", Part::Ingest, LATENCY, "Duration of a sync."),
    counter(
        "tidings_ingest_hot_chat_minutes_total",
        Part::Ingest,
        "Minutes in which a chat received more than 100 messages, summed over all chats.",
    ),
    // Fanout.
    counter("tidings_fanout_events_total", Part::Fanout, "Events of the log processed by fanout."),
    histogram("tidings_fanout_lag_seconds", Part::Fanout, DELAY, "Time from the commit of an event to its pushes."),
    counter(
        "tidings_fanout_pushes_total",
        Part::Fanout,
        "Pushes sent to gateways; one covers all recipients at a gateway.",
    ),
    counter("tidings_fanout_push_failures_total", Part::Fanout, "Pushes that failed at the first attempt."),
    gauge("tidings_fanout_gateways_owed", Part::Fanout, "Gateways with a pending resync of their clients."),
    counter("tidings_fanout_waits_total", Part::Fanout, "Times that fanout waited for a failing store or log."),
    counter(
        "tidings_fanout_members_total",
        Part::Fanout,
        "Lookups of member lists: from the cache, or read from the store.",
    )
    .by(&[label("outcome", &["hit", "miss"])]),
    counter("tidings_fanout_receipt_frames_total", Part::Fanout, "Receipt frames pushed to members."),
    counter(
        "tidings_fanout_receipts_dropped_total",
        Part::Fanout,
        "Receipts dropped because the queue was full; the next one supersedes them.",
    ),
    // REST.
    counter("tidings_api_requests_total", Part::Api, "Answered requests.").by(&[
        label("method", &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "other"]),
        Label { name: "route", values: LabelValues::Routes },
        label("status", &["1xx", "2xx", "3xx", "4xx", "5xx"]),
    ]),
    histogram("tidings_api_request_seconds", Part::Api, LATENCY, "Duration of a request.")
        .by(&[Label { name: "route", values: LabelValues::Routes }]),
    counter("tidings_api_errors_total", Part::Api, "Requests answered with an error.").by(&[label("code", CODES)]),
    counter("tidings_api_limited_total", Part::Api, "Requests refused by a limit, by its name in `[limits]`.")
        .by(&[label("limit", API_LIMITS)]),
    counter("tidings_reports_total", Part::Api, "Reports of users about messages and other users, by their reason.")
        .by(&[label("reason", &["spam", "abuse", "illegal", "other"])]),
    // Presence.
    counter("tidings_presence_transitions_total", Part::Presence, "Presence transitions of users.")
        .by(&[label("status", &["online", "offline"])]),
    counter("tidings_presence_swept_total", Part::Presence, "Purged routes of dead gateways."),
    gauge("tidings_presence_stale_entries", Part::Presence, "Routes of dead gateways that have not been purged yet."),
    counter(
        "tidings_presence_doubts_dropped_total",
        Part::Presence,
        "Presence re-checks dropped because the queue was full; subscribers receive the next change.",
    ),
    // The quota of all users together.
    gauge(
        "tidings_message_quota_mib",
        Part::Process,
        "MiB of messages that all users may send in a day (`limits.message_mib_total`).",
    ),
    gauge("tidings_message_quota_left_mib", Part::Process, "MiB of this quota that were left at the last take."),
    // Notify.
    counter("tidings_notify_notifications_total", Part::Notify, "Notification calls, by outcome.").by(&[
        label("provider", &["webhook", "webpush"]),
        label("outcome", &["told", "gone", "refused", "unavailable"]),
    ]),
    counter("tidings_webhook_deliveries_total", Part::Notify, "Delivery attempts of events to the application.")
        .by(&[label("outcome", &["taken", "refused", "unavailable"])]),
    gauge(
        "tidings_webhook_lag_events",
        Part::Notify,
        "Events that the application has not accepted yet; absent without a webhook.",
    ),
    gauge(
        "tidings_webhook_failing_seconds",
        Part::Notify,
        "Time since deliveries started to fail; 0 if the last one succeeded.",
    ),
    counter(
        "tidings_webhook_gaps_total",
        Part::Notify,
        "Events delivered without the event before them: it had expired, was unreadable, or came too late.",
    ),
    counter("tidings_dead_letters_total", Part::Notify, "Deliveries given up, which wait for an operator.")
        .by(&[label("kind", &["event", "unreadable", "notification"])]),
];

const HANDSHAKE_ERRORS: &[&str] = &[
    "invalid_request",
    "rate_limited",
    "service_unavailable",
    "token_revoked",
    "invalid_token",
    "account_suspended",
    "forbidden_origin",
];

const GATEWAY_LIMITS: &[&str] = &[
    "send_per_chat",
    "send_per_user",
    "message_mib",
    "message_mib_total",
    "sync",
    "typing",
    "typing_per_user",
    "rest_read",
];

const API_LIMITS: &[&str] = &[
    "otp_request_per_phone",
    "otp_request_per_ip",
    "otp_request_per_country",
    "otp_request_total",
    "otp_verify",
    "otp_verify_per_ip",
    "passkey_challenge_per_ip",
    "passkey_verify_per_ip",
    "passkey_registration",
    "passkeys",
    "refresh",
    "rest_read",
    "rest_write",
    "lookup_numbers",
    "send_per_chat",
    "send_per_user",
    "message_mib",
    "message_mib_total",
    "exports",
    "groups_created",
    "members_added",
    "chats_per_user",
    "contacts",
];

const COMMANDS: &[&str] = &[
    "send_message",
    "update_message",
    "sync_request",
    "advance",
    "typing",
    "presence_subscribe",
    "presence_unsubscribe",
    "reauth",
    "unknown",
];

/// The kinds of frames that are refused or ignored beyond a limit of their connection.
const LIMITED_FRAMES: &[&str] = &["reauth", "heartbeat", "unknown", "invalid", "ping"];

const SEND_OUTCOMES: &[&str] = &[
    "new",
    "duplicate",
    "chat_not_found",
    "not_a_member",
    "blocked",
    "blocking",
    "suspended",
    "key_reused",
    "counter_missing",
    "storage_full",
    "update_refused",
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
