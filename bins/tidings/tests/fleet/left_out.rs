use std::collections::BTreeSet;

/// The tests of a single process that are not run on a fleet, with the reason.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "it inspects the memory, the threads, the signals or the socket buffers of one process",
        &["drain", "floods", "idle", "inbox", "slow_consumer"],
    ),
    (
        "it is about the files of the embedded store: a fleet has no store of its own",
        &["at_rest", "erasure", "space", "verify"],
    ),
    (
        "one process is all of the service there; here the drills, `histories`, `partitions` and `takeover` do the same",
        &["drills", "histories", "interrupted_deletion", "kills"],
    ),
    (
        "the log of one machine has one position for all events and delivers each once; `webhooks` checks the order of \
         events, replays and an unavailable receiver in a fleet, where an event may come twice",
        &["webhook_order"],
    ),
    (
        "each process has its own admin listener, log level, metrics and security events, by the same code",
        &["console", "log_level", "metrics", "operating", "security_events"],
    ),
    (
        "each process has its own public listener, by the same code; the settings differ from test to test, and each \
         would need a fleet",
        &["listener_bounds", "listener_memory", "listener_settings", "tls", "unread_bodies", "unsafe_settings"],
    ),
    ("a fleet has its own test of it, across processes", &["operators", "passkeys", "traces"]),
    ("it tests the documents or the command line", &["examples", "secret_flags", "witness"]),
    ("it is a helper", &["rules", "server"]),
];

/// The modules that a test binary declares.
fn modules(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

#[test]
fn every_test_of_a_single_process_runs_on_a_fleet_or_is_named_with_a_reason() {
    let own = modules(include_str!("main.rs"));
    let shared: BTreeSet<&str> = include_str!("main.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("#[path = \"../it/")?.strip_suffix(".rs\"]"))
        .map(|module| module.trim_end_matches("/mod"))
        .chain(["history"])
        .collect();
    assert!(shared.iter().all(|module| own.contains(module) || *module == "server"), "{shared:?}");
    let left_out: BTreeSet<&str> = LEFT_OUT.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
    let of_it = modules(include_str!("../it/main.rs"));
    let named: BTreeSet<&str> =
        shared.iter().chain(&left_out).copied().filter(|module| of_it.contains(module)).collect();
    let missing: Vec<_> = of_it.difference(&named).collect();
    assert!(missing.is_empty(), "neither run on a fleet nor left out with a reason: {missing:?}");
    let unknown: Vec<_> = left_out.difference(&of_it).collect();
    assert!(unknown.is_empty(), "left out, and not there: {unknown:?}");
    let both: Vec<_> = left_out.intersection(&shared).filter(|module| **module != "server").collect();
    assert!(both.is_empty(), "left out, and run: {both:?}");
}
