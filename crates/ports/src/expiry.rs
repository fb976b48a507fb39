use async_trait::async_trait;
use domain::{ChatId, Message, Sequence, Timestamp, Ttl, UserId};

use crate::{AuditPage, PageBookmark, StoreError};

/// Selects messages of a chat that are to expire earlier, and sets their lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Selects the messages of one sender; of all senders if absent.
    pub sender: Option<UserId>,
    /// The lifetime from `created_at` on; the messages expire at once if absent.
    pub lifetime: Option<Ttl>,
}

impl Expiry {
    /// The new expiry time of a message. `None` if the message is not selected, or would not expire earlier than
    /// before: an `Expiry` never extends a lifetime.
    pub fn end_of(&self, message: &Message, now: Timestamp) -> Option<Timestamp> {
        let is_meant = self.sender.is_none_or(|sender| sender == message.sender_id);
        let end = self.lifetime.map_or(now, |lifetime| (message.created_at + lifetime.as_duration()).max(now));
        let is_sooner = message.expires_at.is_none_or(|expires_at| expires_at > end);
        (is_meant && is_sooner).then_some(end)
    }
}

/// The progress of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryProgress {
    /// The number of messages that this step changed.
    pub messages: usize,
    /// The start of the next step; `None` if the steps have covered every message up to the head at the time of this
    /// step.
    pub next: Option<Sequence>,
}

/// Ids of chats, in an order that the store defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatIdPage {
    /// The ids. A page before the last one may be empty.
    pub chat_ids: Vec<ChatId>,
    /// The start of the next page; `None` after the last page.
    pub next: Option<PageBookmark>,
}

impl From<AuditPage<ChatId>> for ChatIdPage {
    /// Leaves unreadable rows to the audit.
    fn from(page: AuditPage<ChatId>) -> Self {
        Self { chat_ids: page.rows.into_iter().filter_map(|row| row.row.ok()).collect(), next: page.next }
    }
}

/// Shortens the lifetime of messages that are already committed.
///
/// From its expiry time on, a message is in no read, and its preview is removed from the inbox (G11). It is purged and
/// announced like any other expired message. Its send key (G2) and its sequence (G3) stay. A log that is separate from
/// the store keeps its existing copies of the message until its retention time ends.
#[async_trait]
pub trait MessageExpirer: Send + Sync {
    /// Examines a bounded number of messages of a chat, from `from` on, and shortens the lifetime of those that `which`
    /// selects. The step is durable when the call returns. Repeating a step changes nothing.
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<ExpiryProgress, StoreError>;

    /// The ids of all chats, up to `count` at a time. A chat that exists during the whole walk is in exactly one page.
    /// For background work only: a store may read a whole table for it.
    async fn chat_ids(&self, after: Option<&PageBookmark>, count: usize) -> Result<ChatIdPage, StoreError>;
}
