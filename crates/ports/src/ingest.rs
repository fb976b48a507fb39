use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ChatId, ClientMessageId, ConnectionId, Content, ContentType, Sequence, Ttl, UserId, WatermarkKind, Watermarks,
};
use futures_util::future::BoxFuture;

use crate::{Page, Receipt};

/// A message somebody wants sent.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// Where.
    pub chat_id: ChatId,
    /// By whom; the caller has authenticated them.
    pub sender_id: UserId,
    /// The sender's name for the send.
    pub client_message_id: ClientMessageId,
    /// What it says.
    pub content: Content,
    /// How to read it.
    pub content_type: ContentType,
    /// How long it lives.
    pub ttl: Option<Ttl>,
    /// The connection it came in on, if any.
    pub origin_connection_id: Option<ConnectionId>,
}

/// A send that is durable (G1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What the sender is told.
    pub receipt: Receipt,
    /// Whether an earlier try had been committed.
    pub deduplicated: bool,
}

/// A client's question for what it has missed.
#[derive(Clone, Copy, Debug)]
pub struct SyncRequest {
    /// Who asks; the caller has authenticated them.
    pub user_id: UserId,
    /// Where.
    pub chat_id: ChatId,
    /// What the client has.
    pub after: Sequence,
    /// Messages in the answer, at the most.
    pub limit: usize,
}

/// Why the durability plane did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// There is no such chat.
    #[error("no such chat")]
    ChatNotFound,
    /// Only members send and read.
    #[error("you are not a member of this chat")]
    NotAMember,
    /// A retry has other content than the first try.
    #[error("this client_message_id was used for a message with other content, content type or ttl")]
    IdempotencyKeyReused,
    /// The other of a direct chat has blocked the sender, who is not told so.
    #[error("you cannot write to this user")]
    Blocked,
    /// The sender has blocked the other of a direct chat.
    #[error("you have blocked this user; unblock them to write to them")]
    Blocking,
    /// The chat's head row is gone.
    #[error("this chat cannot take messages until an operator has repaired it")]
    CounterMissing,
    /// A record of the chat is damaged; trying again does not help.
    #[error("this chat cannot be used until an operator has looked at it")]
    Unreadable,
    /// A sequence above the chat's head.
    #[error("sequence is above the head of the chat, {head}")]
    AboveHead {
        /// The head.
        head: Sequence,
    },
    /// The queue is full; nothing was done.
    #[error("too many sends are waiting")]
    Busy,
    /// The store did not answer, or not in time. A send may have been committed; the retry will tell.
    #[error("the service cannot do this now")]
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
}

/// The durability plane, as the gateway and the API see it.
///
/// It authorizes every call against the store itself, and answers every call within its deadline of 5 s (G5).
#[async_trait]
pub trait Ingest: Send + Sync {
    /// Sends a message. The request has its place in the order before this returns; the future only waits for the
    /// outcome, so calls made one after another are sequenced in that order, whenever their futures are polled. Dropping
    /// the future does not withdraw the send.
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>>;

    /// Reads what a member has missed, strongly consistent.
    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError>;

    /// Moves one of a member's watermarks forward. A place behind the present one is no error.
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Watermarks, IngestError>;
}
