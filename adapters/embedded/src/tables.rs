use std::fs;
use std::io::{self, ErrorKind};
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fjall::config::{FilterPolicy, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable, Slice, Snapshot};
use nix::sys::statvfs::statvfs;
use ports::{BoxError, StoreError};
use uuid::Uuid;

use crate::durable::sync_directory;
use crate::error::{read_failed, unreadable};
use crate::inbox::InboxIndex;
use crate::journal::{self, JournalError};
use crate::records::Stored;
use crate::store_file::{Mark, StoreFile};
use crate::{Config, KeyId, StoreKey};

mod rewrite;

pub(crate) use self::rewrite::Upkeep;

/// The tables, each a keyspace of the engine. [`keys`](crate::keys) encodes their keys, [`records`](crate::records)
/// their rows. The rows of a commit become visible in this order of tables (see `tx::in_order`): referenced rows come
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// Name -> number: the start of the log, the bytes purged since the last compaction, and pending erasures.
    Meta,
    /// User -> user.
    Users,
    /// Phone number or external subject -> user id.
    UserKeys,
    /// Chat -> chat.
    Chats,
    /// Pair of users -> chat id.
    DirectChats,
    /// User, chat -> watermarks.
    Watermarks,
    /// Chat, user -> member.
    Members,
    /// User, chat -> member: the same rows by user.
    Memberships,
    /// Chat -> head.
    Heads,
    /// Chat, sequence -> message.
    Messages,
    /// Message -> chat and sequence.
    MessagePlaces,
    /// Chat, sender, client message id -> receipt and fingerprint.
    SendKeys,
    /// Offset -> event.
    Log,
    /// Consumer group -> offset of the next event to process.
    Consumers,
    /// Session -> session.
    Sessions,
    /// User, device -> session id.
    Devices,
    /// Digest of a phone number -> one-time code.
    Codes,
    /// User, idempotency key -> REST request.
    Requests,
    /// Expiry time, row -> nothing: the schedule for purging.
    Expiries,
    /// User, device -> registration for notifications.
    PushDevices,
    /// User, chat, device -> state of the pending notice.
    Notices,
    /// Due time, user, chat, device -> nothing: the schedule for notices.
    NoticesDue,
    /// Dead letter -> dead letter.
    DeadLetters,
    /// User, contact -> nothing.
    Contacts,
    /// User, blocked user -> nothing.
    Blocks,
    /// Direct chat -> the members that have blocked the other one. An unblocked chat has no row.
    BlockedChats,
    /// Report -> report.
    Reports,
    /// Secondary keys of reports -> nothing: open reports, reports by user, and resolved reports by expiry time. They
    /// are not in [`Expiries`](Self::Expiries), because an earlier version would fail on an unknown kind of row there.
    ReportIndex,
    /// User -> restrictions. A user without any has no row.
    Restrictions,
    /// User, chat -> invitation to a group, pending or declined.
    Invitations,
    /// Secondary keys of invitations -> nothing: pending ones by chat, and all by the time at which they end. They are
    /// not in [`Expiries`](Self::Expiries), for the same reason as those of reports.
    InvitationIndex,
    /// Credential id -> passkey.
    Passkeys,
    /// User, passkey -> credential id.
    PasskeyIndex,
    /// User -> deletion: accounts of which something is left to delete.
    Deletions,
    /// Chat, sequence -> update of a message.
    Updates,
    /// Chat, sequence of a message, user -> reactions of the user on it. A user without any has no row.
    Reactions,
}

impl Table {
    pub(crate) const ALL: [Self; 36] = [
        Self::Meta,
        Self::Users,
        Self::UserKeys,
        Self::Chats,
        Self::DirectChats,
        Self::Watermarks,
        Self::Members,
        Self::Memberships,
        Self::Heads,
        Self::Messages,
        Self::MessagePlaces,
        Self::SendKeys,
        Self::Log,
        Self::Consumers,
        Self::Sessions,
        Self::Devices,
        Self::Codes,
        Self::Requests,
        Self::Expiries,
        Self::PushDevices,
        Self::Notices,
        Self::NoticesDue,
        Self::DeadLetters,
        Self::Contacts,
        Self::Blocks,
        Self::BlockedChats,
        Self::Reports,
        Self::ReportIndex,
        Self::Restrictions,
        Self::Invitations,
        Self::InvitationIndex,
        Self::Passkeys,
        Self::PasskeyIndex,
        Self::Deletions,
        Self::Updates,
        Self::Reactions,
    ];

    /// The name on disk and in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Users => "users",
            Self::UserKeys => "user_keys",
            Self::Chats => "chats",
            Self::DirectChats => "direct_chats",
            Self::Members => "members",
            Self::Memberships => "memberships",
            Self::Watermarks => "watermarks",
            Self::Heads => "heads",
            Self::Messages => "messages",
            Self::MessagePlaces => "message_places",
            Self::SendKeys => "send_keys",
            Self::Log => "log",
            Self::Consumers => "consumers",
            Self::Sessions => "sessions",
            Self::Devices => "devices",
            Self::Codes => "codes",
            Self::Requests => "requests",
            Self::Expiries => "expiries",
            Self::PushDevices => "push_devices",
            Self::Notices => "notices",
            Self::NoticesDue => "notices_due",
            Self::DeadLetters => "dead_letters",
            Self::Contacts => "contacts",
            Self::Blocks => "blocks",
            Self::BlockedChats => "blocked_chats",
            Self::Reports => "reports",
            Self::ReportIndex => "report_index",
            Self::Restrictions => "restrictions",
            Self::Invitations => "invitations",
            Self::InvitationIndex => "invitation_index",
            Self::Passkeys => "passkeys",
            Self::PasskeyIndex => "passkey_index",
            Self::Deletions => "deletions",
            Self::Updates => "updates",
            Self::Reactions => "reactions",
        }
    }

    /// Whether deleted rows of the table have to leave the disk. The excluded tables contain only names and numbers of
    /// the store itself, and erasure writes one of them.
    pub(crate) fn is_erased(self) -> bool {
        !matches!(self, Self::Meta | Self::Consumers)
    }

    /// Options of the table in the engine. Fixed when a store is created.
    fn options(self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        match self {
            // Every send looks these up and nearly always finds nothing, so their filters stay in memory on every
            // level.
            Self::SendKeys | Self::BlockedChats | Self::Restrictions => {
                options.filter_block_pinning_policy(PinningPolicy::all(true))
            }
            // Only scanned in order.
            Self::Log | Self::Expiries | Self::NoticesDue | Self::ReportIndex | Self::InvitationIndex => {
                options.filter_policy(FilterPolicy::disabled())
            }
            // Lookups nearly always find the key, so filters on the last level would save nothing.
            Self::Heads | Self::Chats | Self::Users | Self::Messages => options.expect_point_read_hits(true),
            _ => options,
        }
    }
}

/// The engine's lower limit for the size of its journals.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// Size of a table's memtable before it is flushed.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// Commits wait for the workers above this number of memtables to flush, or of flushed tables to merge. The engine has
/// higher limits of its own, where it sleeps without checking that its workers are alive; these limits keep the
/// committer from ever reaching them.
const SEALED_MAX: usize = 2;
const UNMERGED_MAX: usize = 20;

/// Poll interval while a memtable is being flushed.
const FLUSH_POLL: Duration = Duration::from_millis(10);

/// The engine's directory for keyspaces, inside the directory of the database.
pub(crate) const KEYSPACES: &str = "keyspaces";
/// The keyspace of the commit mark.
const COMMITS: &str = "commits";
/// The keyspace of the padding of journals.
const PADDING: &str = "padding";

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Engine(#[from] fjall::Error),
    #[error("cannot read or write in `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "table `{table}` is missing from `{}`. Restore a backup with `tidings store restore`, or copy what is readable \
         into a new directory with `tidings store repair`", .path.display()
    )]
    TableMissing { path: PathBuf, table: String },
    #[error("the number of the last commit is unreadable")]
    Mark(#[source] BoxError),
    #[error("the store is encrypted with key {0}; name it with `store.key_file` or `store.key_command`")]
    KeyMissing(KeyId),
    #[error("the store is encrypted with key {store}, and the given key is {given}; name the right one")]
    OtherKey { store: KeyId, given: KeyId },
    #[error(
        "a key is given, and the store is not encrypted; remove the key from the settings, or take a backup with \
         `tidings store backup` and restore it with the key into a new directory"
    )]
    NotEncrypted,
}

/// The open database.
pub(crate) struct Tables {
    path: PathBuf,
    database: Database,
    keyspaces: Vec<Keyspace>,
    /// The commit mark, and nothing else. It is about this directory, so it is not a [`Table`] and is in no backup.
    commits: Keyspace,
    /// One row, written and deleted by [`Upkeep`]. Like the mark it is in no backup.
    padding: Keyspace,
    mark: Mark,
    /// Encrypts the rows; `None` for an unencrypted store.
    key: Option<StoreKey>,
    /// The number of the last commit. Only the committer moves it.
    last_commit: AtomicU64,
    inboxes: InboxIndex,
    /// The rows that views have read.
    #[cfg(test)]
    rows_read: AtomicU64,
}

impl Tables {
    /// Opens a database, or makes one where there is none: first the journals are checked and a torn commit is cut off, then the
    /// engine replays them.
    pub(crate) fn open(path: &Path, config: &Config) -> Result<Self, DatabaseError> {
        let cannot = |source| DatabaseError::Io { path: path.to_owned(), source };
        let store_file = StoreFile::read(path).map_err(cannot)?;
        if store_file.is_some() {
            check_keyspaces(&path.join(KEYSPACES)).map_err(cannot)?;
        }
        let has_unmarked_commits = store_file.is_none() && !journal::journals(path)?.is_empty();
        let is_new = store_file.is_none() && !has_unmarked_commits;
        if !is_new {
            check_key(store_file.as_ref().and_then(|file| file.key), config.key.as_ref())?;
        }
        journal::recover(path, store_file.as_ref().map(|file| &file.mark))?;
        let database = Database::builder(path)
            .cache_size(config.cache_bytes)
            .max_journaling_size(config.journal_bytes_max.max(JOURNAL_BYTES_MIN))
            .worker_threads(config.workers.max(1))
            .open()?;
        let expected = store_file.iter().flat_map(|file| &file.tables);
        if let Some(missing) = expected.clone().find(|name| !database.keyspace_exists(name)) {
            return Err(DatabaseError::TableMissing { path: path.to_owned(), table: missing.clone() });
        }
        let keyspaces: Vec<_> = Table::ALL
            .iter()
            .map(|table| database.keyspace(table.name(), || table.options()))
            .collect::<fjall::Result<_>>()?;
        let of_the_store = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let commits = database.keyspace(COMMITS, of_the_store)?;
        let padding = database.keyspace(PADDING, of_the_store)?;
        let all = keyspaces.iter().chain([&commits, &padding]).map(|keyspace| keyspace.name().to_string());
        let all: Vec<_> = all.collect();
        let store_file = match store_file {
            Some(file) if all.iter().all(|table| file.tables.contains(table)) => file,
            earlier => {
                // The engine syncs what is in the directory of a keyspace, and not the name of that directory.
                sync_directory(&path.join(KEYSPACES)).map_err(cannot)?;
                let mark = earlier.map_or_else(|| Mark::new(Uuid::new_v4().as_u128()), |file| file.mark);
                let file = StoreFile { mark, key: config.key.as_ref().map(StoreKey::id), tables: all };
                file.write(path).map_err(cannot)?;
                file
            }
        };
        let mark = store_file.mark;
        let last_commit =
            commits.get(mark.key())?.map_or(Ok(0), |row| u64::decode(&row)).map_err(DatabaseError::Mark)?;
        let (path, last_commit) = (path.to_owned(), AtomicU64::new(last_commit));
        let tables = Self {
            path,
            database,
            keyspaces,
            commits,
            padding,
            mark,
            key: config.key.clone(),
            last_commit,
            inboxes: InboxIndex::default(),
            #[cfg(test)]
            rows_read: AtomicU64::new(0),
        };
        if has_unmarked_commits {
            // Damage to an unmarked commit is proved by the second mark after it: the first may be the damaged commit's own.
            tables.seal()?;
            tables.seal()?;
        }
        Ok(tables)
    }

    /// The directory of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The activity of the chats of large inboxes.
    pub(crate) fn inboxes(&self) -> &InboxIndex {
        &self.inboxes
    }

    /// Counts a row that a view reads.
    fn count_row(&self) {
        #[cfg(test)]
        self.rows_read.fetch_add(1, Ordering::Relaxed);
    }

    /// The rows that views have read so far.
    #[cfg(test)]
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    fn keyspace(&self, table: Table) -> &Keyspace {
        &self.keyspaces[table as usize]
    }

    /// Reads the current version of a row, undecoded.
    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        self.get_decrypted(table, key, |keyspace, key| keyspace.get(key))
    }

    /// Reads a row of the engine and decrypts it.
    fn get_decrypted(
        &self,
        table: Table,
        key: &[u8],
        get: impl FnOnce(&Keyspace, &[u8]) -> fjall::Result<Option<Slice>>,
    ) -> Result<Option<Slice>, StoreError> {
        let get = |key: &[u8]| get(self.keyspace(table), key).map_err(|error| read_failed(table, error));
        let Some(store_key) = &self.key else { return get(key) };
        let stored_key = store_key.stored_key(table, key);
        let Some(row) = get(&stored_key)? else { return Ok(None) };
        let (_, row) = store_key.decrypt(table, stored_key, &row).map_err(|error| unreadable(table, error))?;
        Ok(Some(row))
    }

    /// A row as the engine stores it: encrypted, if the store is.
    pub(crate) fn stored(&self, table: Table, key: Slice, row: Slice) -> (Slice, Slice) {
        let Some(store_key) = &self.key else { return (key, row) };
        let stored_key = store_key.stored_key(table, &key);
        let row = store_key.encrypt(table, &key, &stored_key, &row);
        (stored_key, row)
    }

    /// The key that encrypts the rows.
    pub(crate) fn key(&self) -> Option<&StoreKey> {
        self.key.as_ref()
    }

    /// Reads the current version of a row.
    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    /// All tables as of one commit. Rows written together are seen together, except for a batch that is being applied:
    /// its rows may appear one by one in their order (see `tx::in_order`).
    pub(crate) fn view(&self) -> View<'_> {
        self.view_at(self.snapshot())
    }

    /// A snapshot of the current state. The committer takes it between two commits, when no batch is being applied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// All tables as of a snapshot.
    pub(crate) fn view_at(&self, snapshot: Snapshot) -> View<'_> {
        View { tables: self, snapshot }
    }

    /// Fills an empty table with stored rows in key order, bypassing journal and memtable. Either all rows are there and
    /// durable, or none. The error is the caller's or the engine's.
    pub(crate) fn fill<E>(
        &self,
        table: Table,
        rows: impl Iterator<Item = Result<(Slice, Slice), E>>,
    ) -> Result<(), Result<E, fjall::Error>> {
        let mut filling = self.keyspace(table).start_ingestion().map_err(Err)?;
        for row in rows {
            let (key, row) = row.map_err(Ok)?;
            filling.write(key, row).map_err(Err)?;
        }
        filling.finish().map_err(Err)
    }

    pub(crate) fn batch(&self, capacity: usize) -> WriteBatch<'_> {
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), capacity);
        WriteBatch { tables: self, batch: batch.durability(Some(PersistMode::SyncData)), inbox_rows: vec![] }
    }

    /// Appends a commit mark alone. It proves to the next startup that the previous commit was synced.
    pub(crate) fn seal(&self) -> fjall::Result<()> {
        self.batch(1).commit()
    }

    /// Whether the workers' backlog is so large that a commit has to wait.
    pub(crate) fn is_congested(&self) -> bool {
        let mut keyspaces = self.keyspaces.iter().chain([&self.commits]);
        keyspaces
            .any(|keyspace| keyspace.sealed_memtable_count() >= SEALED_MAX || keyspace.l0_table_count() >= UNMERGED_MAX)
    }

    /// Free bytes on the disk.
    pub(crate) fn free_space(&self) -> io::Result<u64> {
        let disk = statvfs(self.keyspace(Table::Messages).path())?;
        Ok(disk.blocks_available() * disk.fragment_size())
    }

    /// Approximate number of rows in all tables. Overwritten and deleted rows count until the files are merged.
    pub(crate) fn rows(&self) -> u64 {
        self.keyspaces.iter().map(|keyspace| keyspace.approximate_len() as u64).sum()
    }

    /// Bytes of the files of a table.
    pub(crate) fn disk_space(&self, table: Table) -> u64 {
        self.keyspace(table).disk_space()
    }

    /// Rewrites all files of a table without the deleted rows. Without this the engine keeps them until their
    /// tombstones have sunk through all levels, which takes writes of about the size of the table.
    ///
    /// Commits continue meanwhile. But the engine merges nothing of the table while this runs, and a worker that needs
    /// to merge waits: once [`UNMERGED_MAX`] tables pile up, commits wait for this to end. It needs free space for the
    /// remaining rows. A failed compaction leaves its files in place until the next start.
    pub(crate) fn compact(&self, table: Table) -> fjall::Result<()> {
        let keyspace = self.keyspace(table);
        // Tombstones that are only in the memtable would delete nothing. And without a new memtable the engine does not
        // notice that no reader needs the deleted rows any more.
        self.flush(keyspace)?;
        keyspace.major_compact()
    }

    /// Writes the memtable of a keyspace to a file.
    fn flush(&self, keyspace: &Keyspace) -> fjall::Result<()> {
        keyspace.rotate_memtable()?;
        // The engine can wait for this itself, but does not check whether its workers are alive.
        while keyspace.sealed_memtable_count() > 0 {
            self.check()?;
            thread::sleep(FLUSH_POLL);
        }
        Ok(())
    }

    /// Makes the engine delete its obsolete files, after a commit has written to [`Table::Meta`]. The engine does that
    /// for all tables whenever one of them gets a new memtable, which requires a non-empty memtable. It keeps files
    /// that a reader from before the last commit might see.
    pub(crate) fn drop_old_files(&self) -> fjall::Result<()> {
        self.keyspace(Table::Meta).rotate_memtable().map(drop)
    }

    /// Whether the engine accepts writes. It refuses them permanently after a failure, including one of a worker.
    pub(crate) fn check(&self) -> fjall::Result<()> {
        self.database.persist(PersistMode::Buffer)
    }
}

/// Checks that the given key is the key of an existing store.
pub(crate) fn check_key(store: Option<KeyId>, given: Option<&StoreKey>) -> Result<(), DatabaseError> {
    match (store, given.map(StoreKey::id)) {
        (Some(store), Some(given)) if store != given => Err(DatabaseError::OtherKey { store, given }),
        (Some(store), None) => Err(DatabaseError::KeyMissing(store)),
        (None, Some(_)) => Err(DatabaseError::NotEncrypted),
        (Some(_), Some(_)) | (None, None) => Ok(()),
    }
}

/// Looks for keyspaces that have lost the file that lists their tables. The engine takes such a keyspace for a
/// half-created one and deletes it. If keyspace 0, which lists the others, has lost it, the engine deletes all of them.
fn check_keyspaces(keyspaces: &Path) -> io::Result<()> {
    for entry in fs::read_dir(keyspaces)? {
        let keyspace = entry?.path();
        if !keyspace.is_dir() || keyspace.join("current").try_exists()? {
            continue;
        }
        let is_index = keyspace.file_name().is_some_and(|name| name == "0");
        let has_tables = match fs::read_dir(keyspace.join("tables")) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            tables => tables?.next().is_some(),
        };
        if is_index || has_tables {
            let lost = format!(
                "`{}` has lost its file `current`. Nothing was changed. Restore a backup with `tidings store restore`, or \
                 copy what is readable into a new directory with `tidings store repair`",
                keyspace.display()
            );
            return Err(io::Error::new(ErrorKind::InvalidData, lost));
        }
    }
    Ok(())
}

/// All tables as of one commit.
pub(crate) struct View<'a> {
    tables: &'a Tables,
    snapshot: Snapshot,
}

impl View<'_> {
    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        self.tables.count_row();
        self.tables.get_decrypted(table, key, |keyspace, key| self.snapshot.get(keyspace, key))
    }

    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    /// The rows of a key range, in the order of their stored keys. In an encrypted store the keys of
    /// [`Table::UserKeys`] have a random order, so a range of that table begins after a known key and has no end.
    pub(crate) fn range<K: AsRef<[u8]>>(
        &self,
        table: Table,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> {
        let stored_key = |key: &K| match &self.tables.key {
            Some(store_key) => store_key.stored_key(table, key.as_ref()),
            None => key.as_ref().into(),
        };
        let range: (Bound<Slice>, Bound<Slice>) =
            (range.start_bound().map(stored_key), range.end_bound().map(stored_key));
        self.stored_range(table, range).map(move |row| self.decrypted(table, row?))
    }

    /// The rows of a range of stored keys, as they are stored.
    pub(crate) fn stored_range<K: AsRef<[u8]>>(
        &self,
        table: Table,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> {
        let rows = self.snapshot.range(self.tables.keyspace(table), range);
        rows.map(move |row| {
            self.tables.count_row();
            row.into_inner().map_err(|error| read_failed(table, error))
        })
    }

    fn decrypted(&self, table: Table, (key, row): (Slice, Slice)) -> Result<(Slice, Slice), StoreError> {
        match &self.tables.key {
            Some(store_key) => store_key.decrypt(table, key, &row).map_err(|error| unreadable(table, error)),
            None => Ok((key, row)),
        }
    }

    /// The rows of all keys that begin with `prefix`, in key order. Not for [`Table::UserKeys`].
    pub(crate) fn prefix<'a>(
        &'a self,
        table: Table,
        prefix: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> + use<'a> {
        debug_assert_ne!(table, Table::UserKeys, "its stored keys have no common prefixes");
        let rows = self.snapshot.prefix(self.tables.keyspace(table), prefix);
        rows.map(move |row| {
            self.tables.count_row();
            self.decrypted(table, row.into_inner().map_err(|error| read_failed(table, error))?)
        })
    }
}

/// Writes that become durable and visible together.
pub(crate) struct WriteBatch<'a> {
    tables: &'a Tables,
    batch: OwnedWriteBatch,
    /// The rows that the order of inboxes follows.
    inbox_rows: Vec<(Table, Slice, Option<Slice>)>,
}

impl WriteBatch<'_> {
    pub(crate) fn write(&mut self, table: Table, key: Slice, row: Option<Slice>) {
        let keyspace = self.tables.keyspace(table);
        if matches!(table, Table::Heads | Table::Memberships) {
            self.inbox_rows.push((table, key.clone(), row.clone()));
        }
        match (row, &self.tables.key) {
            (Some(row), _) => {
                let (key, row) = self.tables.stored(table, key, row);
                self.batch.insert(keyspace, key, row);
            }
            (None, Some(store_key)) => self.batch.remove(keyspace, store_key.stored_key(table, &key)),
            (None, None) => self.batch.remove(keyspace, key),
        }
    }

    /// Appends the batch with its commit mark to the journal and syncs it. Readers see it only after that.
    pub(crate) fn commit(mut self) -> fjall::Result<()> {
        let tables = self.tables;
        let commit = tables.last_commit.load(Ordering::Relaxed) + 1;
        self.batch.insert(&tables.commits, tables.mark.key(), commit.encode());
        self.batch.commit()?;
        // After a failed commit the database is reopened and reads the number from its row.
        tables.last_commit.store(commit, Ordering::Relaxed);
        tables.inboxes.committed(self.inbox_rows);
        Ok(())
    }
}

/// Decodes an optional row.
pub(crate) fn decode<V: Stored>(table: Table, row: Option<Slice>) -> Result<Option<V>, StoreError> {
    row.map(|row| V::decode(&row).map_err(|error| unreadable(table, error))).transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_is_found_under_its_own_number_and_name() {
        for (number, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, number, "{table:?}");
        }
        assert_eq!(Table::ALL.map(Table::name).into_iter().collect::<BTreeSet<_>>().len(), Table::ALL.len());
    }

    #[test]
    fn referenced_tables_are_flushed_before_their_references() {
        let pointing = [
            (Table::UserKeys, Table::Users),
            (Table::DirectChats, Table::Chats),
            (Table::Members, Table::Chats),
            (Table::Members, Table::Watermarks),
            (Table::Memberships, Table::Chats),
            (Table::Memberships, Table::Watermarks),
            (Table::Devices, Table::Sessions),
            (Table::NoticesDue, Table::Notices),
            (Table::ReportIndex, Table::Reports),
            (Table::InvitationIndex, Table::Invitations),
            (Table::PasskeyIndex, Table::Passkeys),
        ];
        for (pointing, at) in pointing {
            assert!((at as usize) < pointing as usize, "{pointing:?} points at {at:?}");
        }
    }
}
