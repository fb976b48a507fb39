//! A data directory of an earlier format: the service refuses it, and `tidings store migrate` upgrades it.

use std::fs;
use std::path::Path;
use std::process::Output;

use fjall::{Database, PersistMode};
use serde_json::Value;

use crate::tidings;

/// Every row of a store written by the last program of format 1: table, key and row.
const FORMAT_1: &str = include_str!("../../../../adapters/embedded/src/migrate/format_1.txt");

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn format_1(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("FORMAT"), "tidings embedded store, format 1\n").unwrap();
    fs::write(directory.join("admin-audit.jsonl"), "").unwrap();
    let database = Database::builder(directory.join("db")).open().unwrap();
    for line in FORMAT_1.lines() {
        let [table, key, row] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
        database.keyspace(table, Default::default).unwrap().insert(unhex(key), unhex(row)).unwrap();
    }
    database.persist(PersistMode::SyncAll).unwrap();
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn an_older_store_is_refused_with_the_command_that_brings_it_forward() {
    let beside = tempfile::tempdir().unwrap();
    let directory = beside.path().join("data");
    format_1(&directory);
    let any = "127.0.0.1:0";
    let refused = tidings(&["serve", "--dev", "--listen", any, "--admin-listen", any], &directory).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let expected = format!("bring it there with `tidings store migrate --data-dir {}`", directory.display());
    assert!(said.contains("has format 1") && said.contains(&expected), "{said}");

    let migrated = json(&tidings(&["store", "migrate", "--json"], &directory).await);
    assert_eq!((&migrated["migrated"], &migrated["from"], &migrated["to"]), (&true.into(), &1.into(), &2.into()));
    let rows = FORMAT_1.lines().count();
    assert_eq!(migrated["rows"], rows);
    let verified = json(&tidings(&["store", "verify", "--json"], &directory).await);
    assert_eq!(verified, migrated["verify"]);
    let lines = verified["invariants"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["violated"] == 0), "{verified}");
    assert!(lines.iter().any(|line| line["name"] == "sequence_monotonicity" && line["checked"] != 0), "{verified}");

    // The backup holds the old store, and restores into the current format as well.
    let backup = migrated["backup"].as_str().unwrap();
    let other = beside.path().join("other");
    let restored = json(&tidings(&["store", "restore", backup, "--json"], &other).await);
    assert_eq!((&restored["backup"]["store_format"], &restored["backup"]["rows"]), (&1.into(), &rows.into()));
    let again = json(&tidings(&["store", "migrate", "--json"], &directory).await);
    assert_eq!(again["migrated"], false);
}
