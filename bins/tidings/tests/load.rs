//! `tidings load` against a server that it starts itself: every workload completes without a violation. Also against a
//! running server, with a Redis that reports its command counts.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

#[path = "load/proxy.rs"]
mod proxy;
#[path = "it/server.rs"]
mod server;

use std::process::{Command, Output, Stdio};
use std::thread;

use engines::Redis;
use serde_json::Value;

use crate::proxy::{UpdateFault, UpdateProxy};
use crate::server::TestServer;

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
fn each_workload_reports_its_figures() {
    let cases: [(&[&str], &str); 12] = [
        (&["-w", "pairs", "-n", "4"], "messages delivered"),
        (&["-w", "pairs-deep", "-n", "4"], "messages delivered per server core-second"),
        (&["-w", "group", "--members", "5"], "deliveries"),
        (&["-w", "group", "--members", "5", "--rate", "50"], "deliveries"),
        (&["-w", "hot-chat", "-n", "5"], "messages acknowledged"),
        (&["-w", "catch-up", "-n", "4", "--messages", "600"], "all at once"),
        (&["-w", "storm", "-n", "20"], "connections"),
        (&["-w", "presence", "-n", "20"], "watchers told"),
        (&["-w", "mixed", "-n", "20", "--rate", "100"], "deeds"),
        (&["-w", "history", "--messages", "300"], "pages"),
        (&["-w", "inbox", "-n", "20", "--messages", "5"], "pages"),
        (&["-w", "updates", "-n", "4", "--members", "5", "--messages", "1200"], "reactions"),
    ];
    for (arguments, name) in cases {
        assert!(figure(&load(arguments), name) > 0.0, "{arguments:?}");
    }
}

#[test]
fn updates_are_compared_with_plain_messages_of_the_same_run() {
    let report = load(&["-w", "updates", "-n", "4", "--members", "30", "--messages", "1200"]);
    for name in [
        "messages",
        "edits",
        "reactions",
        "time of one edit / of one message",
        "time of one reaction / of one message",
        "server CPU of one edit / of one message",
        "server CPU of one reaction / of one message",
        "reactions to one message",
        "sync of messages",
        "sync, half reactions",
        "sync with reactions / without, median",
    ] {
        assert!(figure(&report, name) > 0.0, "{name}");
    }
    let synced = ["entries synced instead of pushed", "reactions synced instead of pushed"];
    for name in synced.into_iter().chain(["operations refused"]) {
        assert_eq!(figure(&report, name), 0.0, "{name}");
    }
    let latencies = report["latencies"].as_array().unwrap();
    let count = |name: &str| latencies.iter().find(|row| row["name"] == name).expect(name)["count"].as_u64().unwrap();
    for name in ["message to ack", "edit to ack", "reaction to ack"] {
        assert!(count(name) > 0, "{name}");
    }
    assert_eq!((count("one message: reaction to ack"), count("one message: all received")), (30, 30));
    assert_eq!((count("sync of messages"), count("sync, half reactions")), (10, 10));
    assert!(report["server"]["cpu_seconds"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn a_load_fails_if_updates_are_lost_or_doubled() {
    let server = TestServer::start().await;
    for (fault, violation) in [(UpdateFault::Lost, "lost"), (UpdateFault::Doubled, "doubled")] {
        let proxy = UpdateProxy::start(server.address(), fault).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command.args(["load", "--json", "-w", "updates", "-n", "2", "--members", "2", "--messages", "10"]).args([
            "--warmup",
            "0",
            "--seconds",
            "1",
            "--url",
            &proxy.url(),
        ]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{fault:?}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert!(report["integrity"][violation].as_u64().unwrap() > 0, "{fault:?}: {}", report["integrity"]);
    }
}

#[test]
fn a_hot_chat_beside_others_keeps_to_its_rate() {
    let report = load(&["-w", "mixed", "-n", "20", "--rate", "50", "--beside-hot-chat", "--hot-rate", "40"]);
    let rate = figure(&report, "hot chat, messages acknowledged");
    assert!((1.0..120.0).contains(&rate), "{rate} messages a second");
}

#[test]
fn commits_of_the_server_that_a_load_starts_are_timed() {
    let report = load(&["-w", "pairs", "-n", "4"]);
    let commits = &report["server"]["commits"];
    let (count, median) = (commits["count"].as_f64().unwrap(), commits["median_ms"].as_f64().unwrap());
    assert!(count > 0.0 && median > 0.0, "{commits}");
    assert!(commits["long"].as_f64().unwrap() < count / 2.0, "half of them take no longer than the median: {commits}");
    assert!(commits["longest_ms"].as_f64().is_none_or(|longest| longest >= median), "{commits}");
}

#[test]
fn each_growth_step_runs_on_the_store_of_earlier_steps() {
    let report = load(&["-w", "growth", "-n", "4", "--messages", "3000"]);
    for step in ["0 messages in 100 chats", "3,000 messages in 100 chats"] {
        for name in ["time to ready", "messages delivered", "server CPU per message", "server memory", "on disk"] {
            assert!(figure(&report, &format!("{step}: {name}")) > 0.0, "{step}: {name}");
        }
    }
    assert!(figure(&report, "3,000 messages in 100 chats: filled") > 0.0);
    assert!(figure(&report, "server CPU per message, last step / first") > 0.0);
    assert_eq!(report["latencies"].as_array().unwrap().len(), 2);
    assert_eq!(report["timeline"].as_array().unwrap().len(), 2);
}

#[test]
fn idle_connections_are_weighed() {
    assert!(figure(&load(&["-w", "idle", "-n", "50"]), "server memory after") > 0.0);
}

#[test]
fn connections_that_stay_are_weighed_without_a_redis() {
    let report = load(&["-w", "connections", "-n", "50"]);
    assert!(figure(&report, "server memory after") > 0.0);
    assert!(
        report["figures"].as_array().unwrap().iter().all(|figure| figure["name"] != "Redis commands while holding")
    );
}

/// A server with a short heartbeat interval.
async fn attentive_server() -> TestServer {
    TestServer::start_with(&[("TIDINGS_GATEWAY__HEARTBEAT_INTERVAL_MS", "100")]).await
}

/// Six connections to two gateway URLs of the same server.
fn six_connections(server: &TestServer, redis: &Redis, seconds: &str) -> Command {
    let (url, redis) = (server.base_url(), redis.url());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command
        .args(["load", "--json", "-w", "connections", "-n", "6", "--warmup", "0", "--seconds", seconds])
        .args(["--url", &url, "--gateway", &url, "--gateway", &url, "--redis", &redis])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

async fn report(mut command: Command) -> Value {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn redis_counts_commands_of_other_clients_only() {
    let (server, redis) = tokio::join!(attentive_server(), Redis::start());
    let quiet = report(six_connections(&server, &redis, "1")).await;
    for name in ["before connecting", "to connect one", "while holding", "per connection and beat"] {
        assert_eq!(figure(&quiet, &format!("Redis commands {name}")), 0.0, "{name}");
    }
    assert_eq!((figure(&quiet, "Redis keys while holding"), figure(&quiet, "ADR-010: keys")), (0.0, 6.0));
    assert_eq!(figure(&quiet, "ADR-010: beats x 5"), 300.0);
    assert!(figure(&quiet, "beats answered") > 0.0);

    let mut client = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let asking = thread::spawn(move || {
        while stopped.try_recv().is_err() {
            redis::cmd("SET").arg("key").arg("value").exec(&mut client).unwrap();
        }
    });
    let busy = report(six_connections(&server, &redis, "1")).await;
    stop.send(()).unwrap();
    asking.join().unwrap();
    assert!(figure(&busy, "Redis commands per connection and beat") > 0.0);
    assert_eq!(figure(&busy, "Redis keys while holding"), 1.0);
    assert!(figure(&busy, "Redis memory while holding") > 0.0);
}

#[tokio::test]
async fn a_load_fails_if_connections_are_lost() {
    let (mut server, redis) = tokio::join!(attentive_server(), Redis::start());
    let load = six_connections(&server, &redis, "5").spawn().unwrap();
    server.until(async || server.metrics().await.contains("tidings_gateway_connections 6\n")).await;
    server.kill().await;
    let output = tokio::task::spawn_blocking(move || load.wait_with_output().unwrap()).await.unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(1), vec![]));
    let said = String::from_utf8(output.stderr).unwrap();
    // The last of them may not have received its first frame by then.
    assert!(said.contains("a connection ended"), "{said}");
}

#[tokio::test]
async fn a_service_that_runs_already_is_measured_by_its_redis_alone() {
    let server = TestServer::start().await;
    let output = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["load", "-w", "connections", "--url", &server.base_url()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("name that with --redis"), "{said}");
}

#[test]
fn the_store_alone_is_measured_beside_the_server_if_asked() {
    let report = load(&["-w", "pairs", "-n", "2", "--store-limit"]);
    assert!(report["store"]["store_sends_per_second"].as_f64().expect("a figure") > 0.0);
    assert_eq!(report["durability"], "D2: fsynced before the ack");
}
