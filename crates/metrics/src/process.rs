use crate::metric::{Label, Metric, Part, Values, counter, gauge, label};

pub(crate) const METRICS: &[Metric] = &[
    gauge("tidings_build_info", Part::Process, "1, with the release that runs.")
        .by(&[Label { name: "version", values: Values::Version }]),
    gauge("tidings_process_start_time_seconds", Part::Process, "When the process began, in seconds since 1970."),
    gauge(
        "tidings_process_time_seconds",
        Part::Process,
        "What the clock of the process says, in seconds since 1970; told every 5 s.",
    ),
    gauge("tidings_process_resident_memory_bytes", Part::Process, "Memory of the process that is in RAM."),
    gauge("tidings_process_open_fds", Part::Process, "Files and sockets that are open."),
    gauge(
        "tidings_process_fds_max",
        Part::Process,
        "Files and sockets that may be open; beyond it clients are refused.",
    ),
    gauge("tidings_process_threads", Part::Process, "Threads of the process."),
    counter("tidings_process_cpu_seconds_total", Part::Process, "Whole seconds that all threads have computed."),
    gauge("tidings_process_draining", Part::Process, "1 while the process ends, or an operator drains its gateway."),
    gauge("tidings_tls_certificate_expires_seconds", Part::Process, "When the certificate that is shown expires.")
        .by(&[label("listener", LISTENERS)]),
    counter("tidings_tls_handshakes_failed_total", Part::Process, "Handshakes of TLS that came to nothing.")
        .by(&[label("listener", LISTENERS), label("reason", &["failed", "timeout"])]),
    counter(
        "tidings_telemetry_dropped_total",
        Part::Process,
        "Spans that were not exported for want of room or of a receiver.",
    ),
    counter(
        "tidings_log_lines_left_out_total",
        Part::Process,
        "Lines of one place in the code that were too many to log.",
    ),
    gauge("tidings_runtime_workers", Part::Process, "Threads that run tasks."),
    gauge("tidings_runtime_tasks", Part::Process, "Tasks that are alive: connections, requests, and what goes on."),
    gauge(
        "tidings_runtime_queue_tasks",
        Part::Process,
        "Tasks that wait for any worker; many of them for long means too few cores.",
    ),
    gauge(
        "tidings_dependency_up",
        Part::Process,
        "1 if what the process stands on works, 0 if it fails, as `/readyz` says.",
    )
    .by(&[label("dependency", DEPENDENCIES)]),
    gauge(
        "tidings_log_lag_events",
        Part::Process,
        "Events of the log that a consumer has not done; in a fleet those of the process's own part.",
    )
    .by(&[label("group", &["fanout", "notify", "webhook"])]),
    counter(
        "tidings_invariant_violations_total",
        Part::Process,
        "Operations that were refused because something that must be true was not.",
    )
    .by(&[label("name", ASSERTED)]),
];

const LISTENERS: &[&str] = &["public", "admin"];

/// What `/readyz` names.
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
