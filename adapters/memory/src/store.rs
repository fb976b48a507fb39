use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use domain::{
    Chat, ChatId, ClientMessageId, DeviceId, DirectPair, Event, EventBody, Member, Message, MessageId, OneTimeCode,
    PushDevice, Report, ReportId, Sequence, Session, SessionId, Timestamp, User, UserId, Watermarks,
};
use ports::{
    CommitQueue, DeadLetter, DeadLetterId, Deletion, Head, Ids, ImportId, PhoneKey, Position, RequestKey, UserKey,
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
mod last_seen;
mod log;
mod messages;
mod notices;
mod outbox;
mod purge;
mod push_devices;
mod reports;
mod requests;
mod rewind;
mod sessions;
mod spoil;
mod transfer;
mod users;
mod watermarks;

pub use outbox::MemoryOutbox;
pub use rewind::Snapshot;
pub use spoil::Damage;

/// All durable ports, in memory. Clones are handles on the same store, of the same process.
///
/// Its log is part of it, unless it was made to have one [beside](Self::beside_a_log) it: then its own stays empty, and
/// what is committed waits in the [outbox](crate::MemoryOutbox).
///
/// Nothing is swept by itself: it keeps idempotency keys, events, and expired messages, which no read returns, for as long
/// as it lives, or until it is told to [purge](Self::purge_expired).
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// What the process of this handle has committed.
    pub(crate) commits: Arc<CommitQueue>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the consumers of the log, in the order in which they began to wait.
    log_grew: Notify,
}

#[derive(Clone)]
struct State {
    ids: Arc<dyn Ids>,
    chats: BTreeMap<ChatId, ChatState>,
    direct_chats: BTreeMap<DirectPair, ChatId>,
    memberships: BTreeMap<UserId, BTreeSet<ChatId>>,
    places: BTreeMap<MessageId, (ChatId, Sequence)>,
    users: BTreeMap<UserId, User>,
    /// Like the requests it is only ever asked by key, so the order of a hash is seen by nobody.
    user_keys: HashMap<UserKey, UserId>,
    contacts: BTreeMap<UserId, BTreeSet<UserId>>,
    blocks: BTreeMap<UserId, BTreeSet<UserId>>,
    reports: BTreeMap<ReportId, Report>,
    sessions: BTreeMap<SessionId, Session>,
    codes: BTreeMap<PhoneKey, OneTimeCode>,
    requests: HashMap<RequestKey, requests::Request>,
    push_devices: BTreeMap<(UserId, DeviceId), PushDevice>,
    notices: BTreeMap<notices::Key, notices::NoticeState>,
    dead_letters: BTreeMap<DeadLetterId, DeadLetter>,
    deletions: BTreeMap<UserId, Deletion>,
    /// What waits for a log that is beside the store; `None` where it is part of it.
    outbox: Option<outbox::Waiting>,
    log: BTreeMap<Position, Arc<Event>>,
    /// Behind the last event that was ever logged.
    log_end: Position,
    /// Where each group of consumers goes on.
    consumed: BTreeMap<String, Position>,
    /// The import that was begun and is not finished.
    import: Option<ImportId>,
}

/// A chat and everything that is in it.
#[derive(Clone)]
struct ChatState {
    chat: Chat,
    members: BTreeMap<UserId, Member>,
    watermarks: BTreeMap<UserId, Watermarks>,
    /// Always there, unless somebody broke the store.
    head: Option<Head>,
    messages: BTreeMap<Sequence, Message>,
    sends: BTreeMap<(UserId, ClientMessageId), messages::CommittedSend>,
}

impl MemoryStore {
    /// A store with nothing in it, whose events get their ids from `ids`.
    pub fn new(ids: Arc<dyn Ids>) -> Self {
        Self::with_outbox(ids, None)
    }

    /// The same without a log of its own: the store of a fleet.
    pub fn beside_a_log(ids: Arc<dyn Ids>) -> Self {
        Self::with_outbox(ids, Some(outbox::Waiting::default()))
    }

    /// A handle for another process: what is committed through it, and through clones of it, is told to the
    /// [outbox](crate::MemoryOutbox) of that process and to no other.
    pub fn process(&self) -> Self {
        Self { shared: self.shared.clone(), commits: Arc::default() }
    }

    fn with_outbox(ids: Arc<dyn Ids>, outbox: Option<outbox::Waiting>) -> Self {
        let state = State {
            ids,
            chats: BTreeMap::new(),
            direct_chats: BTreeMap::new(),
            memberships: BTreeMap::new(),
            places: BTreeMap::new(),
            users: BTreeMap::new(),
            user_keys: HashMap::new(),
            contacts: BTreeMap::new(),
            blocks: BTreeMap::new(),
            reports: BTreeMap::new(),
            sessions: BTreeMap::new(),
            codes: BTreeMap::new(),
            requests: HashMap::new(),
            push_devices: BTreeMap::new(),
            notices: BTreeMap::new(),
            dead_letters: BTreeMap::new(),
            deletions: BTreeMap::new(),
            outbox,
            log: BTreeMap::new(),
            log_end: Position(0),
            consumed: BTreeMap::new(),
            import: None,
        };
        let shared = Shared { state: Mutex::new(state), log_grew: Notify::new() };
        Self { shared: Arc::new(shared), commits: Arc::default() }
    }

    /// Loses the head row of a chat, as a disk or an operator might, to show what follows (ADR-004, scenario 7).
    pub fn drop_head(&self, chat_id: ChatId) {
        self.transaction(|state| {
            if let Some(chat) = state.chats.get_mut(&chat_id) {
                chat.head = None;
            }
        });
    }

    /// Does `work` as if nobody else were there, then wakes whoever waits for what it has left: the consumers of the log, or
    /// the relay of this process.
    fn transaction<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock().expect("no transaction panics half-way");
        let log_end = state.log_end;
        let result = work(&mut state);
        let log_grew = state.log_end != log_end;
        let commits = state.outbox.as_mut().map(outbox::Waiting::take_commits).unwrap_or_default();
        drop(state);
        if log_grew {
            self.shared.log_grew.notify_waiters();
        }
        commits.into_iter().for_each(|commit| self.commits.push(commit));
        result
    }
}

impl State {
    fn record(&mut self, event_time: Timestamp, body: EventBody) {
        let event_id = self.ids.ulid().into();
        self.record_event(Event { event_id, event_time, body });
    }

    fn record_event(&mut self, event: Event) {
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
    /// The sequence of the last message. Where the head row is lost, readers and watermarks go by the messages.
    fn head_sequence(&self) -> Sequence {
        let last = || self.messages.last_key_value().map(|(sequence, _)| *sequence);
        self.head.as_ref().map(|head| head.sequence).or_else(last).unwrap_or_default()
    }
}
