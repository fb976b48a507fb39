//! `tidings load` against a server that it starts itself: every workload runs to its end and finds nothing wrong.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs a small load and returns its report.
fn load(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["load", "--json", "--warmup", "0", "--seconds", "1", "--data-dir"])
        .arg(directory.path())
        .args(arguments)
        .output()
        .expect("the load runs");
    assert!(status.success(), "{arguments:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0, "nothing is left behind");
    let report: Value = serde_json::from_slice(&stdout).expect("a report");
    assert_eq!(report["integrity"], serde_json::json!({ "lost": 0, "doubled": 0, "reordered": 0 }));
    report
}

fn figure(report: &Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().expect("figures");
    figures.iter().find(|figure| figure["name"] == name).and_then(|figure| figure["value"].as_f64()).expect(name)
}

#[test]
fn each_workload_measures_what_it_is_for() {
    let cases: [(&[&str], &str); 10] = [
        (&["-w", "pairs", "-n", "4"], "messages delivered"),
        (&["-w", "pairs-deep", "-n", "4"], "messages delivered per server core-second"),
        (&["-w", "group", "--members", "5"], "deliveries"),
        (&["-w", "group", "--members", "5", "--rate", "50"], "deliveries"),
        (&["-w", "hot-chat", "-n", "5"], "messages acknowledged"),
        (&["-w", "catch-up", "-n", "4", "--messages", "600"], "all at once"),
        (&["-w", "storm", "-n", "20"], "connections"),
        (&["-w", "mixed", "-n", "20", "--rate", "100"], "deeds"),
        (&["-w", "history", "--messages", "300"], "pages"),
        (&["-w", "inbox", "-n", "20", "--messages", "5"], "pages"),
    ];
    for (arguments, name) in cases {
        assert!(figure(&load(arguments), name) > 0.0, "{arguments:?}");
    }
}

#[test]
fn idle_connections_are_weighed() {
    assert!(figure(&load(&["-w", "idle", "-n", "50"]), "server memory after") > 0.0);
}

#[test]
fn the_store_alone_is_measured_beside_the_server_if_asked() {
    let report = load(&["-w", "pairs", "-n", "2", "--store-limit"]);
    assert!(report["store"]["store_sends_per_second"].as_f64().expect("a figure") > 0.0);
    assert_eq!(report["durability"], "D2: fsynced before the ack");
}
