//! A store as the last program of format 1 has left it.

use std::fs;
use std::path::Path;

use fjall::{Database, PersistMode};

/// Every row of the store: table, key and row.
const ROWS: &str = include_str!("../../../../adapters/embedded/src/migrate/format_1.txt");

pub(crate) fn make(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("FORMAT"), "tidings embedded store, format 1\n").unwrap();
    fs::write(directory.join("admin-audit.jsonl"), "").unwrap();
    let database = Database::builder(directory.join("db")).open().unwrap();
    for line in ROWS.lines() {
        let [table, key, row] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
        database.keyspace(table, Default::default).unwrap().insert(unhex(key), unhex(row)).unwrap();
    }
    database.persist(PersistMode::SyncAll).unwrap();
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
