//! `tidings load --history` records the history of its clients, and `tidings history check` checks it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::TestServer;

/// A directory with the history of a short load, in the file `history`.
async fn recorded() -> TempDir {
    let server = TestServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "load",
        "-w",
        "witness",
        "-n",
        "6",
        "--warmup",
        "0",
        "--seconds",
        "2",
        "--url",
        &server.base_url(),
        "--history",
    ];
    let mut load = Command::new(env!("CARGO_BIN_EXE_tidings"));
    load.args(arguments).arg(directory.path().join("history"));
    let Output { status, stderr, .. } = tokio::task::spawn_blocking(move || load.output().unwrap()).await.unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    directory
}

fn check(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.args(["history", "check"]).arg(file).args(arguments).output().unwrap()
}

/// The line of an invariant in a JSON report.
fn line<'a>(report: &'a Value, name: &str) -> &'a Value {
    let lines = report["invariants"].as_array().unwrap();
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{report} says nothing of {name}"))
}

#[tokio::test]
async fn a_history_of_a_load_is_judged_and_a_spoiled_one_is_found_out() {
    let directory = recorded().await;
    let file = directory.path().join("history");
    let output = check(&file, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let history = fs::read_to_string(&file).unwrap();
    assert_eq!(report["entries"], history.lines().count());
    for name in ["no_silent_loss", "sequence_uniqueness", "ack_implies_persistence", "multi_device_delivery"] {
        assert!(line(&report, name)["checked"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(line(&report, name)["violated"], 0, "{name}");
    }

    // Removes one delivery to one client.
    let place = history.lines().position(|line| line.contains(r#""rendered""#)).unwrap();
    let lines: Vec<&str> = history.lines().enumerate().filter(|(n, _)| *n != place).map(|(_, line)| line).collect();
    let spoiled = directory.path().join("spoiled");
    fs::write(&spoiled, lines.join("\n")).unwrap();
    let output = check(&spoiled, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line(&report, "no_silent_loss")["violated"], 1);
    let output = check(&spoiled, &[]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.lines().any(|line| line.split_whitespace().eq(["no_duplicate_render", &count(&report), "0"])),
        "{table}"
    );
    assert!(table.contains("no_silent_loss: msg_"), "{table}");
    assert!(table.ends_with("entries checked; violations found\n"), "{table}");
}

fn count(report: &Value) -> String {
    line(report, "no_duplicate_render")["checked"].to_string()
}

#[tokio::test]
async fn a_malformed_history_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("history");
    fs::write(&file, "{}\n").unwrap();
    let output = check(&file, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("line 1 is not an entry"), "{said}");
    fs::remove_file(&file).unwrap();
    assert_eq!(check(&file, &[]).status.code(), Some(2));
}
