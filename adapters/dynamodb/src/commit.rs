//! The commit of entries: allocation and persistence in one transaction (C1).
//!
//! One transaction moves the counter of a chat from n to n + k and writes k messages, k idempotency keys and the k
//! locations of the messages. Its conditions: the counter is n, the chat has not changed, no message or key exists
//! yet, and every sender is a member and not blocked. A caller has one commit of a chat in progress. So a condition
//! fails only if another process writes to the same chat, a send is a retry, or a sender is not a member or is blocked.
//! The items then show which.
//!
//! An update of a message is an entry like a message. The messages of a round's updates are read first, and the
//! transaction requires that they are unchanged. A round without updates reads nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use domain::limits::{CONTENT_BYTES_MAX, RETENTION};
use domain::{
    ChatId, ClientMessageId, ConnectionId, Event, EventNumber, Invariant, Message, MessageUpdate, Reaction, Role,
    Sequence, Timestamp, Ttl, UpdateAction, UpdateRefusal, UserId, apply_update,
};
use futures_util::future::try_join_all;
use ports::{
    AppendOutcome, Committed, ExportedSend, Head, MessageKey, NewEntry, NewUpdate, Receipt, SendRefusal, StoreError,
};

use crate::DynamoStore;
use crate::blocks;
use crate::chats::{read_member, role_text};
use crate::db::{Budget, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::expiry::{expiration_key, expiration_write};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, UPDATED_AT, bytes, item, number, seconds, text, ttl};
use crate::locations::location_write;
use crate::messages::{
    CHANGES, UPDATES_THROUGH, count_value, counter_changes, counter_sequence, head_changes, message_changes,
    message_item, message_key, read_head, read_message, sequence_changes,
};
use crate::outbox::dirty_mark;
use crate::schema::{TTL, Table};
use crate::updates::{REVISION, reactions_item, reactions_key, read_own, revision_value, update_item, update_key};
use crate::write::{AttributeChange, Condition, Write};

/// Most entries of one transaction: three items for each message, one for the counter and one for a sender. Expiring
/// messages need a fourth item, so fewer of them fit, as of updates.
pub const TRANSACTION_SENDS_MAX: usize = (TRANSACTION_ITEMS_MAX - 2) / 3;
/// How often a commit retries after another process has moved the counter.
const TRIES_MAX: u32 = 10;

// A transaction is limited to 4 MB. The maximum number of messages with the longest content fits, including their keys.
const _: () = assert!(TRANSACTION_SENDS_MAX * (CONTENT_BYTES_MAX + 2048) < 4_000_000);

/// The state of a chat that a commit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChatCounter {
    sequence: Sequence,
    message_ttl: Option<Ttl>,
    changes: u64,
}

impl ChatCounter {
    fn read(counter: &DynamoItem) -> Result<Self, StoreError> {
        let message_ttl = ItemReader { table: Table::ChatCounters, item: counter }.maybe_life("message_ttl")?;
        Ok(Self { sequence: counter_sequence(counter)?, message_ttl, changes: counter_changes(counter)? })
    }

    /// The event number of an entry that is committed on this counter.
    fn number_of(self, sequence: Sequence) -> EventNumber {
        EventNumber::at(sequence, self.changes)
    }
}

impl DynamoStore {
    /// Commits entries of one chat, decided in order, and records the outcome of each. A recorded outcome is final, even
    /// if a later part fails.
    pub(crate) async fn commit_entries(
        &self,
        chat_id: ChatId,
        entries: &[NewEntry],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        self.refuse_suspended(entries, outcomes).await?;
        let mut budget = Budget::new();
        let mut tries = 0;
        loop {
            if outcomes.iter().all(Option::is_some) {
                return Ok(());
            }
            let Some(counter) = self.counter(chat_id).await? else {
                let undecided: Vec<_> = (0..entries.len()).filter(|index| outcomes[*index].is_none()).collect();
                self.read_rows(chat_id, entries, &undecided, outcomes).await?;
                for outcome in &mut *outcomes {
                    outcome.get_or_insert(AppendOutcome::Refused(SendRefusal::CounterMissing));
                }
                continue;
            };
            let chosen = choose(entries, outcomes, counter.message_ttl);
            let Some(targets) = self.targets(chat_id, entries, &chosen, counter).await? else {
                self.counters().remove(&chat_id);
                continue;
            };
            if targets.counter != counter {
                // The cached counter was stale.
                self.counters().insert(chat_id, targets.counter);
                tries += 1;
                if tries == TRIES_MAX {
                    return Err(moved_too_often(chat_id));
                }
                continue;
            }
            let (round, refused) = CommitRound::plan(entries, &chosen, targets);
            if !refused.is_empty() {
                let doubtful: Vec<usize> = refused.iter().map(|(index, _)| *index).collect();
                // An update may be refused because it is committed already. Its key is read after its message.
                self.read_rows(chat_id, entries, &doubtful, outcomes).await?;
                for (index, refusal) in refused {
                    outcomes[index].get_or_insert(AppendOutcome::Refused(SendRefusal::Update(refusal)));
                }
            }
            if round.entries.is_empty() {
                continue;
            }
            match self.db().transact(|| round.writes(chat_id, entries)).await? {
                Transacted::Committed => {
                    self.counters().insert(chat_id, ChatCounter { sequence: round.head.sequence, ..counter });
                    let mut events = Vec::with_capacity(round.entries.len());
                    for entry in round.entries {
                        outcomes[entry.index] = Some(AppendOutcome::New(entry.receipt()));
                        let event_number = Some(counter.number_of(entry.sequence()));
                        let event = match entry.what {
                            PlacedEntry::Message(message) => {
                                Event::message_persisted(message, origin_of(&entries[entry.index]))
                            }
                            PlacedEntry::Update(update, message) => Event::message_updated(update, message),
                        };
                        events.push(Arc::new(event.numbered(event_number)));
                    }
                    self.queue().push(Committed { chat_id, messages: events });
                }
                Transacted::Cancelled(reasons) => match round.judge(&reasons) {
                    Cancellation::ReadRows(doubtful) => self.read_rows(chat_id, entries, &doubtful, outcomes).await?,
                    Cancellation::CounterMoved => {
                        self.counters().remove(&chat_id);
                        tries += 1;
                        if tries == TRIES_MAX {
                            return Err(moved_too_often(chat_id));
                        }
                        budget.pause("the counter was moved by other processes").await?;
                    }
                    Cancellation::CounterBehind => {
                        let source = format!("the counter of `{chat_id}` is behind its messages");
                        ports::violated(Invariant::SequenceMonotonicity, &source);
                        let source = source.into();
                        return Err(StoreError::Corrupt { table: Table::ChatCounters.name(), source });
                    }
                },
            }
        }
    }

    /// Refuses the entries of suspended users. Restrictions are cached, so that this usually takes no request.
    async fn refuse_suspended(
        &self,
        entries: &[NewEntry],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        let senders: HashSet<UserId> = entries.iter().map(NewEntry::sender_id).collect();
        let lookups = senders.into_iter().map(async |sender_id| Ok((sender_id, self.is_suspended(sender_id).await?)));
        let suspended: HashMap<UserId, bool> = try_join_all(lookups).await?.into_iter().collect();
        for (entry, outcome) in entries.iter().zip(outcomes) {
            if suspended[&entry.sender_id()] {
                *outcome = Some(AppendOutcome::Refused(SendRefusal::Suspended));
            }
        }
        Ok(())
    }

    /// The counter of a chat, possibly cached. If another process has moved it, the commit's condition fails, so a
    /// stale value is safe.
    async fn counter(&self, chat_id: ChatId) -> Result<Option<ChatCounter>, StoreError> {
        if let Some(counter) = self.counters().get(&chat_id) {
            return Ok(Some(counter));
        }
        let Some(item) = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? else { return Ok(None) };
        let counter = ChatCounter::read(&item)?;
        self.counters().insert(chat_id, counter);
        Ok(Some(counter))
    }

    /// Reads everything that the updates among the chosen entries depend on, and nothing if there are none. `None` if the
    /// counter row is missing. The transaction requires that none of it has changed.
    async fn targets(
        &self,
        chat_id: ChatId,
        entries: &[NewEntry],
        chosen: &[usize],
        counter: ChatCounter,
    ) -> Result<Option<UpdateTargets>, StoreError> {
        let updates: Vec<&NewUpdate> = chosen.iter().filter_map(|index| update_of(&entries[*index])).collect();
        if updates.is_empty() {
            return Ok(Some(UpdateTargets::none(counter)));
        }
        let mut keys = vec![ItemKey::one(Table::ChatCounters, chat_id)];
        keys.extend(updates.iter().map(|update| message_key(chat_id, update.target)));
        keys.extend(updates.iter().map(|update| ItemKey::of(Table::ChatMemberships, chat_id, update.user_id)));
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let Some(row) = found.next().flatten() else { return Ok(None) };
        let mut targets = UpdateTargets::none(ChatCounter::read(&row)?);
        // As it is stored, with the preview of an expired message.
        targets.head = read_head(&row, Timestamp::default())?;
        for item in found.by_ref().take(updates.len()).flatten() {
            let message = read_message(&item)?;
            targets.messages.insert(message.sequence, UpdatedMessage::new(message));
        }
        for item in found.flatten() {
            let member = read_member(&item)?;
            targets.roles.insert(member.user_id, member.role);
        }
        let reacts = |update: &&&NewUpdate| {
            matches!(update.action, UpdateAction::React(_) | UpdateAction::Unreact(_))
                && targets.messages.contains_key(&update.target)
        };
        let pairs: Vec<_> = updates.iter().filter(reacts).map(|update| (update.target, update.user_id)).collect();
        let own = |(target, user_id): &(Sequence, UserId)| {
            reactions_key(targets.messages[target].before.message_id, *user_id)
        };
        let keys: Vec<ItemKey> = pairs.iter().map(own).collect();
        if !keys.is_empty() {
            for ((target, user_id), item) in pairs.into_iter().zip(self.db().get_many(&keys).await?) {
                let own = item.as_ref().map_or(Ok(vec![]), read_own)?;
                if let Some(message) = targets.messages.get_mut(&target) {
                    message.own.insert(user_id, OwnReactions { before: own.clone(), after: own });
                }
            }
        }
        Ok(Some(targets))
    }

    /// Decides entries that are not new or not allowed, from the tables: membership first, then the key, then blocks. An
    /// entry that the tables no longer decide stays undecided.
    async fn read_rows(
        &self,
        chat_id: ChatId,
        entries: &[NewEntry],
        doubtful: &[usize],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        let mut keys = vec![ItemKey::one(Table::Chats, chat_id)];
        for index in doubtful {
            let entry = &entries[*index];
            keys.push(ItemKey::of(Table::ChatMemberships, chat_id, entry.sender_id()));
            keys.push(send_key(chat_id, entry));
        }
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let chat_exists = found.next().flatten().is_some();
        for index in doubtful {
            let (member, key) = (found.next().flatten(), found.next().flatten());
            outcomes[*index] = match (chat_exists, member, key) {
                (false, ..) => Some(AppendOutcome::Refused(SendRefusal::ChatNotFound)),
                (true, None, _) => Some(AppendOutcome::Refused(SendRefusal::NotAMember)),
                (true, Some(_), Some(key)) => Some(retried(&key, &entries[*index])?),
                (true, Some(member), None) => blocks::block_of(&member).map(AppendOutcome::Refused),
            };
        }
        Ok(())
    }
}

fn moved_too_often(chat_id: ChatId) -> StoreError {
    StoreError::unavailable(format!("the counter of `{chat_id}` was moved by other processes {TRIES_MAX} times"))
}

fn update_of(entry: &NewEntry) -> Option<&NewUpdate> {
    match entry {
        NewEntry::Update(update) => Some(update),
        NewEntry::Message(_) => None,
    }
}

/// The connection that gets no push of a message. An update is pushed to all.
fn origin_of(entry: &NewEntry) -> Option<ConnectionId> {
    match entry {
        NewEntry::Message(message) => message.origin_connection_id,
        NewEntry::Update(_) => None,
    }
}

/// The rows that the updates of a round depend on.
struct UpdateTargets {
    counter: ChatCounter,
    head: Head,
    messages: BTreeMap<Sequence, UpdatedMessage>,
    roles: HashMap<UserId, Role>,
}

impl UpdateTargets {
    /// The rows of a round without updates, which needs no head: its last message becomes the one of the head.
    fn none(counter: ChatCounter) -> Self {
        let ChatCounter { sequence, message_ttl, changes } = counter;
        let head = Head { sequence, last_message: None, message_ttl, changes };
        Self { counter, head, messages: BTreeMap::new(), roles: HashMap::new() }
    }
}

/// A message as it was read, and after the updates of a round.
struct UpdatedMessage {
    before: Message,
    after: Message,
    /// The reactions of the members who react in this round.
    own: BTreeMap<UserId, OwnReactions>,
}

struct OwnReactions {
    before: Vec<Reaction>,
    after: Vec<Reaction>,
}

impl UpdatedMessage {
    fn new(message: Message) -> Self {
        Self { after: message.clone(), before: message, own: BTreeMap::new() }
    }

    fn is_updated(&self) -> bool {
        self.before.state.revision != self.after.state.revision
    }

    fn apply(&mut self, new: &NewUpdate, role: Role, sequence: Sequence) -> Result<(), UpdateRefusal> {
        let mut message = self.after.clone();
        let mut own = self.own.get(&new.user_id).map(|own| own.after.clone()).unwrap_or_default();
        apply_update(&mut message, &mut own, new.action.clone(), new.updater(role, sequence))?;
        self.after = message;
        if let Some(known) = self.own.get_mut(&new.user_id) {
            known.after = own;
        }
        Ok(())
    }

    /// The new state of the message, under the condition that nothing else has changed it.
    fn write(&self) -> Write {
        let Self { before, after, .. } = self;
        Write::update(message_key(before.chat_id, before.sequence), message_changes(after))
            .when(Condition::Equals("message_id", text(before.message_id)))
            .when(Condition::is(REVISION, revision_value(before.state.revision)))
            .when(Condition::is(EXPIRES_AT, before.expires_at.map(text)))
    }

    /// The other rows of the message. They need no condition: they change with its revision.
    fn other_writes(&self) -> Vec<Write> {
        let Self { before, after, own } = self;
        let mut writes = vec![];
        for (user_id, own) in own.iter().filter(|(_, own)| own.before != own.after) {
            let key = reactions_key(after.message_id, *user_id);
            writes.push(match own.after.is_empty() {
                true => Write::delete(key),
                false => Write::put(key, reactions_item(&MessageKey::from(after), &own.after)),
            });
        }
        if before.expires_at != after.expires_at {
            writes.push(location_write(after));
            writes.extend(expiration_key(before).map(Write::delete));
            writes.extend(expiration_write(after));
        } else if before.state.reactions.is_empty() && !after.state.reactions.is_empty() {
            // From now on the purge of the message deletes its reactions.
            writes.extend(expiration_write(after));
        }
        writes
    }
}

/// An entry of a round at its sequence.
struct RoundEntry {
    /// The index of the entry in the batch.
    index: usize,
    what: PlacedEntry,
}

enum PlacedEntry {
    Message(Message),
    /// The message as the update has left it, unless it is deleted.
    Update(MessageUpdate, Option<Message>),
}

impl RoundEntry {
    fn sequence(&self) -> Sequence {
        match &self.what {
            PlacedEntry::Message(message) => message.sequence,
            PlacedEntry::Update(update, _) => update.sequence,
        }
    }

    fn receipt(&self) -> Receipt {
        match &self.what {
            PlacedEntry::Message(message) => {
                let Message { message_id, sequence, created_at, .. } = *message;
                Receipt { message_id, sequence, created_at }
            }
            PlacedEntry::Update(update, _) => {
                let MessageUpdate { update_id, sequence, created_at, .. } = *update;
                Receipt { message_id: update_id, sequence, created_at }
            }
        }
    }

    fn message(&self) -> Option<&Message> {
        match &self.what {
            PlacedEntry::Message(message) => Some(message),
            PlacedEntry::Update(..) => None,
        }
    }
}

/// The entries that one transaction commits.
struct CommitRound {
    counter: ChatCounter,
    entries: Vec<RoundEntry>,
    /// The distinct authors, each with the role that an update depends on.
    senders: Vec<(UserId, Option<Role>)>,
    /// The messages that updates have changed.
    updated: Vec<UpdatedMessage>,
    /// The head after the round. The last message is absent if the round does not change it.
    head: Head,
    /// Whether the round changes the last message of the head.
    writes_last_message: bool,
}

/// Why a transaction was cancelled.
#[derive(Debug, PartialEq, Eq)]
enum Cancellation {
    /// These entries are not new, or not allowed.
    ReadRows(Vec<usize>),
    /// Another process has committed, or the chat, its members or an updated message have changed.
    CounterMoved,
    /// An entry exists above the counter.
    CounterBehind,
}

/// As many undecided entries as fit one transaction, from the first. A repetition of an entry in the same batch waits
/// for the next round, where it finds the key of the first.
fn choose(entries: &[NewEntry], outcomes: &[Option<AppendOutcome>], message_ttl: Option<Ttl>) -> Vec<usize> {
    let (mut chosen, mut items) = (vec![], 1);
    let mut seen: HashSet<(UserId, ClientMessageId)> = HashSet::new();
    let (mut senders, mut targets) = (HashSet::new(), HashSet::new());
    for (index, entry) in entries.iter().enumerate().filter(|(index, _)| outcomes[*index].is_none()) {
        if !seen.insert((entry.sender_id(), entry.client_message_id())) {
            continue;
        }
        items += usize::from(senders.insert(entry.sender_id()));
        items += match entry {
            NewEntry::Message(send) => 3 + usize::from(send.lifetime(message_ttl).is_some()),
            // Row and key, and once for each message: its row, location, and both of its expirations.
            NewEntry::Update(update) => {
                let reactions = matches!(update.action, UpdateAction::React(_) | UpdateAction::Unreact(_));
                2 + usize::from(reactions) + if targets.insert(update.target) { 4 } else { 0 }
            }
        };
        if items > TRANSACTION_ITEMS_MAX || chosen.len() == TRANSACTION_SENDS_MAX {
            break;
        }
        chosen.push(index);
    }
    chosen
}

impl CommitRound {
    /// Gives the chosen entries the sequences after the counter, and applies the updates. Also returns the updates that
    /// are refused. An update that depends on an entry of the round, and may be refused for it, waits for the next round
    /// with everything after it.
    fn plan(entries: &[NewEntry], chosen: &[usize], targets: UpdateTargets) -> (Self, Vec<(usize, UpdateRefusal)>) {
        let UpdateTargets { counter, head, mut messages, roles } = targets;
        let mut round =
            Self { counter, entries: vec![], senders: vec![], updated: vec![], head, writes_last_message: false };
        let mut refused = vec![];
        for index in chosen {
            let sequence = round.head.sequence.next();
            match &entries[*index] {
                NewEntry::Message(send) => {
                    let message = send.clone().at(sequence, counter.message_ttl);
                    round.head = Head::at(&message, counter.message_ttl, counter.changes);
                    round.writes_last_message = true;
                    round.place(*index, send.sender_id, None, PlacedEntry::Message(message));
                }
                NewEntry::Update(new) => {
                    let is_in_round = |entry: &RoundEntry| entry.message().is_some_and(|it| it.sequence == new.target);
                    if round.entries.iter().any(is_in_round) {
                        break;
                    }
                    let Some(target) = messages.get_mut(&new.target) else {
                        refused.push((*index, UpdateRefusal::MessageNotFound));
                        continue;
                    };
                    let role = roles.get(&new.user_id).copied().unwrap_or(Role::Member);
                    match target.apply(new, role, sequence) {
                        Ok(()) => {}
                        Err(_) if target.is_updated() => break,
                        Err(refusal) => {
                            refused.push((*index, refusal));
                            continue;
                        }
                    }
                    let message = &target.after;
                    let is_last =
                        round.head.last_message.as_ref().is_some_and(|it| it.message_id == message.message_id);
                    round.writes_last_message |= is_last;
                    round.head = round.head.clone().updated(sequence, message);
                    let left = (!message.is_expired(new.created_at)).then(|| message.clone());
                    let what = PlacedEntry::Update(new.at(sequence, message), left);
                    let role = matches!(new.action, UpdateAction::Delete).then_some(role);
                    round.place(*index, new.user_id, role, what);
                }
            }
        }
        round.updated = messages.into_values().filter(UpdatedMessage::is_updated).collect();
        (round, refused)
    }

    fn place(&mut self, index: usize, sender_id: UserId, role: Option<Role>, what: PlacedEntry) {
        self.entries.push(RoundEntry { index, what });
        match self.senders.iter_mut().find(|(known, _)| *known == sender_id) {
            Some((_, known)) => *known = known.or(role),
            None => self.senders.push((sender_id, role)),
        }
    }

    /// The counter, then key and row of each entry, then the membership of each author: [`judge`](Self::judge) reads the
    /// reasons in this order. Then the updated messages. The rest has no conditions.
    fn writes(&self, chat_id: ChatId, entries: &[NewEntry]) -> Vec<Write> {
        let mut writes = vec![self.move_counter(chat_id, entries)];
        for entry in &self.entries {
            let new = &entries[entry.index];
            writes.push(Write::create(send_key(chat_id, new), key_item(&entry.receipt(), &new.fingerprint())));
            let event_number = Some(self.counter.number_of(entry.sequence()));
            writes.push(match &entry.what {
                PlacedEntry::Message(message) => Write::create(
                    message_key(chat_id, message.sequence),
                    message_item(message, origin_of(new), event_number),
                ),
                PlacedEntry::Update(update, _) => {
                    Write::create(update_key(chat_id, update.sequence), update_item(update, event_number))
                }
            });
        }
        writes.extend(self.senders.iter().map(|(user_id, role)| {
            let member = blocks::unless_blocked(Write::check(ItemKey::of(Table::ChatMemberships, chat_id, user_id)));
            match role {
                Some(role) => member.when(Condition::Equals("role", text(role_text(*role)))),
                None => member,
            }
        }));
        writes.extend(self.updated.iter().map(UpdatedMessage::write));
        let messages = || self.entries.iter().filter_map(RoundEntry::message);
        writes.extend(messages().map(location_write));
        writes.extend(messages().filter_map(expiration_write));
        writes.extend(self.updated.iter().flat_map(UpdatedMessage::other_writes));
        writes
    }

    /// Moves the counter to the last entry and marks the chat for the relay.
    fn move_counter(&self, chat_id: ChatId, entries: &[NewEntry]) -> Write {
        let (first, last) = self.entries.first().zip(self.entries.last()).expect("a round has an entry");
        // The preview of a last message that this round does not change may be purged meanwhile.
        let mut changes =
            if self.writes_last_message { head_changes(&self.head) } else { sequence_changes(&self.head) };
        let updates = self.entries.iter().filter(|entry| entry.message().is_none());
        let last_update = updates.map(RoundEntry::sequence).next_back();
        changes.extend(last_update.map(|last| AttributeChange::Set(UPDATES_THROUGH, Some(number(last.0)))));
        changes.push(AttributeChange::Set(UPDATED_AT, Some(text(entries[last.index].created_at()))));
        changes.extend(dirty_mark(chat_id, entries[first.index].created_at()));
        let counter = self.counter;
        Write::update(ItemKey::one(Table::ChatCounters, chat_id), changes)
            .when(Condition::Equals("sequence_counter", number(counter.sequence.0)))
            .when(Condition::is("message_ttl", counter.message_ttl.map(seconds)))
            // The entries are numbered after these changes.
            .when(Condition::is(CHANGES, count_value(counter.changes)))
    }

    /// Derives why a transaction was cancelled. Single entries are checked first: a retry must be detected before the
    /// counter is considered, and the other entries are retried anyway.
    fn judge(&self, reasons: &[Reason]) -> Cancellation {
        let failed = |part: usize| reasons.get(part) == Some(&Reason::Condition);
        let doubtful: Vec<usize> =
            self.entries.iter().enumerate().filter(|(n, _)| failed(1 + 2 * n)).map(|(_, entry)| entry.index).collect();
        let senders_from = 1 + 2 * self.entries.len();
        let all_members = (0..self.senders.len()).all(|n| !failed(senders_from + n));
        let row_is_there = (0..self.entries.len()).any(|n| failed(2 + 2 * n));
        match (doubtful.is_empty(), all_members) {
            // The memberships decide which entries are affected; they are read together with the keys.
            (_, false) => Cancellation::ReadRows(self.entries.iter().map(|entry| entry.index).collect()),
            (false, true) => Cancellation::ReadRows(doubtful),
            (true, true) if row_is_there && !failed(0) => Cancellation::CounterBehind,
            (true, true) => Cancellation::CounterMoved,
        }
    }
}

fn send_key(chat_id: ChatId, entry: &NewEntry) -> ItemKey {
    key_of_send(chat_id, entry.sender_id(), entry.client_message_id())
}

/// The idempotency key of a send.
pub(crate) fn key_of_send(chat_id: ChatId, sender_id: UserId, client_message_id: ClientMessageId) -> ItemKey {
    let client_message_id = client_message_id.canonical();
    ItemKey::of(Table::IdempotencyKeys, chat_id, format_args!("{sender_id}#{client_message_id}"))
}

/// The stored form of a committed send.
pub(crate) fn key_item(receipt: &Receipt, fingerprint: &[u8; 16]) -> DynamoItem {
    item([
        ("message_id", Some(text(receipt.message_id))),
        ("sequence", Some(number(receipt.sequence.0))),
        ("created_at", Some(text(receipt.created_at))),
        ("fingerprint", Some(bytes(fingerprint))),
        (TTL, Some(ttl(receipt.created_at + RETENTION))),
    ])
}

/// The receipt that the sender got.
pub(crate) fn read_receipt(key: &DynamoItem) -> Result<Receipt, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item: key };
    Ok(Receipt {
        message_id: row.parsed("message_id")?,
        sequence: Sequence(row.number("sequence")?),
        created_at: row.parsed("created_at")?,
    })
}

/// A committed send.
pub(crate) fn read_send(item: &DynamoItem) -> Result<ExportedSend, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item };
    let (sender_id, send) = row.text("send_key")?.split_once('#').unwrap_or_default();
    let send: Option<(UserId, ClientMessageId)> = sender_id.parse().ok().zip(send.parse().ok());
    let (sender_id, client_message_id) = send.ok_or_else(|| row.unreadable("its key is not a send"))?;
    Ok(ExportedSend {
        chat_id: row.parsed("chat_id")?,
        sender_id,
        client_message_id,
        receipt: read_receipt(item)?,
        fingerprint: row.array("fingerprint")?,
    })
}

/// The outcome of an entry with an existing key.
fn retried(key: &DynamoItem, entry: &NewEntry) -> Result<AppendOutcome, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item: key };
    let receipt = read_receipt(key)?;
    let same = row.array("fingerprint")? == entry.fingerprint();
    Ok(if same { AppendOutcome::Duplicate(receipt) } else { AppendOutcome::Refused(SendRefusal::KeyReused) })
}

#[cfg(test)]
mod tests {
    use domain::{Body, ContentType, MessageId, Timestamp};
    use ports::NewMessage;

    use super::*;

    fn send(sender: u8, client: u8) -> NewEntry {
        NewEntry::Message(NewMessage {
            chat_id: ChatId::from_bytes([1; 16]),
            sender_id: UserId::from_bytes([sender; 16]),
            client_message_id: ClientMessageId::from_bytes([client; 16]),
            message_id: MessageId::from_bytes([client; 16]),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: Timestamp::default(),
            origin_connection_id: None,
        })
    }

    fn rounded(entries: &[NewEntry], message_ttl: Option<Ttl>) -> CommitRound {
        let chosen = choose(entries, &vec![None; entries.len()], message_ttl);
        let counter = ChatCounter { sequence: Sequence(7), message_ttl, changes: 0 };
        CommitRound::plan(entries, &chosen, UpdateTargets::none(counter)).0
    }

    /// Two sends of one sender and one of another: the counter, three times key and row, two memberships.
    fn round() -> CommitRound {
        rounded(&[send(1, 1), send(1, 2), send(2, 3)], None)
    }

    #[track_caller]
    fn check(failed: &[usize], expected: Cancellation) {
        let mut reasons = vec![Reason::None; 9];
        for part in failed {
            reasons[*part] = Reason::Condition;
        }
        assert_eq!(round().judge(&reasons), expected);
    }

    #[test]
    fn a_counter_that_was_moved_is_read_again() {
        check(&[0], Cancellation::CounterMoved);
        // The process that moved it has also written the rows.
        check(&[0, 2, 4], Cancellation::CounterMoved);
    }

    #[test]
    fn a_key_that_is_there_is_looked_at_before_the_counter() {
        check(&[3], Cancellation::ReadRows(vec![1]));
        check(&[0, 1, 2, 5], Cancellation::ReadRows(vec![0, 2]));
    }

    #[test]
    fn all_sends_of_a_non_member_are_checked() {
        check(&[8], Cancellation::ReadRows(vec![0, 1, 2]));
        check(&[0, 1, 7], Cancellation::ReadRows(vec![0, 1, 2]));
    }

    #[test]
    fn a_row_above_a_counter_that_has_not_moved_is_a_damage() {
        check(&[2], Cancellation::CounterBehind);
    }

    #[test]
    fn a_conflict_or_a_short_answer_blames_the_counter() {
        assert_eq!(round().judge(&[]), Cancellation::CounterMoved);
        assert_eq!(round().judge(&vec![Reason::Busy; 9]), Cancellation::CounterMoved);
    }

    #[test]
    fn a_round_holds_as_many_sends_as_one_transaction_may() {
        let alone: Vec<_> = (0..60).map(|n| send(1, n)).collect();
        assert_eq!(rounded(&alone, None).entries.len(), TRANSACTION_SENDS_MAX);
        // One more item for each expiring message.
        assert_eq!(rounded(&alone, Ttl::from_secs(60)).entries.len(), 24);
        let crowd: Vec<_> = (0..60).map(|n| send(n, n)).collect();
        let round = rounded(&crowd, None);
        assert_eq!((round.entries.len(), round.senders.len()), (24, 24));
    }

    #[test]
    fn the_second_try_of_a_send_waits_for_the_next_round() {
        let sends = [send(1, 1), send(1, 1), send(2, 1)];
        assert_eq!(choose(&sends, &[None; 3], None), [0, 2]);
        let refused = Some(AppendOutcome::Refused(SendRefusal::NotAMember));
        assert_eq!(choose(&sends, &[refused, None, refused], None), [1]);
    }

    fn expiring(sequence: u64) -> Message {
        let NewEntry::Message(new) = send(1, 1) else { unreachable!("it is a message") };
        let created_at = Timestamp::from_millis(1_000);
        Message { expires_at: Some(Timestamp::MAX), ..NewMessage { created_at, ..new }.at(Sequence(sequence), None) }
    }

    fn update(user: u8, client: u8, target: u64, action: UpdateAction) -> NewEntry {
        NewEntry::Update(NewUpdate {
            chat_id: ChatId::from_bytes([1; 16]),
            user_id: UserId::from_bytes([user; 16]),
            client_message_id: ClientMessageId::from_bytes([client; 16]),
            update_id: MessageId::from_bytes([client; 16]),
            target: Sequence(target),
            action,
            window: None,
            ttl_max: None,
            created_at: Timestamp::from_millis(2_000),
        })
    }

    /// The round of updates of messages 1 to 60, which expire and have no reactions.
    fn updating(entries: &[NewEntry]) -> (CommitRound, Vec<(usize, UpdateRefusal)>) {
        let counter = ChatCounter { sequence: Sequence(60), message_ttl: None, changes: 0 };
        let mut targets = UpdateTargets::none(counter);
        for sequence in 1..=60 {
            let mut message = UpdatedMessage::new(expiring(sequence));
            for user in 0..60 {
                let none = OwnReactions { before: vec![], after: vec![] };
                message.own.insert(UserId::from_bytes([user; 16]), none);
            }
            targets.messages.insert(Sequence(sequence), message);
        }
        CommitRound::plan(entries, &choose(entries, &vec![None; entries.len()], None), targets)
    }

    #[test]
    fn a_round_of_updates_fits_one_transaction() {
        let react = || UpdateAction::React("a".parse().unwrap());
        let check = |entries: Vec<NewEntry>, least: usize| {
            let (round, refused) = updating(&entries);
            let writes = round.writes(ChatId::from_bytes([1; 16]), &entries).len();
            assert!(writes <= TRANSACTION_ITEMS_MAX, "{writes} writes");
            assert!(round.entries.len() >= least && refused.is_empty(), "{} entries", round.entries.len());
        };
        check((0..60).map(|n| update(n, n, 1, react())).collect(), 23);
        check((0..60).map(|n| update(n, n, 1 + u64::from(n), react())).collect(), 12);
        check((0..60).map(|n| update(1, n, 1 + u64::from(n), UpdateAction::Delete)).collect(), 16);
        check((0..60).map(|n| if n % 2 == 0 { send(n, n) } else { update(n, n, 1, react()) }).collect(), 20);
        let edit = || UpdateAction::Edit(Body::new("new".to_owned().try_into().unwrap(), ContentType::Text));
        check((0..60).map(|n| update(1, n, 1, edit())).collect(), TRANSACTION_SENDS_MAX);
    }

    #[test]
    fn an_update_that_an_entry_of_its_round_decides_waits_for_the_next() {
        let react = |n| update(1, n, 1, UpdateAction::React("a".parse().unwrap()));
        let indexes = |round: &CommitRound| round.entries.iter().map(|entry| entry.index).collect::<Vec<_>>();
        let (round, refused) = updating(&[react(1), react(2), send(1, 3)]);
        assert_eq!((indexes(&round), refused), (vec![0], vec![]));
        // The message of the second update is the first entry.
        let (round, refused) = updating(&[send(1, 1), update(1, 2, 61, UpdateAction::Delete), send(1, 3)]);
        assert_eq!((indexes(&round), refused), (vec![0], vec![]));
        let unknown = update(1, 2, 62, UpdateAction::Delete);
        let (round, refused) = updating(&[send(1, 1), unknown, send(1, 3)]);
        assert_eq!((indexes(&round), refused), (vec![0, 2], vec![(1, UpdateRefusal::MessageNotFound)]));
        assert_eq!(round.head.sequence, Sequence(62));
    }
}
