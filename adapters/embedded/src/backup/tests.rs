use std::path::Path;
use std::sync::Arc;

use contract::SampleData;
use domain::{Body, ContentType, GroupInvites, Sequence, UpdateAction, UserId};
use ports::{
    AppendOutcome, Clock, Ids, MessageWriter, NewEntry, NewUpdate, NewUser, RandomIds, SystemClock, UserKey, UserWriter,
};
use uuid::Uuid;

use super::*;
use crate::directory::FORMAT_VERSION;
use crate::restore::{RestoreError, RestoreKeys, restore};
use crate::tables::{Table, Tables};
use crate::{Config, EmbeddedStore, StoreKey};

const VERSION: &str = "1.2.3";

fn open(directory: &Path) -> EmbeddedStore {
    open_with(directory, None)
}

fn open_with(directory: &Path, key: Option<StoreKey>) -> EmbeddedStore {
    let config = Config { forgets: false, key, ..Config::default() };
    EmbeddedStore::open(directory, config, Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
}

/// The remaining bytes of a backup.
async fn rest_of(mut backup: Backup) -> Vec<u8> {
    let mut bytes = vec![];
    while let Some((rest, piece)) = backup.next().await.unwrap() {
        bytes.extend(piece);
        backup = rest;
    }
    bytes
}

/// A backup of a store with rows in all tables, with an additional file.
pub(super) async fn peopled() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    SampleData::make(&store, SystemClock.now()).await;
    let mut backup = store.backup(VERSION).await.unwrap();
    backup.add_file("keys.json", b"secret".to_vec());
    let bytes = rest_of(backup).await;
    store.close().await;
    bytes
}

/// Edits a message of the group, adds a reaction to it, and deletes another one.
async fn update(store: &EmbeddedStore, people: &SampleData) {
    let edit = UpdateAction::Edit(Body::new("edited".to_owned().try_into().unwrap(), ContentType::Text));
    let react = UpdateAction::React("👍".parse().unwrap());
    let updates = [(1, edit), (1, react), (2, UpdateAction::Delete)].map(|(target, action)| NewUpdate {
        chat_id: people.group,
        user_id: people.owner,
        client_message_id: Uuid::new_v4().into(),
        update_id: RandomIds.ulid().into(),
        target: Sequence(target),
        action,
        window: None,
        ttl_max: None,
        created_at: SystemClock.now(),
    });
    let outcomes = store.commit(updates.map(NewEntry::Update).into()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))), "{outcomes:?}");
}

type TableContents = Vec<(Vec<u8>, Vec<u8>)>;

/// Every row of every table.
fn rows(tables: &Tables) -> Vec<(Table, TableContents)> {
    let view = tables.view();
    let rows = |table| {
        let rows = view.range::<&[u8]>(table, ..).map(|row| row.unwrap());
        rows.map(|(key, row)| (key.to_vec(), row.to_vec())).collect()
    };
    Table::ALL.into_iter().map(|table| (table, rows(table))).collect()
}

#[tokio::test]
async fn a_store_comes_back_as_it_was() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(directory.path());
    update(&store, &SampleData::make(&store, SystemClock.now()).await).await;
    let before = SystemClock.now();
    let mut backup = store.backup(VERSION).await.unwrap();
    backup.add_file("keys.json", b"secret".to_vec());
    backup.add_file("vapid.json", b"other".to_vec());
    let bytes = rest_of(backup).await;
    let log_end = *store.link().log_end.borrow();
    let restored =
        restore(&bytes[..], other.path(), &["keys.json", "vapid.json"], &RestoreKeys::default(), |_| {}).unwrap();
    assert_eq!(restored.header.store_format, FORMAT_VERSION);
    assert_eq!((restored.header.version.as_str(), restored.header.log_end), (VERSION, log_end));
    assert!((before..=SystemClock.now()).contains(&restored.header.taken_at));
    assert_eq!(
        (restored.files.as_slice(), restored.bytes),
        (&["keys.json", "vapid.json"].map(str::to_owned)[..], bytes.len() as u64)
    );
    assert_eq!(std::fs::read(other.path().join("vapid.json")).unwrap(), b"other");

    let expected = rows(&store.tables().await.unwrap());
    let filled = expected.iter().filter(|(_, rows)| !rows.is_empty());
    let counts: BTreeMap<_, _> = filled.map(|(table, rows)| (table.name().to_owned(), rows.len() as u64)).collect();
    assert!(counts.len() > 12, "{counts:?}");
    assert_eq!((counts["updates"], counts["reactions"]), (3, 1));
    assert_eq!(restored.tables, counts);
    store.close().await;
    let copy = open(other.path());
    assert_eq!(rows(&copy.tables().await.unwrap()), expected);
    copy.close().await;
}

#[tokio::test]
async fn a_restore_keeps_changes_or_removes_the_key_of_a_store() {
    let key = |n| Some(StoreKey::derive(&[n; 32]).unwrap());
    for (from_key, into_key) in [(None, key(1)), (key(1), key(1)), (key(1), key(2)), (key(1), None)] {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open_with(directory.path(), from_key.clone());
        SampleData::make(&store, SystemClock.now()).await;
        let new = NewUser {
            user_id: UserId::from_bytes([9; 16]),
            display_name: "Ann".to_owned().try_into().unwrap(),
            group_invites: GroupInvites::default(),
            created_at: SystemClock.now(),
            proven_at: SystemClock.now(),
        };
        store.find_or_create(UserKey::Phone("+14155550100".parse().unwrap()), new).await.unwrap();
        let mut backup = store.backup(VERSION).await.unwrap();
        backup.add_file("keys.json", b"signing key".to_vec());
        let bytes = rest_of(backup).await;
        let contains_file = bytes.windows(11).any(|window| window == b"signing key");
        assert_eq!(contains_file, from_key.is_none(), "an encrypted backup shows no file");
        assert_eq!(check(&bytes[..], |_| {}).unwrap().header.key, from_key.as_ref().map(StoreKey::id));

        let keys = RestoreKeys { backup: from_key, store: into_key.clone() };
        restore(&bytes[..], other.path(), &["keys.json"], &keys, |_| {}).unwrap();
        assert_eq!(std::fs::read(other.path().join("keys.json")).unwrap(), b"signing key");
        let sorted = |tables: &Tables| {
            let mut tables = rows(tables);
            tables.iter_mut().for_each(|(_, rows)| rows.sort());
            tables
        };
        let expected = sorted(&store.tables().await.unwrap());
        store.close().await;
        let copy = open_with(other.path(), into_key);
        assert_eq!(sorted(&copy.tables().await.unwrap()), expected);
        copy.close().await;
    }
}

#[tokio::test]
async fn an_encrypted_backup_is_restored_with_its_own_key_only() {
    let (one, other) = (StoreKey::derive(&[1; 32]).unwrap(), StoreKey::derive(&[2; 32]).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let store = open_with(directory.path(), Some(one.clone()));
    let bytes = rest_of(store.backup(VERSION).await.unwrap()).await;
    store.close().await;
    for (given, expected) in [
        (None, format!("it is encrypted with key {}", one.id())),
        (Some(other.clone()), format!("it is encrypted with key {}, and the given key is {}", one.id(), other.id())),
    ] {
        let into = tempfile::tempdir().unwrap();
        let keys = RestoreKeys { backup: given.clone(), store: given };
        let refusal = restore(&bytes[..], into.path(), &[], &keys, |_| {}).unwrap_err().to_string();
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

#[tokio::test]
async fn commits_after_the_snapshot_are_not_in_the_backup() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let put = async |key: &'static [u8], row: u64| {
        let put = store.write(move |tx| {
            tx.put(Table::Meta, key, &row);
            Ok(())
        });
        put.await.unwrap();
    };
    put(b"kept", 1).await;
    put(b"changed", 1).await;
    let backup = store.backup(VERSION).await.unwrap();
    put(b"changed", 2).await;
    put(b"new", 1).await;
    let bytes = rest_of(backup).await;
    store.close().await;
    let other = tempfile::tempdir().unwrap();
    restore(&bytes[..], other.path(), &[], &RestoreKeys::default(), |_| {}).unwrap();
    let copy = open(other.path());
    let found = async |key: &[u8]| copy.tables().await.unwrap().get::<u64>(Table::Meta, key).unwrap();
    assert_eq!([found(b"kept").await, found(b"changed").await, found(b"new").await], [Some(1), Some(1), None]);
    copy.close().await;
}

#[tokio::test]
async fn a_table_of_many_blocks_comes_back_in_order() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(directory.path());
    let fill = store.write(|tx| {
        for n in 0..1000u64 {
            tx.put_new(Table::Codes, &n.to_be_bytes(), vec![n as u8; 1000]);
        }
        Ok(())
    });
    fill.await.unwrap();
    let bytes = rest_of(store.backup(VERSION).await.unwrap()).await;
    store.close().await;
    let mut reader = BackupReader::open(&bytes[..]).unwrap();
    let mut parts = 0;
    while reader.next().unwrap().is_some() {
        parts += 1;
    }
    assert_eq!(parts, 1000 * 1016 / BLOCK_BYTES + 1);
    assert!(bytes.len() < 100_000, "{} bytes are not compressed", bytes.len());
    let restored = restore(&bytes[..], other.path(), &[], &RestoreKeys::default(), |_| {}).unwrap();
    assert_eq!(restored.tables, BTreeMap::from([("codes".to_owned(), 1000)]));
}

#[tokio::test]
async fn a_store_that_is_closed_does_not_wait_for_its_backup() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    SampleData::make(&store, SystemClock.now()).await;
    let backup = store.backup(VERSION).await.unwrap();
    let (mut backup, _) = backup.next().await.unwrap().unwrap();
    store.close().await;
    let failure = backup.next_piece().unwrap_err();
    assert_eq!(
        std::error::Error::source(&failure).unwrap().to_string(),
        "the database was closed or reopened meanwhile"
    );
    assert!(backup.next_piece().unwrap().is_none());
}

#[tokio::test]
async fn every_damaged_byte_is_refused() {
    let bytes = peopled().await;
    check(&bytes[..], |_| {}).unwrap();
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            damaged[at] ^= 1 << bit;
            assert!(check(&damaged[..], |_| {}).is_err(), "byte {at} of {}", bytes.len());
            damaged[at] = bytes[at];
        }
    }
}

#[tokio::test]
async fn a_truncated_backup_names_the_offset() {
    let bytes = peopled().await;
    for len in 1..bytes.len() {
        match check(&bytes[..len], |_| {}) {
            Err(BackupReadError::CutOff { at, .. }) => assert_eq!(at, len as u64),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    assert!(matches!(check(&[][..], |_| {}), Err(BackupReadError::NotABackup)));
}

#[tokio::test]
async fn a_refusal_names_the_damaged_part() {
    let bytes = peopled().await;
    let refusal = |bytes: &[u8]| check(bytes, |_| {}).unwrap_err().to_string();
    let damaged = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        refusal(&bytes)
    };
    assert_eq!(refusal(b"PK\x03\x04"), "it is no backup of tidings: a backup begins with `tidings backup`");
    assert_eq!(
        damaged(15, 3),
        "it is a backup of version 3, this program reads up to version 2; restore it with the tidings that took it"
    );
    // An unencrypted backup does not pass for an encrypted one.
    assert!(damaged(15, 2).starts_with("the header, at byte 16, is damaged: its checksum is "), "{}", damaged(15, 2));
    // The length in each head gives the offsets of the header, the file and the first block of rows.
    let len = |at: usize| u32::from_be_bytes(bytes[at + 5..at + 9].try_into().unwrap()) as usize;
    let file = 16 + 9 + len(16) + 32;
    let block = file + 9 + len(file) + 32;
    let said = damaged(block + 20, bytes[block + 20] ^ 1);
    let expected = format!("part 2, rows of `chats`, at byte {block}, is damaged: its checksum is ");
    assert!(said.starts_with(&expected), "{said}");
    let without_file = [&bytes[..file], &bytes[block..]].concat();
    let expected = format!("part 1, at byte {file}, is damaged: part 1 was expected, and this says it is part 2");
    assert!(refusal(&without_file).starts_with(&expected), "{}", refusal(&without_file));
    let longer = [&bytes[..], b"!"].concat();
    let expected = format!("the data after the end, at byte {}, is damaged", bytes.len());
    assert!(refusal(&longer).starts_with(&expected), "{}", refusal(&longer));
}

/// A backup with valid checksums.
fn forged(parts: &[(parts::PartKind, Vec<u8>)]) -> Vec<u8> {
    let mut chain = parts::Chain::begin(FileVersion::Plain);
    let parts = parts.iter().flat_map(|(kind, payload)| chain.part(*kind, payload));
    parts::beginning(FileVersion::Plain).into_iter().chain(parts).collect()
}

fn header(store_format: u32) -> (parts::PartKind, Vec<u8>) {
    let row = BackupHeaderRow { store_format, version: VERSION.to_owned(), taken_at: 7, log_end: 0 };
    (parts::PartKind::Header, parts::encode(&row))
}

fn block(table: &str, keys: &[&[u8]]) -> (parts::PartKind, Vec<u8>) {
    let mut rows = vec![];
    for key in keys {
        parts::push_row(&mut rows, &(*key).into(), &b"row"[..].into());
    }
    let packed = [&(rows.len() as u32).to_be_bytes()[..], &lz4_flex::block::compress(&rows)].concat();
    (parts::PartKind::Rows, parts::named(table, &packed))
}

#[test]
fn inconsistent_parts_with_valid_sums_are_refused() {
    let refused = |parts: &[_], what: &str| {
        let failure = check(&forged(parts)[..], |_| {}).unwrap_err().to_string();
        assert!(failure.contains(what), "{failure}");
    };
    refused(&[block("meta", &[b"a"])], "the first part is the header");
    refused(&[header(2), header(2)], "there is one header, and it comes first");
    refused(&[header(2), block("meta", &[])], "a block has rows");
    refused(&[header(2), block("meta", &[b"b", b"a"])], "rows are in the order of their keys");
    refused(&[header(2), block("meta", &[b"b"]), block("meta", &[b"b"])], "rows are in the order of their keys");
    let again = [header(2), block("meta", &[b"a"]), block("users", &[b"a"]), block("meta", &[b"b"])];
    refused(&again, "the table `meta` has ended before");
    let bomb = (parts::PartKind::Rows, parts::named("meta", &[0xff; 8]));
    refused(&[header(2), bomb], "its rows say they have 4294967295 bytes, and no block has more than 16777216");
    let end = EndRow { tables: BTreeMap::from([("meta".to_owned(), 2)]), files: vec![] };
    let end = (parts::PartKind::End, parts::encode(&end));
    refused(&[header(2), block("meta", &[b"a"]), end], "it counts other rows or files than there are");
}

#[test]
fn formats_tables_and_files_of_a_later_version_are_not_restored() {
    let refused = |parts: &[_], what: &str| {
        let directory = tempfile::tempdir().unwrap();
        let failure = restore(&forged(parts)[..], directory.path(), &["keys.json"], &RestoreKeys::default(), |_| {})
            .unwrap_err()
            .to_string();
        assert_eq!(failure, format!("{what}; restore it with the tidings that took it"));
    };
    let formats = "its rows have format 3, this version of tidings reads formats 1 to 2";
    refused(&[header(FORMAT_VERSION + 1)], formats);
    let unknown = "which this version of tidings does not know";
    refused(&[header(2), block("planets", &[b"a"])], &format!("it has a table `planets`, {unknown}"));
    let file = (parts::PartKind::File, parts::named("../passwd", b"x"));
    refused(&[header(2), file], &format!("it has a file `../passwd`, {unknown}"));
}

#[test]
fn a_directory_that_holds_something_is_not_restored_into() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.txt"), "words").unwrap();
    let failure =
        restore(&forged(&[header(2)])[..], directory.path(), &[], &RestoreKeys::default(), |_| {}).unwrap_err();
    assert!(matches!(failure, RestoreError::Open(_)), "{failure}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
