//! A service that checks its own store while it serves.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::drills::damage;
use crate::server::{PATIENCE, TestDevice, TestServer};

/// Requests a check from the service.
pub(crate) async fn verify(server: &TestServer, arguments: &[&str]) -> Output {
    let admin = server.admin_url();
    let listen = admin.strip_prefix("http://").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.args(["store", "verify", "--admin-listen", listen, "--data-dir"]).arg(server.data_dir()).args(arguments);
    command.kill_on_drop(true).output().await.unwrap()
}

async fn talk(one: &TestDevice, other: &TestDevice) {
    let chat_id = one.group("group", &[other]).await;
    for n in 0..20 {
        one.send(&chat_id, &format!("message {n}")).await;
    }
}

#[tokio::test]
async fn a_service_checks_its_store_while_it_serves() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    talk(&ann, &bob).await;
    let talking = async {
        for _ in 0..10 {
            talk(&ann, &bob).await;
        }
    };
    let checking = async {
        let mut reports = vec![];
        for _ in 0..3 {
            let output = verify(&server, &["--json", "--rate", "100000"]).await;
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            reports.push(serde_json::from_slice::<Value>(&output.stdout).unwrap());
        }
        reports
    };
    let (_, reports) = tokio::join!(talking, checking);
    let checked = |report: &Value, name: &str| {
        let lines = report["invariants"].as_array().unwrap();
        lines.iter().find(|line| line["name"] == name).and_then(|line| line["checked"].as_u64()).unwrap_or(0)
    };
    for report in &reports {
        assert!(checked(report, "sequence_monotonicity") >= 20, "{report}");
        assert!(checked(report, "ordering_preserved") >= 20, "{report}");
        assert!(checked(report, "commit_after_process") > 0, "{report}");
    }
}

#[tokio::test]
async fn the_old_name_of_the_flag_still_works_and_is_not_in_the_help() {
    let server = TestServer::start().await;
    let admin = server.admin_url();
    let tidings = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command.args(arguments).arg("--data-dir").arg(server.data_dir()).kill_on_drop(true).output().await.unwrap()
    };
    let file = server.data_dir().with_file_name("a.backup");
    let backup = ["store", "backup", file.to_str().unwrap()];
    for command in [&["store", "verify"][..], &backup] {
        let listen = ["--admin", admin.strip_prefix("http://").unwrap()];
        let output = tidings(&[command, &listen].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let help = String::from_utf8(tidings(&[&command[..2], &["--help"]].concat()).await.stdout).unwrap();
        assert!(help.contains("--admin-listen [<ADDR>]") && !help.contains("--admin "), "{help}");
    }
}

#[tokio::test]
async fn an_audit_into_a_pipe_prints_its_progress() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    talk(&ann, &bob).await;
    let admin = server.admin_url();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.args(["store", "verify", "--rate", "1", "--admin-listen", admin.strip_prefix("http://").unwrap()]);
    command.arg("--data-dir").arg(server.data_dir()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut audit = command.spawn().unwrap();
    let mut lines = BufReader::new(audit.stderr.take().unwrap()).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains(" rows (log, ") && line.ends_with(" left)"), "{line}");
}

#[tokio::test]
async fn one_audit_runs_at_a_time_and_ends_with_its_caller() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    talk(&ann, &bob).await;
    let is_refused = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.code() == Some(2) && said.contains("an audit is under way already")
    };
    let slow = async {
        loop {
            let output = verify(&server, &["--rate", "1"]).await;
            // The other check may have started first.
            if !is_refused(&output) {
                return output;
            }
        }
    };
    let other = server.until(async || is_refused(&verify(&server, &[]).await));
    // The slow check takes minutes, and is dropped as soon as the other was refused.
    tokio::select! {
        output = slow => panic!("it came to an end: {output:?}"),
        () = other => {}
    }
    server.until(async || verify(&server, &[]).await.status.code() == Some(0)).await;
}

#[tokio::test]
async fn a_service_reads_every_checksum_while_it_serves_and_names_the_damaged_file() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let deep = ["--deep", "--rate-mib", "1000", "--rate", "100000"];
    let talking = async {
        for _ in 0..5 {
            talk(&ann, &bob).await;
        }
    };
    let checking = async {
        for _ in 0..3 {
            let output = verify(&server, &[&deep[..], &["--json"]].concat()).await;
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["files"]["damaged"], Value::Array(vec![]), "{report}");
            assert!(report["files"]["files"].as_u64() > Some(30), "{report}");
            assert!(!report["invariants"].as_array().unwrap().is_empty(), "rows are checked too: {report}");
        }
    };
    tokio::join!(talking, checking);

    let file = damage(&server.data_dir());
    let output = verify(&server, &deep).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains(&format!("{} (table `index of tables`): the checksum of its", file.display())), "{said}");
    assert!(said.contains("`tidings store restore`") && said.contains("`tidings store repair`"), "{said}");
    let output = verify(&server, &[&deep[..], &["--json"]].concat()).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["files"]["damaged"][0]["file"], file.to_str().unwrap(), "{report}");
    assert_eq!(report["invariants"], Value::Array(vec![]));
    // A check without --deep reads only rows, which are not in that file.
    assert_eq!(verify(&server, &[]).await.status.code(), Some(0));
}
