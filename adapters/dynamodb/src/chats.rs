use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::limits::GROUP_MEMBERS_MAX;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatName, ChatRefusal, ChatType, DirectPair, Event, EventNumber, Invitation,
    Member, MemberChange, Role, Sequence, Timestamp, UserId, Watermarks, decide,
};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{
    ChatReader, ChatWriter, CreatedChat, InboxSelection, InboxSelector, InboxStart, NewDirectChat, NewGroup, StoreError,
};

use crate::DynamoStore;
use crate::blocks;
use crate::db::{self, CONCURRENCY_MAX, PartitionQuery, TRANSACTION_ITEMS_MAX};
use crate::invitations::{self, Consent};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, seconds, text};
use crate::messages::{CHANGES, count_value, counter_activity, counter_changes, counter_sequence, new_counter};
use crate::outbox::change_write;
use crate::schema::Table;
use crate::watermarks::delivery_state_item;
use crate::write::{AttributeChange, Condition, Write};

/// Limit of items in one transaction that opens a group, besides those of the chat itself.
const OPENING_ITEMS_MAX: usize = TRANSACTION_ITEMS_MAX - 8;
/// Limit of counter rows in memory while the positions of an inbox are read.
const INBOX_PART: usize = 1000;
/// Marks a row that was written before its chat; it becomes valid once the chat exists.
pub(crate) const OPENING: &str = "opening";

#[async_trait]
impl ChatReader for DynamoStore {
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError> {
        Ok(self.versioned(chat_id).await?.map(|(chat, _)| chat))
    }

    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError> {
        let keys: Vec<_> = chat_ids.iter().map(|chat_id| ItemKey::one(Table::Chats, chat_id)).collect();
        let items = self.db().get_many(&keys).await?;
        items.into_iter().map(|item| item.map(|item| read_chat(&item)).transpose()).collect()
    }

    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError> {
        let Some(item) = self.db().get(&ItemKey::of(Table::ChatMemberships, chat_id, user_id)).await? else {
            return Ok(None);
        };
        if item.contains_key(OPENING) && self.versioned(chat_id).await?.is_none() {
            return Ok(None);
        }
        read_member(&item).map(Some)
    }

    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError> {
        self.first_members_of(chat_id, GROUP_MEMBERS_MAX).await
    }

    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError> {
        let members = chat_ids.iter().copied().map(|chat_id| self.first_members_of(chat_id, count));
        stream::iter(members).buffered(CONCURRENCY_MAX).try_collect().await
    }

    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError> {
        let chat_ids = self.listed_chats(user_id).await?;
        let members = self.memberships_in(user_id, &chat_ids).await?;
        // A user who left between the two reads has no membership.
        Ok(chat_ids.into_iter().zip(members).filter_map(|(chat_id, member)| Some((chat_id, member?))).collect())
    }

    async fn memberships_in(&self, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<Option<Member>>, StoreError> {
        let keys: Vec<_> =
            chat_ids.iter().map(|chat_id| ItemKey::of(Table::ChatMemberships, chat_id, user_id)).collect();
        let rows = self.db().get_many(&keys).await?;
        let is_opening = |row: &DynamoItem| row.contains_key(OPENING);
        let opening = chat_ids.iter().zip(&rows).filter(|(_, row)| row.as_ref().is_some_and(is_opening));
        let opening: Vec<ChatId> = opening.map(|(chat_id, _)| *chat_id).collect();
        let there = self.chats(&opening).await?;
        let missing = opening.into_iter().zip(there).filter(|(_, chat)| chat.is_none()).map(|(chat_id, _)| chat_id);
        let missing: HashSet<ChatId> = missing.collect();
        let opened = chat_ids.iter().zip(rows).map(|(id, row)| row.filter(|_| !missing.contains(id)));
        opened.map(|row| row.map(|row| read_member(&row)).transpose()).collect()
    }

    async fn chat_count(&self, user_id: UserId, max: usize) -> Result<usize, StoreError> {
        let own =
            PartitionQuery { attributes: &["chat_id"], ..PartitionQuery::partition(Table::DeliveryState, user_id) };
        Ok(self.db().query(&own, max).await?.len())
    }

    async fn direct_chat(&self, pair: DirectPair) -> Result<Option<ChatId>, StoreError> {
        let item = self.db().get(&pair_key(pair)).await?;
        item.map(|item| ItemReader { table: Table::DirectChats, item: &item }.parsed("chat_id")).transpose()
    }

    async fn inbox_rows(&self, user_id: UserId) -> Result<usize, StoreError> {
        self.chat_count(user_id, usize::MAX).await
    }

    async fn inbox(&self, user_id: UserId, start: InboxStart, count: usize) -> Result<InboxSelection, StoreError> {
        let chat_ids = self.listed_chats(user_id).await?;
        let mut selector = InboxSelector::new(start, count);
        for part in chat_ids.chunks(INBOX_PART) {
            let keys: Vec<_> = part.iter().map(|chat_id| ItemKey::one(Table::ChatCounters, chat_id)).collect();
            let counters = self.db().get_many(&keys).await?;
            let activities = counters.iter().map(|counter| counter.as_ref().map(counter_activity).transpose());
            let activities: Vec<_> = activities.collect::<Result<_, _>>()?;
            let unknown = part.iter().zip(&activities).filter(|(_, activity)| activity.is_none());
            let unknown: Vec<ChatId> = unknown.map(|(chat_id, _)| *chat_id).collect();
            // The counter row is lost, or the chat is being created and does not exist yet.
            for chat in self.chats(&unknown).await?.into_iter().flatten() {
                selector.add(chat.created_at, chat.chat_id);
            }
            let known = part.iter().zip(activities).filter_map(|(chat_id, activity)| Some((*chat_id, activity?)));
            known.for_each(|(chat_id, activity)| selector.add(activity, chat_id));
        }
        Ok(selector.finish())
    }

    async fn blocked_chats(&self, chats: &[(ChatId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let key = |(chat_id, user_id): &(ChatId, UserId)| ItemKey::of(Table::ChatMemberships, chat_id, user_id);
        let rows = self.db().get_many(&chats.iter().map(key).collect::<Vec<_>>()).await?;
        Ok(rows.iter().map(|row| row.as_ref().and_then(blocks::block_of).is_some()).collect())
    }
}

#[async_trait]
impl ChatWriter for DynamoStore {
    async fn create_direct(&self, chat: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError> {
        let pair = pair_key(chat.pair);
        let block_keys = blocks::keys_of(chat.pair);
        let opening = chat.opening();
        let events = self.events(&opening, chat.created_at, Some(CountedHead::default()));
        db::undisturbed(|| async {
            if let Some(item) = self.db().get(&pair).await? {
                let chat_id = ItemReader { table: Table::DirectChats, item: &item }.parsed("chat_id")?;
                // The two are written together and never deleted.
                let (chat, _) = self.versioned(chat_id).await?.ok_or_else(|| missing_chat(chat_id))?;
                return Ok(Some(Ok(CreatedChat::Existing(chat))));
            }
            if let Some(refusal) = blocks::refusal(self.db().get_many(&block_keys).await?, &chat) {
                return Ok(Some(Err(refusal)));
            }
            let writes = || {
                let members = member_changes(&opening.members).map(|member| opening_writes(chat.chat_id, member, None));
                let mut writes: Vec<_> = members.flatten().collect();
                writes.extend(open_chat(&opening.chat, &events));
                writes.push(Write::create(pair.clone(), pair_item(chat.chat_id)));
                // A concurrent block requires that there is no chat, and this requires that there is no block, so one
                // of the two fails.
                writes.extend(block_keys.iter().cloned().map(Write::check_absent));
                writes
            };
            let transacted = self.db().transact(writes).await?;
            Ok(transacted.is_committed().then(|| {
                self.notify_relay(opening.chat.chat_id);
                Ok(CreatedChat::New(opening.chat.clone()))
            }))
        })
        .await
    }

    async fn create_group(&self, group: NewGroup) -> Result<CreatedChat, StoreError> {
        let group = &group;
        db::undisturbed(|| async move {
            if let Some((chat, _)) = self.versioned(group.chat_id).await? {
                return Ok(Some(CreatedChat::Existing(chat)));
            }
            let consents = self.consents(&group.members, group.created_by).await?;
            let asked: HashSet<UserId> = consents.iter().filter(|it| !it.is_given()).map(|it| it.user_id).collect();
            let opening = group.opening(|user_id| !asked.contains(&user_id));
            let events = self.events(&opening, group.created_at, Some(CountedHead::default()));
            let rows = self.opening_rows(&opening, &consents, group.created_at).await?;
            // Rows that do not fit into one transaction are written before it, and are invisible until the chat exists.
            // A crash in between leaves rows without effect, and a retry of the same request completes them.
            let mut parts = in_parts(rows);
            let last = parts.pop().unwrap_or_default();
            for part in &parts {
                if !self.db().transact(|| open_part(group.chat_id, part)).await?.is_committed() {
                    return Ok(None);
                }
            }
            let writes = || {
                let rows = last.iter().flat_map(|row| row.writes(group.chat_id, None));
                rows.chain(open_chat(&opening.chat, &events)).collect()
            };
            let transacted = self.db().transact(writes).await?;
            Ok(transacted.is_committed().then(|| {
                self.notify_relay(opening.chat.chat_id);
                CreatedChat::New(opening.chat.clone())
            }))
        })
        .await
    }

    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        let command = &command;
        db::undisturbed(|| async move {
            // Every change increments the version of its chat. So the rows that are read after it belong to that
            // version, or the conditional write fails.
            let Some((chat, version)) = self.versioned(chat_id).await? else {
                return Ok(Some(Err(ChatRefusal::ChatNotFound)));
            };
            let member_key = |user_id| ItemKey::of(Table::ChatMemberships, chat_id, user_id);
            let keys = [
                member_key(actor),
                member_key(command.target().unwrap_or(actor)),
                ItemKey::one(Table::ChatCounters, chat_id),
            ];
            let items = self.db().get_many(&keys).await?;
            let [member, target, counter] = <[_; 3]>::try_from(items).expect("an answer for each key");
            let is_update = matches!(command, ChatCommand::Update(_));
            let block = member.as_ref().filter(|_| is_update).and_then(blocks::block_of);
            let member = member.map(|item| read_member(&item)).transpose()?;
            let target = target.filter(|_| command.target().is_some()).map(|item| read_member(&item)).transpose()?;
            let change = match decide(&chat, member.as_ref(), target.as_ref(), command, now) {
                Ok(change) => change,
                Err(refusal) => return Ok(Some(Err(refusal))),
            };
            if let Some(block) = block {
                return Ok(Some(Err(block.of_settings())));
            }
            if let ChatCommand::AddMember { user_id, .. } = *command {
                let consent = self.consents(&[user_id], actor).await?.remove(0);
                return if consent.is_given() {
                    self.add(&chat, version, counter.as_ref(), change, &consent, now).await
                } else {
                    self.invite(&chat, version, Invitation::new(chat_id, user_id, actor, now), &consent).await
                };
            }
            // A concurrent block changes this row and not the version of the chat.
            let more = || match is_update && chat.chat_type == ChatType::Direct {
                true => vec![blocks::unless_blocked(Write::check(keys[0].clone()))],
                false => vec![],
            };
            let is_committed = self.rewrite(&chat, version, counter.as_ref(), &change, now, more).await?;
            Ok(is_committed.then_some(Ok(change)))
        })
        .await
    }
}

impl DynamoStore {
    /// A chat and its version.
    pub(crate) async fn versioned(&self, chat_id: ChatId) -> Result<Option<(Chat, u64)>, StoreError> {
        let Some(item) = self.db().get(&ItemKey::one(Table::Chats, chat_id)).await? else { return Ok(None) };
        let version = ItemReader { table: Table::Chats, item: &item }.number("version")?;
        Ok(Some((read_chat(&item)?, version)))
    }

    /// Writes a decided change if the chat still has the version that it was decided from, together with `more`. Returns
    /// whether it was committed.
    pub(crate) async fn rewrite(
        &self,
        before: &Chat,
        version: u64,
        counter: Option<&DynamoItem>,
        change: &ChatChange,
        now: Timestamp,
        more: impl Fn() -> Vec<Write>,
    ) -> Result<bool, StoreError> {
        let counted = counter.map(CountedHead::read).transpose()?;
        let head = match counted {
            Some(counted) => counted.sequence,
            None => self.last_sequence(before.chat_id).await?,
        };
        let events = self.events(change, now, counted);
        let rewrite = Rewrite { before, version, head, counted, change };
        let writes = || rewrite.writes(&events).into_iter().chain(more()).collect();
        let is_committed = self.db().transact(writes).await?.is_committed();
        if is_committed && !events.is_empty() {
            // The cached counter is stale, so the next commit of messages would fail once.
            self.counters().remove(&before.chat_id);
            self.notify_relay(before.chat_id);
        }
        Ok(is_committed)
    }

    /// Adds a member who consents. It deletes their invitation; a concurrent one requires the version of the chat.
    async fn add(
        &self,
        chat: &Chat,
        version: u64,
        counter: Option<&DynamoItem>,
        change: ChatChange,
        consent: &Consent,
        now: Timestamp,
    ) -> Result<Option<Result<ChatChange, ChatRefusal>>, StoreError> {
        let [of_user, _] = invitations::keys_of(chat.chat_id, consent.user_id);
        let is_invited = self.db().get_many(&[of_user]).await?.iter().any(Option::is_some);
        let more = || {
            let ended = is_invited.then(|| invitations::forget(chat.chat_id, consent.user_id));
            consent.checks().into_iter().chain(ended.into_iter().flatten()).collect()
        };
        let is_committed = self.rewrite(chat, version, counter, &change, now, more).await?;
        Ok(is_committed.then_some(Ok(change)))
    }

    /// Invites a user who does not consent to be added.
    async fn invite(
        &self,
        chat: &Chat,
        version: u64,
        invitation: Invitation,
        consent: &Consent,
    ) -> Result<Option<Result<ChatChange, ChatRefusal>>, StoreError> {
        let (chat_id, user_id, now) = (chat.chat_id, invitation.user_id, invitation.created_at);
        if self.has_max_invitations(chat_id, user_id, now).await? {
            return Ok(Some(Err(ChatRefusal::TooManyInvitations)));
        }
        let stored = self.invitations_of(user_id).await?;
        let invited = Ok(ChatChange::invitation(chat, invitation));
        if !invitation.is_kept(&stored, now) {
            return Ok(Some(invited));
        }
        let writes = || {
            let same = Condition::Equals("version", number(version));
            let mut writes = vec![Write::check(ItemKey::one(Table::Chats, chat_id)).when(same)];
            writes.extend(invitations::invite(&invitation, &stored));
            writes.extend(consent.checks());
            writes
        };
        Ok(self.db().transact(writes).await?.is_committed().then_some(invited))
    }

    /// The users of a group that is being created: its members, and the invited users.
    async fn opening_rows<'a>(
        &self,
        opening: &'a ChatChange,
        consents: &'a [Consent],
        now: Timestamp,
    ) -> Result<Vec<OpeningRow<'a>>, StoreError> {
        let consents: HashMap<UserId, &Consent> = consents.iter().map(|consent| (consent.user_id, consent)).collect();
        let consent = |user_id: UserId| consents.get(&user_id).copied();
        let members = member_changes(&opening.members);
        let mut rows: Vec<_> = members
            .map(|member| OpeningRow { user: OpeningUser::Member(member), consent: consent(member.user_id) })
            .collect();
        let user_ids: Vec<UserId> = opening.invitations.iter().map(|invitation| invitation.user_id).collect();
        let stored = user_ids.into_iter().map(|user_id| self.invitations_of(user_id));
        let stored: Vec<_> = stream::iter(stored).buffered(CONCURRENCY_MAX).try_collect().await?;
        for (invitation, stored) in opening.invitations.iter().zip(stored) {
            let stored = invitation.is_kept(&stored, now).then_some(stored);
            let consent = consent(invitation.user_id);
            rows.push(OpeningRow { user: OpeningUser::Invited { invitation, stored }, consent });
        }
        Ok(rows)
    }

    async fn first_members_of(&self, chat_id: ChatId, count: usize) -> Result<Vec<Member>, StoreError> {
        let query = PartitionQuery::partition(Table::ChatMemberships, chat_id);
        let mut items = self.db().query(&query, count).await?;
        if items.iter().any(|item| item.contains_key(OPENING)) {
            if self.versioned(chat_id).await?.is_none() {
                return Ok(vec![]);
            }
            // The chat may have been created between the two reads; by now all its members are written.
            items = self.db().query(&query, count).await?;
        }
        items.iter().map(read_member).collect()
    }

    /// The chats of a user, including those that are being created.
    async fn listed_chats(&self, user_id: UserId) -> Result<Vec<ChatId>, StoreError> {
        let own =
            PartitionQuery { attributes: &["chat_id"], ..PartitionQuery::partition(Table::DeliveryState, user_id) };
        let items = self.db().query(&own, usize::MAX).await?;
        let chat_id = |item: &DynamoItem| ItemReader { table: Table::DeliveryState, item }.parsed("chat_id");
        items.iter().map(chat_id).collect()
    }

    /// The events of a change, with new ids, numbered after what the counter row has counted. A chat that has lost the
    /// row has no numbers until it is restored.
    fn events(&self, change: &ChatChange, event_time: Timestamp, counted: Option<CountedHead>) -> Vec<Event> {
        let event = |(body, nth): (&domain::EventBody, u64)| Event {
            event_id: self.ids().ulid().into(),
            event_time,
            event_number: counted.map(|counted| EventNumber::at(counted.sequence, counted.changes + nth)),
            body: body.clone(),
        };
        change.events.iter().zip(1..).map(event).collect()
    }
}

/// The part of a counter row that numbers events.
#[derive(Clone, Copy, Default)]
struct CountedHead {
    sequence: Sequence,
    changes: u64,
}

impl CountedHead {
    fn read(counter: &DynamoItem) -> Result<Self, StoreError> {
        Ok(Self { sequence: counter_sequence(counter)?, changes: counter_changes(counter)? })
    }
}

/// A decided change of a chat, and the state that it was decided from.
struct Rewrite<'a> {
    before: &'a Chat,
    version: u64,
    head: Sequence,
    /// `None` if the counter row is lost.
    counted: Option<CountedHead>,
    change: &'a ChatChange,
}

impl Rewrite<'_> {
    fn writes(&self, events: &[Event]) -> Vec<Write> {
        let (chat, next) = (&self.change.chat, self.version + 1);
        let mut writes = vec![
            Write::put(ItemKey::one(Table::Chats, chat.chat_id), chat_item(chat, next))
                .when(Condition::Equals("version", number(self.version))),
        ];
        // A lost counter row is not recreated: a new one would start at 0 and repeat sequences.
        writes.extend(self.counted.filter(|_| !events.is_empty()).map(|counted| self.count(counted, events)));
        for member in &self.change.members {
            let member_key = |user_id| ItemKey::of(Table::ChatMemberships, chat.chat_id, user_id);
            let state = |user_id| ItemKey::of(Table::DeliveryState, user_id, chat.chat_id);
            match member {
                MemberChange::Added(member) => {
                    writes.push(Write::create(member_key(member.user_id), member_item(member, None)));
                    writes.push(Write::put(
                        state(member.user_id),
                        delivery_state_item(Watermarks::at(self.head), member.joined_at),
                    ));
                }
                MemberChange::Updated(member) => {
                    writes.push(Write::update(member_key(member.user_id), updated_member(member)).if_there());
                }
                MemberChange::Removed(user_id) => {
                    writes.push(Write::delete(member_key(*user_id)).if_there());
                    writes.push(Write::delete(state(*user_id)));
                }
            }
        }
        writes.extend(events.iter().enumerate().filter_map(|(n, event)| change_write(event, next, n)));
        writes
    }

    /// Counts the events in the counter row, and copies the message TTL to it. No message and no other event may have been
    /// committed since the row was read: the events have the numbers after it, and a new member starts at its head.
    fn count(&self, counted: CountedHead, events: &[Event]) -> Write {
        let chat = &self.change.chat;
        let mut changes = vec![AttributeChange::Set(CHANGES, count_value(counted.changes + events.len() as u64))];
        if chat.message_ttl != self.before.message_ttl {
            changes.push(AttributeChange::Set("message_ttl", chat.message_ttl.map(seconds)));
        }
        Write::update(ItemKey::one(Table::ChatCounters, chat.chat_id), changes)
            .when(Condition::Equals("sequence_counter", number(counted.sequence.0)))
            .when(Condition::is(CHANGES, count_value(counted.changes)))
    }
}

/// A user of a group that is being created.
struct OpeningRow<'a> {
    user: OpeningUser<'a>,
    /// Absent for the creator.
    consent: Option<&'a Consent>,
}

enum OpeningUser<'a> {
    Member(&'a Member),
    /// The invitation, and the stored ones of the user, if it is kept beside them.
    Invited {
        invitation: &'a Invitation,
        stored: Option<Vec<Invitation>>,
    },
}

impl OpeningRow<'_> {
    /// The consent is required in the transaction that writes the membership.
    fn writes(&self, chat_id: ChatId, opening: Option<&'static str>) -> Vec<Write> {
        let mut writes = match &self.user {
            OpeningUser::Member(member) => opening_writes(chat_id, member, opening).into(),
            OpeningUser::Invited { invitation, stored } => {
                // An earlier attempt may have written a membership, before the user changed their mind.
                let mut writes = close_place(chat_id, invitation.user_id);
                writes.extend(stored.iter().flat_map(|stored| invitations::invite(invitation, stored)));
                writes
            }
        };
        writes.extend(self.consent.iter().flat_map(|consent| consent.checks()));
        writes
    }
}

/// Distributes users over transactions.
fn in_parts(rows: Vec<OpeningRow<'_>>) -> Vec<Vec<OpeningRow<'_>>> {
    let (mut parts, mut room) = (vec![], 0);
    for row in rows {
        // Only the number of writes matters.
        let len = row.writes(ChatId::from_bytes([0; 16]), None).len();
        if len > room {
            parts.push(vec![]);
            room = OPENING_ITEMS_MAX;
        }
        room -= len;
        parts.last_mut().expect("a part was added").push(row);
    }
    parts
}

/// Deletes a membership that an earlier attempt may have written.
fn close_place(chat_id: ChatId, user_id: UserId) -> Vec<Write> {
    let member_key = ItemKey::of(Table::ChatMemberships, chat_id, user_id);
    let state = ItemKey::of(Table::DeliveryState, user_id, chat_id);
    [member_key, state].map(Write::delete).into()
}

/// The membership of a member in a chat that is being created, and the member's watermarks.
fn opening_writes(chat_id: ChatId, member: &Member, opening: Option<&'static str>) -> [Write; 2] {
    let member_key = ItemKey::of(Table::ChatMemberships, chat_id, member.user_id);
    let state = ItemKey::of(Table::DeliveryState, member.user_id, chat_id);
    [
        Write::put(member_key, member_item(member, opening)),
        Write::put(state, delivery_state_item(Watermarks::at(Sequence::ZERO), member.joined_at)),
    ]
}

/// Users of a group that is being created. They require that the chat does not exist yet: a late attempt must not
/// restore a member who was removed since.
fn open_part(chat_id: ChatId, rows: &[OpeningRow<'_>]) -> Vec<Write> {
    let rows = rows.iter().flat_map(|row| row.writes(chat_id, Some(OPENING)));
    rows.chain([Write::check_absent(ItemKey::one(Table::Chats, chat_id))]).collect()
}

/// The chat, its counter row at 0, and its events.
fn open_chat(chat: &Chat, events: &[Event]) -> Vec<Write> {
    let mut writes = vec![
        Write::create(ItemKey::one(Table::Chats, chat.chat_id), chat_item(chat, 1)),
        Write::create(ItemKey::one(Table::ChatCounters, chat.chat_id), new_counter(chat, events.len() as u64)),
    ];
    writes.extend(events.iter().enumerate().filter_map(|(n, event)| change_write(event, 1, n)));
    writes
}

fn member_changes(members: &[MemberChange]) -> impl Iterator<Item = &Member> {
    members.iter().filter_map(|change| match change {
        MemberChange::Added(member) | MemberChange::Updated(member) => Some(member),
        MemberChange::Removed(_) => None,
    })
}

pub(crate) fn pair_key(pair: DirectPair) -> ItemKey {
    let [one, other] = pair.users();
    ItemKey::one(Table::DirectChats, format_args!("{one}#{other}"))
}

pub(crate) fn pair_item(chat_id: ChatId) -> DynamoItem {
    item([("chat_id", Some(text(chat_id)))])
}

/// The pair of an item, and its chat.
pub(crate) fn read_pair(item: &DynamoItem) -> Result<(DirectPair, ChatId), StoreError> {
    let row = ItemReader { table: Table::DirectChats, item };
    let (one, other) = row.text("pair")?.split_once('#').unwrap_or_default();
    let pair = one.parse().ok().zip(other.parse().ok()).and_then(|(one, other)| DirectPair::new(one, other));
    Ok((pair.ok_or_else(|| row.unreadable("its key is not a pair of users"))?, row.parsed("chat_id")?))
}

fn missing_chat(chat_id: ChatId) -> StoreError {
    let source = format!("the direct chat `{chat_id}` is not in `chats`").into();
    StoreError::Corrupt { table: Table::DirectChats.name(), source }
}

pub(crate) fn chat_item(chat: &Chat, version: u64) -> DynamoItem {
    item([
        ("chat_type", Some(text(chat_type_text(chat.chat_type)))),
        ("name", chat.name.as_ref().map(|name| text(name.as_str()))),
        ("created_by", Some(text(chat.created_by))),
        ("created_at", Some(text(chat.created_at))),
        ("updated_at", Some(text(chat.updated_at))),
        ("member_count", Some(number(chat.member_count.into()))),
        ("message_ttl", chat.message_ttl.map(seconds)),
        ("version", Some(number(version))),
    ])
}

pub(crate) fn read_chat(item: &DynamoItem) -> Result<Chat, StoreError> {
    let row = ItemReader { table: Table::Chats, item };
    let name = row.maybe_text("name")?.map(|name| ChatName::from_stored(name.to_owned())).transpose();
    Ok(Chat {
        chat_id: row.parsed("chat_id")?,
        chat_type: read_chat_type(row)?,
        name: name.map_err(|error| row.unreadable(error))?,
        created_by: row.parsed("created_by")?,
        created_at: row.parsed("created_at")?,
        updated_at: row.parsed("updated_at")?,
        member_count: row.count("member_count")?,
        message_ttl: row.maybe_life("message_ttl")?,
    })
}

pub(crate) fn member_item(member: &Member, opening: Option<&'static str>) -> DynamoItem {
    let mut item = item([
        ("role", Some(text(role_text(member.role)))),
        ("joined_at", Some(text(member.joined_at))),
        ("muted_until", member.muted_until.map(text)),
    ]);
    item.extend(opening.map(|name| (name.to_owned(), AttributeValue::Bool(true))));
    item
}

/// The attributes of an existing member that change. Other attributes, such as block marks, stay.
fn updated_member(member: &Member) -> Vec<AttributeChange> {
    vec![
        AttributeChange::Set("role", Some(text(role_text(member.role)))),
        AttributeChange::Set("muted_until", member.muted_until.map(text)),
        // The chat exists by now.
        AttributeChange::Set(OPENING, None),
    ]
}

pub(crate) fn read_member(item: &DynamoItem) -> Result<Member, StoreError> {
    let row = ItemReader { table: Table::ChatMemberships, item };
    Ok(Member {
        user_id: row.parsed("user_id")?,
        role: read_role(row)?,
        joined_at: row.parsed("joined_at")?,
        muted_until: row.maybe_parsed("muted_until")?,
    })
}

fn chat_type_text(chat_type: ChatType) -> &'static str {
    match chat_type {
        ChatType::Direct => "direct",
        ChatType::Group => "group",
    }
}

fn read_chat_type(row: ItemReader<'_>) -> Result<ChatType, StoreError> {
    match row.text("chat_type")? {
        "direct" => Ok(ChatType::Direct),
        "group" => Ok(ChatType::Group),
        other => Err(row.unreadable(format!("`{other}` is not a chat type"))),
    }
}

pub(crate) fn role_text(role: Role) -> &'static str {
    match role {
        Role::Member => "member",
        Role::Admin => "admin",
        Role::Owner => "owner",
    }
}

fn read_role(row: ItemReader<'_>) -> Result<Role, StoreError> {
    match row.text("role")? {
        "member" => Ok(Role::Member),
        "admin" => Ok(Role::Admin),
        "owner" => Ok(Role::Owner),
        other => Err(row.unreadable(format!("`{other}` is not a role"))),
    }
}

#[cfg(test)]
mod tests {
    use ports::WatermarkStore;

    use super::*;
    use crate::testing::DynamoServer;

    fn user(n: u16) -> UserId {
        let mut bytes = [7; 16];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        UserId::from_bytes(bytes)
    }

    fn group(members: u16) -> NewGroup {
        NewGroup {
            chat_id: ChatId::from_bytes([1; 16]),
            name: "team".to_owned().try_into().unwrap(),
            created_by: user(0),
            members: (1..=members).map(user).collect(),
            created_at: Timestamp::from_millis(7),
        }
    }

    #[tokio::test]
    async fn members_of_a_group_that_was_never_opened_are_none() {
        let server = DynamoServer::with_tables().await;
        let (store, group) = (server.store(), group(100));
        let member = Member::new(user(1), Role::Member, group.created_at);
        // The state after a crash in the middle of creating a large group.
        let half = store.db().transact(|| opening_writes(group.chat_id, &member, Some(OPENING)).into()).await.unwrap();
        assert!(half.is_committed());

        assert_eq!(store.members(group.chat_id).await.unwrap(), []);
        assert_eq!(store.first_members(&[group.chat_id], 3).await.unwrap(), [[]]);
        assert_eq!(store.member(group.chat_id, user(1)).await.unwrap(), None);
        assert_eq!(store.memberships(user(1)).await.unwrap(), []);
        let (kind, at) = (domain::WatermarkKind::Read, group.created_at);
        let advanced = store.advance(user(1), group.chat_id, kind, Sequence::ZERO, at).await.unwrap();
        assert_eq!(advanced, domain::Advance::ChatNotFound);

        // A retry of the same request completes it.
        assert!(matches!(store.create_group(group.clone()).await.unwrap(), CreatedChat::New(_)));
        let members = store.members(group.chat_id).await.unwrap();
        assert_eq!(
            members.iter().map(|member| member.user_id).collect::<Vec<_>>(),
            (0..=100).map(user).collect::<Vec<_>>()
        );
        assert_eq!(store.member(group.chat_id, user(1)).await.unwrap(), Some(member.clone()));
        assert_eq!(store.memberships(user(1)).await.unwrap(), [(group.chat_id, member)]);
    }

    #[tokio::test]
    async fn a_late_part_of_an_opening_brings_no_removed_member_back() {
        let server = DynamoServer::with_tables().await;
        let (store, group) = (server.store(), group(100));
        store.create_group(group.clone()).await.unwrap();
        let remove = ChatCommand::RemoveMember { user_id: user(1) };
        store.apply(group.chat_id, user(0), remove, Timestamp::from_millis(8)).await.unwrap().unwrap();
        // Another attempt checked for the chat before it existed, and writes its rows only now.
        let member = Member::new(user(1), Role::Member, group.created_at);
        let row = OpeningRow { user: OpeningUser::Member(&member), consent: None };
        let late = store.db().transact(|| open_part(group.chat_id, std::slice::from_ref(&row))).await.unwrap();
        assert!(!late.is_committed());
        assert_eq!(store.member(group.chat_id, user(1)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_change_decided_from_an_earlier_version_is_not_written() {
        let server = DynamoServer::with_tables().await;
        let (store, group) = (server.store(), group(1));
        store.create_group(group.clone()).await.unwrap();
        let (before, version) = store.versioned(group.chat_id).await.unwrap().unwrap();
        let member = Member::new(user(1), Role::Member, group.created_at);
        let promoted = Member { role: Role::Admin, ..member.clone() };
        let members = vec![MemberChange::Updated(promoted)];
        let change = ChatChange { chat: before.clone(), members, events: vec![], invitations: vec![] };

        let mute = ChatCommand::Mute { until: Some(Timestamp::MAX) };
        store.apply(group.chat_id, user(1), mute, Timestamp::from_millis(8)).await.unwrap().unwrap();
        let stale = Rewrite {
            before: &before,
            version,
            head: Sequence::ZERO,
            counted: Some(CountedHead::default()),
            change: &change,
        };
        assert!(!store.db().transact(|| stale.writes(&[])).await.unwrap().is_committed());
        let muted = Member { muted_until: Some(Timestamp::MAX), ..member };
        assert_eq!(store.member(group.chat_id, user(1)).await.unwrap(), Some(muted));
    }

    #[tokio::test]
    async fn a_chat_we_cannot_read_is_an_error_that_names_its_table() {
        let server = DynamoServer::with_tables().await;
        let chat_id = ChatId::from_bytes([1; 16]);
        server.put(ItemKey::one(Table::Chats, chat_id), item([("version", Some(number(1)))])).await;
        let error = server.store().chat(chat_id).await.unwrap_err();
        assert_eq!(error.to_string(), "a stored record of `chats` is unreadable");
    }
}
