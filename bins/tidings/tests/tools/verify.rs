//! `tidings store verify`: on an intact or broken directory, and on the engines of a fleet.

use std::path::{Path, PathBuf};

use contract::SampleData;
use embedded::EmbeddedStore;
use expect_test::expect;
use fjall::Database;

use super::*;

/// The invariants of a fleet only.
const OF_A_FLEET: [&str; 2] = ["access_pattern_efficiency", "gsi_justification"];

/// A data directory with some data of each kind.
async fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store =
        EmbeddedStore::open(directory.path(), embedded::Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
    let store = store.unwrap();
    SampleData::make(&store, SystemClock.now()).await;
    let mut consumer = store.consumer("fanout").await.unwrap();
    consumer.next().await.unwrap();
    consumer.commit().await.unwrap();
    drop(consumer);
    store.close().await;
    directory
}

/// Deletes all rows of a table, bypassing the store.
fn lose(directory: &Path, table: &str) {
    let database = Database::builder(directory.join("db")).open().unwrap();
    let keyspace = database.keyspace(table, Default::default).unwrap();
    let keys: Vec<_> = keyspace.iter().map(|row| row.key().unwrap()).collect();
    assert!(!keys.is_empty(), "{table} has rows");
    for key in keys {
        keyspace.remove(key).unwrap();
    }
    database.persist(fjall::PersistMode::SyncAll).unwrap();
}

/// Runs the command on a directory.
async fn verify(directory: &Path, arguments: &[&str]) -> CommandOutput {
    answer(command(directory, arguments)).await
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    command
        .args(["store", "verify", "--data-dir"])
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The violated invariants of a report.
fn violated(report: &Value) -> Vec<&str> {
    let lines = report["invariants"].as_array().unwrap();
    lines.iter().filter(|line| line["violated"] != 0).map(|line| line["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_whole_directory_has_nothing_violated() {
    let directory = directory().await;
    verify(directory.path(), &[]).await.ended(0).says("nothing is violated");
    let report = verify(directory.path(), &["--json"]).await.ended(0).json();
    let lines = report["invariants"].as_array().unwrap();
    let said: String =
        lines.iter().map(|line| format!("{} {}\n", line["name"].as_str().unwrap(), line["checked"])).collect();
    expect![[r#"
        dynamodb_is_authoritative 67
        counter_must_exist 2
        sequence_uniqueness 28
        sequence_contiguous 9
        sequence_monotonicity 7
        counter_lower_bound 14
        idempotency_sequence_consistency 14
        no_zero_sequence 21
        delivery_watermark_monotonic 5
        watermark_bounded_by_head 5
        read_implies_delivered 5
        direct_chat_uniqueness 2
        owner_always_exists 1
        group_size_bounded 3
        ttl_bounded_tables 18
        item_size_bounded 55
        kafka_reflects_dynamodb 9
        published_eventually 2
        ordering_preserved 7
        commit_after_process 1
        no_silent_loss 5
        only_members_receive 5
    "#]]
    .assert_eq(&said);
    assert_eq!(lines[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["checked", "examples", "name", "violated"]);
}

#[tokio::test]
async fn losses_of_a_directory_are_named_and_exit_1() {
    for (table, expected) in [
        ("heads", &["counter_must_exist"][..]),
        ("send_keys", &["idempotency_sequence_consistency"]),
        ("watermarks", &["delivery_watermark_monotonic"]),
        ("memberships", &["no_silent_loss"]),
        ("message_places", &["dynamodb_is_authoritative"]),
        ("expiries", &["ttl_bounded_tables"]),
        ("direct_chats", &["direct_chat_uniqueness"]),
        ("messages", &["sequence_contiguous", "kafka_reflects_dynamodb"]),
    ] {
        let directory = directory().await;
        lose(directory.path(), table);
        let report = verify(directory.path(), &["--json"]).await.ended(1).json();
        assert_eq!(violated(&report), expected, "{table}: {report}");
        if table == "heads" {
            verify(directory.path(), &[]).await.ended(1).says("counter_must_exist: chat_").says("it has no head row");
        }
    }
}

/// A journal of a directory, and the position of a byte in its used part.
fn journal(directory: &Path) -> (PathBuf, usize) {
    let path = directory.join("db/1.jnl");
    let bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it was written to");
    (path, end / 2)
}

/// The version file of the keyspace that lists the others, and the position of a byte in it.
fn version(directory: &Path) -> (PathBuf, usize) {
    let index = directory.join("db/keyspaces/0");
    let current = fs::read(index.join("current")).unwrap();
    let number = u64::from_le_bytes(current[..8].try_into().unwrap());
    (index.join(format!("v{number}")), 20)
}

/// A table file of that keyspace, likewise.
fn table(directory: &Path) -> (PathBuf, usize) {
    let mut files = fs::read_dir(directory.join("db/keyspaces/0/tables")).unwrap();
    (files.next().expect("the engine lists its tables in a table").unwrap().path(), 20)
}

#[tokio::test]
async fn a_byte_that_changed_in_a_file_is_found_without_opening_the_store() {
    for (find, reason) in [
        (journal as fn(&Path) -> _, "bytes of acknowledged commits are unreadable"),
        (version, "(table `index of tables`): its checksum is not the one in `current`"),
        (table, "(table `index of tables`): the checksum of its"),
    ] {
        let directory = directory().await;
        let clean = verify(directory.path(), &["--deep", "--rate-mib", "1000"]).await;
        clean.ended(0).says("bytes check out").says("nothing is violated");
        let (path, at): (PathBuf, usize) = find(directory.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let found = verify(directory.path(), &["--deep"]).await;
        found.ended(1).says(&path.display().to_string()).says(reason).says("1 damaged, ").says("tidings store repair");
        let report = verify(directory.path(), &["--deep", "--json"]).await.ended(1).json();
        assert_eq!(report["files"]["damaged"][0]["file"], path.to_str().unwrap(), "{report}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "a look changes nothing");
    }
}

#[tokio::test]
async fn a_store_that_does_not_open_says_why_to_a_deep_check_too() {
    let directory = directory().await;
    fs::write(directory.path().join("FORMAT"), "tidings embedded store, format 9\n").unwrap();
    verify(directory.path(), &["--deep"]).await.ended(2).says("has format 9");
    let missing = directory.path().join("nowhere");
    verify(&missing, &["--deep"]).await.ended(2).says("there is no data directory");
    verify(directory.path(), &["--rate-mib", "5"]).await.ended(2).says("--deep");
}

#[tokio::test]
async fn a_check_that_cannot_run_exits_2() {
    let missing = tempfile::tempdir().unwrap().path().join("nowhere");
    verify(&missing, &[]).await.ended(2).says("there is no data directory");
    let directory = directory().await;
    let held =
        EmbeddedStore::open(directory.path(), embedded::Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
    let held = held.unwrap();
    verify(directory.path(), &[])
        .await
        .ended(2)
        .says("use --admin-listen to query the running service, or verify a copy");
    held.close().await;
    verify(directory.path(), &["--admin-listen"]).await.ended(2).says("no service has been started");
}

#[tokio::test]
async fn an_interrupted_audit_goes_on() {
    let directory = directory().await;
    lose(directory.path(), "watermarks");
    let file = directory.path().join("checkpoint");
    let keep = ["--checkpoint", file.to_str().unwrap()];
    let mut slow = command(directory.path(), &[&keep[..], &["--rate", "20"]].concat()).spawn().unwrap();
    let written = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, written).await.unwrap();
    slow.kill().await.unwrap();

    verify(directory.path(), &keep).await.ended(2).says("continue with --resume, or delete it");
    let report = verify(directory.path(), &[&keep[..], &["--resume", "--json"]].concat()).await.ended(1).json();
    assert_eq!(violated(&report), ["delivery_watermark_monotonic"]);
    assert!(!file.exists());
}

/// Engines with some data of each kind, all of it in the log.
async fn peopled() -> (World, SampleData) {
    let world = World::with_schema().await;
    let store = world.store();
    let people = SampleData::make(&store, SystemClock.now().minus(Duration::from_secs(1200))).await;
    for chat_id in store.overdue(domain::Timestamp::MAX).await.unwrap() {
        let messages = store.unpublished(chat_id).await.unwrap();
        let waiting = store.pending_changes(chat_id).await.unwrap();
        world.publish(&messages).await;
        world.publish(&waiting.iter().map(|waiting| waiting.event.clone()).collect::<Vec<_>>()).await;
        store.published(chat_id, Sequence(messages.len() as u64)).await.unwrap();
        let keys: Vec<_> = waiting.into_iter().map(|waiting| waiting.key).collect();
        store.confirm_changes(chat_id, &keys).await.unwrap();
    }
    let log = world.log();
    let mut consumer = log.consumer("fanout").await.unwrap();
    consumer.next().await.unwrap();
    consumer.commit().await.unwrap();
    (world, people)
}

#[tokio::test]
async fn a_fleet_is_checked_as_a_whole() {
    let (world, people) = peopled().await;
    let report = world.run(&["store", "verify", "--json"]).await.ended(0).json();
    assert_eq!(violated(&report), [""; 0], "{report}");
    let lines = report["invariants"].as_array().unwrap();
    let names: Vec<_> =
        lines.iter().filter(|line| line["checked"] != 0).map(|line| line["name"].as_str().unwrap()).collect();
    for invariant in audit::CHECKED {
        assert!(names.contains(&invariant.name()), "{invariant} was not checked: {report}");
    }
    for name in OF_A_FLEET {
        assert!(names.contains(&name), "{name} was not checked: {report}");
    }

    world.lose_counter(people.direct).await;
    let report = world.run(&["store", "verify", "--json"]).await.ended(1).json();
    assert_eq!(violated(&report), ["counter_must_exist"], "{report}");
    world.run(&["store", "verify"]).await.ended(1).says(&format!("counter_must_exist: {}", people.direct));
}

#[tokio::test]
async fn tables_and_events_of_a_fleet_that_are_not_ours_are_named() {
    let (world, people) = peopled().await;
    // An event of a message that was never stored.
    let stray = message(people.group, people.owner).at(Sequence(6), None);
    world.publish(&[Arc::new(Event::message_persisted(stray, None))]).await;
    let report = world.run(&["store", "verify", "--json"]).await.ended(1).json();
    assert_eq!(
        violated(&report),
        ["sequence_contiguous", "counter_lower_bound", "kafka_reflects_dynamodb"],
        "{report}"
    );
}

#[tokio::test]
async fn only_an_auditor_may_read_whole_tables_but_that_of_chats() {
    let world = World::start().await;
    let policy =
        world.run(&["store", "schema", "show", "--format", "iam", "--role", "auditor", "--json"]).await.ended(0).json();
    assert!(policy["auditor"].to_string().contains("dynamodb:Scan"), "{policy}");
    let roles = world.run(&["store", "schema", "show", "--format", "iam", "--json"]).await.ended(0).json();
    for (role, policy) in roles.as_object().unwrap() {
        for statement in policy["Statement"].as_array().into_iter().flatten() {
            if statement["Action"].to_string().contains("Scan") {
                // The retention of the service walks all chats.
                let tables = statement["Resource"].as_array().unwrap();
                assert!(
                    tables.iter().all(|table| table.as_str().unwrap().ends_with("table/tidings_chats")),
                    "{statement}"
                );
                assert_eq!(role, "api");
            }
        }
    }
}
