//! Migrates a store of an older format to the current one.
//!
//! Formats differ in their rows, so a migration step converts one row. The store is converted while it is copied: first
//! into a backup, which stays, and from there into a new database. The old database is unchanged until the new one
//! replaces it (see [`Directory`](crate::directory::Directory)).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Timestamp;
use ports::{BoxError, StoreError};

use crate::Config;
use crate::backup::{Backup, BackupSource};
use crate::directory::{Directory, FORMAT_VERSION, StoreOpenError};
use crate::log::end_of_log;
use crate::tables::{Table, Tables};

/// The oldest format with a migration.
pub(crate) const OLDEST_FORMAT: u32 = 1;

/// Converts a row to the next format.
type RowUpgrade = fn(Table, &[u8]) -> Result<Vec<u8>, BoxError>;

/// The steps, the first one from [`OLDEST_FORMAT`].
const STEPS: [RowUpgrade; (FORMAT_VERSION - OLDEST_FORMAT) as usize] = [lifetimes];

/// Converts a row of an older format to the current one.
pub(crate) fn upgrade(from: u32, table: Table, row: &[u8]) -> Result<Vec<u8>, BoxError> {
    let steps = &STEPS[(from.clamp(OLDEST_FORMAT, FORMAT_VERSION) - OLDEST_FORMAT) as usize..];
    steps.iter().try_fold(row.to_owned(), |row, step| step(table, &row))
}

/// From 1 to 2: chats and heads get a message lifetime; existing messages never expire. The notification tables are new
/// and empty.
fn lifetimes(table: Table, row: &[u8]) -> Result<Vec<u8>, BoxError> {
    /// Encoding of `None`.
    const NONE: u8 = 0;
    match table {
        Table::Chats => Ok([row, &[NONE]].concat()),
        Table::Heads => {
            let (_sequence, rest) = postcard::take_from_bytes::<u64>(row)?;
            let (sequence, last_message) = row.split_at(row.len() - rest.len());
            Ok([sequence, &[NONE], last_message].concat())
        }
        _ => Ok(row.to_owned()),
    }
}

/// A store of an older format, locked against other processes.
pub struct OlderStore {
    directory: Directory,
    path: PathBuf,
    format: u32,
    tables: Arc<Tables>,
}

impl OlderStore {
    /// Opens the store of a directory if it has an older format; `None` if the format is current.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreOpenError> {
        let Some((directory, format)) = Directory::claim_older(path)? else { return Ok(None) };
        let tables = Tables::open(&directory.database(), &Config::default());
        let tables = tables.map_err(|error| StoreOpenError::Engine { path: path.to_owned(), source: error.into() })?;
        Ok(Some(Self { directory, path: path.to_owned(), format, tables: Arc::new(tables) }))
    }

    /// The format of the store.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The format after the migration.
    pub fn target(&self) -> u32 {
        FORMAT_VERSION
    }

    /// Size on disk.
    pub fn bytes(&self) -> u64 {
        Table::ALL.iter().map(|table| self.tables.disk_space(*table)).sum()
    }

    /// An empty directory for the new store. Removes the files of an interrupted migration.
    pub fn workshop(&self) -> Result<PathBuf, StoreOpenError> {
        let unusable = |source| StoreOpenError::Unusable { path: self.path.clone(), source };
        self.directory.workshop().map_err(unusable)
    }

    /// Starts a backup of the store in its own format. `version` is the version of the program.
    pub fn backup(&self, now: Timestamp, version: &'static str) -> Result<Backup, StoreError> {
        let source = BackupSource {
            tables: Arc::downgrade(&self.tables),
            snapshot: self.tables.snapshot(),
            taken_at: now,
            log_end: end_of_log(&self.tables)?,
        };
        Backup::of(source, self.format, version)
    }

    /// Replaces this store by the one in the workshop. After a crash the directory contains one of the two.
    pub fn replace(self) -> Result<(), StoreOpenError> {
        let Self { directory, path, tables, .. } = self;
        drop(tables);
        directory.replace_database().map_err(|source| StoreOpenError::Unusable { path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::{Body, ContentType, DirectPair, Sequence, UserId};
    use fjall::{Database, PersistMode};
    use ports::{
        AppendOutcome, ChatReader, Clock, Ids, MessageReader, MessageWriter, NewMessage, RandomIds, SystemClock,
    };

    use super::*;
    use crate::restore::{RestoreKeys, restore};
    use crate::{EmbeddedStore, keys};

    /// Every row of a store written by the last program of format 1: table, key and row. Ann and Bob have a direct chat
    /// with one message and a group with three messages, two of which Bob has read. Bob is the only member of another
    /// group.
    const FORMAT_1: &str = include_str!("migrate/format_1.txt");

    fn unhex(text: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(byte).collect()
    }

    /// Creates a directory as the program of format 1 left it.
    fn format_1(directory: &Path) {
        fs::write(directory.join("FORMAT"), "tidings embedded store, format 1\n").unwrap();
        let database = Database::builder(directory.join("db")).open().unwrap();
        for line in FORMAT_1.lines() {
            let [table, key, row] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            let keyspace = database.keyspace(table, Default::default).unwrap();
            keyspace.insert(unhex(key), unhex(row)).unwrap();
        }
        database.persist(PersistMode::SyncAll).unwrap();
    }

    /// Migrates a store up to the point before the new one replaces the old one.
    fn prepare(directory: &Path) -> OlderStore {
        let older = OlderStore::open(directory).unwrap().expect("it is of an older format");
        let mut backup = older.backup(SystemClock.now(), "1.2.3").unwrap();
        let mut bytes = vec![];
        while let Some(piece) = backup.next_piece().unwrap() {
            bytes.extend(piece);
        }
        let contents = restore(&bytes[..], &older.workshop().unwrap(), &[], &RestoreKeys::default(), |_| {}).unwrap();
        assert_eq!((contents.header.store_format, contents.rows()), (1, FORMAT_1.lines().count() as u64));
        older
    }

    fn open(directory: &Path) -> EmbeddedStore {
        let config = Config { forgets: false, ..Config::default() };
        EmbeddedStore::open(directory, config, Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
    }

    fn bob() -> UserId {
        let line = FORMAT_1.lines().find(|line| line.starts_with("user_keys ") && line.contains("30313032 ")).unwrap();
        UserId::from_bytes(unhex(line.rsplit(' ').next().unwrap()).try_into().unwrap())
    }

    /// Asserts that all rows of format 1 are there in the current format.
    async fn assert_whole(directory: &Path) {
        let store = open(directory);
        let mut found = vec![];
        for (chat_id, _) in store.memberships(bob()).await.unwrap() {
            let chat = store.chat(chat_id).await.unwrap().unwrap();
            let head = store.head(chat_id).await.unwrap().unwrap();
            assert_eq!((chat.message_ttl, head.message_ttl), (None, None));
            let messages = store.before(chat_id, Sequence(u64::MAX), 10, SystemClock.now()).await.unwrap();
            let contents: Vec<_> =
                messages.iter().rev().map(|message| message.body.content.as_str().to_owned()).collect();
            let preview = head.last_message.and_then(|last| last.preview).map(|preview| preview.as_str().to_owned());
            found.push((chat.name.map(|name| name.as_str().to_owned()), head.sequence.0, contents.join(" "), preview));
        }
        found.sort();
        let text = |text: &str| Some(text.to_owned());
        let expected = [
            (None, 1, "three".to_owned(), text("three")),
            (text("group"), 3, "one two four".to_owned(), text("four")),
            (text("quiet"), 0, String::new(), None),
        ];
        assert_eq!(found, expected);
        store.close().await;
        assert!(!directory.join("db.next").exists() && !directory.join("migrating").exists());
    }

    #[tokio::test]
    async fn a_store_of_format_1_is_brought_forward_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        format_1(directory.path());
        let refusal =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
        assert!(matches!(refusal.err(), Some(StoreOpenError::Older { found: 1, .. })));
        prepare(directory.path()).replace().unwrap();
        assert!(OlderStore::open(directory.path()).unwrap().is_none());
        assert_whole(directory.path()).await;

        let store = open(directory.path());
        let pair = FORMAT_1.lines().find(|line| line.starts_with("direct_chats ")).unwrap();
        let pair: DirectPair = keys::parse_direct(&unhex(pair.split(' ').nth(1).unwrap())).unwrap();
        let chats = store.memberships(bob()).await.unwrap();
        let mut direct = vec![];
        for (chat_id, _) in chats {
            let members = store.members(chat_id).await.unwrap();
            if store.chat(chat_id).await.unwrap().unwrap().name.is_none() {
                assert_eq!(members.iter().filter(|member| pair.users().contains(&member.user_id)).count(), 2);
                direct.push(chat_id);
            }
        }
        let message = NewMessage {
            chat_id: direct[0],
            sender_id: bob(),
            client_message_id: uuid::Uuid::new_v4().into(),
            message_id: RandomIds.ulid().into(),
            body: Body::new("five".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: SystemClock.now(),
            origin_connection_id: None,
        };
        let appended = store.append(vec![message]).await.unwrap();
        assert!(matches!(appended[0], AppendOutcome::New(receipt) if receipt.sequence == Sequence(2)), "{appended:?}");
        store.close().await;
    }

    #[tokio::test]
    async fn however_a_migration_is_interrupted_the_old_store_or_the_new_one_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        format_1(path);
        // Crash while the new store is incomplete.
        fs::create_dir(path.join("migrating")).unwrap();
        fs::write(path.join("migrating").join("half"), "").unwrap();
        // Crash after it is complete and before the commit point.
        drop(prepare(path));
        fs::rename(path.join("migrating").join("db"), path.join("db.next")).unwrap();
        drop(prepare(path));
        // Crash after the commit point, with the old database half deleted.
        fs::remove_dir_all(path.join("db.next")).unwrap();
        fs::rename(path.join("migrating").join("db"), path.join("db.next")).unwrap();
        fs::write(path.join("FORMAT"), "tidings embedded store, format 2\n").unwrap();
        fs::remove_dir_all(path.join("db").join("keyspaces")).unwrap();
        assert_whole(path).await;
    }

    #[test]
    fn a_row_that_is_none_is_refused() {
        assert!(upgrade(1, Table::Heads, &[0xff; 11]).is_err());
        assert_eq!(upgrade(1, Table::Heads, &[7, 0]).unwrap(), [7, 0, 0]);
        assert_eq!(upgrade(2, Table::Heads, &[7, 0]).unwrap(), [7, 0]);
    }
}
