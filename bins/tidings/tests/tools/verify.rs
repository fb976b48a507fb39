//! `tidings verify`: on a directory that is whole or broken, and on the engines of a fleet.

use std::path::Path;

use embedded::EmbeddedStore;
use expect_test::expect;
use fjall::Database;
use ports::contract::Peopled;

use super::*;

/// The invariants that only a fleet has.
const OF_A_FLEET: [&str; 2] = ["access_pattern_efficiency", "gsi_justification"];

/// A data directory in which everything has been used.
async fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store =
        EmbeddedStore::open(directory.path(), embedded::Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
    let store = store.unwrap();
    Peopled::make(&store, SystemClock.now()).await;
    let mut consumer = store.consumer("fanout").await.unwrap();
    consumer.next().await.unwrap();
    consumer.commit().await.unwrap();
    drop(consumer);
    store.close().await;
    directory
}

/// Loses all rows of a table, behind the back of everybody.
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
async fn verify(directory: &Path, arguments: &[&str]) -> Answer {
    answer(command(directory, arguments)).await
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    command.args(["verify", "--data-dir"]).arg(directory).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The violated ones of a report.
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
        sequence_uniqueness 21
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
async fn what_a_directory_has_lost_is_named_and_exits_1() {
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

#[tokio::test]
async fn what_cannot_be_looked_at_exits_2() {
    let missing = tempfile::tempdir().unwrap().path().join("nowhere");
    verify(&missing, &[]).await.ended(2).says("there is no data directory");
    let directory = directory().await;
    let held =
        EmbeddedStore::open(directory.path(), embedded::Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
    let held = held.unwrap();
    verify(directory.path(), &[]).await.ended(2).says("ask the running service with --admin, or look at a copy");
    held.close().await;
    verify(directory.path(), &["--admin"]).await.ended(2).says("no service has been started");
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

    verify(directory.path(), &keep).await.ended(2).says("go on with --resume, or delete it");
    let report = verify(directory.path(), &[&keep[..], &["--resume", "--json"]].concat()).await.ended(1).json();
    assert_eq!(violated(&report), ["delivery_watermark_monotonic"]);
    assert!(!file.exists());
}

/// Engines with a little of everything, all of which is in the log.
async fn peopled() -> (World, Peopled) {
    let world = World::with_schema().await;
    let store = world.store();
    let people = Peopled::make(&store, SystemClock.now().minus(Duration::from_secs(1200))).await;
    for chat_id in store.overdue(domain::Timestamp::MAX).await.unwrap() {
        let messages = store.unpublished(chat_id).await.unwrap();
        let waiting = store.waiting(chat_id).await.unwrap();
        world.publish(&messages).await;
        world.publish(&waiting.iter().map(|waiting| waiting.event.clone()).collect::<Vec<_>>()).await;
        store.published(chat_id, Sequence(messages.len() as u64)).await.unwrap();
        let places: Vec<_> = waiting.into_iter().map(|waiting| waiting.place).collect();
        store.forget(chat_id, &places).await.unwrap();
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
    let report = world.run(&["verify", "--json"]).await.ended(0).json();
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
    let report = world.run(&["verify", "--json"]).await.ended(1).json();
    assert_eq!(violated(&report), ["counter_must_exist"], "{report}");
    world.run(&["verify"]).await.ended(1).says(&format!("counter_must_exist: {}", people.direct));
}

#[tokio::test]
async fn tables_and_events_of_a_fleet_that_are_not_ours_are_named() {
    let (world, people) = peopled().await;
    // An event of a message that was never stored.
    let stray = message(people.group, people.owner).at(Sequence(6), None);
    world.publish(&[Arc::new(Event::message_persisted(stray, None))]).await;
    let report = world.run(&["verify", "--json"]).await.ended(1).json();
    assert_eq!(
        violated(&report),
        ["sequence_contiguous", "counter_lower_bound", "kafka_reflects_dynamodb"],
        "{report}"
    );
}

#[tokio::test]
async fn an_auditor_may_read_whole_tables_and_nobody_else() {
    let world = World::start().await;
    let policy = world.run(&["schema", "show", "--format", "iam", "--role", "auditor", "--json"]).await.ended(0).json();
    assert!(policy["auditor"].to_string().contains("dynamodb:Scan"), "{policy}");
    let roles = world.run(&["schema", "show", "--format", "iam", "--json"]).await.ended(0).json();
    assert!(!roles.to_string().contains("Scan"), "{roles}");
}
