use async_trait::async_trait;
use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, IngestError, Sequence, Ttl, UpdateAction, UserId, WatermarkKind,
    Watermarks,
};
use futures_util::future::BoxFuture;

use crate::{Assertion, Page, Receipt};

/// The content of a send: a new entry of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendContent {
    /// A message.
    Message {
        /// The body of the message.
        body: Body,
        /// The lifetime of the message; the default of the chat if absent.
        ttl: Option<Ttl>,
    },
    /// An update of a message.
    Update {
        /// The sequence of the message.
        target: Sequence,
        /// The action on the message.
        action: UpdateAction,
    },
}

impl SendContent {
    /// The kibibytes that the entry counts as.
    pub fn stored_kib(&self) -> u32 {
        match self {
            Self::Message { body, .. } => body.stored_kib(),
            Self::Update { action, .. } => action.stored_kib(),
        }
    }
}

/// A request to send a message, or to update one.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The chat to send to.
    pub chat_id: ChatId,
    /// The sender; authenticated by the caller, or by the assertion if the call goes to another process.
    pub sender_id: UserId,
    /// The client's id of the send.
    pub client_message_id: ClientMessageId,
    /// The entry to be committed.
    pub content: SendContent,
    /// The connection that the request came from, if any.
    pub origin_connection_id: Option<ConnectionId>,
    /// The proof of the sender's authentication, for another process.
    pub assertion: Option<Assertion>,
}

/// A send that is durable (G1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The receipt for the sender.
    pub receipt: Receipt,
    /// Whether an earlier attempt of this send was already committed.
    pub deduplicated: bool,
}

/// A client's request for the messages after a sequence.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// The reader; authenticated as the sender of a [`SendRequest`] is.
    pub user_id: UserId,
    /// The chat to read.
    pub chat_id: ChatId,
    /// The highest sequence that the client has without gaps.
    pub after: Sequence,
    /// Maximum number of messages in the page.
    pub limit: usize,
    /// The proof of the reader's authentication, for another process.
    pub assertion: Option<Assertion>,
}

/// A request to advance one of a member's watermarks.
#[derive(Clone, Debug)]
pub struct AdvanceRequest {
    /// The member; authenticated as the sender of a [`SendRequest`] is.
    pub user_id: UserId,
    /// The chat.
    pub chat_id: ChatId,
    /// The watermark to advance.
    pub kind: WatermarkKind,
    /// The sequence to advance it to.
    pub to: Sequence,
    /// The proof of the member's authentication, for another process.
    pub assertion: Option<Assertion>,
}

/// The durability plane, as the gateway and the API use it.
///
/// Ingest authorizes every call against the store, and answers every call within its deadline of 5 s (G5).
#[async_trait]
pub trait Ingest: Send + Sync {
    /// Sends a message, or updates one. The request is queued before this method returns; the future only waits for the outcome. Calls
    /// made one after another are therefore sequenced in that order, whenever their futures are polled. Dropping the
    /// future does not cancel the send.
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>>;

    /// Reads the messages after a sequence for a member, with strong consistency.
    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError>;

    /// Advances one of a member's watermarks. A value at or below the current one is accepted and changes nothing.
    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError>;
}
