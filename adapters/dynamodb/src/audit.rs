//! Exposes every item of every table to audits. It scans whole tables, which no request does. The auditor's policy
//! allows it. Of the roles, only `api` may scan, and only the table of chats: the retention of the service walks it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use domain::{ChatId, ChatType, DirectPair, EventBody, Message, Sequence, Timestamp, UserId};
use ports::{
    AUDIT_MEMBERS_MAX, AuditPage, AuditSource, AuditedChatRows, AuditedChatState, AuditedRow, End, IndexedLocation,
    ListingRows, ListingState, MemberRows, MessageRows, PageBookmark, PairRows, ReactionCounts, SendKeyRows, SentEntry,
    StoreError, StoredEntry, UpdateRows, count_reactions,
};

use crate::DynamoStore;
use crate::bookmark::strange;
use crate::chats::{pair_key, read_chat, read_member, read_pair};
use crate::commit::{key_of_send, read_receipt, read_send};
use crate::db::{Bound, PartitionQuery, ScanFreshness};
use crate::expiry::{due_beside, expiration_key, read_expiration};
use crate::item::{DynamoItem, ItemKey, ItemReader, item_bytes, number};
use crate::locations::{location_key, read_location};
use crate::messages::{counter_sequence, message_key, read_head, read_message};
use crate::outbox::{DIRTY_SINCE, EVENT_TIME, events_of, read_event};
use crate::schema::{TTL, Table};
use crate::updates::{read_own, read_update, update_key};
use crate::watermarks::read_delivery_state;

/// Largest item that an audit accepts, in bytes: half of what DynamoDB accepts, so that it is reported before a write fails.
const ITEM_BYTES_MAX: usize = 400 * 1024 / 2;
/// How often a chat is read until no change of its members interferes.
const TRIES_MAX: usize = 10;
/// Limit of due expirations that are searched for those of one chat.
const DUE_LEN_MAX: usize = 1000;

/// The tables that other methods than [`AuditSource::others`] cover.
const NOT_OTHERS: [Table; 8] = [
    Table::Chats,
    Table::ChatMemberships,
    Table::Messages,
    Table::Updates,
    Table::ChatCounters,
    Table::IdempotencyKeys,
    Table::DeliveryState,
    Table::DirectChats,
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

    async fn chats(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError> {
        self.chat_ids_of(after, count, ScanFreshness::Strong).await
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError> {
        for _ in 1..TRIES_MAX {
            let before = self.db().get(&ItemKey::one(Table::Chats, chat_id)).await?;
            let rows = self.chat_rows(chat_id).await?;
            // Every change of members increments the version of their chat.
            if self.db().get(&ItemKey::one(Table::Chats, chat_id)).await? == before {
                return Ok(rows);
            }
        }
        self.chat_rows(chat_id).await
    }

    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError> {
        let query = PartitionQuery {
            bound: Some(Bound::Between(number(from.0), number(u64::MAX))),
            ..PartitionQuery::partition(Table::Messages, chat_id)
        };
        let items = self.db().query(&query, count).await?;
        let messages: Vec<_> = items.iter().map(read_message).collect();
        let sound = messages.iter().flatten();
        let locations = sound.clone().map(|message| location_key(message.message_id));
        let keys = sound.clone().map(send_key).chain(locations);
        let updates = sound.clone().map(|message| update_key(chat_id, message.sequence));
        let keys: Vec<ItemKey> = keys.chain(updates).chain(sound.clone().filter_map(expiration_key)).collect();
        let found: BTreeSet<ItemKey> = keys.iter().cloned().collect();
        let found: Vec<ItemKey> = found.into_iter().collect();
        let items_of = self.db().get_many(&found).await?;
        let at = |key: &ItemKey| {
            let n = found.binary_search(key).ok()?;
            items_of.get(n)?.as_ref()
        };
        let mut reactions = self.reactions_to(sound).await?;
        let mut rows = vec![];
        for (item, message) in items.iter().zip(messages) {
            let sequence = Sequence(ItemReader { table: Table::Messages, item }.number("sequence")?);
            let (mut send, mut end, mut id_leads_to) = (None, End::Lasting, IndexedLocation::Nowhere);
            let is_update = at(&update_key(chat_id, sequence)).is_some();
            if let Ok(message) = &message {
                send = at(&send_key(message)).and_then(|item| read_receipt(item).ok());
                id_leads_to = indexed_location(at(&location_key(message.message_id)));
                if let Some(expiration) = expiration_key(message) {
                    let is_timed = item.contains_key(TTL) && at(&expiration).is_some();
                    end = if is_timed { End::Timed } else { End::Missing };
                }
            }
            rows.push(MessageRows {
                sequence,
                message: AuditedRow { end, ..audited(Table::Messages, item, message) },
                id_leads_to,
                send_key: send,
                is_update,
                reactions: reactions.remove(&sequence),
            });
        }
        Ok(rows)
    }

    async fn updates(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<UpdateRows>, StoreError> {
        let query = PartitionQuery {
            bound: Some(Bound::Between(number(from.0), number(u64::MAX))),
            ..PartitionQuery::partition(Table::Updates, chat_id)
        };
        let items = self.db().query(&query, count).await?;
        let updates: Vec<_> = items.iter().map(read_update).collect();
        let sound = updates.iter().flatten();
        let targets = sound.clone().map(|update| message_key(chat_id, update.target));
        let sends = sound.map(|update| key_of_send(chat_id, update.user_id, update.client_message_id));
        // Read after the updates: a message is at or after the revision of each.
        let mut targets = self.db().get_many(&targets.collect::<Vec<_>>()).await?.into_iter();
        let mut sends = self.db().get_many(&sends.collect::<Vec<_>>()).await?.into_iter();
        let mut rows = vec![];
        for (item, update) in items.iter().zip(updates) {
            let sequence = Sequence(ItemReader { table: Table::Updates, item }.number("sequence")?);
            let (mut message, mut send_key) = (None, None);
            if update.is_ok() {
                message = targets.next().flatten().and_then(|item| read_message(&item).ok());
                send_key = sends.next().flatten().and_then(|item| read_receipt(&item).ok());
            }
            rows.push(UpdateRows { sequence, update: audited(Table::Updates, item, update), message, send_key });
        }
        Ok(rows)
    }

    async fn listings(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError> {
        let (items, next) = self.scan(Table::DeliveryState, after, count, ScanFreshness::Strong).await?;
        let keys: Vec<Result<(UserId, ChatId), StoreError>> = items.iter().map(read_membership_key).collect();
        let memberships =
            keys.iter().flatten().map(|(user_id, chat_id)| ItemKey::of(Table::ChatMemberships, chat_id, user_id));
        let members = self.db().get_many(&memberships.collect::<Vec<_>>()).await?;
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

    async fn pairs(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError> {
        let (items, next) = self.scan(Table::DirectChats, after, count, ScanFreshness::Strong).await?;
        let mut rows = vec![];
        for item in &items {
            let row = match read_pair(item) {
                Ok((pair, chat_id)) => {
                    let chat = self.db().get(&ItemKey::one(Table::Chats, chat_id)).await?;
                    let members =
                        self.db().query(&PartitionQuery::partition(Table::ChatMemberships, chat_id), 3).await?;
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

    async fn send_keys(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<SendKeyRows>, StoreError> {
        let (items, next) = self.scan(Table::IdempotencyKeys, after, count, ScanFreshness::Strong).await?;
        let now = self.clock().now().as_secs();
        // The service deletes items up to some days late. Expired items are ignored.
        let is_void = |item: &DynamoItem| {
            let end = ItemReader { table: Table::IdempotencyKeys, item }.maybe_number(TTL);
            end.is_ok_and(|end| end.is_some_and(|end| end <= now))
        };
        let items: Vec<DynamoItem> = items.into_iter().filter(|item| !is_void(item)).collect();
        let sends: Vec<_> = items.iter().map(read_send).collect();
        let locations = sends.iter().flatten().map(|send| (send.chat_id, send.receipt.sequence));
        let entries = self.entries(&locations.collect::<Vec<_>>()).await?;
        let heads = sends.iter().flatten().map(|send| ItemKey::one(Table::ChatCounters, send.chat_id));
        let heads = self.db().get_many(&heads.collect::<Vec<_>>()).await?;
        let mut found = entries.into_iter().zip(heads);
        let mut rows = vec![];
        for (item, send) in items.iter().zip(sends) {
            let row = send.map(|send| {
                let (entry, head) = found.next().unwrap_or_default();
                let entry = entry.and_then(|entry| match entry {
                    StoredItem::Message(item) => read_message(&item).as_ref().ok().map(SentEntry::from),
                    StoredItem::Update(item) => read_update(&item).as_ref().ok().map(SentEntry::from),
                });
                SendKeyRows {
                    chat_id: send.chat_id,
                    sender_id: send.sender_id,
                    client_message_id: send.client_message_id,
                    receipt: send.receipt,
                    entry,
                    head: head.and_then(|item| counter_sequence(&item).ok()),
                }
            });
            rows.push(audited(Table::IdempotencyKeys, item, row));
        }
        Ok(AuditPage { rows, next })
    }

    async fn others(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<()>, StoreError> {
        let others = || Table::ALL.into_iter().filter(|table| !NOT_OTHERS.contains(table));
        let (table, after) = match after {
            None => (Table::Users, None),
            Some(PageBookmark(text)) => {
                let (name, key) = text.split_once(' ').ok_or_else(|| strange(text))?;
                let table = others().find(|table| table.name() == name).ok_or_else(|| strange(text))?;
                (table, (!key.is_empty()).then(|| PageBookmark(key.to_owned())))
            }
        };
        let (items, next) = self.scan(table, after.as_ref(), count, ScanFreshness::Strong).await?;
        let rows = items.iter().map(|item| audited(table, item, table.check(item))).collect();
        let next = match next {
            Some(PageBookmark(key)) => Some(format!("{} {key}", table.name())),
            None => others().skip_while(|other| *other != table).nth(1).map(|next| format!("{} ", next.name())),
        };
        Ok(AuditPage { rows, next: next.map(PageBookmark) })
    }

    async fn stored(&self, locations: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredEntry>>, StoreError> {
        let stored = |item: StoredItem| {
            let entry = match item {
                StoredItem::Message(item) => read_message(&item).as_ref().ok().map(StoredEntry::from),
                StoredItem::Update(item) => read_update(&item).as_ref().ok().map(StoredEntry::from),
            };
            entry.unwrap_or(StoredEntry::UNREADABLE)
        };
        Ok(self.entries(locations).await?.into_iter().map(|item| item.map(stored)).collect())
    }

    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<AuditedChatState>, StoreError> {
        let keys = |table| chat_ids.iter().map(|chat_id| ItemKey::one(table, chat_id)).collect::<Vec<_>>();
        let chats = self.db().get_many(&keys(Table::Chats)).await?;
        let heads = self.db().get_many(&keys(Table::ChatCounters)).await?;
        let standing = |(chat, head): (Option<DynamoItem>, Option<DynamoItem>)| AuditedChatState {
            exists: chat.is_some(),
            head: head.and_then(|head| counter_sequence(&head).ok()),
        };
        Ok(chats.into_iter().zip(heads).map(standing).collect())
    }

    async fn passed_over(&self, chat_id: ChatId) -> Result<Vec<(Sequence, Sequence)>, StoreError> {
        self.ranges_passed_over(chat_id).await
    }

    async fn leaving(&self, chat_id: ChatId) -> Result<Vec<Sequence>, StoreError> {
        let due = self.db().query(&due_beside(chat_id, self.clock().now()), DUE_LEN_MAX).await?;
        let due = due.iter().filter_map(|item| read_expiration(item).ok());
        let mut leaving: Vec<_> = due.filter(|due| due.chat_id == chat_id).map(|due| due.sequence).collect();
        // Read after the expirations, because a purge moves a message from there to the outbox.
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
    /// The ids of all chats.
    pub(crate) async fn chat_ids_of(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
        freshness: ScanFreshness,
    ) -> Result<AuditPage<ChatId>, StoreError> {
        let (items, next) = self.scan(Table::Chats, after, count, freshness).await?;
        let rows = items
            .iter()
            .map(|item| audited(Table::Chats, item, ItemReader { table: Table::Chats, item }.parsed("chat_id")));
        Ok(AuditPage { rows: rows.collect(), next })
    }

    /// The items of the entries at these locations. A message, if a message and an update are there.
    async fn entries(&self, locations: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredItem>>, StoreError> {
        let keys: Vec<_> = locations.iter().map(|(chat_id, sequence)| message_key(*chat_id, *sequence)).collect();
        let messages = self.db().get_many(&keys).await?;
        let mut entries: Vec<_> = messages.into_iter().map(|item| item.map(StoredItem::Message)).collect();
        let missing: Vec<usize> = (0..entries.len()).filter(|n| entries[*n].is_none()).collect();
        let keys: Vec<_> = missing.iter().map(|n| update_key(locations[*n].0, locations[*n].1)).collect();
        for (n, item) in missing.into_iter().zip(self.db().get_many(&keys).await?) {
            entries[n] = item.map(StoredItem::Update);
        }
        Ok(entries)
    }

    /// Counts the reactions of the members on each of these messages of a chat that was updated, and did not change
    /// meanwhile. A busy message would otherwise differ from its count in every read.
    async fn reactions_to(
        &self,
        messages: impl Iterator<Item = &Message>,
    ) -> Result<BTreeMap<Sequence, ReactionCounts>, StoreError> {
        let updated: Vec<&Message> = messages.filter(|message| message.state.revision > Sequence::ZERO).collect();
        let mut counts = BTreeMap::new();
        for message in &updated {
            let query = PartitionQuery::partition(Table::Reactions, message.message_id);
            let (mut of_members, mut start) = (ReactionCounts::new(), None);
            loop {
                let (items, next) = self.db().page(&query, AUDIT_MEMBERS_MAX, start).await?;
                // An unreadable item is reported with the other tables.
                let members = items.iter().filter_map(|item| read_own(item).ok());
                members.for_each(|own| count_reactions(&mut of_members, own));
                start = next;
                if start.is_none() {
                    break;
                }
            }
            counts.insert(message.sequence, of_members);
        }
        let keys: Vec<_> = updated.iter().map(|message| message_key(message.chat_id, message.sequence)).collect();
        for (before, item) in updated.iter().zip(self.db().get_many(&keys).await?) {
            let now = item.and_then(|item| read_message(&item).ok());
            if now.is_none_or(|now| now.state.revision != before.state.revision) {
                counts.remove(&before.sequence);
            }
        }
        Ok(counts)
    }

    async fn chat_rows(&self, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError> {
        let Some(chat) = self.db().get(&ItemKey::one(Table::Chats, chat_id)).await? else { return Ok(None) };
        let query = PartitionQuery::partition(Table::ChatMemberships, chat_id);
        let memberships = self.db().query(&query, AUDIT_MEMBERS_MAX).await?;
        let user_ids: Vec<UserId> = memberships.iter().filter_map(|item| member_of(item).ok()).collect();
        let states = user_ids.iter().map(|user_id| ItemKey::of(Table::DeliveryState, user_id, chat_id));
        let states = self.db().get_many(&states.collect::<Vec<_>>()).await?;
        let members: Vec<_> =
            memberships.iter().filter_map(|item| Some((item, member_of(item).ok()?))).zip(states).collect();
        let members: Vec<MemberRows> = members
            .into_iter()
            .map(|((item, user_id), state)| MemberRows {
                user_id,
                member: audited(Table::ChatMemberships, item, read_member(item)),
                listing: if state.is_some() { ListingState::Same } else { ListingState::Missing },
                watermarks: state.map(|item| {
                    let watermarks = read_delivery_state(&item).map(|state| state.watermarks);
                    audited(Table::DeliveryState, &item, watermarks)
                }),
            })
            .collect();
        let chat = audited(Table::Chats, &chat, read_chat(&chat));
        let is_direct = chat.row.as_ref().is_ok_and(|chat| chat.chat_type == ChatType::Direct);
        let pair = match &members[..] {
            [one, other] if is_direct => DirectPair::new(one.user_id, other.user_id),
            _ => None,
        };
        let pair_leads_to = match pair {
            Some(pair) => self.db().get(&pair_key(pair)).await?.and_then(|item| Some(read_pair(&item).ok()?.1)),
            None => None,
        };
        let changes = self.db().query(&events_of(chat_id), 1).await?;
        let counter = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await?;
        let since = |table, item, name| ItemReader { table, item }.maybe_parsed::<Timestamp>(name).ok().flatten();
        let changed = changes.first().and_then(|item| since(Table::Outbox, item, EVENT_TIME));
        let dirty = counter.as_ref().and_then(|item| since(Table::ChatCounters, item, DIRTY_SINCE));
        let now = self.clock().now();
        let head = counter.map(|item| audited(Table::ChatCounters, &item, read_head(&item, now)));
        let waiting_since = changed.into_iter().chain(dirty).min();
        Ok(Some(AuditedChatRows { chat, members, pair_leads_to, head, waiting_since }))
    }
}

/// The item of an entry.
enum StoredItem {
    Message(DynamoItem),
    Update(DynamoItem),
}

/// Where the location of a message leads. A message of an earlier version has none, and is in the index of the service.
fn indexed_location(found: Option<&DynamoItem>) -> IndexedLocation {
    match found.map(read_location) {
        None => IndexedLocation::Indexed,
        Some(Ok((chat_id, sequence))) => IndexedLocation::To(chat_id, sequence),
        Some(Err(_)) => IndexedLocation::Nowhere,
    }
}

fn send_key(message: &Message) -> ItemKey {
    key_of_send(message.chat_id, message.sender_id, message.client_message_id)
}

fn member_of(item: &DynamoItem) -> Result<UserId, StoreError> {
    ItemReader { table: Table::ChatMemberships, item }.parsed("user_id")
}

fn read_membership_key(item: &DynamoItem) -> Result<(UserId, ChatId), StoreError> {
    let row = ItemReader { table: Table::DeliveryState, item };
    read_delivery_state(item)?;
    Ok((row.parsed("user_id")?, row.parsed("chat_id")?))
}

/// Builds the audit entry of an item.
fn audited<T>(table: Table, item: &DynamoItem, row: Result<T, StoreError>) -> AuditedRow<T> {
    let row = row.map_err(|failure| match failure {
        StoreError::Corrupt { source, .. } => source.to_string(),
        failure @ StoreError::Unavailable(_) => failure.to_string(),
    });
    AuditedRow { table: table.name(), key: table.item_name(item), bytes: item_bytes(item), end: table.end(item), row }
}

#[cfg(test)]
mod tests;
