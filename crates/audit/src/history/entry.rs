use domain::{ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, Sequence, UserId};
use serde::{Deserialize, Serialize};

/// One operation or observation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Time in milliseconds of the clock that all clients share, real or virtual. It only serves to check expiry; the
    /// order of events is the order of entries.
    pub at: u64,
    /// The client.
    pub client: Client,
    /// The operation.
    pub op: HistoryOp,
}

/// One device of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    pub user_id: UserId,
    pub device_id: DeviceId,
}

/// Operation or observation of a client. Calls are recorded before they are made, responses after they have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HistoryOp {
    /// A send is about to leave. A retry may record it again, without effect.
    SendBegan {
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        /// The [`fingerprint`] of the content. Contents should differ: if a user sends the same content twice to a chat, a
        /// message matches either send, unless it carries its `client_message_id`.
        content: u64,
        /// Time to live, set by the send or by its chat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_seconds: Option<u64>,
        /// Whether the client keeps this send in order with its other ordered sends to the chat, also over reconnects: it
        /// retries unanswered sends before it sends new ones. `false` for a call over REST, and for a client that continues
        /// after a rejection without recording [`SendFailed`](Self::SendFailed).
        ordered: bool,
    },
    /// An update of a message is about to leave. Its entry is acknowledged, rejected and rendered like a message. It counts
    /// as unread for nobody.
    UpdateBegan {
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        /// A hash of the fields that every client sees: the message, the kind of the update, and the reaction.
        content: u64,
        /// The remaining lifetime of the message, with which the update expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_seconds: Option<u64>,
        /// As in [`SendBegan`](Self::SendBegan); sends and updates have one order.
        ordered: bool,
    },
    /// The client is about to edit a message of its user: from now on it may have this content, too.
    Editing {
        chat_id: ChatId,
        /// The send of the message.
        client_message_id: ClientMessageId,
        /// The [`fingerprint`] of the new content.
        content: u64,
    },
    /// The client is about to delete a message for everyone: it may be gone from then on.
    Deleting { chat_id: ChatId, sequence: Sequence },
    /// The acknowledgement of a send.
    SendAcked { chat_id: ChatId, client_message_id: ClientMessageId, message_id: MessageId, sequence: Sequence },
    /// A rejection, including a temporary one that the client retries.
    SendFailed {
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        /// The error code on the wire, for example `NOT_A_MEMBER`.
        code: String,
    },
    /// A connection is established.
    Connected { connection: ConnectionId },
    /// The connection is closed.
    Disconnected,
    /// The client is about to sync a chat from above `after`.
    SyncBegan { chat_id: ChatId, after: Sequence },
    /// The response to a sync.
    SyncDone { chat_id: ChatId, page: Page },
    /// A client that renders messages in order starts, with its positions in chats. In other chats it starts at the position
    /// that the server returns for its user.
    Restarted { positions: Vec<(ChatId, Sequence)> },
    /// The client passes a message or an update to its application, in order as the contract requires. A client that only listens to
    /// pushes records none.
    Rendered { chat_id: ChatId, message: Seen },
    /// The client is about to add a member, or to create a chat with them.
    Joining { chat_id: ChatId, user_id: UserId },
    /// The user is a member. A call with an unknown outcome has no such entry.
    Joined { chat_id: ChatId, user_id: UserId },
    /// The client is about to remove a member, or to leave. Each message may be gone from then on, unless another user is
    /// certainly a member.
    Leaving { chat_id: ChatId, user_id: UserId },
    /// The user is not a member any more. A call with an unknown outcome has no such entry.
    Left { chat_id: ChatId, user_id: UserId },
    /// The client is about to delete its account with all its messages: from now on each of them may be gone.
    Erasing { user_id: UserId },
    /// The client is about to send its user's watermarks.
    Marked { chat_id: ChatId, delivered: Sequence, read: Sequence },
    /// The client is about to ask for its user's state in a chat.
    Asked { chat_id: ChatId },
    /// The response to `Asked`.
    Shown { chat_id: ChatId, head: Sequence, delivered: Sequence, read: Sequence, unread: u64 },
    /// The client has stopped permanently and receives nothing more.
    Stopped,
    /// A page of the chat as a reader with full access sees it, starting from the beginning. The client of the entry does not
    /// matter.
    Stored {
        chat_id: ChatId,
        /// Time at which reading this page started, by the clock of [`Entry::at`].
        began_at: u64,
        page: Page,
    },
    /// Faults have ended and every client had time to catch up, so all eventual guarantees must hold now. Messages that a
    /// later [`Stored`](Self::Stored) shows for the first time are not counted, so read the store before.
    Settled,
}

/// All messages of a chat above `after`, up to and including `through`.
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
    /// Only present for devices of the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<ClientMessageId>,
    /// The [`fingerprint`] of the content.
    pub content: u64,
}

/// Hash of a content (FNV-1a). It shows whether the content is unchanged without disclosing it.
pub fn fingerprint(content: &str) -> u64 {
    content.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
