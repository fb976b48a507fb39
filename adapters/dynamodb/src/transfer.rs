//! Everything of the store that another one needs to take its place, and what such another one brings. It reads whole
//! tables, as an audit does, and writes in batches: nobody is served meanwhile, and every row may be written again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Timestamp, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{
    BlockStore, Bookmark, ExportSource, Head, ImportBegun, ImportId, ImportTarget, Moved, MovedKind, MovedPage,
    MovedSend, StoreError, UserKey,
};
use tokio::time::{Instant, sleep};

use crate::DynamoStore;
use crate::audit::{read_pair, read_send};
use crate::blocks::read_block;
use crate::chats::{OPENING, chat_item, member_item, pair_key, read_chat, read_member};
use crate::commit::{key_item, key_of_send, read_receipt};
use crate::db::CONCURRENCY_MAX;
use crate::devices::{device_key, read_registration, register, signed_in};
use crate::expiry::expiration_key;
use crate::item::{Item, Key, Row, item, number, text};
use crate::messages::{head_changes, message_item, message_key, new_counter, read_head, read_message};
use crate::outbox::PUBLISHED;
use crate::schema::Table;
use crate::sessions::{read_session, session_item, session_key};
use crate::users::{owner_item, read_owner, read_user, user_item, user_key, user_row};
use crate::watermarks::{read_watermarks, watermarks_item};
use crate::write::{Change, Write};

/// Among the chats, where every role that serves may look: an import that was begun and is not finished.
const MARK: &str = "import";
/// What tells this import from another.
const IMPORT_ID: &str = "import_id";
/// How long a write is tried before the import stops. Who fills tables at once is throttled until they have grown.
const PATIENCE: Duration = Duration::from_secs(120);
/// The first pause between two tries; it doubles with each.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The tables in which a store that takes an import has nothing.
const EMPTY: [Table; 15] = [
    Table::Users,
    Table::UserKeys,
    Table::Contacts,
    Table::Blocks,
    Table::Sessions,
    Table::PushDevices,
    Table::Chats,
    Table::ChatCounters,
    Table::DirectChats,
    Table::ChatMemberships,
    Table::DeliveryState,
    Table::Messages,
    Table::Expirations,
    Table::IdempotencyKeys,
    Table::Outbox,
];

#[async_trait]
impl ExportSource for DynamoStore {
    async fn rows(
        &self,
        kind: MovedKind,
        after: Option<&Bookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<MovedPage, StoreError> {
        let (items, next) = self.scan(table(kind), after, count).await?;
        let rows: Result<Vec<Moved>, StoreError> = match kind {
            MovedKind::User => items.iter().map(|item| read_user(item).map(Moved::User)).collect(),
            MovedKind::UserKey => self.user_keys(&items).await,
            MovedKind::Contact => items.iter().map(read_contact).collect(),
            MovedKind::Session => items.iter().map(|item| read_session(item).map(Moved::Session)).collect(),
            MovedKind::PushDevice => {
                let registered = items.iter().filter_map(|item| read_registration(item, at).transpose());
                registered.map(|device| device.map(Moved::PushDevice)).collect()
            }
            MovedKind::Chat => self.headed(&items).await,
            MovedKind::Pair => {
                let pair = |item| read_pair(item).map(|(pair, chat_id)| Moved::Pair { pair, chat_id });
                items.iter().map(pair).collect()
            }
            MovedKind::Member => self.placed(items).await,
            MovedKind::Message => items.iter().map(|item| read_message(item).map(Moved::Message)).collect(),
            MovedKind::Send => items.iter().map(read_moved_send).collect(),
            MovedKind::Block => items
                .iter()
                .filter_map(|item| read_block(item).transpose())
                .map(|block| block.map(moved_block))
                .collect(),
        };
        Ok(MovedPage { rows: rows?.into_iter().filter_map(|row| row.at(at)).collect(), next })
    }
}

#[async_trait]
impl ImportTarget for DynamoStore {
    async fn begin(&self, id: ImportId) -> Result<ImportBegun, StoreError> {
        let mark = Key::one(Table::Chats, MARK);
        if let Some(begun) = self.db().get(&mark).await? {
            let begun = Row { table: Table::Chats, item: &begun }.number(IMPORT_ID)?;
            return Ok(if begun == id.0 { ImportBegun::Again } else { ImportBegun::Other });
        }
        for table in EMPTY {
            if !self.db().scan(table, None, 1).await?.0.is_empty() {
                return Ok(ImportBegun::NotEmpty { table: table.name() });
            }
        }
        let writes = || vec![Write::create(mark.clone(), item([(IMPORT_ID, Some(number(id.0)))]))];
        let transacted = self.db().transact(writes).await?;
        // Somebody else has begun between the two.
        Ok(if transacted.is_committed() { ImportBegun::Begun } else { ImportBegun::Other })
    }

    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError> {
        // A request must not name a key twice. Of two rows with one key the later one stays, as it would anyway.
        let items: HashMap<Key, Item> = rows.iter().flat_map(items_of).collect();
        patiently(|| self.db().put_many(&items)).await?;
        let of_devices: Vec<_> = rows.iter().filter_map(of_device).collect();
        let writes = |write| patiently(move || async move { self.db().update(write).await.map(drop) });
        let writes: Vec<_> = of_devices.iter().map(writes).collect();
        stream::iter(writes).buffer_unordered(CONCURRENCY_MAX).try_collect::<()>().await?;
        // One after the other: those of one user are counted in one row.
        for row in &rows {
            if let Moved::Block { user_id, blocked_id } = *row {
                patiently(|| async move { self.block(user_id, blocked_id).await.map(drop) }).await?;
            }
        }
        Ok(())
    }

    async fn finish(&self) -> Result<(), StoreError> {
        self.db().transact(|| vec![Write::delete(Key::one(Table::Chats, MARK))]).await.map(drop)
    }

    async fn is_unfinished(&self) -> Result<bool, StoreError> {
        Ok(self.db().get(&Key::one(Table::Chats, MARK)).await?.is_some())
    }
}

/// Whether an item of the chats is none of them.
pub(crate) fn is_mark(table: Table, item: &Item) -> bool {
    table == Table::Chats && item.contains_key(IMPORT_ID)
}

impl DynamoStore {
    /// Keys with what they were made of. Of a phone number a key has the digest alone, and its user the number.
    async fn user_keys(&self, items: &[Item]) -> Result<Vec<Moved>, StoreError> {
        let user_ids: Vec<UserId> = items.iter().map(read_owner).collect::<Result<_, _>>()?;
        let users = self.db().get_many(&user_ids.iter().copied().map(user_row).collect::<Vec<_>>()).await?;
        let mut rows = vec![];
        for ((item, user_id), user) in items.iter().zip(user_ids).zip(users) {
            let row = Row { table: Table::UserKeys, item };
            let key = if row.text("user_key")?.starts_with("phone#") {
                let user = user.as_ref().map(read_user).transpose()?;
                let phone_number = user.and_then(|user| user.phone_number);
                UserKey::Phone(phone_number.ok_or_else(|| row.unreadable(format!("`{user_id}` has no phone number")))?)
            } else {
                let part = |name| {
                    let earlier = || {
                        row.unreadable(format!(
                            "the key of `{user_id}` was written by an earlier version and does not say its {name}; it \
                             does when the user has signed in once more"
                        ))
                    };
                    row.maybe_text(name)?.map(str::to_owned).ok_or_else(earlier)
                };
                UserKey::External { issuer: part("issuer")?, subject: part("subject")? }
            };
            rows.push(Moved::UserKey { key, user_id });
        }
        Ok(rows)
    }

    /// Chats with their heads.
    async fn headed(&self, items: &[Item]) -> Result<Vec<Moved>, StoreError> {
        let chats = items.iter().map(read_chat).collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<Key> = chats.iter().map(|chat| Key::one(Table::ChatCounters, chat.chat_id)).collect();
        let mut rows = vec![];
        for (chat, counter) in chats.into_iter().zip(self.db().get_many(&keys).await?) {
            let counter = counter.ok_or_else(|| {
                let source =
                    format!("`{0}` has no counter row; `tidings recover-counter {0}` restores it", chat.chat_id);
                StoreError::Corrupt { table: Table::ChatCounters.name(), source: source.into() }
            })?;
            // Which words are left is for the caller to say, by another clock.
            let head = read_head(&counter, Timestamp::default())?;
            rows.push(Moved::Chat { chat, head });
        }
        Ok(rows)
    }

    /// Members with how far they have come. Those of a group that was never opened are none.
    async fn placed(&self, mut items: Vec<Item>) -> Result<Vec<Moved>, StoreError> {
        let chat_of = |item: &Item| Row { table: Table::ChatMemberships, item }.parsed::<ChatId>("chat_id");
        let opening = items.iter().filter(|item| item.contains_key(OPENING)).map(chat_of);
        let opening: HashSet<ChatId> = opening.collect::<Result<_, _>>()?;
        let keys: Vec<Key> = opening.iter().map(|chat_id| Key::one(Table::Chats, chat_id)).collect();
        let there = self.db().get_many(&keys).await?;
        let unopened: HashSet<ChatId> =
            opening.into_iter().zip(there).filter(|(_, chat)| chat.is_none()).map(|(chat_id, _)| chat_id).collect();
        items.retain(|item| !chat_of(item).is_ok_and(|chat_id| unopened.contains(&chat_id)));

        let members = items.iter().map(|item| Ok((chat_of(item)?, read_member(item)?)));
        let members: Vec<_> = members.collect::<Result<_, StoreError>>()?;
        let state =
            |(chat_id, member): &(ChatId, domain::Member)| Key::of(Table::DeliveryState, member.user_id, chat_id);
        let states = self.db().get_many(&members.iter().map(state).collect::<Vec<_>>()).await?;
        let mut rows = vec![];
        for ((chat_id, member), state) in members.into_iter().zip(states) {
            // Lost ones count as 0 in every read.
            let watermarks = state.as_ref().map(read_watermarks).transpose()?.unwrap_or_default();
            rows.push(Moved::Member { chat_id, member, watermarks });
        }
        Ok(rows)
    }
}

/// The table in which there is one item for each of a kind.
fn table(kind: MovedKind) -> Table {
    match kind {
        MovedKind::User => Table::Users,
        MovedKind::UserKey => Table::UserKeys,
        MovedKind::Contact => Table::Contacts,
        MovedKind::Session => Table::Sessions,
        MovedKind::PushDevice => Table::PushDevices,
        MovedKind::Chat => Table::Chats,
        MovedKind::Pair => Table::DirectChats,
        MovedKind::Member => Table::ChatMemberships,
        MovedKind::Message => Table::Messages,
        MovedKind::Send => Table::IdempotencyKeys,
        MovedKind::Block => Table::Blocks,
    }
}

fn read_contact(item: &Item) -> Result<Moved, StoreError> {
    let row = Row { table: Table::Contacts, item };
    Ok(Moved::Contact { user_id: row.parsed("user_id")?, contact_id: row.parsed("contact_id")? })
}

fn moved_block((user_id, blocked_id): (UserId, UserId)) -> Moved {
    Moved::Block { user_id, blocked_id }
}

fn read_moved_send(item: &Item) -> Result<Moved, StoreError> {
    let send = read_send(item)?;
    Ok(Moved::Send(MovedSend {
        chat_id: send.chat_id,
        sender_id: send.sender_id,
        client_message_id: send.client_message_id,
        receipt: read_receipt(item)?,
        fingerprint: Row { table: Table::IdempotencyKeys, item }.array("fingerprint")?,
    }))
}

/// The items of a row that are its own. Nothing waits to be published: who was to hear of it has, elsewhere.
fn items_of(row: &Moved) -> Vec<(Key, Item)> {
    match row {
        Moved::User(user) => vec![(user_row(user.user_id), user_item(user))],
        Moved::UserKey { key, user_id } => vec![(user_key(key), owner_item(key, *user_id))],
        Moved::Contact { user_id, contact_id } => vec![(Key::of(Table::Contacts, user_id, contact_id), Item::new())],
        Moved::Session(session) => vec![(session_key(session.session_id), session_item(session))],
        Moved::PushDevice(_) | Moved::Block { .. } => vec![],
        Moved::Chat { chat, head } => {
            let mut counter = new_counter(chat);
            counter.extend(head_item(head));
            let chat_key = Key::one(Table::Chats, chat.chat_id);
            vec![(chat_key, chat_item(chat, 1)), (Key::one(Table::ChatCounters, chat.chat_id), counter)]
        }
        Moved::Pair { pair, chat_id } => vec![(pair_key(*pair), item([("chat_id", Some(text(chat_id)))]))],
        Moved::Member { chat_id, member, watermarks } => vec![
            (Key::of(Table::ChatMemberships, chat_id, member.user_id), member_item(member, None)),
            (Key::of(Table::DeliveryState, member.user_id, chat_id), watermarks_item(*watermarks)),
        ],
        Moved::Message(message) => {
            let row = (message_key(message.chat_id, message.sequence), message_item(message, None));
            let expiration = expiration_key(message).map(|key| (key, Item::new()));
            std::iter::once(row).chain(expiration).collect()
        }
        Moved::Send(send) => {
            let key = key_of_send(send.chat_id, send.sender_id, send.client_message_id);
            vec![(key, key_item(&send.receipt, &send.fingerprint))]
        }
    }
}

/// What a head is on the counter row, published to its end.
fn head_item(head: &Head) -> Item {
    let attributes = head_changes(head).into_iter().filter_map(|change| match change {
        Change::Set(name, Some(value)) => Some((name.to_owned(), value)),
        Change::Set(..) | Change::SetIfAbsent(..) | Change::Increment(_) => None,
    });
    attributes.chain([(PUBLISHED.to_owned(), number(head.sequence.0))]).collect()
}

/// What a row does to the item of a device, which a login and a registration share: neither may take the other's place.
fn of_device(row: &Moved) -> Option<Box<dyn Fn() -> Write + Send + Sync + '_>> {
    match row {
        Moved::Session(session) => Some(Box::new(|| {
            let key = device_key(session.user_id, session.device_id);
            signed_in(key, session.session_id, session.expires_at)
        })),
        Moved::PushDevice(device) => Some(Box::new(|| register(device))),
        _ => None,
    }
}

/// Repeats a write that can be repeated for as long as the service does not take it.
async fn patiently<F>(mut attempt: impl FnMut() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>>,
{
    let (deadline, mut pause) = (Instant::now() + PATIENCE, PAUSE_FIRST);
    loop {
        match attempt().await {
            Err(StoreError::Unavailable(_)) if Instant::now() + pause < deadline => {
                sleep(pause).await;
                pause = PAUSE_MAX.min(pause * 2);
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::DisplayName;
    use engines::{Fault, When};
    use ports::{Clock, Ids, NewUser, RandomIds, SystemClock, UserWriter};

    use super::*;
    use crate::testing::Server;

    async fn rows(store: &DynamoStore, kind: MovedKind) -> Result<Vec<Moved>, StoreError> {
        Ok(store.rows(kind, None, 1000, SystemClock.now()).await?.rows)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_import_goes_on_when_the_service_takes_it_again() {
        let server = Server::with_tables().await;
        let store = server.store();
        let contact = |_| Moved::Contact { user_id: RandomIds.ulid().into(), contact_id: RandomIds.ulid().into() };
        let contacts: Vec<Moved> = (0..60).map(contact).collect();
        // More than the SDK repeats by itself.
        server.proxy.fail_operation("BatchWriteItem", Fault::Throttled, When::Before, 12);
        store.write(contacts.clone()).await.unwrap();
        assert_eq!(server.proxy.faults_left(), 0);
        let found = rows(&store, MovedKind::Contact).await.unwrap();
        assert_eq!(found.len(), 60);
        assert!(contacts.iter().all(|contact| found.contains(contact)));
    }

    /// Before keys were moved, that of another system's subject was a digest alone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_key_of_an_earlier_version_moves_after_the_next_sign_in() {
        let server = Server::with_tables().await;
        let store = server.store();
        let key = UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob".to_owned() };
        let sign_in = async || {
            let display_name = DisplayName::try_from("Bob".to_owned()).unwrap();
            let new = NewUser { user_id: RandomIds.ulid().into(), display_name, created_at: SystemClock.now() };
            store.find_or_create(key.clone(), new).await.unwrap().0.user_id
        };
        let user_id = sign_in().await;
        server.put(user_key(&key), item([("user_id", Some(text(user_id)))])).await;
        let said = rows(&store, MovedKind::UserKey).await.unwrap_err();
        let StoreError::Corrupt { source, .. } = said else { panic!("{said:?}") };
        assert!(source.to_string().contains("signed in once more"), "{source}");
        assert_eq!(sign_in().await, user_id);
        assert_eq!(rows(&store, MovedKind::UserKey).await.unwrap(), [Moved::UserKey { key, user_id }]);
    }
}
