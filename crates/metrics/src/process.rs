use crate::metric::{Label, LabelValues, Metric, Part, counter, gauge, label};

pub(crate) const METRICS: &[Metric] = &[
    gauge("tidings_build_info", Part::Process, "Always 1, with the running release as a label.")
        .by(&[Label { name: "version", values: LabelValues::Version }]),
    gauge("tidings_process_start_time_seconds", Part::Process, "Start time of the process, in seconds since 1970."),
    gauge(
        "tidings_process_time_seconds",
        Part::Process,
        "Clock of the process, in seconds since 1970; updated every 5 s.",
    ),
    gauge("tidings_process_resident_memory_bytes", Part::Process, "Resident memory of the process."),
    gauge("tidings_process_open_fds", Part::Process, "Open files and sockets."),
    gauge("tidings_process_fds_max", Part::Process, "Limit of open files and sockets; beyond it clients are refused."),
    gauge("tidings_process_threads", Part::Process, "Threads of the process."),
    counter("tidings_process_cpu_seconds_total", Part::Process, "CPU time of all threads, in whole seconds."),
    gauge(
        "tidings_process_draining",
        Part::Process,
        "1 while the process shuts down or an operator drains it or its gateway.",
    ),
    gauge(
        "tidings_tls_certificate_expires_seconds",
        Part::Process,
        "Expiry of the certificate in use, in seconds since 1970.",
    )
    .by(&[label("listener", LISTENERS)]),
    counter("tidings_tls_handshakes_failed_total", Part::Process, "Failed TLS handshakes.")
        .by(&[label("listener", LISTENERS), label("reason", &["failed", "timeout"])]),
    gauge(
        "tidings_http_connections",
        Part::Process,
        "Open connections other than WebSockets; `busy` ones have a request in progress.",
    )
    .by(&[label("listener", LISTENERS), label("state", &["idle", "busy"])]),
    gauge(
        "tidings_http_request_bytes",
        Part::Process,
        "Bytes that the bodies and long heads of requests in progress have reserved.",
    )
    .by(&[label("listener", LISTENERS)]),
    counter(
        "tidings_http_refused_total",
        Part::Process,
        "Connections and requests that a listener refused or closed to stay within its bounds.",
    )
    .by(&[label("listener", LISTENERS), label("reason", REFUSALS)]),
    counter(
        "tidings_telemetry_dropped_total",
        Part::Process,
        "Spans dropped because the queue was full or the collector refused them.",
    ),
    counter(
        "tidings_log_lines_left_out_total",
        Part::Process,
        "Log lines suppressed because their callsite repeated them too often.",
    ),
    counter("tidings_security_events_total", Part::Process, "Security events, recorded or only counted.")
        .by(&[label("kind", SECURITY_EVENTS)]),
    counter(
        "tidings_security_events_dropped_total",
        Part::Process,
        "Security events lost because their queue was full or their file could not be written.",
    )
    .by(&[label("reason", &["queue_full", "write_failed"])]),
    gauge("tidings_runtime_workers", Part::Process, "Worker threads of the runtime."),
    gauge("tidings_runtime_tasks", Part::Process, "Live tasks: connections, requests and background work."),
    gauge(
        "tidings_runtime_queue_tasks",
        Part::Process,
        "Tasks in the global run queue; a persistently high number means too few cores.",
    ),
    gauge("tidings_process_ready", Part::Process, "1 if `/readyz` answers 200: the process is ready or degraded."),
    gauge("tidings_dependency_up", Part::Process, "1 if a dependency is healthy, 0 if it fails, as `/readyz` reports.")
        .by(&[label("dependency", DEPENDENCIES)]),
    gauge(
        "tidings_log_lag_events",
        Part::Process,
        "Lag of a consumer group in events; in a fleet for the partitions of this process.",
    )
    .by(&[label("group", &["fanout", "notify", "webhook"])]),
    counter(
        "tidings_invariant_violations_total",
        Part::Process,
        "Operations refused because they would violate an invariant.",
    )
    .by(&[label("name", ASSERTED)]),
];

const LISTENERS: &[&str] = &["public", "admin"];

/// The bounds of a listener that can be reached.
const REFUSALS: &[&str] = &["connections", "idle", "request_bytes", "request_rate", "unread_answer"];

/// The kinds of security events.
const SECURITY_EVENTS: &[&str] = &[
    "code_requested",
    "sign_in",
    "sign_in_failed",
    "refresh_reuse_detected",
    "passkey_added",
    "passkey_removed",
    "passkey_copy_detected",
    "session_revoked",
    "user_suspended",
    "user_resumed",
    "user_signed_out",
    "token_revoked",
    "role_changed",
    "account_deleted",
    "operator_sign_in",
    "operator_refused",
    "operator_action",
];

/// The dependencies that `/readyz` lists.
const DEPENDENCIES: &[&str] = &["store", "dynamodb", "kafka", "kafka consumer", "redis"];

/// The invariants that are asserted while the service runs.
const ASSERTED: &[&str] = &[
    "dynamodb_is_authoritative",
    "write_order_preserved",
    "counter_must_exist",
    "allocation_monotonicity",
    "sequence_monotonicity",
    "ack_implies_persistence",
    "no_zero_sequence",
    "delivery_watermark_monotonic",
    "watermark_bounded_by_head",
    "read_implies_delivered",
    "sync_completeness",
    "expired_never_read",
    "ordering_preserved",
    "routing_denormalization_consistent",
    "privacy_enforced",
    "only_members_receive",
];
