use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use domain::{ChatId, Invariant, Sequence, UserId};

/// Everything that happened in a run, in order.
///
/// The same plan gives the same trace, to the last entry: that is what makes a seed worth keeping.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The entries, in the order in which they happened.
    pub entries: Vec<Entry>,
    /// What the chats and users of this run are called.
    pub names: Names,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Virtual time since the run began.
    pub at: Duration,
    /// Who did it, or to whom it happened.
    pub actor: Actor,
    /// What it was.
    pub what: What,
}

/// Whoever does something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The one who makes things fail.
    Nemesis,
    /// A process of ours.
    Process(String),
    /// A device of a user.
    Client(String),
    /// What is stored.
    Store,
    /// The event log beside it.
    Log,
    /// Whoever watches that promises are kept.
    Checker,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A process has started.
    Started,
    /// A process was killed: whatever it was about to do, it does not.
    Killed,
    /// A process goes in good order.
    Drained,
    /// Something fails, or works again.
    Fault(String),
    /// A client has opened a connection.
    Connected {
        /// Where.
        gateway: String,
    },
    /// A client has lost its connection, or was refused one.
    Disconnected {
        /// How.
        how: String,
    },
    /// A client sends, or sends again.
    Sending {
        /// Into which chat.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
    },
    /// A client was told that its message is durable.
    Acked {
        /// Where.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
        /// The message's place.
        sequence: Sequence,
        /// Whether an earlier try had made it.
        deduplicated: bool,
    },
    /// A client was told that its message was refused for good.
    Failed {
        /// Where.
        chat_id: ChatId,
        /// Its name for the send.
        send: String,
        /// Why.
        code: String,
    },
    /// A message has become durable and visible.
    Committed {
        /// Where.
        chat_id: ChatId,
        /// Its place.
        sequence: Sequence,
        /// Its sender.
        sender_id: UserId,
    },
    /// A message is in the log.
    Published {
        /// Where.
        chat_id: ChatId,
        /// Its place.
        sequence: Sequence,
    },
    /// A process pushes a message to a gateway.
    Pushed {
        /// Where.
        chat_id: ChatId,
        /// Its place.
        sequence: Sequence,
        /// To which gateway.
        gateway: String,
        /// For whom.
        recipients: Vec<UserId>,
    },
    /// A client shows a message.
    Rendered {
        /// Where.
        chat_id: ChatId,
        /// Its place.
        sequence: Sequence,
        /// Its sender.
        sender_id: UserId,
    },
    /// A client says how far its user has come.
    Marked {
        /// Where.
        chat_id: ChatId,
        /// Whether it was read, or only delivered.
        read: bool,
        /// How far.
        sequence: Sequence,
    },
    /// The members of a chat have changed.
    Members {
        /// Where.
        chat_id: ChatId,
        /// Who came or went.
        user_id: UserId,
        /// Whether they are a member now.
        joined: bool,
    },
    /// Messages are gone, because their time is over.
    Expired {
        /// Where.
        chat_id: ChatId,
        /// Which.
        sequences: Vec<Sequence>,
    },
    /// A client was shown whether somebody is there.
    Seen {
        /// Whom.
        user_id: UserId,
        /// What it was shown.
        view: String,
    },
    /// A call of the REST API, and its answer.
    Called {
        /// What was asked for.
        what: String,
        /// The status of the answer, or what became of it.
        answer: String,
    },
    /// A promise is broken.
    Violated {
        /// Which.
        invariant: Invariant,
        /// How.
        detail: String,
    },
}

impl What {
    /// The chat it is about, if it is about one.
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

/// What the chats and users of a run are called by whoever reads of it.
#[derive(Clone, Debug, Default)]
pub struct Names {
    chats: BTreeMap<ChatId, String>,
    users: BTreeMap<UserId, String>,
}

impl Names {
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

impl Trace {
    /// A number that two runs share only if they went the same way.
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.entries.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Actor {
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
