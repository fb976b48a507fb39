//! Copies the readable rows of a damaged store into a new one. The damaged directory is only read.
//!
//! 1. [`raw`] reads table files and journals without the engine, skips blocks and batches with a wrong checksum, and
//!    keeps the newest version of each row. The rows go into a temporary database.
//! 2. The exportable rows are decoded and imported into the new store. Derived rows are rebuilt, and rows that do not
//!    decode are left out. A chat with a lost row or head gets a new one from its members and entries. Reports and
//!    pending account deletions are copied too. Events of the log are not: pending webhook deliveries and notifications
//!    are dropped.
//! 3. The result lists every sequence up to the head of a chat without an entry in the new store.

mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use domain::{Chat, ChatId, ChatName, ChatType, Member, Message, Sequence, Timestamp, UserId};
use fjall::Slice;
use ports::{BoxError, ExportKind, Head, Moved, RandomIds, StoreError};

use self::raw::RawDatabase;
use crate::directory::{Directory, StoreOpenError};
use crate::keys;
use crate::log::end_of_log;
use crate::records::{MessageLocation, Stored, decode_message, decode_update};
use crate::store_file::StoreFile;
use crate::tables::{DatabaseError, Table, Tables, View, check_key};
use crate::transfer::{moved, take_in};
use crate::tx::{Heads, Tx};
use crate::{Config, StoreKey};

/// Temporary database for the readable rows, inside the new directory.
const SALVAGED: &str = "salvaged";
/// The name of a group whose own name was lost.
const NAME_OF_NAMELESS: &str = "Recovered group";
/// Tables that an export leaves out but that contain user data: reports and pending deletions.
const COPIED: [Table; 3] = [Table::Reports, Table::ReportIndex, Table::Deletions];
/// Rows per commit.
const BATCH: usize = 1000;

/// Why a repair failed.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The damaged directory cannot be read, or is in use.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// The database cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The directory of the database.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The new store cannot be written.
    #[error("cannot write into `{}`", .path.display())]
    Write {
        /// The new directory.
        path: PathBuf,
        /// The error of the system or the engine.
        #[source]
        source: BoxError,
    },
}

/// A part of the damaged store that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub reason: String,
}

impl Unreadable {
    fn new(file: &Path, reason: impl Display) -> Self {
        Self { file: file.to_owned(), reason: reason.to_string() }
    }
}

/// Sequences of a chat without an entry, a message or an update of one, in the new store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Messages that existed when the damage happened: another row refers to them.
    pub lost: BTreeSet<u64>,
    /// Entries without any remaining row: they were lost, or had expired before.
    pub lost_or_expired: BTreeSet<u64>,
}

/// The result of a repair.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// Unreadable files or parts of files.
    pub unreadable: Vec<Unreadable>,
    /// Number of rows in the new store by kind.
    pub saved: BTreeMap<&'static str, u64>,
    /// Number of readable rows that were left out, by kind: they do not decode, or belong to a chat without other rows.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Chats with a lost row. Groups among them have lost their name.
    pub recovered_chats: Vec<ChatId>,
    /// Missing entries by chat.
    pub missing: BTreeMap<ChatId, Missing>,
}

/// Copies the readable rows of the store in `from` into a new store in `into`, an empty or missing directory.
/// `key` is the key of both, if the store is encrypted. `progress` is called with the name of each kind of row before it
/// is copied. Blocks on the disk.
pub fn repair(
    from: &Path,
    into: &Path,
    key: Option<&StoreKey>,
    now: Timestamp,
    mut progress: impl FnMut(&'static str),
) -> Result<Repaired, RepairError> {
    let _damaged = Directory::claim_to_read(from)?;
    let database = Directory::database_of(from);
    let unreadable = |source| RepairError::Read { path: database.clone(), source };
    let write = |source: BoxError| RepairError::Write { path: into.to_owned(), source };
    let mut repaired = Repaired::default();

    // Without a readable store file the given key is taken for the right one.
    if let Ok(Some(file)) = StoreFile::read(&database) {
        let open = |error: DatabaseError| StoreOpenError::Engine { path: from.to_owned(), source: error.into() };
        check_key(file.key, key).map_err(open)?;
    }
    let mut source = RawDatabase::open(&database).map_err(unreadable)?;
    let target = Directory::claim(into, key)?;
    let aside = into.join(SALVAGED);
    let config = Config { key: key.cloned(), ..Config::default() };
    let salvaged = Tables::open(&aside, &config).map_err(|error| write(error.into()))?;
    for table in Table::ALL {
        progress(table.name());
        let mut undecryptable = 0;
        let rows = source.table(table.name()).map_err(unreadable)?.filter(|(stored_key, row)| {
            let decrypts = key.is_none_or(|key| key.decrypt(table, stored_key.clone(), row).is_ok());
            undecryptable += u64::from(!decrypts);
            decrypts
        });
        let filled = salvaged.fill(table, rows.map(Ok::<_, DatabaseError>));
        filled.map_err(|error| write(error.map_or_else(Into::into, Into::into)))?;
        if undecryptable > 0 {
            let what = format!("{undecryptable} rows of `{}` do not decrypt with the given key", table.name());
            repaired.unreadable.push(Unreadable::new(&database, what));
        }
    }
    repaired.unreadable.extend(source.into_unreadable());

    let tables = Tables::open(&target.database(), &config).map_err(|error| write(error.into()))?;
    let mut mover = Mover { salvaged: &salvaged, tables: &tables, now, repaired };
    mover.move_all(&mut progress).map_err(|error| write(error.into()))?;
    let mut repaired = mover.repaired;
    progress("missing messages");
    repaired.missing = missing(&salvaged, &tables).map_err(|error| write(error.into()))?;
    drop((salvaged, tables));
    crate::durable::remove_directory(&aside).map_err(|error| write(error.into()))?;
    Ok(repaired)
}

/// Creates the new store from the salvaged rows.
struct Mover<'a> {
    salvaged: &'a Tables,
    tables: &'a Tables,
    now: Timestamp,
    repaired: Repaired,
}

impl Mover<'_> {
    fn move_all(&mut self, progress: &mut impl FnMut(&'static str)) -> Result<(), StoreError> {
        let view = self.salvaged.view();
        for kind in ExportKind::ALL {
            progress(kind.name());
            let mut batch = vec![];
            if kind == ExportKind::Chat {
                batch = self.chats(&view)?;
            } else {
                for row in view.range::<&[u8]>(Table::exported(kind), ..) {
                    let (key, row) = row?;
                    match moved(&view, kind, &key, &row, self.now) {
                        Ok(Some(moved)) => batch.push(moved),
                        Ok(None) => {}
                        Err(_) => *self.repaired.left_out.entry(kind.name()).or_default() += 1,
                    }
                    if batch.len() == BATCH {
                        self.write(kind.name(), &std::mem::take(&mut batch))?;
                    }
                }
            }
            for rows in batch.chunks(BATCH) {
                self.write(kind.name(), rows)?;
            }
        }
        for table in COPIED {
            let rows = view.range::<&[u8]>(table, ..).collect::<Result<Vec<_>, _>>()?;
            self.commit(|tx| {
                for (key, row) in &rows {
                    tx.put_new(table, key, row.to_vec());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn write(&mut self, kind: &'static str, rows: &[Moved]) -> Result<(), StoreError> {
        *self.repaired.saved.entry(kind).or_default() += rows.len() as u64;
        self.commit(|tx| rows.iter().try_for_each(|row| take_in(tx, row)))
    }

    fn commit(&self, work: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut heads = Heads::new(1);
        let mut tx = Tx::new(self.tables, &mut heads, &RandomIds, self.now, 0);
        work(&mut tx)?;
        tx.keep();
        if !tx.is_empty() {
            tx.commit().map_err(StoreError::unavailable)?;
        }
        Ok(())
    }

    /// All chats with a row, a head, a member or an entry. The head of each is at least its last entry.
    fn chats(&mut self, view: &View<'_>) -> Result<Vec<Moved>, StoreError> {
        let mut chats: BTreeMap<ChatId, Traces> = BTreeMap::new();
        let mut left_out = 0;
        for row in view.range::<&[u8]>(Table::Chats, ..) {
            match Chat::decode(&row?.1) {
                Ok(chat) => {
                    let traces = chats.entry(chat.chat_id).or_default();
                    traces.chat = Some(chat);
                }
                Err(_) => left_out += 1,
            }
        }
        for row in view.range::<&[u8]>(Table::Heads, ..) {
            let (key, row) = row?;
            match (key.as_ref().try_into().map(keys::parse_chat), Head::decode(&row)) {
                (Ok(chat_id), Ok(head)) => chats.entry(chat_id).or_default().head = Some(head),
                _ => left_out += 1,
            }
        }
        for row in view.range::<&[u8]>(Table::Members, ..) {
            let (key, row) = row?;
            if let (Ok((chat_id, _)), Ok(member)) = (keys::parse_member(&key), Member::decode(&row)) {
                chats.entry(chat_id).or_default().members.push(member);
            }
        }
        for row in view.range::<&[u8]>(Table::DirectChats, ..) {
            if let Ok(chat_id) = ChatId::decode(&row?.1) {
                chats.entry(chat_id).or_default().is_direct = true;
            }
        }
        for row in view.range::<&[u8]>(Table::Messages, ..) {
            if let Some(message) = message(&row?) {
                let traces = chats.entry(message.chat_id).or_default();
                // The update of the revision may be lost.
                traces.last_entry = traces.last_entry.max(message.sequence).max(message.state.revision);
                traces.last_message = Some(message);
            }
        }
        for row in view.range::<&[u8]>(Table::Updates, ..) {
            let (key, row) = row?;
            if let Ok(update) = keys::parse_message(&key).and_then(|location| decode_update(location, &row)) {
                let traces = chats.entry(update.chat_id).or_default();
                traces.last_entry = traces.last_entry.max(update.sequence);
            }
        }
        if left_out > 0 {
            self.repaired.left_out.insert(ExportKind::Chat.name(), left_out);
        }
        // Every change of a chat was an event of the log, so a chat without its head continues above all its numbers.
        let changes_max = end_of_log(self.salvaged)?;
        let mut moved = vec![];
        for (chat_id, traces) in chats {
            let is_recovered = traces.chat.is_none();
            let Some((chat, head)) = traces.chat(chat_id, self.now, changes_max) else { continue };
            if is_recovered {
                self.repaired.recovered_chats.push(chat_id);
            }
            moved.push(Moved::Chat { chat, head });
        }
        Ok(moved)
    }
}

/// The readable rows of a chat.
#[derive(Default)]
struct Traces {
    chat: Option<Chat>,
    head: Option<Head>,
    members: Vec<Member>,
    is_direct: bool,
    last_message: Option<Message>,
    /// The highest sequence of an entry.
    last_entry: Sequence,
}

impl Traces {
    /// The chat and its head; `None` if it has no members.
    fn chat(self, chat_id: ChatId, now: Timestamp, changes_max: u64) -> Option<(Chat, Head)> {
        let ttl = self.head.as_ref().and_then(|head| head.message_ttl);
        let chat = match self.chat {
            Some(chat) => chat,
            None => {
                let created_by: UserId = self.members.first()?.user_id;
                let created_at = self.members.iter().map(|member| member.joined_at).min().unwrap_or(now);
                let name = ChatName::try_from(NAME_OF_NAMELESS.to_owned()).ok();
                Chat {
                    chat_id,
                    chat_type: if self.is_direct { ChatType::Direct } else { ChatType::Group },
                    name: name.filter(|_| !self.is_direct),
                    created_by,
                    created_at,
                    updated_at: now,
                    member_count: 0,
                    message_ttl: ttl,
                }
            }
        };
        let chat = Chat { member_count: self.members.len() as u32, ..chat };
        let empty = Head { message_ttl: chat.message_ttl, changes: changes_max, ..Head::default() };
        let head = self.head.unwrap_or(empty);
        let last_entry = self.last_entry.max(head.sequence);
        let head = match self.last_message {
            Some(last) if last.sequence > head.sequence => {
                Head { sequence: last_entry, ..Head::at(&last, chat.message_ttl, head.changes) }
            }
            // The readable version of the head may be older than the last update of the message.
            Some(last) => head.updated(last_entry, &last),
            None => Head { sequence: last_entry, ..head },
        };
        Some((chat, head))
    }
}

fn message((key, row): &(Slice, Slice)) -> Option<Message> {
    keys::parse_message(key).and_then(|location| decode_message(location, row)).ok()
}

/// Every sequence without an entry up to the heads of all chats.
fn missing(salvaged: &Tables, tables: &Tables) -> Result<BTreeMap<ChatId, Missing>, StoreError> {
    let mut missing: BTreeMap<ChatId, Missing> = BTreeMap::new();
    let view = tables.view();
    for row in view.range::<&[u8]>(Table::Heads, ..) {
        let (key, row) = row?;
        let (Ok(chat_id), Ok(head)) = (key.as_ref().try_into().map(keys::parse_chat), Head::decode(&row)) else {
            continue;
        };
        let mut next = 1;
        let mut gaps = BTreeSet::new();
        for row in view.prefix(Table::Messages, &keys::chat(chat_id)) {
            let Ok(MessageLocation { sequence, .. }) = keys::parse_message(&row?.0) else { continue };
            gaps.extend(next..sequence.0);
            next = sequence.0 + 1;
        }
        gaps.extend(next..=head.sequence.0);
        for row in view.prefix(Table::Updates, &keys::chat(chat_id)) {
            let Ok(MessageLocation { sequence, .. }) = keys::parse_message(&row?.0) else { continue };
            gaps.remove(&sequence.0);
        }
        if !gaps.is_empty() {
            missing.insert(chat_id, Missing { lost: BTreeSet::new(), lost_or_expired: gaps });
        }
    }
    // The purge of an expired message also deletes its location row.
    for row in salvaged.view().range::<&[u8]>(Table::MessagePlaces, ..) {
        if let Ok(MessageLocation { chat_id, sequence }) = MessageLocation::decode(&row?.1)
            && let Some(of_chat) = missing.get_mut(&chat_id)
            && of_chat.lost_or_expired.remove(&sequence.0)
        {
            of_chat.lost.insert(sequence.0);
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests;
