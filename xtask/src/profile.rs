//! `cargo xtask profile WORKLOAD [--seconds N]`: where the server's time goes, stage by stage.
//!
//! It runs the workload on the release binary and samples the server's stacks with `perf`. Each sample belongs to the
//! innermost function with a stage. The cost of a stage is its share of the server's CPU time per operation.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// Samples per second of each running thread. Not a round number, to avoid lockstep with the server's timers.
const SAMPLES_PER_SECOND: &str = "499";
/// Timeout for a load to start its server.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// The load warms up before it measures.
const WARMUP: Duration = Duration::from_secs(4);

/// The stages in the order in which a message passes them, with substrings that identify their functions. The innermost
/// function of a stack that has a stage decides.
const STAGES: [(&str, &[&str]); 15] = [
    (
        "read a socket",
        &["tcp_recvmsg", "__sys_recvfrom", "WebSocketContext", "FrameCodec", "Queue<S> as tokio::io::async_read"],
    ),
    ("parse", &["from_client", "Inbound", "serde_json::de", "serde_json::read"]),
    (
        "drive a connection",
        &["tidings_gateway::driver", "tidings_protocol::connection", "tidings_gateway::commands", "PollFn"],
    ),
    ("limits", &["tidings_memory::limits", "tidings_domain::quota"]),
    ("queue for the commit", &["tidings_ingest::", "tokio::sync::mpsc", "tokio::sync::oneshot"]),
    (
        "judge",
        &[
            "tidings_embedded::messages",
            "tidings_embedded::watermarks",
            "tidings_embedded::tx",
            "tidings_embedded::committer",
        ],
    ),
    ("write rows", &["fjall::batch", "fjall::journal", "crossbeam_skiplist", "lsm_tree::memtable", "lsm_tree::tree"]),
    ("fsync", &["do_fsync", "__x64_sys_fdatasync", "ext4_sync_file"]),
    (
        "flush and merge tables",
        &["lsm_tree::compaction", "lsm_tree::table::writer", "fjall::flush", "fjall::worker", "lsm_tree::merge"],
    ),
    ("encode", &["serde_json::ser", "from_server", "tidings_protocol::frame"]),
    ("find recipients", &["tidings_fanout::", "tidings_memory::routes", "tidings_memory::member_cache"]),
    (
        "put into mailboxes",
        &["tidings_gateway::hub", "tidings_gateway::mailbox", "tidings_protocol::outbox", "TextFrame"],
    ),
    (
        "write to sockets",
        &["tcp_sendmsg", "__sys_sendmsg", "__sys_sendto", "do_writev", "tidings_gateway::wire", "__x64_sys_write"],
    ),
    ("count and trace", &["metrics", "tracing"]),
    ("wake and sleep", &["epoll", "futex", "tokio::runtime", "schedule", "finish_task_switch", "eventfd"]),
];

pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (workload, seconds) = match arguments {
        [workload] => (*workload, 10),
        [workload, "--seconds", seconds] => (*workload, seconds.parse().context("--seconds takes a number")?),
        _ => {
            bail!("usage: cargo xtask profile WORKLOAD [--seconds N]; the workloads are those of `tidings load --help`")
        }
    };
    ensure!(programs::find_in_path("perf").is_some(), "`perf` is missing; Debian has it in the package `linux-perf`");
    let built = Command::new("cargo").args(["build", "--release", "--bin", "tidings"]).status()?;
    ensure!(built.success(), "the release binary does not build");
    let directory = tempfile::tempdir_in(xtask::target_directory())?;
    let binary = xtask::target_directory().join("release").join("tidings");
    let total = (WARMUP + Duration::from_secs(seconds)).as_secs().to_string();
    let load = Command::new(binary)
        .args(["load", "--json", "--workload", workload, "--seconds", &total, "--data-dir"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the load")?;
    let server = server_of(&load)?;
    thread::sleep(WARMUP);
    let samples = directory.path().join("samples");
    let recorded = Command::new("perf")
        .args(["record", "--quiet", "-e", "cpu-clock", "-F", SAMPLES_PER_SECOND, "--call-graph", "dwarf,16384", "-p"])
        .arg(server.to_string())
        .arg("-o")
        .arg(&samples)
        .args(["--", "sleep", &seconds.to_string()])
        .status()?;
    ensure!(recorded.success(), "perf could not record; is it allowed to (kernel.perf_event_paranoid)?");
    let output = load.wait_with_output()?;
    ensure!(output.status.success(), "the load has failed");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let script = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
        .arg(&samples)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let script = BufReader::new(script.stdout.context("perf script has no output")?);
    let stages = attribute(script.lines().map_while(Result::ok));
    print!("{}", table(&stages, micros_each(&report)?));
    Ok(())
}

/// The process id of the server that a load has started; waits for it.
fn server_of(load: &Child) -> anyhow::Result<u32> {
    let children = format!("/proc/{0}/task/{0}/children", load.id());
    for _ in 0..START_TIMEOUT.as_millis() / POLL.as_millis() {
        // Any thread of the load may have started it.
        let threads = std::fs::read_dir(format!("/proc/{}/task", load.id()))?;
        for thread in threads.flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            if let Some(child) = children.split_whitespace().next() {
                return Ok(child.parse()?);
            }
        }
        thread::sleep(POLL);
    }
    bail!("the load has started no server ({children})")
}

/// Server CPU microseconds per operation, by the first figure of a report.
fn micros_each(report: &Value) -> anyhow::Result<f64> {
    let rate = report["figures"][0]["value"].as_f64().context("the report has no figure")?;
    let seconds = report["seconds"].as_f64().context("the report has no duration")?;
    let cpu_seconds = report["server"]["cpu_seconds"].as_f64().context("the report says nothing of the server")?;
    Ok(cpu_seconds * 1e6 / (rate * seconds))
}

/// The number of samples of each stage. A sample is a line with the name of its thread, a line for each function from the
/// innermost outwards, and an empty line.
fn attribute(script: impl Iterator<Item = String>) -> BTreeMap<&'static str, usize> {
    let mut stages = BTreeMap::new();
    let mut found = None;
    let mut is_within = false;
    for line in script {
        if line.is_empty() {
            if is_within {
                *stages.entry(found.take().unwrap_or("other")).or_default() += 1;
            }
            is_within = false;
        } else {
            is_within = true;
            found = found.or_else(|| stage_of(&line));
        }
    }
    stages
}

fn stage_of(function: &str) -> Option<&'static str> {
    let is_theirs = |(_, names): &&(&str, &[&str])| names.iter().any(|name| function.contains(name));
    STAGES.iter().find(is_theirs).map(|(stage, _)| *stage)
}

fn table(stages: &BTreeMap<&str, usize>, micros_each: f64) -> String {
    let all: usize = stages.values().sum();
    let mut text = format!("{:<24} {:>8} {:>14}\n", "stage", "share", "us for each");
    for stage in STAGES.iter().map(|(stage, _)| *stage).chain(["other"]) {
        let share = stages.get(stage).copied().unwrap_or_default() as f64 / all.max(1) as f64;
        text += &format!("{stage:<24} {:>7.1}% {:>14.2}\n", share * 100.0, share * micros_each);
    }
    text + &format!("{:<24} {:>7.1}% {micros_each:>14.2}\n", "all", 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_belongs_to_the_innermost_function_that_has_a_stage() {
        let script = "committer\n\t1 __memcmp_avx2\n\t2 crossbeam_skiplist::base::search\n\t3 tidings_embedded::tx::Tx::commit\n\n\
                      worker\n\t1 nobody::knows\n\n\
                      worker\n\t1 tcp_sendmsg_locked\n\t2 tidings_gateway::driver::run\n\n";
        let stages = attribute(script.lines().map(str::to_owned));
        let expected = [("other", 1), ("write rows", 1), ("write to sockets", 1)];
        assert_eq!(stages.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_stage_costs_its_share_of_the_time() {
        let report = serde_json::json!({
            "figures": [{ "name": "messages delivered", "value": 1000.0 }], "seconds": 10.0, "server": { "cpu_seconds": 0.5 },
        });
        assert_eq!(micros_each(&report).unwrap(), 50.0);
        let table = table(&BTreeMap::from([("parse", 1), ("encode", 3)]), 50.0);
        assert!(table.contains("parse                       25.0%          12.50\n"), "{table}");
        assert!(table.contains("all                        100.0%          50.00\n"), "{table}");
    }
}
