use std::collections::HashMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, Sequence, Timestamp};
use fjall::Slice;
use ports::{Ids, StoreError};
use quick_cache::unsync::Cache;

use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{Stored, encode_event, head_sequence};
use crate::tables::{Table, Tables, View, decode};

/// The last sequences of the chats that were written last. Exact, because only the committer moves them.
pub(crate) type Heads = Cache<ChatId, Sequence>;

/// The transactions of one commit, one after the other.
///
/// Each job sees the committed rows and what the jobs before it in the same commit have written. It keeps all that it
/// wrote or, when it fails half-way, discards all of it.
pub(crate) struct Tx<'a> {
    tables: &'a Tables,
    heads: &'a mut Heads,
    ids: &'a dyn Ids,
    now: Timestamp,
    /// The offset of the first event of this commit.
    offset: u64,
    kept: Writes,
    job: Writes,
}

/// Rows to write, and the events that tell of them.
#[derive(Default)]
struct Writes {
    /// By table; `None` deletes.
    rows: Vec<HashMap<Slice, Option<Slice>>>,
    /// Rows that no job of the same commit looks up, and that need no index therefore.
    new_rows: Vec<(Table, Slice, Slice)>,
    events: Vec<Arc<Event>>,
    bytes: usize,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(tables: &'a Tables, heads: &'a mut Heads, ids: &'a dyn Ids, now: Timestamp, offset: u64) -> Self {
        Self { tables, heads, ids, now, offset, kept: Writes::default(), job: Writes::default() }
    }

    /// The time of the commit.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The tables as the last commit left them, without what this one has written so far.
    pub(crate) fn committed(&self) -> View<'a> {
        self.tables.view()
    }

    pub(crate) fn get<V: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<V>, StoreError> {
        decode(table, self.get_bytes(table, key)?)
    }

    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        match self.job.get(table, key).or_else(|| self.kept.get(table, key)) {
            Some(written) => Ok(written.clone()),
            None => self.tables.get_bytes(table, key),
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &impl Stored) {
        self.job.set(table, key.into(), Some(value.encode().into()));
    }

    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) {
        self.job.set(table, key.into(), None);
    }

    /// Writes a row that was not there and that no other job of this commit looks up.
    pub(crate) fn put_new(&mut self, table: Table, key: &[u8], row: Vec<u8>) {
        self.job.bytes += key.len() + row.len();
        self.job.new_rows.push((table, key.into(), row.into()));
    }

    /// The last sequence of a chat; `None` if its head row is missing.
    pub(crate) fn sequence(&self, chat_id: ChatId) -> Result<Option<Sequence>, StoreError> {
        let key = keys::chat(chat_id);
        let row = match self.job.get(Table::Heads, &key).or_else(|| self.kept.get(Table::Heads, &key)) {
            Some(written) => written.clone(),
            None => match self.heads.get(&chat_id) {
                Some(sequence) => return Ok(Some(*sequence)),
                None => self.tables.get_bytes(Table::Heads, &key)?,
            },
        };
        row.map(|row| head_sequence(&row).map_err(|error| unreadable(Table::Heads, error))).transpose()
    }

    /// Has a row looked at when it expires.
    pub(crate) fn expire(&mut self, at: Timestamp, what: Expiring) {
        self.put_new(Table::Expiries, &keys::expiry(at, what), vec![]);
    }

    /// Logs something that happened in this job.
    pub(crate) fn log(&mut self, body: EventBody) {
        self.log_event(Event { event_id: self.ids.ulid().into(), event_time: self.now, body });
    }

    /// Puts an event at the end of the log.
    pub(crate) fn log_event(&mut self, event: Event) {
        let offset = self.offset + (self.kept.events.len() + self.job.events.len()) as u64;
        self.put_new(Table::Log, &keys::offset(offset), encode_event(&event));
        self.job.events.push(Arc::new(event));
    }

    /// Ends a job that worked: its writes are part of the commit.
    pub(crate) fn keep(&mut self) {
        self.kept.absorb(std::mem::take(&mut self.job));
    }

    /// Ends a job that failed: it leaves no trace.
    pub(crate) fn discard(&mut self) {
        self.job = Writes::default();
    }

    /// Bytes of the rows kept so far.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.bytes
    }

    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.bytes == 0
    }

    /// Makes everything kept durable and visible, and returns its events.
    pub(crate) fn commit(self) -> fjall::Result<Vec<Arc<Event>>> {
        let Writes { rows, new_rows, events, .. } = self.kept;
        let heads: Vec<_> = rows.get(Table::Heads as usize).into_iter().flatten().filter_map(moved_head).collect();
        let mut batch = self.tables.batch(new_rows.len() + rows.iter().map(HashMap::len).sum::<usize>());
        for (table, rows) in Table::ALL.into_iter().zip(rows) {
            for (key, row) in rows {
                batch.write(table, key, row);
            }
        }
        for (table, key, row) in new_rows {
            batch.write(table, key, Some(row));
        }
        batch.commit()?;
        for (chat_id, sequence) in heads {
            match sequence {
                Some(sequence) => self.heads.insert(chat_id, sequence),
                None => drop(self.heads.remove(&chat_id)),
            }
        }
        Ok(events)
    }
}

fn moved_head((key, row): (&Slice, &Option<Slice>)) -> Option<(ChatId, Option<Sequence>)> {
    let chat_id = keys::parse_chat(key.as_ref().try_into().ok()?);
    Some((chat_id, row.as_ref().and_then(|row| head_sequence(row).ok())))
}

impl Writes {
    fn get(&self, table: Table, key: &[u8]) -> Option<&Option<Slice>> {
        self.rows.get(table as usize)?.get(key)
    }

    fn set(&mut self, table: Table, key: Slice, row: Option<Slice>) {
        if self.rows.is_empty() {
            self.rows.resize_with(Table::ALL.len(), HashMap::new);
        }
        self.bytes += key.len() + row.as_ref().map_or(0, |row| row.len());
        self.rows[table as usize].insert(key, row);
    }

    fn absorb(&mut self, mut later: Self) {
        if self.rows.is_empty() {
            self.rows = later.rows;
        } else {
            for (rows, later) in self.rows.iter_mut().zip(later.rows) {
                rows.extend(later);
            }
        }
        self.new_rows.append(&mut later.new_rows);
        self.events.append(&mut later.events);
        self.bytes += later.bytes;
    }
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, Timestamp, UserId};
    use ports::RandomIds;

    use super::*;
    use crate::Config;

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

    fn head(sequence: u64) -> ports::Head {
        ports::Head { sequence: Sequence(sequence), last_message: None }
    }

    #[test]
    fn a_job_sees_what_earlier_jobs_kept_and_nothing_of_what_they_discarded() {
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
            assert_eq!(tx.get::<u64>(Table::Meta, b"kept").unwrap(), None);
            tx.discard();
            tx.commit().unwrap();
            assert_eq!(tables.get::<u64>(Table::Meta, b"kept").unwrap(), Some(1));
            assert_eq!(tables.get::<u64>(Table::Meta, b"other").unwrap(), None);
        });
    }

    #[test]
    fn a_discarded_job_leaves_no_gap_in_the_log() {
        on_tables(|tables, heads| {
            let left = |tx: &mut Tx<'_>| {
                let name = "name".to_owned().try_into().unwrap();
                tx.log(EventBody::ChatRenamed { chat_id: chat(1), name, changed_by: UserId::from_bytes([1; 16]) });
            };
            let mut tx = tx(tables, heads);
            left(&mut tx);
            tx.keep();
            left(&mut tx);
            tx.discard();
            left(&mut tx);
            tx.keep();
            assert_eq!(tx.commit().unwrap().len(), 2);
            let view = tables.view();
            let offsets: Vec<_> =
                view.range::<&[u8]>(Table::Log, ..).map(|row| keys::parse_offset(&row.unwrap().0).unwrap()).collect();
            assert_eq!(offsets, [0, 1]);
        });
    }

    #[test]
    fn the_known_sequence_of_a_chat_is_what_was_committed_last() {
        on_tables(|tables, heads| {
            let mut first = tx(tables, heads);
            first.put(Table::Heads, &keys::chat(chat(1)), &head(1));
            assert_eq!(first.sequence(chat(1)).unwrap(), Some(Sequence(1)));
            first.keep();
            first.put(Table::Heads, &keys::chat(chat(1)), &head(2));
            first.discard();
            first.commit().unwrap();
            assert_eq!(heads.get(&chat(1)), Some(&Sequence(1)));

            let mut second = tx(tables, heads);
            assert_eq!(second.sequence(chat(1)).unwrap(), Some(Sequence(1)));
            second.delete(Table::Heads, &keys::chat(chat(1)));
            assert_eq!(second.sequence(chat(1)).unwrap(), None);
            second.keep();
            second.commit().unwrap();
            assert_eq!(heads.get(&chat(1)), None);
        });
    }
}
