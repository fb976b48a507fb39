use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// How the fleet suite covers a file of tests of another binary.
enum OnFleet {
    /// These modules of the fleet suite check the same promises.
    Run(&'static [&'static str]),
    /// The tests themselves run on the engines or the roles of a fleet.
    Itself,
    /// It is left out, with the reason.
    LeftOut(&'static str),
}
use OnFleet::{Itself, LeftOut, Run};

const OF_FILES: &str = "it is about the files of the embedded store: a fleet has no store of its own";
const OF_COMMANDS: &str = "it tests a command of a person at a terminal, which uses the contract with clients alone";

/// The files with tests of all binaries but `it`, whose modules are named above, and this one.
const OTHER_BINARIES: &[(&str, OnFleet)] = &[
    ("backup/migrate.rs", LeftOut(OF_FILES)),
    ("backup/repair.rs", LeftOut(OF_FILES)),
    ("backup/restore.rs", Run(&["restore"])),
    ("chat/main.rs", LeftOut(OF_COMMANDS)),
    (
        "cli.rs",
        LeftOut("it tests the command line, the settings and the data directory of one process, by the same code"),
    ),
    ("conformance/main.rs", Run(&["conformance"])),
    // Sends whose commit succeeded and whose ack was lost, and processes that are killed under load.
    ("crash/commit.rs", Run(&["drills", "histories"])),
    ("crash/main.rs", Run(&["drills", "histories", "takeover"])),
    (
        "crash/updates.rs",
        LeftOut(
            "the load of the drills makes no updates; the simulator kills processes of a fleet while clients update messages",
        ),
    ),
    ("deploy/chart.rs", Itself),
    ("deploy/cloudformation.rs", Itself),
    ("deploy/container.rs", LeftOut("the image is the same for one machine and for every role")),
    ("deploy/pod.rs", Itself),
    ("deploy/stack.rs", Itself),
    ("deploy/unit.rs", LeftOut("systemd runs one process; it validates the file")),
    ("deploy/workflows.rs", LeftOut("it tests how a release is built")),
    ("examples.rs", LeftOut("the examples use the SDK on one server; `conformance` checks the SDK on a fleet")),
    // Failures of the store: here, those of its engine.
    ("faults.rs", Run(&["drills", "readiness"])),
    ("load.rs", LeftOut("it tests the figures that `tidings load` reports")),
    ("powercut/disk.rs", LeftOut(OF_FILES)),
    ("powercut/model_tests.rs", LeftOut(OF_FILES)),
    ("powercut/scenarios.rs", LeftOut(OF_FILES)),
    ("powercut/trace.rs", LeftOut(OF_FILES)),
    ("readme.rs", LeftOut("it executes the tour of the README, which is on one machine")),
    ("tools.rs", Itself),
    ("tools/moving.rs", Itself),
    ("tools/verify.rs", Itself),
];

/// The files of a directory that contain tests, with their paths below `tests`.
fn files_with_tests(directory: &Path, found: &mut BTreeSet<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with_tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("#[test]") || text.contains("#[tokio::test") {
                found.insert(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_other_test_runs_on_a_fleet_or_is_named_with_a_reason() {
    let mut found = BTreeSet::new();
    files_with_tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut found);
    found.retain(|file| !file.starts_with("it/") && !file.starts_with("fleet/"));
    let named: BTreeSet<String> = OTHER_BINARIES.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(named.len(), OTHER_BINARIES.len(), "a file is named twice");
    let missing: Vec<_> = found.difference(&named).collect();
    assert!(missing.is_empty(), "neither run on a fleet nor left out with a reason: {missing:?}");
    let unknown: Vec<_> = named.difference(&found).collect();
    assert!(unknown.is_empty(), "named, and without a test: {unknown:?}");
    let own = modules(include_str!("main.rs"));
    for (file, on_fleet) in OTHER_BINARIES {
        match on_fleet {
            Run(modules) => {
                let absent: Vec<_> = modules.iter().filter(|module| !own.contains(**module)).collect();
                assert!(!modules.is_empty() && absent.is_empty(), "{file}: the fleet suite has no {absent:?}");
            }
            LeftOut(reason) => assert!(!reason.is_empty(), "{file}"),
            Itself => {}
        }
    }
}

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
