use domain::{ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, Sequence, UserId};
use serde::{Deserialize, Serialize};

/// One thing that a client did or saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, in milliseconds of the clock that all clients share, real or virtual. Expiry is judged by it, and nothing else:
    /// what came first is told by the order of entries.
    pub at: u64,
    /// Who.
    pub client: Client,
    /// What.
    pub op: Op,
}

/// One device of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    pub user_id: UserId,
    pub device_id: DeviceId,
}

/// What a client does or sees. Calls are noted before they are made, answers after they have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// A send is about to leave. May be said again at a retry, which changes nothing.
    SendBegan {
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        /// The [`fingerprint`] of the content. Contents should differ: where two sends of a user into a chat say the same,
        /// it is unknown which of them a message is, unless its `client_message_id` is shown.
        content: u64,
        /// How long it is to live, by its own word or by that of its chat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_seconds: Option<u64>,
        /// Whether the client keeps its ordered sends into a chat in order, over reconnects too: it retries what is
        /// unanswered before it sends anything new. A call over REST is not, nor is a send of a client that goes on after a
        /// refusal without a [`SendFailed`](Self::SendFailed) in its history.
        ordered: bool,
    },
    /// The acknowledgement of a send.
    SendAcked { chat_id: ChatId, client_message_id: ClientMessageId, message_id: MessageId, sequence: Sequence },
    /// A refusal, also one that passes and after which the client tries again.
    SendFailed {
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        /// As on the wire, `NOT_A_MEMBER` for instance.
        code: String,
    },
    /// A connection stands.
    Connected { connection: ConnectionId },
    /// The connection is gone.
    Disconnected,
    /// The client is about to sync a chat from above `after`.
    SyncBegan { chat_id: ChatId, after: Sequence },
    /// The answer to that.
    SyncDone { chat_id: ChatId, page: Page },
    /// A client that hands out messages in order begins, with the places up to which it has the messages of chats. The
    /// others begin where the server says that their user is.
    Restarted { positions: Vec<(ChatId, Sequence)> },
    /// The client hands a message to its application, one after the other as the contract asks. A client that only listens
    /// to pushes, as they come, notes none.
    Rendered { chat_id: ChatId, message: Seen },
    /// The client is about to make somebody a member, or to found a chat with them.
    Joining { chat_id: ChatId, user_id: UserId },
    /// They are a member. A call of unknown outcome has no answer.
    Joined { chat_id: ChatId, user_id: UserId },
    /// The client is about to remove somebody, or to leave.
    Leaving { chat_id: ChatId, user_id: UserId },
    /// They are no member. A call of unknown outcome has no answer.
    Left { chat_id: ChatId, user_id: UserId },
    /// The client is about to say how far its user has come.
    Marked { chat_id: ChatId, delivered: Sequence, read: Sequence },
    /// The client is about to ask how its user stands in a chat.
    Asked { chat_id: ChatId },
    /// The answer to that.
    Shown { chat_id: ChatId, head: Sequence, delivered: Sequence, read: Sequence, unread: u64 },
    /// The client is gone for good and gets nothing more.
    Stopped,
    /// A chat as a fresh reader sees it, who may see all of it; in pages from its beginning. Who the client is does not
    /// matter.
    Stored {
        chat_id: ChatId,
        /// When the reading of this page began, by the clock of [`Entry::at`].
        began_at: u64,
        page: Page,
    },
    /// Nothing fails any more, and every client had its time to catch up: whatever is to happen eventually has happened.
    /// What a later [`Stored`](Self::Stored) shows for the first time is not counted, so it is better read before.
    Settled,
}

/// Consecutive messages of a chat: all there are above `after`, up to and including `through`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    pub after: Sequence,
    pub through: Sequence,
    /// Whether `through` is the head of the chat.
    pub is_last: bool,
    pub messages: Vec<Seen>,
}

/// A message as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    pub sequence: Sequence,
    pub message_id: MessageId,
    pub sender_id: UserId,
    /// Shown to the devices of its sender only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<ClientMessageId>,
    /// The [`fingerprint`] of the content.
    pub content: u64,
}

/// A number that stands for a content: a history says whether it came through unchanged, and not what it was (FNV-1a).
pub fn fingerprint(content: &str) -> u64 {
    content.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
