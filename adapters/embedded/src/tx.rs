use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, EventNumber, Invariant, Timestamp};
use fjall::Slice;
use ports::{Head, Ids, StoreError};
use quick_cache::unsync::Cache;

use crate::erase;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{HeadSummary, MessageLocation, Stored, encode_event};
use crate::tables::{Table, Tables, Upkeep, View, decode};

/// Head sequences of the most recently written chats. Exact, because only the committer changes them.
pub(crate) type Heads = Cache<ChatId, HeadSummary>;

/// The transactions of one commit, run one after the other.
///
/// Each job sees the committed rows and the writes of earlier jobs in the same commit. A job that fails half-way is
/// rolled back. Most jobs succeed, so a job writes directly into the commit and keeps an undo log beside it.
pub(crate) struct Tx<'a> {
    tables: &'a Tables,
    heads: &'a mut Heads,
    ids: &'a dyn Ids,
    now: Timestamp,
    /// The offset of the first event of this commit.
    offset: u64,
    writes: Writes,
    job: JobUndo,
}

/// Rows to write, with the events that announce them.
struct Writes {
    /// By table; `None` deletes.
    rows: Vec<HashMap<Slice, Option<Slice>>>,
    /// Rows that jobs of the same commit hardly ever look up, so they have no index.
    new_rows: Vec<(Table, Slice, Slice)>,
    events: Vec<Arc<Event>>,
    purged: HashSet<MessageLocation>,
    /// Writes to the files of the engine that are not rows.
    upkeep: Vec<Upkeep>,
    bytes: usize,
}

/// Undo log of the running job: its start in the commit, and the writes that it replaced.
#[derive(Default)]
struct JobUndo {
    overwritten: Vec<Overwritten>,
    new_rows: usize,
    /// Positions of new rows of earlier jobs that the job replaced, with their earlier values.
    replaced: Vec<(usize, Slice)>,
    events: usize,
    purged: Vec<MessageLocation>,
    upkeep: usize,
    /// Tables with data that the job deletes.
    erased: HashSet<Table>,
    bytes: usize,
}

struct Overwritten {
    table: Table,
    key: Slice,
    /// The earlier write of this commit to the same row, if any.
    before: Option<Option<Slice>>,
}

/// A row that a job has found, to be replaced.
pub(crate) struct FoundRow {
    pub(crate) row: Slice,
    /// Its position among the new rows of this commit, if it is one of them.
    new_row: Option<usize>,
}

/// Changes of the log in one commit.
pub(crate) struct LogChanges {
    /// The events appended to the log.
    pub(crate) events: Vec<Arc<Event>>,
    /// The messages whose events were purged.
    pub(crate) purged: HashSet<MessageLocation>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(tables: &'a Tables, heads: &'a mut Heads, ids: &'a dyn Ids, now: Timestamp, offset: u64) -> Self {
        Self { tables, heads, ids, now, offset, writes: Writes::new(), job: JobUndo::default() }
    }

    /// The time of the commit.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The tables as of the last commit, without the writes of this commit.
    pub(crate) fn committed(&self) -> View<'a> {
        self.tables.view()
    }

    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        match self.writes.get(table, key) {
            Some(written) => Ok(written.clone()),
            None => self.tables.get_bytes(table, key),
        }
    }

    /// Looks up a row among all others and then among the new rows of this commit, which takes a linear search.
    pub(crate) fn find(&self, table: Table, key: &[u8]) -> Result<Option<FoundRow>, StoreError> {
        if let Some(row) = self.get_bytes(table, key)? {
            return Ok(Some(FoundRow { row, new_row: None }));
        }
        let new_rows = &self.writes.new_rows;
        let position = new_rows.iter().rposition(|(of, known, _)| *of == table && known.as_ref() == key);
        Ok(position.map(|position| FoundRow { row: new_rows[position].2.clone(), new_row: Some(position) }))
    }

    /// Replaces a row that [`find`](Self::find) has returned. A new row is replaced where it is: a commit writes no key
    /// twice, and the row stays before the rows that refer to it.
    pub(crate) fn replace(&mut self, table: Table, key: &[u8], found: &FoundRow, row: Vec<u8>) {
        let Some(position) = found.new_row else { return self.put_bytes(table, key, row) };
        self.writes.bytes += row.len();
        let before = std::mem::replace(&mut self.writes.new_rows[position].2, row.into());
        self.job.replaced.push((position, before));
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &impl Stored) {
        self.set(table, key, Some(value.encode()));
    }

    /// Writes a row, replacing an existing one.
    pub(crate) fn put_bytes(&mut self, table: Table, key: &[u8], row: Vec<u8>) {
        self.set(table, key, Some(row));
    }

    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) {
        self.erase(table);
        self.set(table, key, None);
    }

    /// Records that earlier versions of rows of a table have to leave the disk (see [`erase`](crate::erase)). A deletion
    /// records this itself.
    pub(crate) fn erase(&mut self, table: Table) {
        self.job.erased.insert(table);
    }

    /// Schedules the erasure of what the job has deleted. Called once, at the end of the job.
    pub(crate) fn schedule_erasure(&mut self) -> Result<(), StoreError> {
        for table in std::mem::take(&mut self.job.erased) {
            erase::schedule(self, table)?;
        }
        Ok(())
    }

    /// Writes to the files of the engine with this commit.
    pub(crate) fn upkeep(&mut self, upkeep: Upkeep) {
        self.writes.bytes += upkeep.bytes();
        self.writes.upkeep.push(upkeep);
    }

    fn set(&mut self, table: Table, key: &[u8], row: Option<Vec<u8>>) {
        let key = Slice::from(key);
        self.writes.bytes += key.len() + row.as_ref().map_or(0, Vec::len);
        let before = self.writes.rows[table as usize].insert(key.clone(), row.map(Slice::from));
        self.job.overwritten.push(Overwritten { table, key, before });
    }

    /// Writes a row that does not exist yet. In this commit only [`find`](Self::find) sees it.
    pub(crate) fn put_new(&mut self, table: Table, key: &[u8], row: Vec<u8>) {
        self.writes.bytes += key.len() + row.len();
        self.writes.new_rows.push((table, key.into(), row.into()));
    }

    /// The keys of a table that begin with `prefix`, including the writes of this commit so far.
    pub(crate) fn keys(&self, table: Table, prefix: &[u8]) -> Result<BTreeSet<Slice>, StoreError> {
        let view = self.committed();
        let mut keys = view.prefix(table, prefix).map(|row| Ok(row?.0)).collect::<Result<BTreeSet<_>, StoreError>>()?;
        for (key, row) in self.writes.of(table) {
            match row {
                Some(_) if key.starts_with(prefix) => drop(keys.insert(key.clone())),
                Some(_) => {}
                None => drop(keys.remove(key)),
            }
        }
        Ok(keys)
    }

    /// Whether this commit has written to a table so far.
    pub(crate) fn touches(&self, table: Table) -> bool {
        self.writes.of(table).next().is_some()
    }

    /// The head sequence row of a chat; `None` if the row is missing.
    pub(crate) fn counter(&self, chat_id: ChatId) -> Result<Option<HeadSummary>, StoreError> {
        let key = keys::chat(chat_id);
        let row = match self.writes.get(Table::Heads, &key) {
            Some(written) => written.clone(),
            None => match self.heads.get(&chat_id) {
                Some(counter) => return Ok(Some(*counter)),
                None => self.tables.get_bytes(Table::Heads, &key)?,
            },
        };
        row.map(|row| HeadSummary::decode(&row).map_err(|error| unreadable(Table::Heads, error))).transpose()
    }

    /// Schedules a row for purging when it expires.
    pub(crate) fn expire(&mut self, at: Timestamp, what: Expiring) {
        self.put_new(Table::Expiries, &keys::expiry(at, what), vec![]);
    }

    /// Logs a change or a purge of this job.
    ///
    /// A change gets the next number of its chat. A chat that has lost its head row has no numbers until it is repaired.
    pub(crate) fn log(&mut self, body: EventBody) -> Result<(), StoreError> {
        let event_number = if body.is_change() { self.count_change(body.chat_id())? } else { None };
        self.log_event(Event { event_id: self.ids.ulid().into(), event_time: self.now, event_number, body });
        Ok(())
    }

    /// Counts a change in the head row of its chat, and returns the number of its event.
    fn count_change(&mut self, chat_id: ChatId) -> Result<Option<EventNumber>, StoreError> {
        let key = keys::chat(chat_id);
        let Some(head) = self.get::<Head>(Table::Heads, &key)? else { return Ok(None) };
        let head = Head { changes: head.changes.saturating_add(1), ..head };
        self.put(Table::Heads, &key, &head);
        Ok(Some(EventNumber::at(head.sequence, head.changes)))
    }

    /// Records that a message is deleted, so its event disappears from the log too.
    pub(crate) fn purged(&mut self, location: MessageLocation) {
        if self.writes.purged.insert(location) {
            self.job.purged.push(location);
        }
    }

    /// Appends an event to the log.
    pub(crate) fn log_event(&mut self, event: Event) {
        let offset = self.offset + self.writes.events.len() as u64;
        self.put_new(Table::Log, &keys::offset(offset), encode_event(&event));
        self.writes.events.push(Arc::new(event));
    }

    /// Checks that the job moves no head backwards that it has overwritten. On an error the caller discards the job.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        for Overwritten { key, before, .. } in self.job.overwritten.iter().filter(|row| row.table == Table::Heads) {
            let Some(row) = self.writes.get(Table::Heads, key) else { continue };
            let Some((chat_id, after)) = moved_head((key, row)) else { continue };
            let before = match before {
                Some(written) => written.as_ref().and_then(|row| HeadSummary::decode(row).ok()),
                None => self.heads.get(&chat_id).copied(),
            };
            let Some((before, after)) = before.zip(after) else { continue };
            let moved = || format!("the head of `{chat_id}` would move from {} to {}", before.sequence, after.sequence);
            if !ports::holds(Invariant::AllocationMonotonicity, before.sequence <= after.sequence, moved) {
                return Err(unreadable(Table::Heads, moved()));
            }
        }
        Ok(())
    }

    /// Ends a successful job: its writes are part of the commit.
    pub(crate) fn keep(&mut self) {
        let Writes { new_rows, events, upkeep, bytes, .. } = &self.writes;
        (self.job.new_rows, self.job.events, self.job.upkeep) = (new_rows.len(), events.len(), upkeep.len());
        self.job.bytes = *bytes;
        self.job.overwritten.clear();
        self.job.replaced.clear();
        self.job.purged.clear();
        self.job.erased.clear();
    }

    /// Rolls back a failed job.
    pub(crate) fn discard(&mut self) {
        let Self { writes, job, .. } = self;
        // Undo in reverse order, so that a row with several writes gets its first previous value back.
        for Overwritten { table, key, before } in job.overwritten.drain(..).rev() {
            let rows = &mut writes.rows[table as usize];
            match before {
                Some(before) => drop(rows.insert(key, before)),
                None => drop(rows.remove(&key)),
            }
        }
        for (position, before) in job.replaced.drain(..).rev() {
            writes.new_rows[position].2 = before;
        }
        for location in job.purged.drain(..) {
            writes.purged.remove(&location);
        }
        writes.new_rows.truncate(job.new_rows);
        writes.events.truncate(job.events);
        writes.upkeep.truncate(job.upkeep);
        job.erased.clear();
        writes.bytes = job.bytes;
    }

    /// Bytes of the rows written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.writes.bytes
    }

    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.bytes == 0
    }

    /// Makes all kept writes durable and visible.
    pub(crate) fn commit(self) -> fjall::Result<LogChanges> {
        let Writes { rows, new_rows, events, purged, upkeep, .. } = self.writes;
        let heads: Vec<_> = rows[Table::Heads as usize].iter().filter_map(moved_head).collect();
        let mut batch = self.tables.batch(new_rows.len() + rows.iter().map(HashMap::len).sum::<usize>());
        for (table, key, row) in in_order(rows, new_rows) {
            batch.write(table, key, row);
        }
        for upkeep in upkeep {
            batch.upkeep(upkeep);
        }
        batch.commit()?;
        for (chat_id, counter) in heads {
            match counter {
                Some(counter) => self.heads.insert(chat_id, counter),
                None => drop(self.heads.remove(&chat_id)),
            }
        }
        Ok(LogChanges { events, purged })
    }
}

/// The rows of a commit in the order in which they become visible: first new rows as written, then the others.
///
/// The engine promises that a batch becomes visible atomically, with one exception. A worker that finishes a flush or a
/// merge while a batch is being applied raises the visible sequence number. A view opened at that moment sees the rows
/// of the batch as they arrive (lsm-tree 3.1, `upgrade_version`).
///
/// A head that is visible before its message would prove to a sync that the message does not exist, and its reader
/// would never see it (G7). So messages are written before log records, and all other rows before heads: a reader that
/// sees a head or a log record finds the message. The same holds for other rows: a member without watermarks would look
/// as if they had read nothing.
///
/// An update and its log record are new rows, and its message is not: they are visible before its new state. So readers
/// of updates read only up to the head, and consumers only up to the published end of the log.
fn in_order(
    rows: Vec<HashMap<Slice, Option<Slice>>>,
    new_rows: Vec<(Table, Slice, Slice)>,
) -> impl Iterator<Item = (Table, Slice, Option<Slice>)> {
    let new_rows = new_rows.into_iter().map(|(table, key, row)| (table, key, Some(row)));
    let (heads, rows): (Vec<_>, Vec<_>) =
        Table::ALL.into_iter().zip(rows).partition(|(table, _)| *table == Table::Heads);
    let rows = rows.into_iter().chain(heads);
    new_rows.chain(rows.flat_map(|(table, rows)| rows.into_iter().map(move |(key, row)| (table, key, row))))
}

fn moved_head((key, row): (&Slice, &Option<Slice>)) -> Option<(ChatId, Option<HeadSummary>)> {
    let chat_id = keys::parse_chat(key.as_ref().try_into().ok()?);
    Some((chat_id, row.as_ref().and_then(|row| HeadSummary::decode(row).ok())))
}

impl Writes {
    fn new() -> Self {
        Self {
            rows: Table::ALL.iter().map(|_| HashMap::new()).collect(),
            new_rows: vec![],
            events: vec![],
            purged: HashSet::new(),
            upkeep: vec![],
            bytes: 0,
        }
    }

    fn get(&self, table: Table, key: &[u8]) -> Option<&Option<Slice>> {
        self.rows[table as usize].get(key)
    }

    /// Writes to a table, without the new rows.
    fn of(&self, table: Table) -> impl Iterator<Item = (&Slice, &Option<Slice>)> {
        self.rows[table as usize].iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use domain::{ChatId, Sequence, Timestamp, Ttl, UserId};
    use ports::RandomIds;

    use super::*;
    use crate::Config;
    use crate::records::MessageLocation;

    /// Opens tables, and runs a transaction on them for each function given.
    fn on_tables(test: impl FnOnce(&Tables, &mut Heads)) {
        let directory = tempfile::tempdir().unwrap();
        let tables = Tables::open(directory.path(), &Config::default()).unwrap();
        test(&tables, &mut Heads::new(10));
    }

    fn tx<'a>(tables: &'a Tables, heads: &'a mut Heads) -> Tx<'a> {
        Tx::new(tables, heads, &RandomIds, Timestamp::from_millis(1), 0)
    }

    fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n; 16])
    }

    fn head(sequence: u64, ttl: u64) -> Head {
        Head { sequence: Sequence(sequence), message_ttl: Ttl::from_secs(ttl), ..Head::default() }
    }

    fn counter(sequence: u64, ttl: u64) -> HeadSummary {
        HeadSummary { sequence: Sequence(sequence), message_ttl: Ttl::from_secs(ttl), changes: 0 }
    }

    #[test]
    fn a_job_sees_kept_writes_of_earlier_jobs_and_no_discarded_ones() {
        on_tables(|tables, heads| {
            let mut tx = tx(tables, heads);
            tx.put(Table::Meta, b"kept", &1u64);
            tx.keep();
            tx.put(Table::Meta, b"kept", &2u64);
            tx.put(Table::Meta, b"other", &2u64);
            assert_eq!(tx.get::<u64>(Table::Meta, b"kept").unwrap(), Some(2));
            tx.discard();
            assert_eq!(tx.get::<u64>(Table::Meta, b"kept").unwrap(), Some(1));
            assert_eq!(tx.get::<u64>(Table::Meta, b"other").unwrap(), None);
            tx.delete(Table::Meta, b"kept");
            tx.put(Table::Meta, b"kept", &3u64);
            tx.put_new(Table::Codes, b"other", vec![1]);
            tx.delete(Table::Meta, b"kept");
            assert_eq!(tx.get::<u64>(Table::Meta, b"kept").unwrap(), None);
            tx.discard();
            assert_eq!(tx.get::<u64>(Table::Meta, b"kept").unwrap(), Some(1));
            tx.commit().unwrap();
            assert_eq!(tables.get::<u64>(Table::Meta, b"kept").unwrap(), Some(1));
            assert_eq!(tables.get::<u64>(Table::Meta, b"other").unwrap(), None);
            assert_eq!(tables.get_bytes(Table::Codes, b"other").unwrap(), None);
        });
    }

    #[test]
    fn a_new_row_is_found_and_replaced_where_it_is() {
        on_tables(|tables, heads| {
            let find = |tx: &Tx<'_>, key: &[u8]| {
                let found = tx.find(Table::Messages, key).unwrap();
                found.map(|found| found.row.to_vec())
            };
            let replace = |tx: &mut Tx<'_>, key: &[u8], row: u8| {
                let found = tx.find(Table::Messages, key).unwrap().unwrap();
                tx.replace(Table::Messages, key, &found, vec![row]);
            };
            let mut first = tx(tables, heads);
            first.put_new(Table::Messages, b"committed", vec![1]);
            first.keep();
            first.commit().unwrap();

            let mut second = tx(tables, heads);
            second.put_new(Table::Messages, b"new", vec![1]);
            second.put_new(Table::Log, b"logged", vec![1]);
            second.keep();
            let bytes = second.bytes();
            replace(&mut second, b"new", 2);
            replace(&mut second, b"new", 3);
            replace(&mut second, b"committed", 2);
            second.put_new(Table::Messages, b"later", vec![1]);
            replace(&mut second, b"later", 2);
            let found = [&b"new"[..], b"committed", b"later", b"logged"].map(|key| find(&second, key));
            assert_eq!(found, [Some(vec![3]), Some(vec![2]), Some(vec![2]), None]);

            second.discard();
            let found = [&b"new"[..], b"committed", b"later"].map(|key| find(&second, key));
            assert_eq!((found, second.bytes()), ([Some(vec![1]), Some(vec![1]), None], bytes));

            replace(&mut second, b"new", 4);
            replace(&mut second, b"committed", 4);
            second.keep();
            second.put_new(Table::Messages, b"later", vec![1]);
            second.discard();
            assert_eq!(find(&second, b"new"), Some(vec![4]), "a kept job is not rolled back with the next one");
            let Writes { rows, new_rows, .. } = second.writes;
            let order: Vec<_> = in_order(rows, new_rows).map(|(_, key, row)| (key.to_vec(), row.unwrap()[0])).collect();
            let expected = [(&b"new"[..], 4), (b"logged", 1), (b"committed", 4)];
            assert_eq!(order, expected.map(|(key, row)| (key.to_vec(), row)), "each key is written once");
        });
    }

    #[test]
    fn a_discarded_job_purges_nothing_and_there_is_nothing_to_commit() {
        on_tables(|tables, heads| {
            let location = |n| MessageLocation { chat_id: chat(n), sequence: Sequence(1) };
            let mut tx = tx(tables, heads);
            tx.put(Table::Meta, b"key", &1u64);
            tx.purged(location(1));
            tx.discard();
            assert!(tx.is_empty());
            tx.put(Table::Meta, b"key", &1u64);
            tx.purged(location(2));
            tx.keep();
            tx.purged(location(2));
            tx.purged(location(3));
            tx.discard();
            assert_eq!(tx.commit().unwrap().purged, HashSet::from([location(2)]));
        });
    }

    #[test]
    fn a_discarded_job_leaves_no_gap_in_the_log() {
        on_tables(|tables, heads| {
            let left = |tx: &mut Tx<'_>| {
                let name = "name".to_owned().try_into().unwrap();
                let changed_by = UserId::from_bytes([1; 16]);
                tx.log(EventBody::ChatRenamed { chat_id: chat(1), name, changed_by }).unwrap();
            };
            let mut tx = tx(tables, heads);
            left(&mut tx);
            tx.keep();
            left(&mut tx);
            tx.discard();
            left(&mut tx);
            tx.keep();
            assert_eq!(tx.commit().unwrap().events.len(), 2);
            let view = tables.view();
            let offsets: Vec<_> =
                view.range::<&[u8]>(Table::Log, ..).map(|row| keys::parse_offset(&row.unwrap().0).unwrap()).collect();
            assert_eq!(offsets, [0, 1]);
        });
    }

    #[test]
    fn the_cached_head_of_a_chat_is_the_last_committed_one() {
        on_tables(|tables, heads| {
            let key = keys::chat(chat(1));
            let mut first = tx(tables, heads);
            first.put(Table::Heads, &key, &head(1, 60));
            assert_eq!(first.counter(chat(1)).unwrap(), Some(counter(1, 60)));
            first.keep();
            first.put(Table::Heads, &key, &head(2, 60));
            first.discard();
            first.commit().unwrap();
            assert_eq!(heads.get(&chat(1)), Some(&counter(1, 60)));

            let mut second = tx(tables, heads);
            assert_eq!(second.counter(chat(1)).unwrap(), Some(counter(1, 60)));
            second.put(Table::Heads, &key, &head(1, 5));
            second.keep();
            second.commit().unwrap();
            assert_eq!(heads.get(&chat(1)), Some(&counter(1, 5)));

            let mut third = tx(tables, heads);
            third.delete(Table::Heads, &key);
            assert_eq!(third.counter(chat(1)).unwrap(), None);
            third.keep();
            third.commit().unwrap();
            assert_eq!(heads.get(&chat(1)), None);
        });
    }

    #[test]
    fn a_job_that_would_move_a_head_back_is_refused_and_counted() {
        let violations = contract::Violations::default();
        let _watched = violations.watch();
        on_tables(|tables, heads| {
            let key = keys::chat(chat(1));
            let mut first = tx(tables, heads);
            first.put(Table::Heads, &key, &head(7, 60));
            first.check().unwrap();
            first.keep();
            first.put(Table::Heads, &key, &head(6, 60));
            assert_eq!(first.check().unwrap_err().to_string(), "a stored record of `heads` is unreadable");
            first.discard();
            first.commit().unwrap();

            let mut second = tx(tables, heads);
            second.put(Table::Heads, &key, &head(7, 5));
            second.check().unwrap();
            second.put(Table::Heads, &key, &head(6, 5));
            assert!(second.check().is_err(), "of what was committed before, too");
        });
        assert_eq!(violations.seen(), [("allocation_monotonicity".to_owned(), 2)]);
    }

    #[test]
    fn keys_include_earlier_jobs_of_the_commit() {
        on_tables(|tables, heads| {
            let mut first = tx(tables, heads);
            for key in [&b"a1"[..], b"a2", b"b1"] {
                first.put(Table::Meta, key, &1u64);
            }
            first.keep();
            first.commit().unwrap();

            let mut second = tx(tables, heads);
            assert!(!second.touches(Table::Meta));
            second.delete(Table::Meta, b"a1");
            second.keep();
            second.put(Table::Meta, b"a3", &1u64);
            second.put(Table::Meta, b"b2", &1u64);
            assert!(second.touches(Table::Meta));
            let keys = second.keys(Table::Meta, b"a").unwrap();
            assert_eq!(keys.iter().map(|key| key.as_ref()).collect::<Vec<_>>(), [b"a2", b"a3"]);
        });
    }

    /// The symptom was a subscriber that received 2783 after 2781, once in thousands of crashes. A view opened while a
    /// batch was applied had the head but not yet the message.
    #[test]
    fn g7_a_head_never_appears_before_its_message_nor_a_record_of_the_log() {
        on_tables(|tables, heads| {
            let mut tx = tx(tables, heads);
            for n in 1..=3 {
                tx.put(Table::Heads, &keys::chat(chat(n)), &head(1, 60));
                tx.put_new(Table::Messages, &[n], vec![n]);
                tx.put_new(Table::Log, &[n], vec![n]);
                tx.keep();
            }
            let Writes { rows, new_rows, .. } = tx.writes;
            let order: Vec<_> = in_order(rows, new_rows).map(|(table, ..)| table).collect();
            let messages = [Table::Messages, Table::Log].repeat(3);
            assert_eq!(order, [messages, vec![Table::Heads; 3]].concat());
        });
    }

    /// The same under load: views are opened continuously while batches are applied and a worker finishes flushes of
    /// another table.
    #[test]
    fn g7_a_reader_that_sees_a_head_finds_its_message_while_workers_flush() {
        const COMMITS: u64 = 300;
        const MESSAGES: u64 = 50;
        let location = |sequence| MessageLocation { chat_id: chat(1), sequence };
        on_tables(|tables, heads| {
            let done = AtomicBool::new(false);
            let looked = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let (mut looked, mut missing) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        let view = tables.view();
                        let Some(row) = view.get_bytes(Table::Heads, &keys::chat(chat(1))).unwrap() else { continue };
                        let last = HeadSummary::decode(&row).unwrap().sequence;
                        let message = view.get_bytes(Table::Messages, &keys::message(location(last))).unwrap();
                        looked += 1;
                        missing += u64::from(message.is_none());
                    }
                    assert_eq!(missing, 0, "of {looked} heads");
                    looked
                });
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let mut batch = tables.batch(1);
                        batch.write(Table::Codes, b"code"[..].into(), Some(b"row"[..].into()));
                        batch.commit().unwrap();
                        tables.compact(Table::Codes).unwrap();
                    }
                });
                for commit in 0..COMMITS {
                    let mut tx = tx(tables, heads);
                    for sequence in commit * MESSAGES + 1..=(commit + 1) * MESSAGES {
                        tx.put(Table::Heads, &keys::chat(chat(1)), &head(sequence, 60));
                        tx.put_new(Table::Messages, &keys::message(location(Sequence(sequence))), vec![1]);
                    }
                    tx.keep();
                    tx.commit().unwrap();
                }
                done.store(true, Ordering::Relaxed);
                reader.join().unwrap()
            });
            assert!(looked > 0);
        });
    }

    #[test]
    fn a_deletion_is_scheduled_for_erasure_with_its_job_or_not_at_all() {
        on_tables(|tables, heads| {
            let mut tx = tx(tables, heads);
            let due = |tx: &Tx<'_>| tx.get::<u64>(Table::Meta, b"erase_due:messages").unwrap();
            tx.delete(Table::Messages, &[0; 24]);
            tx.discard();
            tx.delete(Table::Consumers, b"group");
            tx.schedule_erasure().unwrap();
            tx.keep();
            assert_eq!((due(&tx), tx.keys(Table::Meta, b"erase_").unwrap().len()), (None, 0));
            tx.delete(Table::Messages, &[0; 24]);
            tx.schedule_erasure().unwrap();
            tx.discard();
            assert_eq!(due(&tx), None);
            tx.erase(Table::Messages);
            tx.schedule_erasure().unwrap();
            tx.keep();
            assert_eq!(due(&tx), Some(1));
        });
    }
}
