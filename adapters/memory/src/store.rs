use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use domain::{
    Chat, ChatId, ClientMessageId, DeviceId, DirectPair, Event, EventBody, Member, Message, MessageId, OneTimeCode,
    PushDevice, Sequence, Session, SessionId, Timestamp, User, UserId, Watermarks,
};
use ports::{DeadLetter, DeadLetterId, Head, Ids, PhoneKey, Position, RequestKey, UserKey};
use tokio::sync::watch;

mod chats;
mod codes;
mod contacts;
mod dead_letters;
mod last_seen;
mod log;
mod messages;
mod notices;
mod purge;
mod push_devices;
mod requests;
mod sessions;
mod users;
mod watermarks;

/// All durable ports, in memory. Clones are handles on the same store.
///
/// Nothing is swept by itself: it keeps idempotency keys, events, and expired messages, which no read returns, for as long
/// as it lives, or until it is told to [purge](Self::purge_expired).
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Where the log ends, for consumers to wait on.
    log_end: watch::Sender<Position>,
}

struct State {
    ids: Arc<dyn Ids>,
    chats: BTreeMap<ChatId, ChatState>,
    direct_chats: BTreeMap<DirectPair, ChatId>,
    memberships: BTreeMap<UserId, BTreeSet<ChatId>>,
    places: BTreeMap<MessageId, (ChatId, Sequence)>,
    users: BTreeMap<UserId, User>,
    user_keys: HashMap<UserKey, UserId>,
    contacts: BTreeMap<UserId, BTreeSet<UserId>>,
    sessions: BTreeMap<SessionId, Session>,
    codes: BTreeMap<PhoneKey, OneTimeCode>,
    requests: HashMap<RequestKey, requests::Request>,
    push_devices: BTreeMap<(UserId, DeviceId), PushDevice>,
    notices: BTreeMap<notices::Key, notices::NoticeState>,
    dead_letters: BTreeMap<DeadLetterId, DeadLetter>,
    log: BTreeMap<Position, Arc<Event>>,
    /// Behind the last event that was ever logged.
    log_end: Position,
    /// Where each group of consumers goes on.
    consumed: BTreeMap<String, Position>,
}

/// A chat and everything that is in it.
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
        let state = State {
            ids,
            chats: BTreeMap::new(),
            direct_chats: BTreeMap::new(),
            memberships: BTreeMap::new(),
            places: BTreeMap::new(),
            users: BTreeMap::new(),
            user_keys: HashMap::new(),
            contacts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            codes: BTreeMap::new(),
            requests: HashMap::new(),
            push_devices: BTreeMap::new(),
            notices: BTreeMap::new(),
            dead_letters: BTreeMap::new(),
            log: BTreeMap::new(),
            log_end: Position(0),
            consumed: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), log_end: watch::Sender::new(Position(0)) }) }
    }

    /// Loses the head row of a chat, as a disk or an operator might, to show what follows (ADR-004, scenario 7).
    pub fn drop_head(&self, chat_id: ChatId) {
        self.transaction(|state| {
            if let Some(chat) = state.chats.get_mut(&chat_id) {
                chat.head = None;
            }
        });
    }

    /// Does `work` as if nobody else were there, then wakes the consumers if it has left events.
    fn transaction<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock().expect("no transaction panics half-way");
        let result = work(&mut state);
        self.shared.log_end.send_if_modified(|end| std::mem::replace(end, state.log_end) != state.log_end);
        result
    }
}

impl State {
    fn record(&mut self, event_time: Timestamp, body: EventBody) {
        let event_id = self.ids.ulid().into();
        self.record_event(Event { event_id, event_time, body });
    }

    fn record_event(&mut self, event: Event) {
        self.log.insert(self.log_end, Arc::new(event));
        self.log_end.0 += 1;
    }
}

impl ChatState {
    /// The sequence of the last message. Where the head row is lost, readers and watermarks go by the messages.
    fn head_sequence(&self) -> Sequence {
        let last = || self.messages.last_key_value().map(|(sequence, _)| *sequence);
        self.head.as_ref().map(|head| head.sequence).or_else(last).unwrap_or_default()
    }
}
