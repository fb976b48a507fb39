//! Every row of the store, for whoever checks it. Each answer is from one view, so what was written together is seen
//! together, but for a batch that is just arriving.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use async_trait::async_trait;
use domain::limits::{REQUEST_KEY_RETENTION, RETENTION};
use domain::{
    Chat, ChatId, ChatType, ClientMessageId, DeviceId, DirectPair, EventBody, Member, Message, MessageId, OneTimeCode,
    PushDevice, Report, ReportId, Sequence, Session, SessionId, User, UserId, Watermarks,
};
use fjall::Slice;
use ports::{
    AUDIT_MEMBERS_MAX, AuditLog, AuditPage, AuditSource, Audited, Bookmark, BoxError, ChatRows, ChatStanding,
    ConsumerPlace, DeadLetter, DeadLetterId, Deletion, End, Head, Lead, Listing, ListingRows, LogRow, Logged,
    MemberRows, MessageRows, PairRows, Position, SendKeyRows, StoreError, StoredMessage,
};

use crate::EmbeddedStore;
use crate::keys::{self, Expiring, NoticeKey};
use crate::log::end_of_log;
use crate::records::{BlockedBy, Counter, LogRecord, NoticeState, Place, Request, SendKey, Stored, decode_message};
use crate::tables::{Table, View};

/// No row of ours comes near it: the longest are answers to REST requests, bounded by what a request may list. One that is
/// longer was not written by us.
const ROW_BYTES_MAX: usize = 1 << 20;

/// The tables that [`AuditSource::others`] shows, in its order.
const OTHERS: [Table; 19] = [
    Table::Meta,
    Table::Users,
    Table::UserKeys,
    Table::MessagePlaces,
    Table::Consumers,
    Table::Sessions,
    Table::Devices,
    Table::Codes,
    Table::Requests,
    Table::Expiries,
    Table::PushDevices,
    Table::Notices,
    Table::DeadLetters,
    Table::Contacts,
    Table::Blocks,
    Table::BlockedChats,
    Table::Reports,
    Table::ReportIndex,
    Table::Deletions,
];

#[async_trait]
impl AuditSource for EmbeddedStore {
    async fn size(&self) -> Result<u64, StoreError> {
        self.read(|tables| Ok(tables.rows())).await
    }

    fn row_bytes_max(&self) -> usize {
        ROW_BYTES_MAX
    }

    async fn chats(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError> {
        let after = behind(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::Chats, behind_key(after), count, |_, key, _| {
                Ok((End::Lasting, keys::parse_chat(key.as_ref().try_into()?)))
            })
        })
        .await
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Option<ChatRows>, StoreError> {
        self.read(move |tables| chat_rows(&tables.view(), chat_id)).await
    }

    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let place = |sequence| keys::message(Place { chat_id, sequence });
            let rows = view.range(Table::Messages, place(from)..=place(Sequence(u64::MAX)));
            rows.take(count).map(|row| message_rows(&view, row?)).collect()
        })
        .await
    }

    async fn listings(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError> {
        let after = behind(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::Memberships, behind_key(after), count, |view, key, row| {
                Member::decode(row)?;
                let (user_id, chat_id) = keys::parse_listing(key)?;
                let is_member = view.get_bytes(Table::Members, &keys::member(chat_id, user_id))?.is_some();
                Ok((End::Lasting, ListingRows { user_id, chat_id, is_member }))
            })
        })
        .await
    }

    async fn pairs(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError> {
        let after = behind(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::DirectChats, behind_key(after), count, |view, key, row| {
                let (pair, chat_id) = (keys::parse_direct(key)?, ChatId::decode(row)?);
                let chat: Option<Chat> = view.get(Table::Chats, &keys::chat(chat_id))?;
                let members = view.prefix(Table::Members, &keys::chat(chat_id)).take(3);
                let members = members.map(|row| Ok(keys::parse_member(&row?.0)?.1)).collect::<Result<_, BoxError>>()?;
                let chat_type = chat.map(|chat| chat.chat_type);
                Ok((End::Lasting, PairRows { pair, chat_id, chat_type, members }))
            })
        })
        .await
    }

    async fn send_keys(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<SendKeyRows>, StoreError> {
        let after = behind(after)?;
        self.read(move |tables| {
            scan(&tables.view(), Table::SendKeys, behind_key(after), count, |view, key, row| {
                let (chat_id, sender_id, client_message_id) = keys::parse_send(key)?;
                let SendKey { receipt, .. } = SendKey::decode(row)?;
                let place = Place { chat_id, sequence: receipt.sequence };
                let message = view.get_bytes(Table::Messages, &keys::message(place))?;
                let message = message.and_then(|row| decode_message(place, &row).ok());
                let head = standing(view, chat_id)?.head;
                // It goes with its record of the log, or has a note of its own.
                let end = End::Timed;
                Ok((end, SendKeyRows { chat_id, sender_id, client_message_id, receipt, message, head }))
            })
        })
        .await
    }

    async fn others(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<()>, StoreError> {
        let (number, after) = match after {
            None => (0, None),
            Some(Bookmark(text)) => {
                let (number, key) = text.split_once(' ').ok_or_else(|| strange(text))?;
                (number.parse().map_err(|_| strange(text))?, Some(unhex(key)?).filter(|key| !key.is_empty()))
            }
        };
        let Some(table) = OTHERS.get(number).copied() else { return Ok(AuditPage { rows: vec![], next: None }) };
        let AuditPage { rows, next } = self
            .read(move |tables| {
                scan(&tables.view(), table, behind_key(after), count, |view, key, row| {
                    Ok((end(view, table, key, row)?, ()))
                })
            })
            .await?;
        let next = match next {
            Some(Bookmark(key)) => Some(Bookmark(format!("{number} {key}"))),
            None => (number + 1 < OTHERS.len()).then(|| Bookmark(format!("{} ", number + 1))),
        };
        Ok(AuditPage { rows, next })
    }

    async fn stored(&self, places: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredMessage>>, StoreError> {
        let places: Vec<_> =
            places.iter().map(|(chat_id, sequence)| Place { chat_id: *chat_id, sequence: *sequence }).collect();
        self.read(move |tables| {
            let view = tables.view();
            let stored = |place: &Place| {
                let Some(row) = view.get_bytes(Table::Messages, &keys::message(*place))? else { return Ok(None) };
                let message = decode_message(*place, &row).ok();
                let message_id = message.as_ref().map(|message| message.message_id);
                Ok(Some(StoredMessage { message_id, expires_at: message.and_then(|message| message.expires_at) }))
            };
            places.iter().map(stored).collect()
        })
        .await
    }

    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<ChatStanding>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            chat_ids.iter().map(|chat_id| standing(&view, *chat_id)).collect()
        })
        .await
    }

    async fn leaving(&self, _: ChatId) -> Result<Vec<Sequence>, StoreError> {
        Ok(vec![])
    }
}

#[async_trait]
impl AuditLog for EmbeddedStore {
    async fn records(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<LogRow>, StoreError> {
        let round = after.map(|Bookmark(text)| Round::parse(text).ok_or_else(|| strange(text))).transpose()?;
        let page = self.read(move |tables| {
            // As the disk has it: whoever saw there that a message is gone finds the event that tells of it.
            let mut round = match round {
                Some(round) => round,
                None => Round { came_since: false, next: 0, end: end_of_log(tables)? },
            };
            if round.next >= round.end && !round.came_since {
                round = Round { came_since: true, end: end_of_log(tables)?, ..round };
            }
            let Round { came_since, next, end } = round;
            let range = keys::offset(next)..keys::offset(end);
            let page = scan(&tables.view(), Table::Log, range, count, |_, key, row| {
                let (position, record) = (Position(keys::parse_offset(key)?), LogRecord::decode(row)?);
                let time = record.time();
                let (chat_id, what) = match record {
                    LogRecord::Message(logged) => {
                        let Place { chat_id, sequence } = logged.place;
                        (chat_id, Logged::Message { sequence, message_id: None, expires_at: None })
                    }
                    LogRecord::Event(event) => match event.body {
                        EventBody::MessagesExpired { chat_id, sequences } => (chat_id, Logged::Expired(sequences)),
                        body => (body.chat_id(), Logged::Change),
                    },
                };
                Ok((End::Timed, LogRow { position, time, chat_id, what, came_since }))
            });
            Ok((page?, round))
        });
        let (AuditPage { rows, next: last }, round) = page.await?;
        let Round { came_since, end, .. } = round;
        // A page that is not full has come to the end, whatever was trimmed before it.
        let next = match last {
            Some(last) => keys::parse_offset(&unhex(&last.0)?).map_or(end, |last| last + 1),
            None => end,
        };
        let is_over = came_since && next >= end;
        Ok(AuditPage { rows, next: (!is_over).then(|| Bookmark(Round { next, ..round }.to_string())) })
    }

    fn has_each_once(&self) -> bool {
        true
    }

    async fn consumers(&self) -> Result<Vec<ConsumerPlace>, StoreError> {
        let saved = self.read(|tables| {
            let mut saved = BTreeMap::new();
            for row in tables.view().range::<&[u8]>(Table::Consumers, ..) {
                let (key, row) = row?;
                // One that cannot be read is among the others.
                saved.extend(u64::decode(&row).ok().map(|next| (String::from_utf8_lossy(&key).into_owned(), next)));
            }
            Ok(saved)
        });
        let mut places = saved.await?;
        places.extend(self.link().places.unsaved());
        let end = self.link().tail.end();
        let place = |(group, next)| ConsumerPlace { group, part: String::new(), next, end };
        Ok(places.into_iter().map(place).collect())
    }
}

/// How far an audit of the log is: first up to the end that it had in the beginning, then to the end that it had then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    came_since: bool,
    next: u64,
    end: u64,
}

impl Round {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let came_since = match words.next()? {
            "first" => false,
            "second" => true,
            _ => return None,
        };
        Some(Self { came_since, next: words.next()?.parse().ok()?, end: words.next()?.parse().ok()? })
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { came_since, next, end } = self;
        write!(f, "{} {next} {end}", if *came_since { "second" } else { "first" })
    }
}

/// Rows of a table behind a key.
pub(crate) fn behind_key(after: Option<Vec<u8>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// Rows of a table, each as `read` understands it.
fn scan<K: AsRef<[u8]>, T>(
    view: &View<'_>,
    table: Table,
    range: impl RangeBounds<K>,
    count: usize,
    read: impl Fn(&View<'_>, &Slice, &Slice) -> Result<(End, T), BoxError>,
) -> Result<AuditPage<T>, StoreError> {
    let (mut rows, mut last) = (vec![], None);
    for row in view.range(table, range).take(count) {
        let (key, row) = row?;
        let (end, outcome) = match read(view, &key, &row) {
            Ok((end, value)) => (end, Ok(value)),
            Err(reason) => (End::Lasting, Err(reason.to_string())),
        };
        let named = named(table, &key, &row);
        rows.push(Audited { table: table.name(), key: named, bytes: key.len() + row.len(), end, row: outcome });
        last = Some(key);
    }
    let next = last.filter(|_| rows.len() == count).map(|key| Bookmark(hex(&key)));
    Ok(AuditPage { rows, next })
}

/// One row, as it was found.
fn audited<T>(table: Table, key: &[u8], row: &[u8], end: End, value: Result<T, BoxError>) -> Audited<T> {
    let bytes = key.len() + row.len();
    Audited { table: table.name(), key: named(table, key, row), bytes, end, row: value.map_err(|why| why.to_string()) }
}

/// A row that may be there.
fn maybe<T: Stored>(view: &View<'_>, table: Table, key: &[u8]) -> Result<Option<Audited<T>>, StoreError> {
    let row = view.get_bytes(table, key)?;
    Ok(row.map(|row| audited(table, key, &row, End::Lasting, T::decode(&row))))
}

fn chat_rows(view: &View<'_>, chat_id: ChatId) -> Result<Option<ChatRows>, StoreError> {
    let Some(chat) = maybe::<Chat>(view, Table::Chats, &keys::chat(chat_id))? else { return Ok(None) };
    let mut members = vec![];
    for row in view.prefix(Table::Members, &keys::chat(chat_id)).take(AUDIT_MEMBERS_MAX) {
        let (key, row) = row?;
        // A key that is no member's has a length of its own, and is not found by anybody.
        let Ok((_, user_id)) = keys::parse_member(&key) else { continue };
        let of_user = keys::membership(user_id, chat_id);
        let listing = match view.get_bytes(Table::Memberships, &of_user)? {
            None => Listing::Missing,
            Some(listed) if listed == row => Listing::Same,
            Some(_) => Listing::Different,
        };
        let watermarks = maybe::<Watermarks>(view, Table::Watermarks, &of_user)?;
        let member = audited(Table::Members, &key, &row, End::Lasting, Member::decode(&row));
        members.push(MemberRows { user_id, member, listing, watermarks });
    }
    let is_direct = chat.row.as_ref().is_ok_and(|chat| chat.chat_type == ChatType::Direct);
    let pair = match &members[..] {
        [one, other] if is_direct => DirectPair::new(one.user_id, other.user_id),
        _ => None,
    };
    let pair_leads_to = match pair {
        Some(pair) => {
            view.get_bytes(Table::DirectChats, &keys::direct(pair))?.and_then(|row| ChatId::decode(&row).ok())
        }
        None => None,
    };
    let head = maybe::<Head>(view, Table::Heads, &keys::chat(chat_id))?;
    Ok(Some(ChatRows { chat, members, pair_leads_to, head, waiting_since: None }))
}

fn message_rows(view: &View<'_>, (key, row): (Slice, Slice)) -> Result<MessageRows, StoreError> {
    let place = keys::parse_message(&key).map_err(|error| crate::error::unreadable(Table::Messages, error))?;
    let message = decode_message(place, &row);
    let (mut id_leads_to, mut send_key, mut end) = (Lead::Nowhere, None, End::Lasting);
    if let Ok(message) = &message {
        let Message { message_id, sender_id, client_message_id, expires_at, .. } = message;
        let leads_to = view.get_bytes(Table::MessagePlaces, &message_id.to_bytes())?;
        if let Some(place) = leads_to.and_then(|row| Place::decode(&row).ok()) {
            id_leads_to = Lead::To(place.chat_id, place.sequence);
        }
        let send = view.get_bytes(Table::SendKeys, &keys::send(place.chat_id, *sender_id, *client_message_id))?;
        send_key = send.and_then(|row| SendKey::decode(&row).ok()).map(|send| send.receipt);
        if let Some(expires_at) = expires_at {
            end = timed(view.get_bytes(Table::Expiries, &keys::expiry(*expires_at, Expiring::Message(place)))?);
        }
    }
    let message = audited(Table::Messages, &key, &row, end, message);
    Ok(MessageRows { sequence: place.sequence, message, id_leads_to, send_key })
}

fn standing(view: &View<'_>, chat_id: ChatId) -> Result<ChatStanding, StoreError> {
    let exists = view.get_bytes(Table::Chats, &keys::chat(chat_id))?.is_some();
    let head = view.get_bytes(Table::Heads, &keys::chat(chat_id))?;
    let head = head.and_then(|row| Counter::decode(&row).ok()).map(|counter| counter.sequence);
    Ok(ChatStanding { exists, head })
}

/// How a row goes of which the trimmer has a note, or not.
fn timed(note: Option<Slice>) -> End {
    if note.is_some() { End::Timed } else { End::Missing }
}

/// Reads a row, and says how it goes.
fn end(view: &View<'_>, table: Table, key: &Slice, row: &Slice) -> Result<End, BoxError> {
    let noted = |at, what| Ok(timed(view.get_bytes(Table::Expiries, &keys::expiry(at, what))?));
    match table {
        Table::Meta | Table::Consumers => drop(u64::decode(row)?),
        Table::Users => drop(User::decode(row)?),
        Table::UserKeys => drop(UserId::decode(row)?),
        Table::MessagePlaces => drop(Place::decode(row)?),
        Table::Devices => drop(SessionId::decode(row)?),
        Table::PushDevices => drop(PushDevice::decode(row)?),
        Table::Contacts | Table::Blocks => drop(keys::parse_contact(key)?),
        Table::BlockedChats => drop(BlockedBy::decode(row)?),
        Table::ReportIndex => drop(keys::parse_report(key)?),
        Table::Reports => {
            let report = Report::decode(row)?;
            if let Some(end) = report.ends_at() {
                return Ok(timed(view.get_bytes(Table::ReportIndex, &keys::report_end(end, report.report_id))?));
            }
        }
        Table::Deletions => drop(Deletion::decode(row)?),
        Table::Expiries => drop(keys::parse_expiry(key)?),
        Table::Sessions => {
            let Session { session_id, expires_at, .. } = Session::decode(row)?;
            return noted(expires_at, Expiring::Session(session_id));
        }
        Table::Codes => {
            return noted(OneTimeCode::decode(row)?.forgettable_at(), Expiring::Code(key.as_ref().try_into()?));
        }
        Table::Requests => {
            let at = Request::decode(row)?.begun_at + REQUEST_KEY_RETENTION;
            return noted(at, Expiring::Request(keys::parse_request(key)?));
        }
        Table::DeadLetters => {
            let DeadLetter { id, dead_at, .. } = DeadLetter::decode(row)?;
            return noted(dead_at + RETENTION, Expiring::DeadLetter(id));
        }
        Table::Notices => {
            let at = match NoticeState::decode(row)? {
                NoticeState::Owed { due_at, .. } => due_at,
                NoticeState::Told { silent_until } => silent_until,
            };
            return Ok(timed(view.get_bytes(Table::NoticesDue, &keys::notice_due(at, parse_notice(key)?))?));
        }
        Table::Chats
        | Table::DirectChats
        | Table::Watermarks
        | Table::Members
        | Table::Memberships
        | Table::Heads
        | Table::Messages
        | Table::SendKeys
        | Table::Log
        | Table::NoticesDue => {}
    }
    Ok(End::Lasting)
}

fn parse_notice(key: &[u8]) -> Result<NoticeKey, BoxError> {
    let (membership, device_id) = key.split_at_checked(32).ok_or("a notice without a device")?;
    let (user_id, chat_id) = keys::parse_listing(membership)?;
    Ok(NoticeKey { user_id, chat_id, device_id: DeviceId::from_bytes(device_id.try_into()?) })
}

/// A key as people name it. Of a sign-in key it names the user: the key is a phone number.
fn named(table: Table, key: &[u8], row: &[u8]) -> String {
    let array = || <[u8; 16]>::try_from(key);
    let name = match table {
        Table::Chats | Table::Heads => array().map(|key| keys::parse_chat(key).to_string()).ok(),
        Table::Users => array().map(|key| keys::parse_user(key).to_string()).ok(),
        Table::UserKeys => {
            return UserId::decode(row).map_or("a sign-in key".to_owned(), |user| format!("a sign-in key of {user}"));
        }
        Table::Members => keys::parse_member(key).map(|(chat_id, user_id)| format!("{chat_id} {user_id}")).ok(),
        Table::Memberships | Table::Watermarks => {
            keys::parse_listing(key).map(|(user_id, chat_id)| format!("{user_id} {chat_id}")).ok()
        }
        Table::DirectChats => {
            keys::parse_direct(key).map(|pair| pair.users().map(|user| user.to_string()).join(" ")).ok()
        }
        Table::Messages => keys::parse_message(key).map(|place| format!("{} {}", place.chat_id, place.sequence)).ok(),
        Table::MessagePlaces => array().map(|key| MessageId::from_bytes(key).to_string()).ok(),
        Table::SendKeys => keys::parse_send(key)
            .map(|(chat_id, user_id, send): (_, _, ClientMessageId)| format!("{chat_id} {user_id} {send}"))
            .ok(),
        Table::Log => keys::parse_offset(key).map(|offset| offset.to_string()).ok(),
        Table::Sessions => array().map(|key| SessionId::from_bytes(key).to_string()).ok(),
        Table::DeadLetters => array().map(|key| DeadLetterId::from_bytes(key).to_string()).ok(),
        Table::Reports => array().map(|key| ReportId::from_bytes(key).to_string()).ok(),
        Table::BlockedChats => array().map(|key| keys::parse_chat(key).to_string()).ok(),
        Table::Meta | Table::Consumers => std::str::from_utf8(key).map(str::to_owned).ok(),
        Table::Devices
        | Table::Codes
        | Table::Requests
        | Table::Expiries
        | Table::PushDevices
        | Table::Notices
        | Table::NoticesDue
        | Table::Contacts
        | Table::Blocks
        | Table::ReportIndex
        | Table::Deletions => None,
    };
    name.unwrap_or_else(|| hex(key))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn behind(after: Option<&Bookmark>) -> Result<Option<Vec<u8>>, StoreError> {
    after.map(|Bookmark(text)| unhex(text)).transpose()
}

fn unhex(text: &str) -> Result<Vec<u8>, StoreError> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    bytes.ok_or_else(|| strange(text))
}

fn strange(text: &str) -> StoreError {
    StoreError::unavailable(format!("`{text}` is no bookmark of this store"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use audit::{AtOnce, CHECKED, Checkpoint, Findings, Options, Pace, Progress};
    use domain::Invariant::{self, *};
    use domain::{ChatCommand, Role, Timestamp, Ttl};
    use ports::contract::Peopled;
    use ports::{ChatWriter, Clock, EventLog, Ids, MessageWriter, NewMessage, RandomIds, Receipt, SystemClock};
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::*;
    use crate::Config;
    use crate::records::encode_message;
    use crate::tx::Tx;

    struct World {
        store: EmbeddedStore,
        people: Peopled,
        _directory: TempDir,
    }

    impl World {
        /// A store in which everything has been used, and a consumer has read all of its log.
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store =
                EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
            let store = store.unwrap();
            let people = Peopled::make(&store, SystemClock.now()).await;
            let mut consumer = store.consumer("fanout").await.unwrap();
            consumer.next().await.unwrap();
            consumer.commit().await.unwrap();
            Self { store, people, _directory: directory }
        }

        async fn audit(&self, pace: &dyn Pace) -> Findings {
            let options = Options::new(Arc::new(SystemClock));
            self.audit_with(Options { page_len: 3, overdue_after: Duration::ZERO, ..options }, pace).await
        }

        async fn audit_with(&self, options: Options, pace: &dyn Pace) -> Findings {
            audit::audit(&self.store, Some(&self.store), &options, pace, None).await.unwrap()
        }
    }

    fn violated(findings: &Findings) -> Vec<Invariant> {
        findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
    }

    #[tokio::test]
    async fn a_whole_store_has_nothing_wrong_with_it_and_every_rule_was_used() {
        let world = World::new().await;
        let findings = world.audit(&AtOnce).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
        let unused: Vec<_> = CHECKED.iter().filter(|invariant| findings.tally(**invariant).checked == 0).collect();
        assert_eq!(unused, [] as [&Invariant; 0]);
        world.store.close().await;
    }

    /// What a defect or a disk might do to the rows of a store.
    type Break = fn(&mut Tx<'_>, &Seen);

    /// What of the world a break goes by.
    struct Seen {
        group: ChatId,
        direct: ChatId,
        owner: UserId,
        member: UserId,
        sends: Vec<NewMessage>,
        receipts: Vec<Receipt>,
        session_id: SessionId,
        expires_at: Timestamp,
    }

    impl Seen {
        fn of(people: &Peopled) -> Self {
            let expires_at = people.sends[0].created_at + Duration::from_secs(3600);
            let Peopled { group, direct, owner, member, session_id, .. } = *people;
            let (sends, receipts) = (people.sends.clone(), people.receipts.clone());
            Self { group, direct, owner, member, sends, receipts, session_id, expires_at }
        }

        fn place(&self, sequence: u64) -> Place {
            Place { chat_id: self.group, sequence: Sequence(sequence) }
        }

        fn send_key(&self, n: usize) -> [u8; 48] {
            let send = &self.sends[n];
            keys::send(send.chat_id, send.sender_id, send.client_message_id)
        }

        /// The second message under another id.
        fn other(&self, sequence: u64) -> Vec<u8> {
            let message = self.sends[1].clone().at(Sequence(sequence), None);
            encode_message(&Message { message_id: MessageId::from_bytes([9; 16]), ..message })
        }

        fn head(&self, sequence: u64) -> Head {
            let last = self.sends[4].clone().at(Sequence(5), None);
            Head { sequence: Sequence(sequence), ..Head::at(&last, None) }
        }
    }

    macro_rules! found {
        ($($name:ident: $damage:expr => [$($invariant:ident),+];)+) => {$(
            #[tokio::test]
            async fn $name() {
                let damage: Break = $damage;
                let world = World::new().await;
                let seen = Seen::of(&world.people);
                let spoil = world.store.write(move |tx| {
                    damage(tx, &seen);
                    Ok(())
                });
                spoil.await.unwrap();
                let findings = world.audit(&AtOnce).await;
                let said: Vec<_> = findings.violations().collect();
                assert_eq!(violated(&findings), [$($invariant),+], "{said:?}");
                world.store.close().await;
            }
        )+};
    }

    found! {
        a_lost_head_is_found: |tx, seen| tx.delete(Table::Heads, &keys::chat(seen.group)) => [CounterMustExist];
        a_head_that_cannot_be_read_is_found:
            |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), vec![])
            => [DynamodbIsAuthoritative];
        a_head_below_its_messages_is_found:
            |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), seen.head(4).encode())
            => [SequenceMonotonicity, CounterLowerBound];
        a_head_above_its_messages_is_found:
            |tx, seen| tx.put_new(Table::Heads, &keys::chat(seen.group), seen.head(6).encode())
            => [SequenceContiguous];
        a_lost_message_is_found:
            |tx, seen| tx.delete(Table::Messages, &keys::message(seen.place(2)))
            => [SequenceContiguous, KafkaReflectsDynamodb];
        the_last_message_lost_is_found:
            |tx, seen| tx.delete(Table::Messages, &keys::message(seen.place(5)))
            => [SequenceContiguous, KafkaReflectsDynamodb];
        a_message_that_cannot_be_read_is_found:
            |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.place(2)), vec![0xff; 3])
            => [DynamodbIsAuthoritative];
        a_message_in_the_place_of_another_is_found:
            |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.place(2)), seen.other(2))
            => [DynamodbIsAuthoritative, SequenceUniqueness, IdempotencySequenceConsistency];
        a_message_at_sequence_0_is_found:
            |tx, seen| tx.put_new(Table::Messages, &keys::message(seen.place(0)), seen.other(0))
            => [DynamodbIsAuthoritative, IdempotencySequenceConsistency, NoZeroSequence];
        an_id_that_leads_nowhere_is_found:
            |tx, seen| tx.delete(Table::MessagePlaces, &seen.receipts[0].message_id.to_bytes())
            => [DynamodbIsAuthoritative];
        a_send_that_is_forgotten_is_found:
            |tx, seen| tx.delete(Table::SendKeys, &seen.send_key(0))
            => [IdempotencySequenceConsistency];
        a_send_key_of_another_message_is_found: |tx, seen| {
            let receipt = Receipt { sequence: Sequence(3), ..seen.receipts[0] };
            tx.put(Table::SendKeys, &seen.send_key(0), &SendKey { receipt, fingerprint: [0; 16] });
        } => [SequenceUniqueness, IdempotencySequenceConsistency];
        a_send_key_above_the_head_is_found: |tx, seen| {
            let receipt = Receipt { sequence: Sequence(9), ..seen.receipts[0] };
            tx.put(Table::SendKeys, &seen.send_key(0), &SendKey { receipt, fingerprint: [0; 16] });
        } => [CounterLowerBound, IdempotencySequenceConsistency];
        a_watermark_above_the_head_is_found: |tx, seen| {
            let marks = Watermarks { delivered: Sequence(6), read: Sequence(2) };
            tx.put(Table::Watermarks, &keys::membership(seen.member, seen.group), &marks);
        } => [WatermarkBoundedByHead];
        read_above_delivered_is_found: |tx, seen| {
            let marks = Watermarks { delivered: Sequence(2), read: Sequence(3) };
            tx.put(Table::Watermarks, &keys::membership(seen.member, seen.group), &marks);
        } => [ReadImpliesDelivered];
        lost_watermarks_are_found:
            |tx, seen| tx.delete(Table::Watermarks, &keys::membership(seen.member, seen.group))
            => [DeliveryWatermarkMonotonic];
        a_member_whom_nobody_removed_is_found:
            |tx, seen| tx.delete(Table::Members, &keys::member(seen.group, seen.member))
            => [GroupSizeBounded, OnlyMembersReceive];
        a_chat_that_its_member_does_not_find_is_found:
            |tx, seen| tx.delete(Table::Memberships, &keys::membership(seen.member, seen.group))
            => [NoSilentLoss];
        a_group_without_an_owner_is_found: |tx, seen| {
            let member = Member::new(seen.owner, Role::Admin, seen.sends[0].created_at);
            tx.put(Table::Members, &keys::member(seen.group, seen.owner), &member);
            tx.put(Table::Memberships, &keys::membership(seen.owner, seen.group), &member);
        } => [OwnerAlwaysExists];
        two_rows_of_a_member_that_differ_are_found: |tx, seen| {
            let member = Member::new(seen.member, Role::Admin, seen.sends[0].created_at);
            tx.put(Table::Members, &keys::member(seen.group, seen.member), &member);
        } => [DynamodbIsAuthoritative];
        more_members_than_a_group_may_have_are_found: |tx, seen| {
            for n in 0..1000u128 {
                let member = Member::new(UserId::from_bytes(n.to_be_bytes()), Role::Member, seen.expires_at);
                tx.put(Table::Members, &keys::member(seen.group, member.user_id), &member);
                tx.put(Table::Memberships, &keys::membership(member.user_id, seen.group), &member);
                let marks = Watermarks::at(Sequence::ZERO);
                tx.put(Table::Watermarks, &keys::membership(member.user_id, seen.group), &marks);
            }
        } => [GroupSizeBounded];
        a_lost_chat_is_found: |tx, seen| tx.delete(Table::Chats, &keys::chat(seen.group)) => [KafkaReflectsDynamodb];
        a_pair_that_leads_to_a_group_is_found: |tx, seen| {
            let pair = DirectPair::new(seen.owner, seen.member).unwrap();
            tx.put(Table::DirectChats, &keys::direct(pair), &seen.group);
        } => [DirectChatUniqueness];
        a_pair_that_is_forgotten_is_found: |tx, seen| {
            let pair = DirectPair::new(seen.owner, seen.member).unwrap();
            tx.delete(Table::DirectChats, &keys::direct(pair));
        } => [DirectChatUniqueness];
        a_message_that_nobody_will_purge_is_found: |tx, seen| {
            let place = Place { chat_id: seen.direct, sequence: Sequence(2) };
            tx.delete(Table::Expiries, &keys::expiry(seen.expires_at, Expiring::Message(place)));
        } => [TtlBoundedTables];
        a_session_that_never_ends_is_found:
            |tx, seen| tx.delete(Table::Expiries, &keys::expiry(seen.expires_at, Expiring::Session(seen.session_id)))
            => [TtlBoundedTables];
        a_row_that_is_too_long_is_found:
            |tx, _| tx.put_new(Table::Requests, &[1; 32], vec![1; ROW_BYTES_MAX])
            => [DynamodbIsAuthoritative, ItemSizeBounded];
        a_user_who_cannot_be_read_is_found:
            |tx, seen| tx.put_new(Table::Users, &keys::user(seen.owner), vec![0xff; 3])
            => [DynamodbIsAuthoritative];
        a_lost_event_is_found: |tx, _| tx.delete(Table::Log, &keys::offset(5)) => [PublishedEventually];
        the_last_event_lost_is_found: |tx, _| tx.delete(Table::Log, &keys::offset(8)) => [PublishedEventually];
        an_event_that_cannot_be_read_is_found:
            |tx, _| tx.put_new(Table::Log, &keys::offset(5), vec![0xff; 3])
            => [DynamodbIsAuthoritative, PublishedEventually];
        events_out_of_order_are_found: |tx, _| {
            let [one, other] = [5, 6].map(|n| tx.get_bytes(Table::Log, &keys::offset(n)).unwrap().unwrap());
            tx.put_new(Table::Log, &keys::offset(5), other.to_vec());
            tx.put_new(Table::Log, &keys::offset(6), one.to_vec());
        } => [OrderingPreserved];
        a_consumer_beyond_the_end_is_found:
            |tx, _| tx.put(Table::Consumers, b"webhook", &100u64)
            => [CommitAfterProcess];
    }

    #[test]
    fn a_bookmark_of_the_log_says_how_far_the_audit_is() {
        for round in [Round { came_since: false, next: 3, end: 9 }, Round { came_since: true, next: 9, end: 12 }] {
            assert_eq!(Round::parse(&round.to_string()), Some(round));
        }
        for text in ["", "first", "third 1 2", "first 1 x"] {
            assert_eq!(Round::parse(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn messages_that_were_purged_are_missed_by_nobody() {
        let world = World::new().await;
        let expired = |n: usize| NewMessage {
            ttl: Ttl::from_secs(60),
            created_at: SystemClock.now().minus(Duration::from_secs(61)),
            client_message_id: Uuid::new_v4().into(),
            message_id: RandomIds.ulid().into(),
            ..world.people.sends[n].clone()
        };
        world.store.append((0..5).map(expired).collect()).await.unwrap();
        crate::trim::purge_all(world.store.link().clone(), Arc::new(SystemClock)).await;
        let options = Options { overdue_after: Duration::ZERO, ..Options::new(Arc::new(SystemClock)) };
        // Records and the purge that tells of them are in one page, or in several.
        for page_len in [2, 200] {
            let findings = world.audit_with(Options { page_len, ..options.clone() }, &AtOnce).await;
            assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0], "{page_len}");
        }
        world.store.close().await;
    }

    /// Waits as a running service is waited for.
    struct Patient;

    #[async_trait]
    impl Pace for Patient {
        async fn read(&self, _: Progress) {}

        async fn moment(&self) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        async fn reached(&self, _: &Checkpoint) {}
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_under_load_raises_no_false_alarm() {
        let world = World::new().await;
        let until = Instant::now() + Duration::from_secs(3);
        let sender = |store: EmbeddedStore, chat_id: ChatId, sender_id: UserId| async move {
            while Instant::now() < until {
                let send = |n| NewMessage {
                    chat_id,
                    sender_id,
                    client_message_id: Uuid::new_v4().into(),
                    message_id: RandomIds.ulid().into(),
                    content: "hello".to_owned().try_into().unwrap(),
                    content_type: Default::default(),
                    // Every other one is purged at once.
                    ttl: Ttl::from_secs(60).filter(|_| n % 2 == 0),
                    created_at: SystemClock.now().minus(Duration::from_secs(if n % 2 == 0 { 61 } else { 0 })),
                    origin_connection_id: None,
                };
                store.append((0..20).map(send).collect()).await.unwrap();
            }
        };
        let churn = |store: EmbeddedStore, chat_id: ChatId, owner: UserId| async move {
            while Instant::now() < until {
                let user_id = RandomIds.ulid().into();
                let add = ChatCommand::AddMember { user_id, role: Role::Member };
                store.apply(chat_id, owner, add, SystemClock.now()).await.unwrap().unwrap();
                let remove = ChatCommand::RemoveMember { user_id };
                store.apply(chat_id, owner, remove, SystemClock.now()).await.unwrap().unwrap();
            }
        };
        let Peopled { group, direct, owner, .. } = world.people;
        let tasks = [
            tokio::spawn(sender(world.store.clone(), group, owner)),
            tokio::spawn(sender(world.store.clone(), direct, owner)),
            tokio::spawn(churn(world.store.clone(), group, owner)),
        ];
        let mut audits = 0;
        while Instant::now() < until {
            let findings = world.audit_with(Options::new(Arc::new(SystemClock)), &Patient).await;
            assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
            audits += 1;
        }
        assert!(audits > 0);
        for task in tasks {
            task.await.unwrap();
        }
        world.store.close().await;
    }
}
