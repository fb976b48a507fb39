use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fjall::config::{FilterPolicy, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable, Slice, Snapshot};
use nix::sys::statvfs::statvfs;
use ports::StoreError;

use crate::Config;
use crate::error::{read_failed, unreadable};
use crate::records::Stored;

/// The tables, each a keyspace of the engine. [`keys`](crate::keys) makes their keys, [`records`](crate::records) their
/// rows. Their order is that in which the rows of a commit appear (see `tx::in_order`): what others point at comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// Name -> number. Where the log begins, and what was purged and not compacted yet.
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
    /// Moment, row -> nothing: what to purge when.
    Expiries,
    /// User, device -> registration for notifications.
    PushDevices,
    /// User, chat, device -> what the device is owed about the chat.
    Notices,
    /// Moment, user, chat, device -> nothing: which notices to look at when.
    NoticesDue,
    /// Dead letter -> dead letter.
    DeadLetters,
    /// User, contact -> nothing: whom each user has listed.
    Contacts,
    /// User, blocked user -> nothing: whom each user has blocked.
    Blocks,
    /// Direct chat -> who of its two has blocked the other. A chat without a row is open.
    BlockedChats,
    /// Report -> report.
    Reports,
    /// What is found by more than its id, each with its report -> nothing: open reports, those of a user, and resolved ones
    /// by the moment they end. It is no part of [`Expiries`](Self::Expiries), where an earlier version would stumble over it.
    ReportIndex,
    /// User -> deletion: accounts of which something is left to delete.
    Deletions,
}

impl Table {
    pub(crate) const ALL: [Self; 29] = [
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
        Self::Deletions,
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
            Self::Deletions => "deletions",
        }
    }

    /// How the engine keeps the table. Fixed when a store is made.
    fn options(self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        match self {
            // Looked up by every send and nearly always absent, so their filters stay in memory on every level.
            Self::SendKeys | Self::BlockedChats => options.filter_block_pinning_policy(PinningPolicy::all(true)),
            // Only ever read in order.
            Self::Log | Self::Expiries | Self::NoticesDue | Self::ReportIndex => {
                options.filter_policy(FilterPolicy::disabled())
            }
            // Looked up by keys that are nearly always there, so filters on the last level would save nothing.
            Self::Heads | Self::Chats | Self::Users | Self::Messages => options.expect_point_read_hits(true),
            _ => options,
        }
    }
}

/// The least that the engine takes for a bound on its journals.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// Writes of one table that are kept in memory before they are flushed.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// Tables waiting to be flushed, and flushed ones waiting to be merged, above which commits wait for the workers. The
/// engine has bounds of its own above these, where it sleeps without looking whether its workers are still alive; ours
/// keep the committer from ever getting there.
const SEALED_MAX: usize = 2;
const UNMERGED_MAX: usize = 20;

/// How often to look whether a memtable is flushed.
const FLUSH_POLL: Duration = Duration::from_millis(10);

/// The open database.
pub(crate) struct Tables {
    database: Database,
    keyspaces: Vec<Keyspace>,
}

impl Tables {
    pub(crate) fn open(path: &Path, config: &Config) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(config.cache_bytes)
            .max_journaling_size(config.journal_bytes_max.max(JOURNAL_BYTES_MIN))
            .worker_threads(config.workers.max(1))
            .open()?;
        let keyspaces = Table::ALL
            .iter()
            .map(|table| database.keyspace(table.name(), || table.options()))
            .collect::<fjall::Result<_>>()?;
        Ok(Self { database, keyspaces })
    }

    fn keyspace(&self, table: Table) -> &Keyspace {
        &self.keyspaces[table as usize]
    }

    /// One row as it is now.
    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        self.keyspace(table).get(key).map_err(|error| read_failed(table, error))
    }

    /// One row as it is now.
    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    /// All tables as of one commit: rows that were written together are seen together, but for a batch that is just
    /// arriving, whose rows may appear in their order (see `tx::in_order`).
    pub(crate) fn view(&self) -> View<'_> {
        self.view_at(self.snapshot())
    }

    /// A moment to come back to. Taken by the one who commits, between two commits, no batch is just arriving.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// All tables as of a moment of this database.
    pub(crate) fn view_at(&self, snapshot: Snapshot) -> View<'_> {
        View { tables: self, snapshot }
    }

    /// Fills an empty table with rows in the order of their keys, past journal and memory: all of them are there, and
    /// durable, or none. The error is the caller's, or the engine's.
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

    pub(crate) fn batch(&self, capacity: usize) -> Batch<'_> {
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), capacity);
        Batch { tables: self, batch: batch.durability(Some(PersistMode::SyncData)) }
    }

    /// Whether the workers are so far behind that a commit has to wait for them.
    pub(crate) fn is_congested(&self) -> bool {
        self.keyspaces
            .iter()
            .any(|keyspace| keyspace.sealed_memtable_count() >= SEALED_MAX || keyspace.l0_table_count() >= UNMERGED_MAX)
    }

    /// Bytes that the disk has left for us.
    pub(crate) fn free_space(&self) -> io::Result<u64> {
        let disk = statvfs(self.keyspace(Table::Messages).path())?;
        Ok(disk.blocks_available() * disk.fragment_size())
    }

    /// Rows of all tables, roughly: what was written over or deleted counts until the files are merged.
    pub(crate) fn rows(&self) -> u64 {
        self.keyspaces.iter().map(|keyspace| keyspace.approximate_len() as u64).sum()
    }

    /// Bytes that the files of a table take.
    pub(crate) fn disk_space(&self, table: Table) -> u64 {
        self.keyspace(table).disk_space()
    }

    /// Rewrites all files of a table without the rows that were deleted. By itself the engine keeps those until the
    /// deletions have sunk through all levels, for as long as it takes to write a good part of the table anew.
    ///
    /// Commits go on meanwhile. But the engine merges nothing of the table as long as this runs, and a worker that wants
    /// to waits: when so much was written that [`UNMERGED_MAX`] tables pile up, commits wait for this to end. It needs
    /// room for what is left of the table, and when it fails it leaves its files there until the next start.
    pub(crate) fn compact(&self, table: Table) -> fjall::Result<()> {
        let keyspace = self.keyspace(table);
        // Deletions that are only in memory would delete nothing, and without a new memtable the engine does not notice
        // that no reader needs the deleted rows any more.
        keyspace.rotate_memtable()?;
        // The engine can wait for this itself, but does not look whether its workers are still alive.
        while keyspace.sealed_memtable_count() > 0 {
            self.check()?;
            thread::sleep(FLUSH_POLL);
        }
        keyspace.major_compact()
    }

    /// Has the engine delete the files that it needs no more, now that a commit has written to [`Table::Meta`] since. It
    /// does that for all tables whenever one of them gets a new memtable, which takes a written one, and keeps what a
    /// reader from before the last commit might see.
    pub(crate) fn drop_old_files(&self) -> fjall::Result<()> {
        self.keyspace(Table::Meta).rotate_memtable().map(drop)
    }

    /// Whether the engine still takes writes. It refuses them for good after a failure, of a worker too.
    pub(crate) fn check(&self) -> fjall::Result<()> {
        self.database.persist(PersistMode::Buffer)
    }
}

/// All tables as of one commit.
pub(crate) struct View<'a> {
    tables: &'a Tables,
    snapshot: Snapshot,
}

impl View<'_> {
    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        self.snapshot.get(self.tables.keyspace(table), key).map_err(|error| read_failed(table, error))
    }

    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    /// The rows of a range of keys, in their order.
    pub(crate) fn range<K: AsRef<[u8]>>(
        &self,
        table: Table,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> {
        let rows = self.snapshot.range(self.tables.keyspace(table), range);
        rows.map(move |row| row.into_inner().map_err(|error| read_failed(table, error)))
    }

    /// The rows of all keys that begin with `prefix`, in their order.
    pub(crate) fn prefix<'a>(
        &'a self,
        table: Table,
        prefix: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> + use<'a> {
        let rows = self.snapshot.prefix(self.tables.keyspace(table), prefix);
        rows.map(move |row| row.into_inner().map_err(|error| read_failed(table, error)))
    }
}

/// Writes that become durable and visible together.
pub(crate) struct Batch<'a> {
    tables: &'a Tables,
    batch: OwnedWriteBatch,
}

impl Batch<'_> {
    pub(crate) fn write(&mut self, table: Table, key: Slice, row: Option<Slice>) {
        let keyspace = self.tables.keyspace(table);
        match row {
            Some(row) => self.batch.insert(keyspace, key, row),
            None => self.batch.remove(keyspace, key),
        }
    }

    /// Appends the batch to the journal, syncs it, and only then shows it to readers.
    pub(crate) fn commit(self) -> fjall::Result<()> {
        self.batch.commit()
    }
}

/// Decodes a row that may be there.
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
    fn what_others_point_at_appears_before_them() {
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
        ];
        for (pointing, at) in pointing {
            assert!((at as usize) < pointing as usize, "{pointing:?} points at {at:?}");
        }
    }
}
