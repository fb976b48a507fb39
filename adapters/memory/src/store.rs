use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use domain::{
    Chat, ChatId, ClientMessageId, DirectPair, Event, EventBody, Member, Message, MessageId, OneTimeCode, Sequence,
    Session, SessionId, Timestamp, User, UserId, Watermarks,
};
use ports::{Head, Ids, PhoneKey, RequestKey, UserKey};
use tokio::sync::watch;

mod chats;
mod codes;
mod log;
mod messages;
mod requests;
mod sessions;
mod users;
mod watermarks;

/// All durable ports, in memory. Clones are handles on the same store.
///
/// Nothing is swept: it keeps idempotency keys, events and expired messages, which no read returns, for as long as it
/// lives.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// How long the log is, for consumers to wait on.
    log_len: watch::Sender<usize>,
}

struct State {
    ids: Arc<dyn Ids>,
    chats: BTreeMap<ChatId, ChatState>,
    direct_chats: BTreeMap<DirectPair, ChatId>,
    memberships: BTreeMap<UserId, BTreeSet<ChatId>>,
    places: BTreeMap<MessageId, (ChatId, Sequence)>,
    users: BTreeMap<UserId, User>,
    user_keys: HashMap<UserKey, UserId>,
    sessions: BTreeMap<SessionId, Session>,
    codes: BTreeMap<PhoneKey, OneTimeCode>,
    requests: HashMap<RequestKey, requests::Request>,
    log: Vec<Arc<Event>>,
    /// How much of the log each group of consumers has processed.
    consumed: BTreeMap<String, usize>,
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
            sessions: BTreeMap::new(),
            codes: BTreeMap::new(),
            requests: HashMap::new(),
            log: Vec::new(),
            consumed: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), log_len: watch::Sender::new(0) }) }
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
        self.shared.log_len.send_if_modified(|len| std::mem::replace(len, state.log.len()) != state.log.len());
        result
    }
}

impl State {
    fn record(&mut self, event_time: Timestamp, body: EventBody) {
        self.log.push(Arc::new(Event { event_id: self.ids.ulid().into(), event_time, body }));
    }
}

impl ChatState {
    /// The sequence of the last message. Where the head row is lost, readers and watermarks go by the messages.
    fn head_sequence(&self) -> Sequence {
        let last = || self.messages.last_key_value().map(|(sequence, _)| *sequence);
        self.head.as_ref().map(|head| head.sequence).or_else(last).unwrap_or_default()
    }
}
