//! A service that checks its own store while it serves.

use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use crate::server::{Device, TestServer};

/// Asks the service to check itself.
async fn verify(server: &TestServer, arguments: &[&str]) -> Output {
    let admin = server.admin_url();
    let listen = admin.strip_prefix("http://").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.args(["verify", "--admin", listen, "--data-dir"]).arg(server.data_dir()).args(arguments);
    command.kill_on_drop(true).output().await.unwrap()
}

async fn talk(one: &Device, other: &Device) {
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
async fn one_audit_at_a_time_and_none_that_nobody_waits_for() {
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
            // The other may have come first.
            if !is_refused(&output) {
                return output;
            }
        }
    };
    let other = server.until(async || is_refused(&verify(&server, &[]).await));
    // The slow one takes minutes, and is dropped as soon as the other was refused.
    tokio::select! {
        output = slow => panic!("it came to an end: {output:?}"),
        () = other => {}
    }
    server.until(async || verify(&server, &[]).await.status.code() == Some(0)).await;
}
