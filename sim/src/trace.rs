use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use domain::{ChatId, Invariant, Sequence, UserId};

/// All events of a run, in order.
///
/// The same plan gives the same trace, including every entry, so that a seed can be replayed.
#[derive(Clone, Debug, Default)]
pub struct RunTrace {
    /// The entries, in chronological order.
    pub entries: Vec<TraceEntry>,
    /// Names of the chats and users of this run.
    pub names: TraceNames,
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceEntry {
    /// Virtual time since the run began.
    pub at: Duration,
    /// The subject of the event.
    pub actor: TraceActor,
    /// The event.
    pub what: TraceEvent,
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceActor {
    /// The fault injector.
    Nemesis,
    /// A process of the service.
    Process(String),
    /// A device of a user.
    Client(String),
    /// The store.
    Store,
    /// The event log.
    Log,
    /// The invariant checker.
    Checker,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TraceEvent {
    /// A process has started.
    Started,
    /// A process was killed and does nothing more.
    Killed,
    /// A process drains.
    Drained,
    /// A fault begins or ends.
    Fault(String),
    /// A client has opened a connection.
    Connected {
        /// The gateway.
        gateway: String,
    },
    /// A client has lost its connection, or was refused one.
    Disconnected {
        /// The reason.
        how: String,
    },
    /// A client sends, or retries.
    Sending {
        /// The chat.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
    },
    /// A client received an acknowledgement.
    Acked {
        /// The chat.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
        /// The sequence of the message.
        sequence: Sequence,
        /// Whether an earlier attempt had committed it.
        deduplicated: bool,
    },
    /// A client received a permanent refusal.
    Failed {
        /// The chat.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
        /// The error code.
        code: String,
    },
    /// A message has become durable and visible.
    Committed {
        /// The chat.
        chat_id: ChatId,
        /// Its sequence.
        sequence: Sequence,
        /// Its sender.
        sender_id: UserId,
    },
    /// A message is in the log.
    Published {
        /// The chat.
        chat_id: ChatId,
        /// Its sequence.
        sequence: Sequence,
    },
    /// A process pushes a message to a gateway.
    Pushed {
        /// The chat.
        chat_id: ChatId,
        /// Its sequence.
        sequence: Sequence,
        /// The gateway.
        gateway: String,
        /// The recipients.
        recipients: Vec<UserId>,
    },
    /// A client shows a message.
    Rendered {
        /// The chat.
        chat_id: ChatId,
        /// Its sequence.
        sequence: Sequence,
        /// Its sender.
        sender_id: UserId,
    },
    /// A client reports a watermark.
    Marked {
        /// The chat.
        chat_id: ChatId,
        /// Whether it was read, or only delivered.
        read: bool,
        /// The watermark.
        sequence: Sequence,
    },
    /// The members of a chat have changed.
    Members {
        /// The chat.
        chat_id: ChatId,
        /// The user who joined or left.
        user_id: UserId,
        /// Whether they are a member now.
        joined: bool,
    },
    /// Messages have expired.
    Expired {
        /// The chat.
        chat_id: ChatId,
        /// Their sequences.
        sequences: Vec<Sequence>,
    },
    /// A client received the presence of a user.
    Seen {
        /// The user.
        user_id: UserId,
        /// The received presence.
        view: String,
    },
    /// A call of the REST API, and its answer.
    Called {
        /// The request.
        what: String,
        /// The status of the answer, or the failure.
        answer: String,
    },
    /// An invariant was violated.
    Violated {
        /// The invariant.
        invariant: Invariant,
        /// Details of the violation.
        detail: String,
    },
}

impl TraceEvent {
    /// The chat of the event, if any.
    pub fn chat_id(&self) -> Option<ChatId> {
        match self {
            Self::Sending { chat_id, .. }
            | Self::Acked { chat_id, .. }
            | Self::Failed { chat_id, .. }
            | Self::Committed { chat_id, .. }
            | Self::Published { chat_id, .. }
            | Self::Pushed { chat_id, .. }
            | Self::Rendered { chat_id, .. }
            | Self::Marked { chat_id, .. }
            | Self::Members { chat_id, .. }
            | Self::Expired { chat_id, .. } => Some(*chat_id),
            _ => None,
        }
    }
}

/// Readable names of the chats and users of a run.
#[derive(Clone, Debug, Default)]
pub struct TraceNames {
    chats: BTreeMap<ChatId, String>,
    users: BTreeMap<UserId, String>,
}

impl TraceNames {
    /// Gives a chat its name.
    pub fn name_chat(&mut self, chat_id: ChatId, name: impl Into<String>) {
        self.chats.insert(chat_id, name.into());
    }

    /// Gives a user their name.
    pub fn name_user(&mut self, user_id: UserId, name: impl Into<String>) {
        self.users.insert(user_id, name.into());
    }

    /// The name of a chat, or its id.
    pub fn chat(&self, chat_id: ChatId) -> String {
        self.chats.get(&chat_id).cloned().unwrap_or_else(|| chat_id.to_string())
    }

    /// The name of a user, or their id.
    pub fn user(&self, user_id: UserId) -> String {
        self.users.get(&user_id).cloned().unwrap_or_else(|| user_id.to_string())
    }
}

impl RunTrace {
    /// A hash that differs between runs with different traces.
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.entries.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for TraceActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nemesis => f.write_str("nemesis"),
            Self::Process(name) | Self::Client(name) => f.write_str(name),
            Self::Store => f.write_str("store"),
            Self::Log => f.write_str("log"),
            Self::Checker => f.write_str("checker"),
        }
    }
}
