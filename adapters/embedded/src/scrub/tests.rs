use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

use ports::{RandomIds, SystemClock};
use tempfile::TempDir;

use super::*;
use crate::Config;
use crate::tables::{Table, Tables};

/// Rows that fill a table file of several steps, even compressed.
const ROWS: Range<u32> = 0..2000;
/// Rows per commit.
const COMMIT_ROWS: usize = 5;

/// Incompressible bytes.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | 0x9e37_79b9;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..150).flat_map(|_| next()).collect()
}

fn write(tables: &Tables, table: Table, rows: Range<u32>) {
    for rows in rows.collect::<Vec<_>>().chunks(COMMIT_ROWS) {
        let mut batch = tables.batch(rows.len());
        for n in rows {
            batch.write(table, n.to_be_bytes().into(), Some(noise(*n).into()));
        }
        batch.commit().unwrap();
    }
}

/// A closed store with flushed, compacted and ingested table files, and with commits that are only in a journal.
fn closed_store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let claimed = Directory::claim(directory.path(), None).unwrap();
    let tables = Tables::open(&claimed.database(), &Config::default()).unwrap();
    write(&tables, Table::Messages, ROWS);
    tables.compact(Table::Messages).unwrap();
    let ingested = ROWS.map(|n| Ok::<_, StoreError>((n.to_be_bytes().into(), noise(n).into())));
    tables.fill(Table::Heads, ingested).unwrap();
    write(&tables, Table::Users, 0..10);
    tables.compact(Table::Users).unwrap();
    write(&tables, Table::Users, 10..20);
    tables.seal().unwrap();
    drop(tables);
    directory
}

fn finish(mut scrub: Scrub) -> Scrubbed {
    while let Some(read) = scrub.next_step().unwrap() {
        assert!(read <= STEP_BYTES || scrub.reading.is_none(), "{read}");
    }
    scrub.scrubbed
}

fn scrub(directory: &Path) -> Scrubbed {
    finish(Scrub::of_directory(directory).unwrap())
}

async fn scrub_live(store: &EmbeddedStore) -> Scrubbed {
    let mut scrub = store.scrub().await.unwrap();
    loop {
        let (next, read) = scrub.next().await.unwrap();
        if read.is_none() {
            return next.scrubbed;
        }
        scrub = next;
    }
}

/// The table files, with the name of their table.
fn table_files(directory: &Path) -> Vec<(String, PathBuf)> {
    let keyspaces = keyspaces(&directory.join("db")).unwrap();
    let names = names(&keyspaces);
    let mut files = vec![];
    for (number, keyspace) in keyspaces {
        let Ok(version) = version(&keyspace) else { panic!("{keyspace:?}") };
        files.extend(version.tables.iter().map(|table| (names[&number].clone(), table_path(&keyspace, table.id))));
    }
    files
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn damaged(path: &Path, table: Option<&str>, reason: impl Into<String>) -> Vec<FileDamage> {
    vec![FileDamage { path: path.to_owned(), table: table.map(str::to_owned), reason: reason.into() }]
}

#[test]
fn files_that_were_flushed_compacted_and_ingested_all_check_out() {
    let directory = closed_store();
    let scrub = Scrub::of_directory(directory.path()).unwrap();
    let about = scrub.bytes_about();
    let scrubbed = finish(scrub);
    assert_eq!(scrubbed.damaged, []);
    let files = table_files(directory.path());
    for table in ["messages", "heads", "users", "index of tables"] {
        assert!(files.iter().any(|(name, _)| name == table), "{table}: {files:?}");
    }
    let bytes: u64 = files.iter().map(|(_, path)| path.metadata().unwrap().len()).sum();
    assert!((bytes..=about).contains(&scrubbed.bytes) && bytes > 3 * STEP_BYTES, "{bytes} {scrubbed:?} {about}");
    // Each keyspace has a version, and there is one journal.
    let versions = keyspaces(&directory.path().join("db")).unwrap().len();
    assert_eq!(scrubbed.files, (files.len() + versions + 1) as u64);
}

#[test]
fn a_byte_that_changed_in_a_table_file_is_found_wherever_it_is() {
    let directory = closed_store();
    let files = table_files(directory.path());
    for (table, path) in files.iter().filter(|(table, _)| *table == "messages" || *table == "heads") {
        let len = fs::metadata(path).unwrap().len() as usize;
        for at in [0, len / 2, len - 1] {
            flip(path, at);
            let reason = format!("the checksum of its {len} bytes is wrong");
            assert_eq!(scrub(directory.path()).damaged, damaged(path, Some(table), reason), "byte {at} of {len}");
            flip(path, at);
        }
    }
    assert_eq!(scrub(directory.path()).damaged, []);
}

#[test]
fn a_table_file_that_is_missing_or_cut_short_is_found() {
    let directory = closed_store();
    let files = table_files(directory.path());
    let (_, path) = files.iter().find(|(table, _)| table == "users").unwrap();
    let whole = fs::read(path).unwrap();
    fs::write(path, &whole[..100]).unwrap();
    let reason = "the checksum of its 100 bytes is wrong";
    assert_eq!(scrub(directory.path()).damaged, damaged(path, Some("users"), reason));
    fs::remove_file(path).unwrap();
    assert_eq!(scrub(directory.path()).damaged, damaged(path, Some("users"), "it is missing"));
}

#[test]
fn a_version_that_changed_or_is_missing_is_found() {
    let directory = closed_store();
    let database = directory.path().join("db");
    let keyspaces = keyspaces(&database).unwrap();
    let number = names(&keyspaces).into_iter().find(|(_, name)| name == "messages").unwrap().0;
    let keyspace = &keyspaces[&number];
    let current = keyspace.join("current");
    let number = u64::from_le_bytes(fs::read(&current).unwrap()[..8].try_into().unwrap());
    let path = keyspace.join(format!("v{number}"));
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        flip(&path, at);
        let reason = "its checksum is not the one in `current`";
        assert_eq!(scrub(directory.path()).damaged, damaged(&path, Some("messages"), reason), "byte {at}");
        flip(&path, at);
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(scrub(directory.path()).damaged, damaged(&path, Some("messages"), "it is missing"));
    fs::write(&path, &whole).unwrap();
    let named = fs::read(&current).unwrap();
    fs::write(&current, &named[..5]).unwrap();
    assert_eq!(scrub(directory.path()).damaged, damaged(&current, Some("messages"), "it does not name a version"));
    fs::remove_file(&current).unwrap();
    assert_eq!(scrub(directory.path()).damaged, damaged(&current, Some("messages"), "it is missing"));
    fs::remove_dir_all(keyspace).unwrap();
    assert_eq!(scrub(directory.path()).damaged, damaged(keyspace, Some("messages"), "it is missing"));
}

#[test]
fn a_damaged_index_is_found_and_hides_no_other_damage() {
    let directory = closed_store();
    let files = table_files(directory.path());
    let mut expected = BTreeSet::new();
    for (table, path) in files.iter().filter(|(table, _)| ["index of tables", "users"].contains(&&**table)) {
        flip(path, 100);
        expected.insert((path, (table != "users").then_some("index of tables")));
    }
    let found = scrub(directory.path()).damaged;
    assert!(expected.len() >= 2, "{expected:?}");
    assert_eq!(found.iter().map(|file| (&file.path, file.table.as_deref())).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn a_changed_byte_of_a_synced_commit_is_found_and_a_torn_end_is_not_damage() {
    let directory = closed_store();
    let (_, path) = journal::journals(&directory.path().join("db")).unwrap().pop().unwrap();
    let end = journal::scan(&path, None, &mut ()).unwrap().end as usize;
    let whole = fs::read(&path).unwrap();
    flip(&path, end / 2);
    let [found] = &scrub(directory.path()).damaged[..] else { panic!("one file is damaged") };
    assert_eq!((&found.path, &found.table), (&path, &None));
    assert!(found.reason.contains("bytes of acknowledged commits are unreadable"), "{}", found.reason);
    assert!(found.reason.starts_with("at byte "), "{}", found.reason);
    assert_eq!(fs::read(&path).unwrap()[..end / 2], whole[..end / 2], "a scrub changes nothing");

    let torn = [&whole[..end], &[1; 100]].concat();
    fs::write(&path, &torn).unwrap();
    assert_eq!(scrub(directory.path()).damaged, []);
    assert_eq!(fs::read(&path).unwrap(), torn);
}

#[test]
fn a_disk_that_cannot_read_is_damage_and_a_process_that_cannot_is_not() {
    let is_damage = |errno: Errno| is_unreadable(&errno.into());
    assert!(is_damage(Errno::EIO) && is_damage(Errno::EUCLEAN));
    assert!(!is_damage(Errno::EMFILE) && !is_damage(Errno::EACCES) && !is_damage(Errno::ENOENT));
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_not_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let claimed = Directory::claim(directory.path(), None).unwrap();
    let tables = Tables::open(&claimed.database(), &Config::default()).unwrap();
    write(&tables, Table::Messages, ROWS);
    tables.compact(Table::Messages).unwrap();
    let scrub = Scrub::begin(tables.path(), None).unwrap();
    let listed = table_files(directory.path());
    write(&tables, Table::Messages, ROWS);
    tables.compact(Table::Messages).unwrap();
    // Readers may still need the old files; a new memtable lets the engine delete them.
    write(&tables, Table::Meta, 0..1);
    tables.drop_old_files().unwrap();
    let gone = listed.iter().filter(|(_, path)| !path.exists()).count();
    assert!(gone > 0, "the compaction has deleted a file that was listed");
    assert_eq!(finish(scrub).damaged, []);
}

#[tokio::test]
async fn a_store_that_is_in_use_is_not_scrubbed_as_a_directory() {
    let directory = closed_store();
    let store = open(&directory);
    let refused = Scrub::of_directory(directory.path()).err().expect("it is open").to_string();
    assert!(refused.contains("is in use by another process"), "{refused}");
    store.close().await;
    let scrub = Scrub::of_directory(directory.path()).unwrap();
    let refused = Directory::claim(directory.path(), None).err().expect("a scrub is under way").to_string();
    assert!(refused.contains("is in use by another process"), "{refused}");
    drop(scrub);
    let empty = tempfile::tempdir().unwrap();
    assert!(Scrub::of_directory(empty.path()).is_err());
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

fn open(directory: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_under_load_is_clean_and_its_damage_is_found() {
    let directory = closed_store();
    let store = open(&directory);
    let load = async |from: u32| {
        for n in from..from + 300 {
            let put = store.write(move |tx| {
                tx.put_new(Table::Messages, &n.to_be_bytes(), noise(n));
                Ok(())
            });
            put.await.unwrap();
            if n % 100 == 0 {
                let tables = store.tables().await.unwrap();
                tokio::task::spawn_blocking(move || tables.compact(Table::Messages)).await.unwrap().unwrap();
            }
        }
    };
    let scrubs = async {
        for _ in 0..30 {
            assert_eq!(scrub_live(&store).await.damaged, []);
        }
    };
    tokio::join!(load(10_000), load(20_000), scrubs);

    let files = table_files(directory.path());
    let (_, path) = files.iter().find(|(table, _)| table == "heads").unwrap();
    flip(path, 5000);
    let found = scrub_live(&store).await.damaged;
    assert_eq!(
        found.iter().map(|file| (&file.path, file.table.as_deref())).collect::<Vec<_>>(),
        [(path, Some("heads"))]
    );
    let (_, journal) = journal::journals(&directory.path().join("db")).unwrap().pop().unwrap();
    flip(path, 5000);
    let scan = journal::scan(&journal, None, &mut ()).unwrap();
    let mut bytes = fs::read(&journal).unwrap();
    bytes[scan.end as usize / 2] ^= 1;
    // Write in place: the engine has the file open.
    let mut file = File::options().write(true).open(&journal).unwrap();
    std::io::Write::write_all(&mut file, &bytes[..scan.end as usize]).unwrap();
    let found = scrub_live(&store).await.damaged;
    assert_eq!(found.iter().map(|file| &file.path).collect::<Vec<_>>(), [&journal]);
    store.close().await;
}
