use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use domain::{
    Chat, ChatId, ClientMessageId, CredentialId, DeliveryState, DeviceId, DirectPair, Event, EventBody, EventNumber,
    Invitation, Member, Message, MessageId, MessageUpdate, OneTimeCode, Passkey, PushDevice, Reaction, Report,
    ReportId, Restrictions, Sequence, Session, SessionId, Timestamp, User, UserId,
};
use ports::{
    CommitQueue, DeadLetter, DeadLetterId, Head, Ids, ImportId, PendingDeletion, PhoneKey, Position, RequestKey,
    UserKey,
};
use tokio::sync::Notify;

mod accounts;
mod audit;
mod blocks;
mod chats;
mod codes;
mod contacts;
mod dead_letters;
mod expiry;
mod invitations;
mod last_seen;
mod log;
mod messages;
mod notices;
mod outbox;
mod passkeys;
mod purge;
mod push_devices;
mod reports;
mod requests;
mod restrictions;
mod rewind;
mod sessions;
mod spoil;
mod transfer;
mod users;
mod watermarks;

pub use outbox::MemoryOutbox;
pub use rewind::Snapshot;
pub use spoil::Damage;

/// All durable ports, in memory. Clones are handles on the same store, for the same process.
///
/// Its log is part of it, unless it was created with a [separate](Self::beside_a_log) log. Then its own log stays
/// empty, and committed events wait in the [outbox](crate::MemoryOutbox).
///
/// It has no background purge. It keeps idempotency keys, events and expired messages, which no read returns, until
/// [`purge_expired`](Self::purge_expired) is called.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<MemoryStoreInner>,
    /// Commits of the process of this handle.
    pub(crate) commits: Arc<CommitQueue>,
    /// Whether events get numbers.
    has_numbers: bool,
}

struct MemoryStoreInner {
    state: Mutex<MemoryStoreState>,
    /// Wakes the consumers of the log, in the order in which they began to wait.
    log_grew: Notify,
}

#[derive(Clone)]
struct MemoryStoreState {
    ids: Arc<dyn Ids>,
    chats: BTreeMap<ChatId, ChatState>,
    direct_chats: BTreeMap<DirectPair, ChatId>,
    memberships: BTreeMap<UserId, BTreeSet<ChatId>>,
    locations: BTreeMap<MessageId, (ChatId, Sequence)>,
    users: BTreeMap<UserId, User>,
    /// Only accessed by key, like the requests, so the order of the hash map is not observable.
    user_keys: HashMap<UserKey, UserId>,
    contacts: BTreeMap<UserId, BTreeSet<UserId>>,
    blocks: BTreeMap<UserId, BTreeSet<UserId>>,
    invitations: BTreeMap<(UserId, ChatId), Invitation>,
    reports: BTreeMap<ReportId, Report>,
    sessions: BTreeMap<SessionId, Session>,
    restrictions: BTreeMap<UserId, Restrictions>,
    passkeys: BTreeMap<CredentialId, Passkey>,
    codes: BTreeMap<PhoneKey, OneTimeCode>,
    requests: HashMap<RequestKey, requests::IdempotencyEntry>,
    push_devices: BTreeMap<(UserId, DeviceId), PushDevice>,
    notices: BTreeMap<notices::NoticeTarget, notices::MemoryNotice>,
    dead_letters: BTreeMap<DeadLetterId, DeadLetter>,
    deletions: BTreeMap<UserId, PendingDeletion>,
    /// Events pending for a separate log; `None` if the log is part of the store.
    outbox: Option<outbox::PendingEvents>,
    log: BTreeMap<Position, Arc<Event>>,
    /// The updates in the log that have expired. Only audits read them: nothing else says why their sequences are empty.
    expired_updates: BTreeSet<Position>,
    /// The end of the log: one past the last event ever logged.
    log_end: Position,
    /// The next position of each consumer group.
    consumed: BTreeMap<String, Position>,
    /// The unfinished import, if any.
    import: Option<ImportId>,
    /// Whether the events of the running transaction get numbers.
    has_numbers: bool,
}

/// A chat with its contents.
#[derive(Clone)]
struct ChatState {
    chat: Chat,
    members: BTreeMap<UserId, Member>,
    delivery_states: BTreeMap<UserId, DeliveryState>,
    /// Always present, unless a test damaged the store.
    head: Option<Head>,
    messages: BTreeMap<Sequence, Message>,
    updates: BTreeMap<Sequence, MessageUpdate>,
    /// The reactions of each member on a message. A member without any has no entry.
    reactions: BTreeMap<(Sequence, UserId), Vec<Reaction>>,
    sends: BTreeMap<(UserId, ClientMessageId), messages::CommittedSend>,
}

impl MemoryStore {
    /// An empty store; its events get their ids from `ids`.
    pub fn new(ids: Arc<dyn Ids>) -> Self {
        Self::with_outbox(ids, None)
    }

    /// An empty store with a separate log: the store of a fleet.
    pub fn beside_a_log(ids: Arc<dyn Ids>) -> Self {
        Self::with_outbox(ids, Some(outbox::PendingEvents::default()))
    }

    /// A handle for another process. Only the [outbox](crate::MemoryOutbox) of that process receives the commits made
    /// through it and its clones.
    pub fn process(&self) -> Self {
        Self { shared: self.shared.clone(), commits: Arc::default(), has_numbers: self.has_numbers }
    }

    /// A handle that neither counts changes nor numbers events, like a process of a version before event numbers.
    #[must_use]
    pub fn without_numbers(self) -> Self {
        Self { has_numbers: false, ..self }
    }

    fn with_outbox(ids: Arc<dyn Ids>, outbox: Option<outbox::PendingEvents>) -> Self {
        let state = MemoryStoreState {
            ids,
            chats: BTreeMap::new(),
            direct_chats: BTreeMap::new(),
            memberships: BTreeMap::new(),
            locations: BTreeMap::new(),
            users: BTreeMap::new(),
            user_keys: HashMap::new(),
            contacts: BTreeMap::new(),
            blocks: BTreeMap::new(),
            invitations: BTreeMap::new(),
            reports: BTreeMap::new(),
            sessions: BTreeMap::new(),
            restrictions: BTreeMap::new(),
            passkeys: BTreeMap::new(),
            codes: BTreeMap::new(),
            requests: HashMap::new(),
            push_devices: BTreeMap::new(),
            notices: BTreeMap::new(),
            dead_letters: BTreeMap::new(),
            deletions: BTreeMap::new(),
            outbox,
            log: BTreeMap::new(),
            expired_updates: BTreeSet::new(),
            log_end: Position(0),
            consumed: BTreeMap::new(),
            import: None,
            has_numbers: true,
        };
        let shared = MemoryStoreInner { state: Mutex::new(state), log_grew: Notify::new() };
        Self { shared: Arc::new(shared), commits: Arc::default(), has_numbers: true }
    }

    /// Deletes the head row of a chat, as a disk or an operator might, to test the consequences (ADR-004, scenario 7).
    pub fn drop_head(&self, chat_id: ChatId) {
        self.transaction(|state| {
            if let Some(chat) = state.chats.get_mut(&chat_id) {
                chat.head = None;
            }
        });
    }

    /// Runs `work` under the lock, then wakes the waiters for its events: the consumers of the log, or the relay of
    /// this process.
    fn transaction<T>(&self, work: impl FnOnce(&mut MemoryStoreState) -> T) -> T {
        // Not `ports::lock`: after a panic half-way through a transaction, the state could break an invariant.
        let mut state = self.shared.state.lock().expect("no transaction panics half-way");
        let log_end = state.log_end;
        state.has_numbers = self.has_numbers;
        let result = work(&mut state);
        let log_grew = state.log_end != log_end;
        let commits = state.outbox.as_mut().map(outbox::PendingEvents::take_commits).unwrap_or_default();
        drop(state);
        if log_grew {
            self.shared.log_grew.notify_waiters();
        }
        commits.into_iter().for_each(|commit| self.commits.push(commit));
        result
    }
}

impl MemoryStoreState {
    fn record(&mut self, event_time: Timestamp, body: EventBody) {
        let event_id = self.ids.ulid().into();
        let event_number = if body.is_change() { self.count_change(body.chat_id()) } else { None };
        self.record_event(Event { event_id, event_time, event_number, body });
    }

    /// Counts a change in the head of its chat, and returns the number of its event; `None` if the head is lost, or if
    /// this transaction counts nothing.
    fn count_change(&mut self, chat_id: ChatId) -> Option<EventNumber> {
        let head = self.chats.get_mut(&chat_id)?.head.as_mut().filter(|_| self.has_numbers)?;
        head.changes += 1;
        Some(EventNumber::at(head.sequence, head.changes))
    }

    fn record_event(&mut self, event: Event) {
        let event = Event { event_number: event.event_number.filter(|_| self.has_numbers), ..event };
        match &mut self.outbox {
            Some(outbox) => outbox.add(Arc::new(event)),
            None => {
                self.log.insert(self.log_end, Arc::new(event));
                self.log_end.0 += 1;
            }
        }
    }
}

impl ChatState {
    /// The head sequence. If the head row is lost, readers and watermarks use the last message.
    fn head_sequence(&self) -> Sequence {
        let last = || {
            let last = self.messages.last_key_value().map(|(sequence, _)| *sequence);
            last.max(self.updates.last_key_value().map(|(sequence, _)| *sequence))
        };
        self.head.as_ref().map(|head| head.sequence).or_else(last).unwrap_or_default()
    }
}
