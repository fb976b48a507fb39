use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, Event, Sequence, Timestamp};

use crate::StoreError;

/// The producers' half of an event log that is not part of the store.
#[async_trait]
pub trait EventProducer: Send + Sync {
    /// Publishes events, and returns when the log has all of them for good. Events of one chat and one kind get into the
    /// log in the order they are handed over. After an error some of them may be there; whoever publishes them again has
    /// consumers see them twice.
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError>;
}

/// Something that this process has just committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The chat it is of.
    pub chat_id: ChatId,
    /// The messages of one commit, ascending and without a hole; none if it was a change of the chat.
    pub messages: Vec<Arc<Event>>,
}

/// An event of a chat or its members that waits to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The store's name for it.
    pub place: String,
    /// What happened.
    pub event: Arc<Event>,
}

/// What a store has committed and does not know to be in the log (C2).
///
/// Every commit leaves its mark here, in the same transaction, and the mark stays until somebody says that the log has
/// the event. So whatever dies between commit and log, the next one to look finds it. Several processes may publish the
/// same chat: each begins at the oldest event that is not known to be published, so that of every two events the earlier
/// one gets into the log first, and the same one twice at the worst.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Waits for commits of this process and returns some, in their order; never none. It is the short way and no
    /// promise: what is not told here in time is found by [`overdue`](Self::overdue). Dropping the future loses nothing.
    async fn committed(&self) -> Vec<Committed>;

    /// Chats with something that has waited since `before` or longer, the longest waiting first; some of them, each once.
    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError>;

    /// The first messages of a chat that are not known to be in the log, ascending and without a hole but for those
    /// that have expired or cannot be read: they reach nobody any more. A bounded number; none only if nothing is left
    /// to publish up to the head of this moment, and then the chat is not overdue for its messages any more.
    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError>;

    /// Says that the log has all messages of a chat up to `through`. A place behind the present one changes nothing.
    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError>;

    /// The first changes of a chat and its members, and purges of its messages, that are not known to be in the log; a
    /// bounded number. Changes are in the order of their commits, purges behind them: no two of these tell of one
    /// message. One that cannot be read is set aside for an operator and holds up nobody.
    async fn waiting(&self, chat_id: ChatId) -> Result<Vec<Waiting>, StoreError>;

    /// Says that the log has these changes of a chat.
    async fn forget(&self, chat_id: ChatId, places: &[String]) -> Result<(), StoreError>;
}
