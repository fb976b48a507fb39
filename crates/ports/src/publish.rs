use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, Event, Sequence, Timestamp};

use crate::StoreError;

/// The producer side of an event log that is separate from the store.
#[async_trait]
pub trait EventProducer: Send + Sync {
    /// Publishes events, and returns when the log has stored all of them durably. Events of one chat and one kind are
    /// appended in the order of the arguments. After an error, some of them may be in the log; publishing them again
    /// makes consumers see them twice.
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError>;
}

/// A commit of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The chat of the commit.
    pub chat_id: ChatId,
    /// The message events of the commit, ascending and without a gap; empty if the commit changed the chat or its
    /// members.
    pub messages: Vec<Arc<Event>>,
}

/// A pending event of a chat or its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The store's key of the event.
    pub key: String,
    /// The event.
    pub event: Arc<Event>,
}

/// The transactional outbox of a store: committed events that may not be in the log yet (C2).
///
/// Every commit marks its event as pending here, in the same transaction. The mark stays until the relay confirms that
/// the log has the event. If a process crashes between commit and log, another relay finds the mark. Several processes
/// may publish the same chat. Each starts at the oldest pending event, so earlier events reach the log first, and an
/// event may reach it twice.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Waits for commits of this process and returns some, in commit order; never an empty list. This is a shortcut
    /// without a guarantee: [`overdue`](Self::overdue) finds every commit that it misses. Dropping the future loses no
    /// commit.
    async fn committed(&self) -> Vec<Committed>;

    /// Chats with an event that has been pending since `before` or longer, the longest pending first. The list may be
    /// incomplete, and it may lag behind commits and confirmations; it contains each chat once.
    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError>;

    /// The first pending messages of a chat, ascending and without a gap, except that messages that have expired or do
    /// not decode are left out: they are never delivered. The number is bounded. An empty answer means that no message
    /// up to the current head is pending; the chat is then no longer overdue because of its messages.
    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError>;

    /// Confirms that the log has all messages of a chat up to `through`. A value at or below the confirmed one changes
    /// nothing.
    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError>;

    /// The first pending changes of a chat and its members, and purges of its messages; a bounded number. Changes are
    /// in commit order, then follow the purges; no two purges name the same message. An event that does not decode is
    /// set aside for an operator and does not block later ones.
    async fn pending_changes(&self, chat_id: ChatId) -> Result<Vec<PendingChange>, StoreError>;

    /// Confirms that the log has these changes of a chat.
    async fn confirm_changes(&self, chat_id: ChatId, keys: &[String]) -> Result<(), StoreError>;
}
