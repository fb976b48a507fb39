//! Export of all data that another store needs, and import of such data. It scans whole tables, as an audit does, and
//! writes in batches: no requests are served meanwhile, and every row may be written again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Backoff, ChatId, Sequence, Timestamp, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{
    BlockStore, ExportKind, ExportPage, ExportSource, ImportAdmission, ImportId, ImportTarget, Moved, PageBookmark,
    StoreError,
};
use tokio::time::{Instant, sleep};

use crate::DynamoStore;
use crate::blocks::read_block;
use crate::chats::{OPENING, chat_item, member_item, pair_item, pair_key, read_chat, read_member, read_pair};
use crate::commit::{key_item, key_of_send, read_send};
use crate::contacts::{contact_key, read_contact};
use crate::db::{CONCURRENCY_MAX, ScanFreshness};
use crate::devices::{device_key, read_registration, register, signed_in};
use crate::expiry::{expiration_item, expiration_key};
use crate::invitations::{invitation_items, read_invitation};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number};
use crate::locations::{location_item, location_key};
use crate::messages::{UPDATES_THROUGH, counter_item, message_item, message_key, read_head, read_message};
use crate::passkeys::{passkey_items, read_passkey};
use crate::restrictions::{read_restrictions, state_item, state_key};
use crate::schema::Table;
use crate::sessions::{read_session, session_item, session_key};
use crate::updates::{reactions_item, reactions_key, read_reactions, read_update, update_item, update_key};
use crate::users::{owner_item, read_owner, read_user, read_user_key, user_item, user_key, user_row};
use crate::watermarks::{delivery_state_item, read_delivery_state};
use crate::write::{AttributeChange, Condition, Write};

/// Key of the marker of an unfinished import or restore. It is in the table of chats, which every serving role may read.
const MARK: &str = "import";
/// The id of the import.
const IMPORT_ID: &str = "import_id";
/// How long a write is retried before the import stops. DynamoDB throttles bulk writes until the tables have scaled up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delays between two attempts.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// The tables that must be empty before an import, besides those of exported rows.
const ALSO_EMPTY: [Table; 5] =
    [Table::ChatCounters, Table::DeliveryState, Table::MessageLocations, Table::Expirations, Table::Outbox];

#[async_trait]
impl ExportSource for DynamoStore {
    async fn rows(
        &self,
        kind: ExportKind,
        after: Option<&PageBookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<ExportPage, StoreError> {
        let (items, next) = self.scan(Table::exported(kind), after, count, ScanFreshness::Strong).await?;
        let rows: Result<Vec<Moved>, StoreError> = match kind {
            ExportKind::User => items.iter().map(|item| read_user(item).map(Moved::User)).collect(),
            ExportKind::UserKey => self.user_keys(&items).await,
            ExportKind::Contact => {
                let contact =
                    |item| read_contact(item).map(|(user_id, contact_id)| Moved::Contact { user_id, contact_id });
                items.iter().map(contact).collect()
            }
            ExportKind::Session => items.iter().map(|item| read_session(item).map(Moved::Session)).collect(),
            ExportKind::PushDevice => {
                let registered = items.iter().filter_map(|item| read_registration(item, at).transpose());
                registered.map(|device| device.map(Moved::PushDevice)).collect()
            }
            ExportKind::Chat => self.headed(&items).await,
            ExportKind::Pair => {
                let pair = |item| read_pair(item).map(|(pair, chat_id)| Moved::Pair { pair, chat_id });
                items.iter().map(pair).collect()
            }
            ExportKind::Member => self.placed(items).await,
            ExportKind::Message => items.iter().map(|item| read_message(item).map(Moved::Message)).collect(),
            ExportKind::Send => items.iter().map(|item| read_send(item).map(Moved::Send)).collect(),
            ExportKind::Update => items.iter().map(|item| read_update(item).map(Moved::Update)).collect(),
            ExportKind::Reactions => self.reacted(&items, at).await,
            ExportKind::Block => {
                let blocks = items.iter().filter_map(|item| read_block(item).transpose());
                let block = |(user_id, blocked_id)| Moved::Block { user_id, blocked_id };
                blocks.map(|pair| pair.map(block)).collect()
            }
            ExportKind::Invitation => {
                let invitations = items.iter().filter_map(|item| read_invitation(item).transpose());
                invitations.map(|row| row.map(Moved::Invitation)).collect()
            }
            ExportKind::Passkey => {
                let passkeys = items.iter().filter_map(|item| read_passkey(item).transpose());
                passkeys.map(|row| row.map(Moved::Passkey)).collect()
            }
            ExportKind::Restriction => {
                let restricted = items.iter().filter_map(|item| read_restrictions(item).transpose());
                let moved = |(user_id, restrictions)| Moved::Restriction { user_id, restrictions };
                restricted.map(|row| row.map(moved)).collect()
            }
        };
        Ok(ExportPage { rows: rows?.into_iter().filter_map(|row| row.at(at)).collect(), next })
    }
}

#[async_trait]
impl ImportTarget for DynamoStore {
    async fn begin(&self, id: ImportId) -> Result<ImportAdmission, StoreError> {
        let mark = ItemKey::one(Table::Chats, MARK);
        if let Some(begun) = self.db().get(&mark).await? {
            let begun = ItemReader { table: Table::Chats, item: &begun }.number(IMPORT_ID)?;
            return Ok(if begun == id.0 { ImportAdmission::Again } else { ImportAdmission::Other });
        }
        for table in ExportKind::ALL.map(Table::exported).into_iter().chain(ALSO_EMPTY) {
            if !self.db().scan(table, None, 1, ScanFreshness::Strong).await?.0.is_empty() {
                return Ok(ImportAdmission::NotEmpty { table: table.name() });
            }
        }
        let writes = || {
            let (mark, item) = import_mark(id.0);
            vec![Write::create(mark, item)]
        };
        let transacted = self.db().transact(writes).await?;
        // Another import has begun meanwhile.
        Ok(if transacted.is_committed() { ImportAdmission::Begun } else { ImportAdmission::Other })
    }

    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError> {
        // A request must not name a key twice. Of two rows with the same key the later one wins, as it would anyway.
        let items: HashMap<ItemKey, DynamoItem> = rows.iter().flat_map(items_of).collect();
        patiently(|| self.db().put_many(&items)).await?;
        let of_devices: Vec<_> = rows.iter().filter_map(of_device).collect();
        let writes = |write| patiently(move || async move { self.db().update(write).await.map(drop) });
        let mut last_updates: BTreeMap<ChatId, Sequence> = BTreeMap::new();
        for row in &rows {
            if let Moved::Update(update) = row {
                let last = last_updates.entry(update.chat_id).or_default();
                *last = update.sequence.max(*last);
            }
        }
        let of_counters = last_updates.iter().map(|(chat_id, last)| has_updates(*chat_id, *last));
        let of_rows: Vec<RowWrite<'_>> = of_devices.into_iter().chain(of_counters).collect();
        let writes: Vec<_> = of_rows.iter().map(writes).collect();
        stream::iter(writes).buffer_unordered(CONCURRENCY_MAX).try_collect::<()>().await?;
        // Sequential: the blocks of one user share a counter item.
        for row in &rows {
            if let Moved::Block { user_id, blocked_id } = *row {
                patiently(|| async move { self.block(user_id, blocked_id).await.map(drop) }).await?;
            }
        }
        Ok(())
    }

    async fn finish(&self) -> Result<(), StoreError> {
        self.db().transact(|| vec![Write::delete(ItemKey::one(Table::Chats, MARK))]).await.map(drop)
    }

    async fn is_unfinished(&self) -> Result<bool, StoreError> {
        Ok(self.db().get(&ItemKey::one(Table::Chats, MARK)).await?.is_some())
    }
}

/// The mark of an import or restore that is not finished.
pub(crate) fn import_mark(id: u64) -> (ItemKey, DynamoItem) {
    (ItemKey::one(Table::Chats, MARK), item([(IMPORT_ID, Some(number(id)))]))
}

/// Whether the item is the import marker, and not a chat.
pub(crate) fn is_mark(table: Table, item: &DynamoItem) -> bool {
    table == Table::Chats && item.contains_key(IMPORT_ID)
}

impl DynamoStore {
    /// Sign-in keys with their contents, some of which are in the users' rows.
    async fn user_keys(&self, items: &[DynamoItem]) -> Result<Vec<Moved>, StoreError> {
        let user_ids: Vec<UserId> = items.iter().map(read_owner).collect::<Result<_, _>>()?;
        let users = self.db().get_many(&user_ids.iter().copied().map(user_row).collect::<Vec<_>>()).await?;
        let mut rows = vec![];
        for ((item, user_id), user) in items.iter().zip(user_ids).zip(users) {
            let user = user.as_ref().map(read_user).transpose()?;
            rows.push(Moved::UserKey { key: read_user_key(item, user_id, user)?, user_id });
        }
        Ok(rows)
    }

    /// Reactions to messages that have not expired.
    async fn reacted(&self, items: &[DynamoItem], at: Timestamp) -> Result<Vec<Moved>, StoreError> {
        let rows = items.iter().map(read_reactions).collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<ItemKey> =
            rows.iter().map(|(message, _)| message_key(message.chat_id, message.sequence)).collect();
        let mut reacted = vec![];
        for ((message, member), item) in rows.into_iter().zip(self.db().get_many(&keys).await?) {
            let found = item.as_ref().map(read_message).transpose()?;
            if found.is_some_and(|found| found.message_id == message.message_id && !found.is_expired(at)) {
                reacted.push(Moved::Reactions { message, member });
            }
        }
        Ok(reacted)
    }

    /// Chats with their heads.
    async fn headed(&self, items: &[DynamoItem]) -> Result<Vec<Moved>, StoreError> {
        let chats = items.iter().map(read_chat).collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<ItemKey> = chats.iter().map(|chat| ItemKey::one(Table::ChatCounters, chat.chat_id)).collect();
        let mut rows = vec![];
        for (chat, counter) in chats.into_iter().zip(self.db().get_many(&keys).await?) {
            let counter = counter.ok_or_else(|| {
                let source =
                    format!("`{0}` has no counter row; `tidings store recover-counter {0}` restores it", chat.chat_id);
                StoreError::Corrupt { table: Table::ChatCounters.name(), source: source.into() }
            })?;
            // The caller decides by its own clock which previews have expired.
            let head = read_head(&counter, Timestamp::default())?;
            rows.push(Moved::Chat { chat, head });
        }
        Ok(rows)
    }

    /// Members with their watermarks. Rows of a group that was never completed are left out.
    async fn placed(&self, mut items: Vec<DynamoItem>) -> Result<Vec<Moved>, StoreError> {
        let chat_of =
            |item: &DynamoItem| ItemReader { table: Table::ChatMemberships, item }.parsed::<ChatId>("chat_id");
        let opening = items.iter().filter(|item| item.contains_key(OPENING)).map(chat_of);
        let opening: HashSet<ChatId> = opening.collect::<Result<_, _>>()?;
        let keys: Vec<ItemKey> = opening.iter().map(|chat_id| ItemKey::one(Table::Chats, chat_id)).collect();
        let there = self.db().get_many(&keys).await?;
        let unopened: HashSet<ChatId> =
            opening.into_iter().zip(there).filter(|(_, chat)| chat.is_none()).map(|(chat_id, _)| chat_id).collect();
        items.retain(|item| !chat_of(item).is_ok_and(|chat_id| unopened.contains(&chat_id)));

        let members = items.iter().map(|item| Ok((chat_of(item)?, read_member(item)?)));
        let members: Vec<_> = members.collect::<Result<_, StoreError>>()?;
        let state =
            |(chat_id, member): &(ChatId, domain::Member)| ItemKey::of(Table::DeliveryState, member.user_id, chat_id);
        let states = self.db().get_many(&members.iter().map(state).collect::<Vec<_>>()).await?;
        let mut rows = vec![];
        for ((chat_id, member), state) in members.into_iter().zip(states) {
            // Lost watermarks count as 0 in every read.
            let delivery_state = state.as_ref().map(read_delivery_state).transpose()?.unwrap_or_default();
            rows.push(Moved::Member { chat_id, member, delivery_state });
        }
        Ok(rows)
    }
}

/// The items that a row alone determines. No events are written: the exporting store has already published them.
fn items_of(row: &Moved) -> Vec<(ItemKey, DynamoItem)> {
    match row {
        Moved::User(user) => vec![(user_row(user.user_id), user_item(user))],
        Moved::UserKey { key, user_id } => vec![(user_key(key), owner_item(key, *user_id))],
        Moved::Contact { user_id, contact_id } => {
            vec![(contact_key(*user_id, *contact_id), DynamoItem::new())]
        }
        Moved::Session(session) => vec![(session_key(session.session_id), session_item(session))],
        Moved::PushDevice(_) | Moved::Block { .. } => vec![],
        Moved::Chat { chat, head } => {
            let [chat_key, counter_key] = [Table::Chats, Table::ChatCounters].map(|it| ItemKey::one(it, chat.chat_id));
            // At most two changes have one version; the restoration of a lost counter row relies on it.
            vec![(chat_key, chat_item(chat, head.changes + 1)), (counter_key, counter_item(chat, head))]
        }
        Moved::Pair { pair, chat_id } => vec![(pair_key(*pair), pair_item(*chat_id))],
        Moved::Member { chat_id, member, delivery_state } => vec![
            (ItemKey::of(Table::ChatMemberships, chat_id, member.user_id), member_item(member, None)),
            (
                ItemKey::of(Table::DeliveryState, member.user_id, chat_id),
                delivery_state_item(
                    *delivery_state,
                    delivery_state.delivered_at.max(delivery_state.read_at).unwrap_or(member.joined_at),
                ),
            ),
        ],
        Moved::Message(message) => {
            let row = (message_key(message.chat_id, message.sequence), message_item(message, None, None));
            let location = (location_key(message.message_id), location_item(message));
            let expiration = expiration_key(message).map(|key| (key, expiration_item(message)));
            [row, location].into_iter().chain(expiration).collect()
        }
        Moved::Update(update) => vec![(update_key(update.chat_id, update.sequence), update_item(update, None))],
        Moved::Reactions { message, member } => {
            let key = reactions_key(message.message_id, member.user_id);
            vec![(key, reactions_item(message, &member.reactions))]
        }
        Moved::Invitation(invitation) => invitation_items(invitation),
        Moved::Passkey(passkey) => passkey_items(passkey).into(),
        Moved::Restriction { user_id, restrictions } => vec![(state_key(*user_id), state_item(restrictions))],
        Moved::Send(send) => {
            let key = key_of_send(send.chat_id, send.sender_id, send.client_message_id);
            vec![(key, key_item(&send.receipt, &send.fingerprint))]
        }
    }
}

/// The update of an item that several rows share.
type RowWrite<'a> = Box<dyn Fn() -> Write + Send + Sync + 'a>;

/// The counter row of a chat with updates up to a sequence.
fn has_updates(chat_id: ChatId, last: Sequence) -> RowWrite<'static> {
    Box::new(move || {
        let changes = vec![AttributeChange::Set(UPDATES_THROUGH, Some(number(last.0)))];
        Write::update(ItemKey::one(Table::ChatCounters, chat_id), changes)
            .if_there()
            .when(Condition::UnsetOrBelow(UPDATES_THROUGH, number(last.0)))
    })
}

/// The update of a device item, which a login and a registration share: neither may overwrite the other.
fn of_device(row: &Moved) -> Option<RowWrite<'_>> {
    match row {
        Moved::Session(session) => Some(Box::new(|| {
            let key = device_key(session.user_id, session.device_id);
            signed_in(key, session.session_id, session.expires_at)
        })),
        Moved::PushDevice(device) => Some(Box::new(|| register(device))),
        _ => None,
    }
}

/// Retries an idempotent write while the service is unavailable.
async fn patiently<F>(mut attempt: impl FnMut() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>>,
{
    let (deadline, mut failures) = (Instant::now() + PATIENCE, 0);
    loop {
        failures += 1;
        let pause = BACKOFF.delay(failures);
        match attempt().await {
            Err(StoreError::Unavailable(_)) if Instant::now() + pause < deadline => sleep(pause).await,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{DisplayName, GroupInvites};
    use engines::{Fault, When};
    use ports::{Clock, Ids, NewUser, RandomIds, SystemClock, UserKey, UserWriter};

    use super::*;
    use crate::item::text;
    use crate::testing::DynamoServer;

    async fn rows(store: &DynamoStore, kind: ExportKind) -> Result<Vec<Moved>, StoreError> {
        Ok(store.rows(kind, None, 1000, SystemClock.now()).await?.rows)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_import_goes_on_when_the_service_takes_it_again() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let contact = |_| Moved::Contact { user_id: RandomIds.ulid().into(), contact_id: RandomIds.ulid().into() };
        let contacts: Vec<Moved> = (0..60).map(contact).collect();
        // More than the retries of the SDK.
        server.proxy.fail_operation("BatchWriteItem", Fault::Throttled, When::Before, 12);
        store.write(contacts.clone()).await.unwrap();
        assert_eq!(server.proxy.faults_left(), 0);
        let found = rows(&store, ExportKind::Contact).await.unwrap();
        assert_eq!(found.len(), 60);
        assert!(contacts.iter().all(|contact| found.contains(contact)));
    }

    /// An earlier version stored only a digest as the key of an external subject.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_key_of_an_earlier_version_moves_after_the_next_sign_in() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let key = UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob".parse().unwrap() };
        let sign_in = async || {
            let display_name = DisplayName::try_from("Bob".to_owned()).unwrap();
            let new = NewUser {
                user_id: RandomIds.ulid().into(),
                display_name,
                group_invites: GroupInvites::default(),
                created_at: SystemClock.now(),
                proven_at: SystemClock.now(),
            };
            store.find_or_create(key.clone(), new).await.unwrap().0.user_id
        };
        let user_id = sign_in().await;
        server.put(user_key(&key), item([("user_id", Some(text(user_id)))])).await;
        let said = rows(&store, ExportKind::UserKey).await.unwrap_err();
        let StoreError::Corrupt { source, .. } = said else { panic!("{said:?}") };
        assert!(source.to_string().contains("signed in once more"), "{source}");
        assert_eq!(sign_in().await, user_id);
        assert_eq!(rows(&store, ExportKind::UserKey).await.unwrap(), [Moved::UserKey { key, user_id }]);
    }
}
