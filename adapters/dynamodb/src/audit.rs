//! Every item of every table, for whoever checks them. It reads whole tables, which no request does and no role of a
//! serving process may; the policy of an auditor allows it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{ChatId, ChatType, ClientMessageId, DirectPair, EventBody, Message, Sequence, Timestamp, UserId};
use ports::{
    AUDIT_MEMBERS_MAX, AuditPage, AuditSource, Audited, Bookmark, ChatRows, ChatStanding, End, Lead, Listing,
    ListingRows, MemberRows, MessageRows, PairRows, SendKeyRows, StoreError, StoredMessage,
};

use crate::DynamoStore;
use crate::chats::{pair_key, read_chat, read_member};
use crate::commit::{key_of_send, read_receipt};
use crate::db::{Bound, Query};
use crate::expiry::{due_beside, expiration_key, read_expiration};
use crate::item::{Item, Key, Row, number};
use crate::messages::{counter_sequence, message_key, read_head, read_message};
use crate::outbox::{DIRTY_SINCE, EVENT_TIME, events_of, read_event};
use crate::schema::{TTL, Table};
use crate::sessions::read_session;
use crate::transfer::is_mark;
use crate::users::read_user;
use crate::watermarks::read_watermarks;

/// What the service holds in one item.
const ITEM_BYTES_MAX: usize = 400 * 1024;
/// How often a chat is read until nobody has changed its members meanwhile.
const TRIES_MAX: usize = 10;
/// Expirations that are due and not done, beside which a chat's are looked for.
const DUE_LEN_MAX: usize = 1000;

/// The tables that [`AuditSource::others`] shows, in its order.
const OTHERS: [Table; 14] = [
    Table::Users,
    Table::UserKeys,
    Table::Expirations,
    Table::Sessions,
    Table::OneTimeCodes,
    Table::Outbox,
    Table::PushDevices,
    Table::Notices,
    Table::DeadLetters,
    Table::Requests,
    Table::Contacts,
    Table::Blocks,
    Table::Reports,
    Table::Deletions,
];

#[async_trait]
impl AuditSource for DynamoStore {
    async fn size(&self) -> Result<u64, StoreError> {
        let mut rows = 0;
        for table in Table::ALL {
            rows += self.db().count(table).await?;
        }
        Ok(rows)
    }

    fn row_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }

    async fn chats(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError> {
        let (items, next) = self.scan(Table::Chats, after, count).await?;
        let rows =
            items.iter().map(|item| audited(Table::Chats, item, Row { table: Table::Chats, item }.parsed("chat_id")));
        Ok(AuditPage { rows: rows.collect(), next })
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Option<ChatRows>, StoreError> {
        for _ in 1..TRIES_MAX {
            let before = self.db().get(&Key::one(Table::Chats, chat_id)).await?;
            let rows = self.chat_rows(chat_id).await?;
            // Every change of members moves the version of their chat.
            if self.db().get(&Key::one(Table::Chats, chat_id)).await? == before {
                return Ok(rows);
            }
        }
        self.chat_rows(chat_id).await
    }

    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError> {
        let query = Query {
            bound: Some(Bound::Between(number(from.0), number(u64::MAX))),
            ..Query::partition(Table::Messages, chat_id)
        };
        let items = self.db().query(&query, count).await?;
        let messages: Vec<_> = items.iter().map(read_message).collect();
        let sound = messages.iter().flatten();
        let keys: Vec<Key> = sound.clone().map(send_key).chain(sound.filter_map(expiration_key)).collect();
        let found: BTreeSet<Key> = keys.iter().cloned().collect();
        let found: Vec<Key> = found.into_iter().collect();
        let items_of = self.db().get_many(&found).await?;
        let at = |key: &Key| {
            let n = found.binary_search(key).ok()?;
            items_of.get(n)?.as_ref()
        };
        let mut rows = vec![];
        for (item, message) in items.iter().zip(messages) {
            let sequence = Sequence(Row { table: Table::Messages, item }.number("sequence")?);
            let (mut send, mut end) = (None, End::Lasting);
            if let Ok(message) = &message {
                send = at(&send_key(message)).and_then(|item| read_receipt(item).ok());
                if let Some(expiration) = expiration_key(message) {
                    let is_timed = item.contains_key(TTL) && at(&expiration).is_some();
                    end = if is_timed { End::Timed } else { End::Missing };
                }
            }
            rows.push(MessageRows {
                sequence,
                message: Audited { end, ..audited(Table::Messages, item, message) },
                id_leads_to: Lead::Indexed,
                send_key: send,
            });
        }
        Ok(rows)
    }

    async fn listings(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError> {
        let (items, next) = self.scan(Table::DeliveryState, after, count).await?;
        let keys: Vec<Result<(UserId, ChatId), StoreError>> = items.iter().map(read_place).collect();
        let places = keys.iter().flatten().map(|(user_id, chat_id)| Key::of(Table::ChatMemberships, chat_id, user_id));
        let members = self.db().get_many(&places.collect::<Vec<_>>()).await?;
        let (mut rows, mut members) = (vec![], members.into_iter());
        for (item, key) in items.iter().zip(keys) {
            let row = key.map(|(user_id, chat_id)| {
                let is_member = members.next().flatten().is_some();
                ListingRows { user_id, chat_id, is_member }
            });
            rows.push(audited(Table::DeliveryState, item, row));
        }
        Ok(AuditPage { rows, next })
    }

    async fn pairs(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError> {
        let (items, next) = self.scan(Table::DirectChats, after, count).await?;
        let mut rows = vec![];
        for item in &items {
            let row = match read_pair(item) {
                Ok((pair, chat_id)) => {
                    let chat = self.db().get(&Key::one(Table::Chats, chat_id)).await?;
                    let members = self.db().query(&Query::partition(Table::ChatMemberships, chat_id), 3).await?;
                    let members = members.iter().filter_map(|item| read_member(item).ok());
                    Ok(PairRows {
                        pair,
                        chat_id,
                        chat_type: chat.and_then(|chat| read_chat(&chat).ok()).map(|chat| chat.chat_type),
                        members: members.map(|member| member.user_id).collect(),
                    })
                }
                Err(failure) => Err(failure),
            };
            rows.push(audited(Table::DirectChats, item, row));
        }
        Ok(AuditPage { rows, next })
    }

    async fn send_keys(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<SendKeyRows>, StoreError> {
        let (items, next) = self.scan(Table::IdempotencyKeys, after, count).await?;
        let now = self.clock().now().as_secs();
        // The service deletes some days late. What is past is void.
        let is_void = |item: &Item| {
            let end = Row { table: Table::IdempotencyKeys, item }.maybe_number(TTL);
            end.is_ok_and(|end| end.is_some_and(|end| end <= now))
        };
        let items: Vec<Item> = items.into_iter().filter(|item| !is_void(item)).collect();
        let sends: Vec<_> = items.iter().map(read_send).collect();
        let places = sends.iter().flatten().map(|send| message_key(send.chat_id, send.receipt.sequence));
        let messages = self.db().get_many(&places.collect::<Vec<_>>()).await?;
        let heads = sends.iter().flatten().map(|send| Key::one(Table::ChatCounters, send.chat_id));
        let heads = self.db().get_many(&heads.collect::<Vec<_>>()).await?;
        let mut found = messages.into_iter().zip(heads);
        let mut rows = vec![];
        for (item, send) in items.iter().zip(sends) {
            let row = send.map(|send| {
                let (message, head) = found.next().unwrap_or_default();
                SendKeyRows {
                    message: message.and_then(|item| read_message(&item).ok()),
                    head: head.and_then(|item| counter_sequence(&item).ok()),
                    ..send
                }
            });
            rows.push(audited(Table::IdempotencyKeys, item, row));
        }
        Ok(AuditPage { rows, next })
    }

    async fn others(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<()>, StoreError> {
        let (table, after) = match after {
            None => (OTHERS[0], None),
            Some(Bookmark(text)) => {
                let (name, key) = text.split_once(' ').ok_or_else(|| strange(text))?;
                let table = OTHERS.into_iter().find(|table| table.name() == name).ok_or_else(|| strange(text))?;
                (table, (!key.is_empty()).then(|| Bookmark(key.to_owned())))
            }
        };
        let (items, next) = self.scan(table, after.as_ref(), count).await?;
        let rows = items.iter().map(|item| audited(table, item, read_other(table, item))).collect();
        let next = match next {
            Some(Bookmark(key)) => Some(format!("{} {key}", table.name())),
            None => {
                OTHERS.into_iter().skip_while(|other| *other != table).nth(1).map(|next| format!("{} ", next.name()))
            }
        };
        Ok(AuditPage { rows, next: next.map(Bookmark) })
    }

    async fn stored(&self, places: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredMessage>>, StoreError> {
        let keys: Vec<_> = places.iter().map(|(chat_id, sequence)| message_key(*chat_id, *sequence)).collect();
        let items = self.db().get_many(&keys).await?;
        let stored = |item: Item| {
            let message = read_message(&item).ok();
            let message_id = message.as_ref().map(|message| message.message_id);
            StoredMessage { message_id, expires_at: message.and_then(|message| message.expires_at) }
        };
        Ok(items.into_iter().map(|item| item.map(stored)).collect())
    }

    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<ChatStanding>, StoreError> {
        let keys = |table| chat_ids.iter().map(|chat_id| Key::one(table, chat_id)).collect::<Vec<_>>();
        let chats = self.db().get_many(&keys(Table::Chats)).await?;
        let heads = self.db().get_many(&keys(Table::ChatCounters)).await?;
        let standing = |(chat, head): (Option<Item>, Option<Item>)| ChatStanding {
            exists: chat.is_some(),
            head: head.and_then(|head| counter_sequence(&head).ok()),
        };
        Ok(chats.into_iter().zip(heads).map(standing).collect())
    }

    async fn leaving(&self, chat_id: ChatId) -> Result<Vec<Sequence>, StoreError> {
        let due = self.db().query(&due_beside(chat_id, self.clock().now()), DUE_LEN_MAX).await?;
        let due = due.iter().filter_map(|item| read_expiration(item).ok());
        let mut leaving: Vec<_> = due.filter(|(of, ..)| *of == chat_id).map(|(_, sequence, _)| sequence).collect();
        // Behind the others: a purge moves a message from there to here.
        let (waiting, _) = self.db().page(&events_of(chat_id), DUE_LEN_MAX, None).await?;
        for event in waiting.iter().filter_map(|item| read_event(item).ok()) {
            if let EventBody::MessagesExpired { sequences, .. } = event.body {
                leaving.extend(sequences);
            }
        }
        Ok(leaving)
    }
}

impl DynamoStore {
    pub(crate) async fn scan(
        &self,
        table: Table,
        after: Option<&Bookmark>,
        count: usize,
    ) -> Result<(Vec<Item>, Option<Bookmark>), StoreError> {
        let after = after.map(|Bookmark(text)| key_of(table, text)).transpose()?;
        let (mut items, next) = self.db().scan(table, after.as_ref(), count).await?;
        items.retain(|item| !is_mark(table, item));
        Ok((items, next.map(|key| Bookmark(bookmark(&key)))))
    }

    async fn chat_rows(&self, chat_id: ChatId) -> Result<Option<ChatRows>, StoreError> {
        let Some(chat) = self.db().get(&Key::one(Table::Chats, chat_id)).await? else { return Ok(None) };
        let query = Query::partition(Table::ChatMemberships, chat_id);
        let places = self.db().query(&query, AUDIT_MEMBERS_MAX).await?;
        let user_ids: Vec<UserId> = places.iter().filter_map(|item| member_of(item).ok()).collect();
        let states = user_ids.iter().map(|user_id| Key::of(Table::DeliveryState, user_id, chat_id));
        let states = self.db().get_many(&states.collect::<Vec<_>>()).await?;
        let members: Vec<_> =
            places.iter().filter_map(|item| Some((item, member_of(item).ok()?))).zip(states).collect();
        let members: Vec<MemberRows> = members
            .into_iter()
            .map(|((item, user_id), state)| MemberRows {
                user_id,
                member: audited(Table::ChatMemberships, item, read_member(item)),
                listing: if state.is_some() { Listing::Same } else { Listing::Missing },
                watermarks: state.map(|item| audited(Table::DeliveryState, &item, read_watermarks(&item))),
            })
            .collect();
        let chat = audited(Table::Chats, &chat, read_chat(&chat));
        let is_direct = chat.row.as_ref().is_ok_and(|chat| chat.chat_type == ChatType::Direct);
        let pair = match &members[..] {
            [one, other] if is_direct => DirectPair::new(one.user_id, other.user_id),
            _ => None,
        };
        let pair_leads_to = match pair {
            Some(pair) => self.db().get(&pair_key(pair)).await?.and_then(|item| led_to(&item).ok()),
            None => None,
        };
        let changes = self.db().query(&events_of(chat_id), 1).await?;
        let counter = self.db().get(&Key::one(Table::ChatCounters, chat_id)).await?;
        let since = |table, item, name| Row { table, item }.maybe_parsed::<Timestamp>(name).ok().flatten();
        let changed = changes.first().and_then(|item| since(Table::Outbox, item, EVENT_TIME));
        let dirty = counter.as_ref().and_then(|item| since(Table::ChatCounters, item, DIRTY_SINCE));
        let now = self.clock().now();
        let head = counter.map(|item| audited(Table::ChatCounters, &item, read_head(&item, now)));
        let waiting_since = changed.into_iter().chain(dirty).min();
        Ok(Some(ChatRows { chat, members, pair_leads_to, head, waiting_since }))
    }
}

fn send_key(message: &Message) -> Key {
    key_of_send(message.chat_id, message.sender_id, message.client_message_id)
}

fn member_of(item: &Item) -> Result<UserId, StoreError> {
    Row { table: Table::ChatMemberships, item }.parsed("user_id")
}

fn read_place(item: &Item) -> Result<(UserId, ChatId), StoreError> {
    let row = Row { table: Table::DeliveryState, item };
    read_watermarks(item)?;
    Ok((row.parsed("user_id")?, row.parsed("chat_id")?))
}

fn led_to(item: &Item) -> Result<ChatId, StoreError> {
    Row { table: Table::DirectChats, item }.parsed("chat_id")
}

pub(crate) fn read_pair(item: &Item) -> Result<(DirectPair, ChatId), StoreError> {
    let row = Row { table: Table::DirectChats, item };
    let (one, other) = row.text("pair")?.split_once('#').unwrap_or_default();
    let pair = one.parse().ok().zip(other.parse().ok()).and_then(|(one, other)| DirectPair::new(one, other));
    Ok((pair.ok_or_else(|| row.unreadable("its key is no pair of users"))?, led_to(item)?))
}

/// A send key, without what it leads to.
pub(crate) fn read_send(item: &Item) -> Result<SendKeyRows, StoreError> {
    let row = Row { table: Table::IdempotencyKeys, item };
    let (sender_id, send) = row.text("send_key")?.split_once('#').unwrap_or_default();
    let send: Option<(UserId, ClientMessageId)> = sender_id.parse().ok().zip(send.parse().ok());
    let (sender_id, client_message_id) = send.ok_or_else(|| row.unreadable("its key is no send"))?;
    let (chat_id, receipt) = (row.parsed("chat_id")?, read_receipt(item)?);
    Ok(SendKeyRows { chat_id, sender_id, client_message_id, receipt, message: None, head: None })
}

fn read_other(table: Table, item: &Item) -> Result<(), StoreError> {
    match table {
        Table::Users => read_user(item).map(drop),
        Table::Sessions => read_session(item).map(drop),
        Table::Expirations => read_expiration(item).map(drop),
        Table::Outbox => read_event(item).map(drop),
        _ => Key::read(table, item).map(drop),
    }
}

/// An item as it was found.
fn audited<T>(table: Table, item: &Item, row: Result<T, StoreError>) -> Audited<T> {
    let row = row.map_err(|failure| match failure {
        StoreError::Corrupt { source, .. } => source.to_string(),
        failure @ StoreError::Unavailable(_) => failure.to_string(),
    });
    Audited { table: table.name(), key: named(table, item), bytes: item_bytes(item), end: end(table, item), row }
}

/// How an item goes, by its table. Messages are looked at more closely.
fn end(table: Table, item: &Item) -> End {
    let has_end = item.contains_key(TTL);
    let must_end = match table {
        Table::IdempotencyKeys | Table::Sessions | Table::OneTimeCodes | Table::DeadLetters | Table::Requests => true,
        // What is owed goes when it is settled; a silence goes by itself.
        Table::Notices => !item.contains_key("due_shard"),
        // One that waits for an operator stays.
        Table::Reports => item.contains_key("resolved_at"),
        // A device goes with its session.
        Table::PushDevices => item.contains_key("session_id"),
        _ => return if has_end { End::Timed } else { End::Lasting },
    };
    match (must_end, has_end) {
        (_, true) => End::Timed,
        (true, false) => End::Missing,
        (false, false) => End::Lasting,
    }
}

/// A key as people name it. That of a sign-in is a phone number, and not named.
fn named(table: Table, item: &Item) -> String {
    if table == Table::UserKeys {
        return "a sign-in key".to_owned();
    }
    match Key::read(table, item) {
        Ok(key) => match key.parts() {
            (partition, Some(sort)) => format!("{partition} {sort}"),
            (partition, None) => partition.to_owned(),
        },
        Err(_) => "an item without its key".to_owned(),
    }
}

/// What the service counts an item as.
fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len() / 2 + 2,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(values) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>(),
        AttributeValue::M(item) => 3 + item_bytes(item),
        _ => 1,
    }
}

/// A key as a bookmark: the length of its first part, and both.
fn bookmark(key: &Key) -> String {
    let (partition, sort) = key.parts();
    format!("{}:{partition}{}", partition.len(), sort.unwrap_or_default())
}

fn key_of(table: Table, text: &str) -> Result<Key, StoreError> {
    let parse = || {
        let (len, rest) = text.split_once(':')?;
        let (partition, sort) = rest.split_at_checked(len.parse().ok()?)?;
        Some(match table.definition().sort_key {
            Some(_) => Key::of(table, partition, sort),
            None => Key::one(table, partition),
        })
    };
    parse().ok_or_else(|| strange(text))
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
    use domain::{ChatCommand, Role, Watermarks};
    use memory::MemoryLog;
    use ports::contract::Peopled;
    use ports::{ChatWriter, Clock, EventLog, EventProducer, Ids, MessageWriter, Outbox, RandomIds, SystemClock};

    use super::*;
    use crate::item::{item, text};
    use crate::testing::{Server, message};
    use crate::watermarks::watermarks_item;

    /// A store in which everything has been used, whose events are in a log.
    struct World {
        server: Server,
        store: DynamoStore,
        log: MemoryLog,
        people: Peopled,
    }

    impl World {
        async fn new() -> Self {
            let server = Server::with_tables().await;
            let (store, log) = (server.store(), MemoryLog::new(Arc::new(SystemClock)));
            let people = Peopled::make(&store, SystemClock.now()).await;
            let world = Self { server, store, log, people };
            world.publish().await;
            let mut consumer = world.log.consumer("fanout").await.unwrap();
            consumer.next().await.unwrap();
            consumer.commit().await.unwrap();
            world
        }

        /// Brings everything that waits into the log.
        async fn publish(&self) {
            for chat_id in self.store.overdue(Timestamp::MAX).await.unwrap() {
                let messages = self.store.unpublished(chat_id).await.unwrap();
                self.log.publish(&messages).await.unwrap();
                if let Some(EventBody::MessagePersisted { message, .. }) = messages.last().map(|event| &event.body) {
                    self.store.published(chat_id, message.sequence).await.unwrap();
                }
                let waiting = self.store.waiting(chat_id).await.unwrap();
                let events: Vec<_> = waiting.iter().map(|waiting| waiting.event.clone()).collect();
                self.log.publish(&events).await.unwrap();
                let places: Vec<_> = waiting.into_iter().map(|waiting| waiting.place).collect();
                self.store.forget(chat_id, &places).await.unwrap();
            }
        }

        async fn audit(&self, pace: &dyn Pace, overdue_after: Duration) -> Findings {
            let options = Options { page_len: 3, overdue_after, ..Options::new(Arc::new(SystemClock)) };
            audit::audit(&self.store, Some(&self.log), &options, pace, None).await.unwrap()
        }

        async fn lose(&self, key: Key) {
            let name = self.server.name(key.table);
            let delete = self.server.client.delete_item().table_name(name).set_key(Some(key.attributes()));
            delete.send().await.unwrap();
        }

        /// Changes or removes one attribute of an item.
        async fn set(&self, key: Key, name: &str, value: Option<AttributeValue>) {
            let mut item = self.store.db().get(&key).await.unwrap().unwrap();
            item.remove(name);
            item.extend(value.map(|value| (name.to_owned(), value)));
            self.server.put(key, item).await;
        }

        fn counter(&self) -> Key {
            Key::one(Table::ChatCounters, self.people.group)
        }

        fn message(&self, sequence: u64) -> Key {
            message_key(self.people.group, Sequence(sequence))
        }

        fn send(&self, n: usize) -> Key {
            let send = &self.people.sends[n];
            key_of_send(send.chat_id, send.sender_id, send.client_message_id)
        }

        fn state(&self) -> Key {
            Key::of(Table::DeliveryState, self.people.member, self.people.group)
        }

        fn place(&self, user_id: UserId) -> Key {
            Key::of(Table::ChatMemberships, self.people.group, user_id)
        }

        fn pair(&self) -> Key {
            pair_key(DirectPair::new(self.people.owner, self.people.member).unwrap())
        }

        fn session(&self) -> Key {
            Key::one(Table::Sessions, self.people.session_id)
        }
    }

    fn violated(findings: &Findings) -> Vec<Invariant> {
        findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
    }

    #[tokio::test]
    async fn a_whole_store_has_nothing_wrong_with_it_and_every_rule_was_used() {
        let world = World::new().await;
        let findings = world.audit(&AtOnce, Duration::ZERO).await;
        assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
        let unused: Vec<_> = CHECKED.iter().filter(|invariant| findings.tally(**invariant).checked == 0).collect();
        assert_eq!(unused, [] as [&Invariant; 0]);
    }

    #[tokio::test]
    async fn a_message_that_the_service_has_deleted_is_missed_by_nobody_before_it_is_told() {
        let world = World::new().await;
        let Peopled { group, owner, .. } = world.people;
        let long_gone = SystemClock.now().minus(Duration::from_secs(120));
        let expired =
            ports::NewMessage { ttl: domain::Ttl::from_secs(60), created_at: long_gone, ..message(group, owner) };
        world.store.append(vec![expired, message(group, owner)]).await.unwrap();
        world.server.database.sweep_ttl().unwrap();
        world.publish().await;
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "it waits to be purged");
        assert_eq!(world.store.purge_expired(SystemClock.now()).await.unwrap(), 1);
        assert_eq!(violated(&world.audit(&AtOnce, Duration::from_secs(600)).await), [], "it waits to be told");
        world.publish().await;
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), [], "it was told");
    }

    macro_rules! found {
        ($($name:ident: |$world:ident| $damage:expr => [$($invariant:ident),+];)+) => {$(
            #[tokio::test]
            async fn $name() {
                let $world = World::new().await;
                $damage;
                let findings = $world.audit(&AtOnce, Duration::ZERO).await;
                let said: Vec<_> = findings.violations().collect();
                assert_eq!(violated(&findings), [$($invariant),+], "{said:?}");
            }
        )+};
    }

    found! {
        a_lost_counter_is_found: |world| world.lose(world.counter()).await => [CounterMustExist];
        a_counter_that_cannot_be_read_is_found:
            |world| world.set(world.counter(), "sequence_counter", Some(text("five"))).await
            => [DynamodbIsAuthoritative];
        a_counter_below_its_messages_is_found:
            |world| world.set(world.counter(), "sequence_counter", Some(number(4))).await
            => [SequenceMonotonicity, CounterLowerBound];
        a_counter_above_its_messages_is_found:
            |world| world.set(world.counter(), "sequence_counter", Some(number(6))).await
            => [SequenceContiguous];
        a_lost_message_is_found: |world| world.lose(world.message(2)).await
            => [SequenceContiguous, KafkaReflectsDynamodb];
        a_message_that_cannot_be_read_is_found:
            |world| world.set(world.message(2), "content", Some(number(7))).await => [DynamodbIsAuthoritative];
        a_message_in_the_place_of_another_is_found:
            |world| world.set(world.message(2), "message_id", Some(text(MESSAGE))).await
            => [SequenceUniqueness, IdempotencySequenceConsistency];
        a_message_at_sequence_0_is_found:
            |world| {
                let item = world.store.db().get(&world.message(2)).await.unwrap().unwrap();
                let item = item.into_iter().filter(|(name, _)| name != "sequence").collect();
                world.server.put(world.message(0), item).await
            }
            => [IdempotencySequenceConsistency, NoZeroSequence];
        a_forgotten_send_is_found: |world| world.lose(world.send(0)).await => [IdempotencySequenceConsistency];
        a_send_key_of_another_message_is_found:
            |world| world.set(world.send(0), "sequence", Some(number(3))).await
            => [SequenceUniqueness, IdempotencySequenceConsistency];
        a_send_key_above_the_counter_is_found:
            |world| world.set(world.send(0), "sequence", Some(number(9))).await
            => [CounterLowerBound, IdempotencySequenceConsistency];
        a_send_key_that_stays_for_ever_is_found:
            |world| world.set(world.send(0), TTL, None).await => [TtlBoundedTables];
        a_watermark_above_the_counter_is_found:
            |world| {
                let marks = Watermarks { delivered: Sequence(6), read: Sequence(2) };
                world.server.put(world.state(), watermarks_item(marks)).await
            }
            => [WatermarkBoundedByHead];
        read_above_delivered_is_found:
            |world| {
                let marks = Watermarks { delivered: Sequence(2), read: Sequence(3) };
                world.server.put(world.state(), watermarks_item(marks)).await
            }
            => [ReadImpliesDelivered];
        a_chat_that_its_member_does_not_find_is_found: |world| world.lose(world.state()).await
            => [DeliveryWatermarkMonotonic, NoSilentLoss];
        a_member_whom_nobody_removed_is_found: |world| world.lose(world.place(world.people.member)).await
            => [GroupSizeBounded, OnlyMembersReceive];
        a_group_without_an_owner_is_found:
            |world| world.set(world.place(world.people.owner), "role", Some(text("admin"))).await
            => [OwnerAlwaysExists];
        a_count_that_is_not_that_of_the_rows_is_found:
            |world| world.set(Key::one(Table::Chats, world.people.group), "member_count", Some(number(7))).await
            => [GroupSizeBounded];
        a_pair_that_leads_to_a_group_is_found:
            |world| world.set(world.pair(), "chat_id", Some(text(world.people.group))).await
            => [DirectChatUniqueness];
        a_forgotten_pair_is_found: |world| world.lose(world.pair()).await => [DirectChatUniqueness];
        a_session_that_never_ends_is_found: |world| world.set(world.session(), TTL, None).await => [TtlBoundedTables];
        a_session_that_cannot_be_read_is_found:
            |world| world.set(world.session(), "user_id", Some(number(1))).await => [DynamodbIsAuthoritative];
        a_message_that_nobody_will_purge_is_found:
            |world| world.set(message_key(world.people.direct, Sequence(2)), TTL, None).await => [TtlBoundedTables];
        an_item_near_the_bound_is_no_more_than_the_bound:
            |world| {
                let key = Key::of(Table::Contacts, world.people.owner, world.people.member);
                world.server.put(key.clone(), item([("padding", Some(text("x".repeat(390 * 1024))))])).await;
                let found = world.store.db().get(&key).await.unwrap().unwrap();
                assert!((390 * 1024..ITEM_BYTES_MAX).contains(&item_bytes(&found)));
                world.lose(world.send(0)).await
            }
            => [IdempotencySequenceConsistency];
        what_waits_for_the_log_for_too_long_is_found:
            |world| {
                let Peopled { group, owner, .. } = world.people;
                let old = SystemClock.now().minus(Duration::from_secs(60));
                let late = ports::NewMessage { created_at: old, ..message(group, owner) };
                world.store.append(vec![late]).await.unwrap()
            }
            => [PublishedEventually];
        what_is_published_without_its_event_is_found:
            |world| {
                let Peopled { group, owner, .. } = world.people;
                world.store.append(vec![message(group, owner)]).await.unwrap();
                world.store.published(group, Sequence(6)).await.unwrap()
            }
            => [PublishedEventually];
        events_out_of_order_are_found:
            |world| {
                let Peopled { group, owner, .. } = world.people;
                world.store.append(vec![message(group, owner), message(group, owner)]).await.unwrap();
                let mut events = world.store.unpublished(group).await.unwrap();
                events.reverse();
                world.log.publish(&events).await.unwrap();
                world.store.published(group, Sequence(7)).await.unwrap()
            }
            => [OrderingPreserved];
    }

    /// An id that no message of these tests has.
    const MESSAGE: &str = "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[tokio::test]
    async fn an_event_again_behind_later_ones_is_no_harm() {
        let world = World::new().await;
        let events: Vec<_> = world.log.records().into_iter().map(|record| record.event).collect();
        world.log.publish(&events).await.unwrap();
        assert_eq!(violated(&world.audit(&AtOnce, Duration::ZERO).await), []);
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
        let until = Instant::now() + Duration::from_secs(4);
        let Peopled { group, owner, .. } = world.people;
        let (sending, churning) = (world.server.store(), world.server.store());
        let sender = tokio::spawn(async move {
            while Instant::now() < until {
                sending.append((0..5).map(|_| message(group, owner)).collect()).await.unwrap();
            }
        });
        let churn = tokio::spawn(async move {
            while Instant::now() < until {
                let user_id = RandomIds.ulid().into();
                let add = ChatCommand::AddMember { user_id, role: Role::Member };
                churning.apply(group, owner, add, SystemClock.now()).await.unwrap().unwrap();
                let remove = ChatCommand::RemoveMember { user_id };
                churning.apply(group, owner, remove, SystemClock.now()).await.unwrap().unwrap();
            }
        });
        let mut audits = 0;
        while Instant::now() < until {
            world.publish().await;
            let findings = world.audit(&Patient, Duration::from_secs(600)).await;
            assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
            audits += 1;
        }
        assert!(audits > 0);
        sender.await.unwrap();
        churn.await.unwrap();
    }

    #[test]
    fn a_bookmark_is_the_key_that_it_was_made_from() {
        for key in
            [Key::one(Table::Chats, "a:b c"), Key::of(Table::Messages, "chat", 7), Key::of(Table::Requests, "é", "b:1")]
        {
            assert_eq!(key_of(key.table, &bookmark(&key)).unwrap(), key);
        }
        for text in ["", "x", "3:a", "1:é"] {
            assert!(key_of(Table::Chats, text).is_err(), "{text}");
        }
    }
}
