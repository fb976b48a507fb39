//! The server activities that power cuts interrupt.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cuts::CutScenario;
use crate::format_1;
use crate::judge::{CutFinding, Judge};
use crate::ledger::{Micros, ResponseLedger, now};
use crate::load::{RecordedLoad, Sizes};
use crate::model::state;
use crate::process::{PATIENCE, TracedProcess, run};
use crate::recorded::{Recorded, Workspace};
use crate::{aim, cuts};

/// Bytes after which the engine begins a new journal.
const JOURNAL_BYTES: u64 = 64_000_000;
/// Bytes of one table after which the engine flushes them.
const MEMTABLE_BYTES: u64 = 8 << 20;
/// Messages per batch to reach these sizes.
const FILL: usize = 200;

/// Judges whether the server has every answered request. Most scenarios use it.
async fn served(recorded: &Recorded, directory: &Path, cut: Micros) -> Result<(), CutFinding> {
    Judge::new(&recorded.ledger, &recorded.http).judge(&directory.join("data"), cut).await
}

/// Starts a server that is not recorded.
async fn start(workspace: &Workspace) -> TracedProcess {
    let log = workspace.beside("log");
    TracedProcess::start(&workspace.data_dir(), &log, None).await.unwrap_or_else(|said| panic!("{said}"))
}

/// Treats the current contents as durable, and starts a recorded server.
async fn start_recorded(workspace: &mut Workspace) -> TracedProcess {
    let (trace, log) = (workspace.begin(), workspace.beside("log"));
    TracedProcess::start(&workspace.data_dir(), &log, Some(&trace)).await.unwrap_or_else(|said| panic!("{said}"))
}

async fn stop(server: TracedProcess) {
    let status = server.stop().await;
    assert!(status.success(), "{status}");
}

/// Creates a store with some usage.
async fn used(workspace: &Workspace, rounds: usize) -> RecordedLoad {
    let server = start(workspace).await;
    let mut load = RecordedLoad::new(rand::random());
    load.meet(&server.base_url).await;
    load.go_on(rounds, Sizes::Mixed, None).await;
    stop(server).await;
    load
}

/// A first start, and the first messages.
pub(crate) async fn record_first_start() -> Recorded {
    let mut workspace = Workspace::new();
    let server = start_recorded(&mut workspace).await;
    let mut load = RecordedLoad::new(rand::random());
    load.meet(&server.base_url).await;
    load.go_on(6, Sizes::Mixed, None).await;
    stop(server).await;
    workspace.finish(load.ledger)
}

async fn record_load() -> (Recorded, RecordedLoad) {
    let mut workspace = Workspace::new();
    let mut load = used(&workspace, 4).await;
    let server = start_recorded(&mut workspace).await;
    load.reconnect(&server.base_url).await;
    load.go_on(30, Sizes::Mixed, None).await;
    load.go_on(10, Sizes::Longest, None).await;
    stop(server).await;
    (workspace.finish(load.ledger.clone()), load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_start() {
    CutScenario { name: "first_start", cuts: 56 }.check(record_first_start, served).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load() {
    CutScenario { name: "load", cuts: 98 }.check(async || record_load().await.0, served).await;
}

/// A flush, and a new journal in place of a full one. The first start already covers compactions: there the engine
/// merges its metadata of each table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flush() {
    let record = async || {
        let mut workspace = Workspace::new();
        let server = start(&workspace).await;
        let mut load = RecordedLoad::new(rand::random());
        load.meet(&server.base_url).await;
        // Two people, so that few pushes are traced.
        let large = load.make_chat(&[0, 2], "").await;
        // The engine starts a new journal when it flushes a memtable after this many bytes, so fill it almost that far
        // first.
        let mut flushed = (engine_files(&workspace), 0);
        loop {
            load.fill(large, FILL).await;
            let (files, bytes) = (engine_files(&workspace), journal_bytes(&workspace));
            if files != flushed.0 {
                flushed = (files, bytes);
            }
            if bytes > JOURNAL_BYTES && bytes - flushed.1 > MEMTABLE_BYTES - 1_500_000 {
                break;
            }
        }
        stop(server).await;
        let server = start_recorded(&mut workspace).await;
        load.reconnect(&server.base_url).await;
        let before = engine_files(&workspace);
        for round in 0.. {
            assert!(round < 20, "a full journal makes way for a new one");
            load.fill(large, FILL).await;
            load.go_on(1, Sizes::Mixed, None).await;
            let now = engine_files(&workspace);
            let is_made = |what: &str| now.difference(&before).any(|file| file.contains(what));
            if is_made(".jnl") && is_made("/tables/") && before.difference(&now).any(|file| file.ends_with(".jnl")) {
                break;
            }
        }
        load.go_on(3, Sizes::Mixed, None).await;
        stop(server).await;
        workspace.finish(load.ledger)
    };
    CutScenario { name: "flush", cuts: 16 }.check(record, served).await;
}

/// Bytes of the newest journal, without its unused end.
fn journal_bytes(workspace: &Workspace) -> u64 {
    let files = engine_files(workspace);
    let journals = files.iter().filter(|file| file.ends_with(".jnl"));
    let newest = journals.max_by_key(|name| (name.len(), name.to_string())).expect("there is a journal");
    // The rest of the file is a hole.
    fs::metadata(newest).unwrap().blocks() * 512
}

/// The files of the engine.
fn engine_files(workspace: &Workspace) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut directories = vec![workspace.data_dir().join("db")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => _ = files.insert(entry.path().to_str().unwrap().to_owned()),
            }
        }
    }
    files
}

/// Messages expire and are purged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge() {
    let record = async || {
        let mut workspace = Workspace::new();
        let mut load = used(&workspace, 2).await;
        let server = start_recorded(&mut workspace).await;
        load.reconnect(&server.base_url).await;
        load.go_on(12, Sizes::Mixed, Some(1)).await;
        load.until_expired().await;
        load.go_on(2, Sizes::Mixed, None).await;
        stop(server).await;
        workspace.finish(load.ledger)
    };
    CutScenario { name: "purge", cuts: 36 }.check(record, served).await;
}

/// Messages expire, and a round of erasure rewrites the journal and the tables with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erase() {
    const SOON: (&str, &str) = ("TIDINGS_STORE__ERASE_WITHIN_SECONDS", "2");
    let record = async || {
        let mut workspace = Workspace::new();
        let mut load = used(&workspace, 2).await;
        let (trace, log) = (workspace.begin(), workspace.beside("log"));
        let server = TracedProcess::start_with(&workspace.data_dir(), &log, Some(&trace), &[SOON]).await;
        let server = server.unwrap_or_else(|said| panic!("{said}"));
        load.reconnect(&server.base_url).await;
        load.go_on(6, Sizes::Mixed, Some(1)).await;
        load.until_expired().await;
        let rounds = || fs::read_to_string(&log).unwrap().matches("erased deleted rows from the disk").count();
        let before = rounds();
        let deadline = Instant::now() + PATIENCE;
        // Sends between and during rounds: a round must not lose them.
        while rounds() <= before {
            assert!(Instant::now() < deadline, "no round of erasure has ended");
            load.go_on(1, Sizes::Mixed, None).await;
        }
        load.go_on(2, Sizes::Mixed, None).await;
        stop(server).await;
        workspace.finish(load.ledger)
    };
    CutScenario { name: "erase", cuts: 36 }.check(record, served).await;
}

/// `tidings store backup` of a stopped store. Its file gets its final name when it is complete, and is durable once the
/// command reports success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup() {
    let record = async || {
        let mut workspace = Workspace::new();
        let mut load = used(&workspace, 12).await;
        let (file, trace) = (workspace.root().join("backup"), workspace.begin());
        succeeds(&["store", "backup", file.to_str().unwrap(), "--json"], &workspace.data_dir(), Some(&trace))
            .await
            .unwrap();
        load.ledger.command_answered = Some(now());
        workspace.finish(load.ledger)
    };
    let judge = async |recorded: &Recorded, directory: &Path, cut: Micros| {
        let file = directory.join("backup");
        if file.exists() {
            let arguments = ["store", "restore", "--check", file.to_str().unwrap(), "--json"];
            succeeds(&arguments, &directory.join("elsewhere"), None).await?;
        } else if recorded.ledger.command_answered < Some(cut) {
            return Err("LOST: the backup is not there".to_owned());
        }
        served(recorded, directory, cut).await
    };
    CutScenario { name: "backup", cuts: 24 }.check(record, judge).await;
}

/// `tidings store restore`. The data directory gets its final name when it is complete, and is durable once the command
/// reports success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restore() {
    let record = async || {
        let mut workspace = Workspace::new();
        let mut load = used(&workspace, 12).await;
        let file = workspace.root().join("backup");
        let file = file.to_str().unwrap();
        succeeds(&["store", "backup", file, "--json"], &workspace.data_dir(), None).await.unwrap();
        fs::remove_dir_all(workspace.data_dir()).unwrap();
        let trace = workspace.begin();
        succeeds(&["store", "restore", file, "--json"], &workspace.data_dir(), Some(&trace)).await.unwrap();
        load.ledger.command_answered = Some(now());
        workspace.finish(load.ledger)
    };
    let judge = async |recorded: &Recorded, directory: &Path, cut: Micros| {
        let data_dir = directory.join("data");
        if !data_dir.exists() {
            if recorded.ledger.command_answered < Some(cut) {
                return Err("LOST: the restored directory is not there".to_owned());
            }
            // The leftover directory stops the next attempt, which names it.
            let partial = directory.join("data.partial");
            if partial.exists() {
                fs::remove_dir_all(partial).unwrap();
            }
            let file = directory.join("backup");
            succeeds(&["store", "restore", file.to_str().unwrap(), "--json"], &data_dir, None).await?;
        }
        served(recorded, directory, Micros::MAX).await
    };
    CutScenario { name: "restore", cuts: 24 }.check(record, judge).await;
}

/// `tidings store migrate`. The store is the old or the new one, and the command can be repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate() {
    let record = async || {
        let mut workspace = Workspace::new();
        format_1::make(&workspace.data_dir());
        let trace = workspace.begin();
        let mut migrated =
            succeeds(&["store", "migrate", "--json"], &workspace.data_dir(), Some(&trace)).await.unwrap();
        let ledger = ResponseLedger {
            command_answered: Some(now()),
            verified: migrated["verify"].take(),
            ..ResponseLedger::default()
        };
        workspace.finish(ledger)
    };
    let judge = async |recorded: &Recorded, directory: &Path, cut: Micros| {
        let data_dir = directory.join("data");
        // The default name of the backup contains the current second, which is the same in both runs here.
        let again = directory.join("again.backup");
        let migrated =
            succeeds(&["store", "migrate", "--json", "--backup", again.to_str().unwrap()], &data_dir, None).await?;
        if migrated["migrated"] == true && recorded.ledger.command_answered < Some(cut) {
            return Err("LOST: the store is of format 1 again".to_owned());
        }
        let verified = succeeds(&["store", "verify", "--json"], &data_dir, None).await?;
        if verified != recorded.ledger.verified {
            return Err(format!("LOST: {verified} is verified, and {} was before", recorded.ledger.verified));
        }
        served(recorded, directory, cut).await
    };
    CutScenario { name: "migrate", cuts: 24 }.check(record, judge).await;
}

/// A power cut, a restart, and another power cut during the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery() {
    let first = OnceCell::new();
    for _ in 0..3 {
        let record = async || {
            let (first, load) = first.get_or_init(record_load).await;
            // A state on which the engine has something to repair: data of the journal is missing.
            let cut = aim::torn_journal(&first.recording, rand::random());
            let mut load = load.again();
            load.ledger.forget_answers_since(first.recording.stamps[cut.moment]);
            let mut workspace = Workspace::new();
            fs::remove_dir(workspace.root()).unwrap();
            state(&first.recording, cut).store(&workspace.root());
            let server = start_recorded(&mut workspace).await;
            load.reconnect(&server.base_url).await;
            load.go_on(3, Sizes::Mixed, None).await;
            stop(server).await;
            workspace.finish(load.ledger)
        };
        CutScenario { name: "recovery", cuts: 12 }.check(record, served).await;
    }
}

/// Runs a command with JSON output.
async fn succeeds(arguments: &[&str], data_dir: &Path, trace: Option<&Path>) -> Result<Value, CutFinding> {
    let output = run(arguments, data_dir, trace).await;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`tidings {}` ended with {}: {said}", arguments[0], output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("`tidings {}`: {error}", arguments[0]))
}

/// Ineffective syncs, one kind at a time: each must be detected, or this test would miss a real one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_does_nothing_is_found() {
    /// Cuts within which each kind must be detected. About one in ten detects it, so the test does not fail by chance.
    const WITHIN: usize = 200;
    let recorded = record_first_start().await;
    for kind in [aim::FileKind::Journal, aim::FileKind::Table, aim::FileKind::Directory, aim::FileKind::Other] {
        let without = recorded.with(aim::without_syncs(&recorded.recording, kind));
        let aimed = aim::cuts(&without.recording, WITHIN, rand::random());
        let outcome = cuts::run("control", &without, aimed, 1, served).await;
        eprintln!("without syncs of {kind:?}: {}", outcome.summary());
        assert!(!outcome.findings.is_empty(), "{WITHIN} cuts without syncs of {kind:?} found nothing");
    }
}
