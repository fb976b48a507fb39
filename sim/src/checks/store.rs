use std::collections::{BTreeMap, BTreeSet};

use domain::{
    ChatId, ChatType, ClientMessageId, Invariant, MessageId, Role, Sequence, Timestamp, UpdateAction, UserId,
    Watermarks,
};
use futures_util::FutureExt;
use memory::MemoryStore;
use ports::{AppendOutcome, ChatReader, Clock, MessageReader, NewEntry, Page, PageBounds, WatermarkStore};
use tokio::time::Instant;

use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Contents of the store, as observed at every step.
#[derive(Default)]
pub(crate) struct StoreObservations {
    chats: BTreeMap<ChatId, ChatObservations>,
    /// Chats written since the last check.
    touched: BTreeSet<ChatId>,
    /// For each send, how often its client asked for it, less how often a process has tried to commit it.
    attempts_left: BTreeMap<(ChatId, UserId, ClientMessageId), u32>,
}

#[derive(Default)]
struct ChatObservations {
    entries: BTreeMap<Sequence, CommittedEntry>,
    sends: BTreeMap<(UserId, ClientMessageId), (MessageId, Sequence)>,
    head: Sequence,
    /// The highest sequence that any client received.
    told: Sequence,
    /// The rows up to this sequence have been verified.
    verified: Sequence,
    /// A page has reported everything up to this sequence as complete.
    examined: Sequence,
    members: BTreeSet<UserId>,
    /// All past sets of members.
    memberships: Vec<BTreeSet<UserId>>,
    /// The last time at which each user joined or left.
    changed_at: BTreeMap<UserId, Instant>,
    watermarks: BTreeMap<UserId, Watermarks>,
}

impl ChatObservations {
    /// The entries above a sequence. Those of a chat without members have expired: the last member took them along.
    fn range(&self, after: Sequence) -> impl Iterator<Item = (Sequence, CommittedEntry)> {
        let is_abandoned = self.members.is_empty() && !self.memberships.is_empty();
        self.entries.range(after.next()..).map(move |(sequence, known)| {
            let expires_at = if is_abandoned { Some(beginning()) } else { known.expires_at };
            (*sequence, CommittedEntry { expires_at, ..*known })
        })
    }

    /// When a new entry expires. An update expires with its message, and a deletion ends the message.
    fn expiry_of(&mut self, entry: &NewEntry) -> Option<Timestamp> {
        match entry {
            NewEntry::Message(send) => send.ttl.map(|ttl| send.created_at + ttl.as_duration()),
            NewEntry::Update(update) => {
                let target = self.entries.get_mut(&update.target)?;
                if update.action != UpdateAction::Delete {
                    return target.expires_at;
                }
                target.expires_at = Some(update.created_at);
                target.is_deleted = true;
                None
            }
        }
    }
}

/// A committed entry: a message, or an update of one.
#[derive(Clone, Copy)]
pub(crate) struct CommittedEntry {
    pub(crate) message_id: MessageId,
    /// The client's id of the entry.
    pub(crate) client_message_id: ClientMessageId,
    pub(crate) expires_at: Option<Timestamp>,
    is_update: bool,
    is_acked: bool,
    /// Whether the message was deleted for everyone.
    pub(crate) is_deleted: bool,
}

const ALL: PageBounds = PageBounds { count: usize::MAX, bytes: usize::MAX };

/// A time at which nothing has expired yet.
fn beginning() -> Timestamp {
    Timestamp::from_millis(0)
}

impl World {
    /// Checks the outcome of an entry.
    pub(crate) fn appended(&self, entry: &NewEntry, outcome: AppendOutcome, is_member: bool) {
        let (chat_id, sender_id, client_message_id) = (entry.chat_id(), entry.sender_id(), entry.client_message_id());
        let mut stored = self.checks.stored();
        stored.touched.insert(chat_id);
        let of_chat = stored.chats.entry(chat_id).or_default();
        let key = (sender_id, client_message_id);
        match outcome {
            AppendOutcome::New(receipt) => {
                let (sequence, before) = (receipt.sequence, of_chat.examined);
                let known = of_chat.sends.insert(key, (receipt.message_id, sequence));
                let committed = CommittedEntry {
                    message_id: receipt.message_id,
                    client_message_id,
                    expires_at: of_chat.expiry_of(entry),
                    is_update: matches!(entry, NewEntry::Update(_)),
                    is_acked: false,
                    is_deleted: false,
                };
                of_chat.entries.insert(sequence, committed);
                drop(stored);
                self.note(TraceActor::Store, TraceEvent::Committed { chat_id, sequence, sender_id });
                self.check(Invariant::MembershipCheckUsesAuthority, is_member, || {
                    format!("{sender_id} is no member of {chat_id} and has sequence {sequence}")
                });
                self.check(Invariant::IdempotencySequenceConsistency, known.is_none(), || {
                    format!("the send {client_message_id} in {chat_id} was committed twice, now as {sequence}")
                });
                self.check(Invariant::SyncCompleteness, sequence > before, || {
                    format!("{chat_id} gets {sequence} after a page was complete up to {before}")
                });
            }
            AppendOutcome::Duplicate(receipt) => {
                let known = of_chat.sends.get(&key).copied();
                drop(stored);
                self.check(
                    Invariant::IdempotencySequenceConsistency,
                    known == Some((receipt.message_id, receipt.sequence)),
                    || format!("a retry of {client_message_id} in {chat_id} is answered with {}", receipt.sequence),
                );
            }
            AppendOutcome::Refused(_) => {}
        }
    }

    /// Checks an acknowledgement that a client received.
    pub(crate) fn acked(&self, chat_id: ChatId, message_id: MessageId, sequence: Sequence) {
        let mut stored = self.checks.stored();
        let of_chat = stored.chats.entry(chat_id).or_default();
        of_chat.told = of_chat.told.max(sequence);
        let known = of_chat.entries.get_mut(&sequence).filter(|known| known.message_id == message_id);
        let is_known = known.map(|known| known.is_acked = true).is_some();
        stored.touched.insert(chat_id);
        drop(stored);
        self.check(Invariant::AckImpliesPersistence, is_known, || {
            format!("{message_id} was acknowledged as {sequence} of {chat_id}, and is not stored there")
        });
        self.check(Invariant::StoreIsAuthoritative, is_known, || {
            format!("a client received {message_id} at {sequence} of {chat_id}, which the store does not have")
        });
        self.after_write();
    }

    /// Checks the chats written since the last call.
    pub(crate) fn after_write(&self) {
        let touched = std::mem::take(&mut self.checks.stored().touched);
        for chat_id in touched {
            self.look_at_chat(chat_id);
        }
    }

    /// Checks all chats again, from the beginning.
    pub(crate) fn look_at_store(&self) {
        let mut stored = self.checks.stored();
        stored.touched = stored.chats.keys().copied().collect();
        stored.chats.values_mut().for_each(|of_chat| of_chat.verified = Sequence::ZERO);
        drop(stored);
        self.after_write();
    }

    fn look_at_chat(&self, chat_id: ChatId) {
        let Some(Some(chat)) = now(self.store.chat(chat_id)) else { return };
        let head = now(self.store.head(chat_id)).flatten();
        self.check(Invariant::CounterMustExist, head.is_some(), || format!("{chat_id} has no head row"));
        let Some(head) = head.map(|head| head.sequence) else { return };
        let members = now(self.store.members(chat_id)).unwrap_or_default();
        let of_members: Vec<_> = members.iter().map(|member| (member.user_id, chat_id)).collect();
        let watermarks = now(self.store.watermarks(&of_members)).unwrap_or_default();

        let mut stored = self.checks.stored();
        let of_chat = stored.chats.entry(chat_id).or_default();
        let (before, told, verified) = (of_chat.head, of_chat.told, of_chat.verified);
        of_chat.head = head;
        of_chat.verified = head;
        let known: Vec<(Sequence, CommittedEntry)> = of_chat.range(verified).collect();
        let watermarks_before = std::mem::take(&mut of_chat.watermarks);
        of_chat.watermarks = of_members.iter().map(|(user_id, _)| *user_id).zip(watermarks.iter().copied()).collect();
        drop(stored);

        self.check(Invariant::AllocationMonotonicity, head >= before, || {
            format!("the head of {chat_id} went from {before} back to {head}")
        });
        self.check(Invariant::CounterLowerBound, head >= told, || {
            format!("the head of {chat_id} is {head}, and a client received {told}")
        });
        self.look_at_rows(chat_id, verified, head, &known);

        let is_group = chat.chat_type == ChatType::Group;
        let has_owner = members.iter().any(|member| member.role == Role::Owner);
        if is_group && !members.is_empty() {
            self.check(Invariant::OwnerAlwaysExists, has_owner, || format!("{chat_id} has members and no owner"));
        }
        self.check(Invariant::GroupSizeBounded, chat.member_count as usize == members.len(), || {
            format!("{chat_id} counts {} members and has {}", chat.member_count, members.len())
        });
        for ((user_id, _), now) in of_members.iter().zip(watermarks) {
            self.check(Invariant::WatermarkBoundedByHead, now.delivered.max(now.read) <= head, || {
                format!("{user_id} is at {} of {chat_id}, whose head is {head}", now.delivered.max(now.read))
            });
            self.check(Invariant::ReadImpliesDelivered, now.read <= now.delivered, || {
                format!("{user_id} has read {} of {chat_id} and got {}", now.read, now.delivered)
            });
            if let Some(before) = watermarks_before.get(user_id) {
                let holds = now.delivered >= before.delivered && now.read >= before.read;
                self.check(Invariant::DeliveryWatermarkMonotonic, holds, || {
                    format!("{user_id} was at {before:?} of {chat_id} and is at {now:?}")
                });
            }
        }
    }

    /// Checks that the rows above `verified` are exactly the committed entries.
    fn look_at_rows(&self, chat_id: ChatId, verified: Sequence, head: Sequence, known: &[(Sequence, CommittedEntry)]) {
        let Some(page) = now(self.store.after(chat_id, verified, ALL, beginning())) else { return };
        let messages = page.messages.iter().map(|message| (message.sequence, message.message_id));
        let updates = page.updates.iter().map(|update| (update.sequence, update.update_id));
        let rows: BTreeMap<Sequence, MessageId> = messages.chain(updates).collect();
        let last = rows.last_key_value().map_or(Sequence::ZERO, |(sequence, _)| *sequence);
        self.check(Invariant::SequenceMonotonicity, last <= head, || {
            format!("{chat_id} has a message at {last} above its head {head}")
        });
        self.check(Invariant::NoZeroSequence, rows.first_key_value().is_none_or(|(first, _)| first.0 > 0), || {
            format!("{chat_id} has a message at 0")
        });
        let clock = self.clock.now();
        let known: BTreeMap<Sequence, CommittedEntry> = known.iter().copied().collect();
        for n in verified.0 + 1..=head.0.max(last.0) {
            let sequence = Sequence(n);
            let (row, known) = (rows.get(&sequence), known.get(&sequence));
            let is_gone = known.is_some_and(|known| known.expires_at.is_some_and(|at| at <= clock));
            self.check(Invariant::SequenceContiguous, row.is_some() || is_gone, || {
                format!("{chat_id} has nothing at {sequence}, below its head {head}")
            });
            if let (Some(row), Some(known)) = (row, known) {
                self.check(Invariant::SequenceUniqueness, *row == known.message_id, || {
                    format!("{sequence} of {chat_id} was {} and is {row}", known.message_id)
                });
            }
            if let Some(known) = known.filter(|known| known.is_acked) {
                self.check(Invariant::AckImpliesPersistence, row.is_some() || is_gone, || {
                    format!("{} was acknowledged as {sequence} of {chat_id} and is gone", known.message_id)
                });
            }
        }
    }
}

impl super::Checks {
    /// Records a change of members.
    pub(crate) fn member_changed(&self, chat_id: ChatId, user_id: UserId, joined: bool) {
        let mut stored = self.stored();
        stored.touched.insert(chat_id);
        let of_chat = stored.chats.entry(chat_id).or_default();
        if joined {
            of_chat.members.insert(user_id);
        } else {
            of_chat.members.remove(&user_id);
        }
        // A member who joins again gets new watermarks.
        of_chat.watermarks.remove(&user_id);
        of_chat.changed_at.insert(user_id, Instant::now());
        let members = of_chat.members.clone();
        of_chat.memberships.push(members);
    }

    /// Updates the expiry times of messages.
    pub(crate) fn expires(&self, chat_id: ChatId, ends: impl IntoIterator<Item = (Sequence, Option<Timestamp>)>) {
        let mut stored = self.stored();
        let Some(of_chat) = stored.chats.get_mut(&chat_id) else { return };
        for (sequence, expires_at) in ends {
            if let Some(known) = of_chat.entries.get_mut(&sequence) {
                known.expires_at = expires_at;
            }
        }
    }

    /// The last message of a chat whose acknowledgement a client has received.
    pub(crate) fn last_acked(&self, chat_id: ChatId) -> Option<(Sequence, MessageId)> {
        let stored = self.stored();
        let entries = &stored.chats.get(&chat_id)?.entries;
        let acked = entries.iter().rev().find(|(_, known)| known.is_acked && !known.is_update);
        acked.map(|(sequence, known)| (*sequence, known.message_id))
    }

    /// Records that a client sends an entry over a connection for the first time.
    pub(crate) fn asked(&self, chat_id: ChatId, sender_id: UserId, id: ClientMessageId) {
        *self.stored().attempts_left.entry((chat_id, sender_id, id)).or_default() += 1;
    }

    /// Whether this attempt to commit an entry is one that no client asked for: the service repeats its own request, or the
    /// client has repeated it on one connection. Over HTTP a client asks once.
    pub(crate) fn is_repeated(&self, entry: &NewEntry) -> bool {
        let key = (entry.chat_id(), entry.sender_id(), entry.client_message_id());
        let mut stored = self.stored();
        let left = stored.attempts_left.entry(key).or_insert(1);
        let is_repeated = *left == 0;
        *left = left.saturating_sub(1);
        is_repeated
    }

    /// Schedules a chat to be checked after the next write.
    pub(crate) fn touch(&self, chat_id: ChatId) {
        self.stored().touched.insert(chat_id);
    }

    /// Whether a user is a member of a chat, and since when.
    pub(crate) fn membership(&self, chat_id: ChatId, user_id: UserId) -> (bool, Option<Instant>) {
        let stored = self.stored();
        let of_chat = stored.chats.get(&chat_id);
        let is_member = of_chat.is_some_and(|of_chat| of_chat.members.contains(&user_id));
        (is_member, of_chat.and_then(|of_chat| of_chat.changed_at.get(&user_id).copied()))
    }

    /// The users who were members of a chat and are not any more.
    pub(crate) fn former_members(&self, chat_id: ChatId) -> Vec<UserId> {
        let stored = self.stored();
        let Some(of_chat) = stored.chats.get(&chat_id) else { return vec![] };
        of_chat.changed_at.keys().copied().filter(|user_id| !of_chat.members.contains(user_id)).collect()
    }

    /// The original members of a chat who never left.
    pub(crate) fn first_members(&self, chat_id: ChatId) -> Vec<UserId> {
        let stored = self.stored();
        let Some(of_chat) = stored.chats.get(&chat_id) else { return vec![] };
        let began = of_chat.changed_at.values().min().copied();
        let is_first = |user_id: &&UserId| of_chat.changed_at.get(*user_id).copied() == began;
        of_chat.members.iter().filter(is_first).copied().collect()
    }

    /// Whether a chat ever had exactly these members.
    pub(crate) fn had_members(&self, chat_id: ChatId, members: &[UserId]) -> bool {
        let members: BTreeSet<UserId> = members.iter().copied().collect();
        let stored = self.stored();
        stored.chats.get(&chat_id).is_some_and(|of_chat| of_chat.memberships.contains(&members))
    }

    /// The committed entry at a sequence.
    pub(crate) fn committed(&self, chat_id: ChatId, sequence: Sequence) -> Option<CommittedEntry> {
        let stored = self.stored();
        let of_chat = stored.chats.get(&chat_id)?;
        let (at, known) = of_chat.range(Sequence(sequence.0.checked_sub(1)?)).next()?;
        (at == sequence).then_some(known)
    }

    /// Whether a chat has entries above a sequence that have not expired.
    pub(crate) fn has_beyond(&self, chat_id: ChatId, after: Sequence, now: Timestamp) -> bool {
        let stored = self.stored();
        let mut beyond = stored.chats.get(&chat_id).into_iter().flat_map(|of_chat| of_chat.range(after));
        beyond.any(|(_, known)| known.expires_at.is_none_or(|at| at > now))
    }

    /// The number of committed messages.
    pub(crate) fn message_count(&self) -> usize {
        let stored = self.stored();
        stored.chats.values().flat_map(|of_chat| of_chat.entries.values()).filter(|known| !known.is_update).count()
    }

    /// All committed entries.
    pub(crate) fn all_committed(&self) -> Vec<(ChatId, Sequence, Option<Timestamp>)> {
        let stored = self.stored();
        let of_chat = |(chat_id, of_chat): (&ChatId, &ChatObservations)| {
            let chat_id = *chat_id;
            let known = of_chat.range(Sequence::ZERO);
            known.map(move |(sequence, known)| (chat_id, sequence, known.expires_at)).collect::<Vec<_>>()
        };
        stored.chats.iter().flat_map(of_chat).collect()
    }

    /// The updates that have expired by `now`.
    pub(crate) fn expired_updates(&self, now: Timestamp) -> Vec<(ChatId, Sequence)> {
        let stored = self.stored();
        let of_chat = |(chat_id, of_chat): (&ChatId, &ChatObservations)| {
            let chat_id = *chat_id;
            let known = of_chat.entries.iter();
            let expired = known.filter(|(_, known)| known.is_update && known.expires_at.is_some_and(|at| at <= now));
            expired.map(move |(sequence, _)| (chat_id, *sequence)).collect::<Vec<_>>()
        };
        stored.chats.iter().flat_map(of_chat).collect()
    }

    /// Checks a page returned to a member: it is complete at that moment and contains no expired message.
    pub(crate) fn read_page(&self, world: &World, store: &MemoryStore, chat_id: ChatId, after: Sequence, page: &Page) {
        let truth = now(store.after(chat_id, after, ALL, beginning()));
        let Some(truth) = truth else { return };
        let clock = world.clock.now();
        let margin = world.plan.skew_bound();
        let shown: BTreeSet<Sequence> = page.messages.iter().map(|message| message.sequence).collect();
        let updates: BTreeSet<Sequence> = page.updates.iter().map(|update| update.sequence).collect();
        let of_messages = truth.messages.iter().map(|message| (message.sequence, message.expires_at));
        let of_updates = truth.updates.iter().map(|update| (update.sequence, update.expires_at));
        for (sequence, expires_at) in of_messages.chain(of_updates) {
            if sequence > page.examined {
                continue;
            }
            let may_be_gone = expires_at.is_some_and(|at| at <= clock + margin);
            let is_shown = shown.contains(&sequence) || updates.contains(&sequence);
            world.check(Invariant::SyncCompleteness, is_shown || may_be_gone, || {
                format!("a page of {chat_id} from {after} to {} leaves out {sequence}", page.examined)
            });
        }
        for message in page.messages.iter().chain(&page.updated) {
            let sequence = message.sequence;
            // A deleted message has an expiry, whatever its row says.
            let known = self.committed(chat_id, sequence).and_then(|known| known.expires_at);
            if let Some(at) = message.expires_at.into_iter().chain(known).min() {
                world.check(Invariant::ExpiredNeverRead, at + margin > clock, || {
                    format!("{sequence} of {chat_id} expired at {at} and is shown at {clock}")
                });
            }
        }
        world.check(Invariant::SyncReadsAuthority, page.head == truth.head, || {
            format!("a page of {chat_id} says that its head is {}, and it is {}", page.head, truth.head)
        });
        let mut stored = self.stored();
        let of_chat = stored.chats.entry(chat_id).or_default();
        of_chat.examined = of_chat.examined.max(page.examined);
    }
}

/// The immediate answer of a port in memory.
pub(super) fn now<T>(answer: impl Future<Output = Result<T, ports::StoreError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}
