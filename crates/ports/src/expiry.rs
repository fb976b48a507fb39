use async_trait::async_trait;
use domain::{ChatId, Message, Sequence, Timestamp, Ttl, UserId};

use crate::StoreError;

/// Which messages of a chat are to end sooner than they would, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Those of one sender; everybody's, if absent.
    pub sender: Option<UserId>,
    /// How long they live from when they were sent; not a moment longer, if absent.
    pub lifetime: Option<Ttl>,
}

impl Expiry {
    /// When a message ends by this. `None` if it is none of those that are meant, or does not end sooner by it: no message is
    /// given a longer life.
    pub fn end_of(&self, message: &Message, now: Timestamp) -> Option<Timestamp> {
        let is_meant = self.sender.is_none_or(|sender| sender == message.sender_id);
        let end = self.lifetime.map_or(now, |lifetime| (message.created_at + lifetime.as_duration()).max(now));
        let is_sooner = message.expires_at.is_none_or(|expires_at| expires_at > end);
        (is_meant && is_sooner).then_some(end)
    }
}

/// How far one step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// Messages that end sooner now.
    pub messages: usize,
    /// Where the next step begins; `None` if every message up to the head of this step's moment was looked at.
    pub next: Option<Sequence>,
}

/// Has messages that were sent long ago end, as if they had been given a shorter life.
///
/// A message that has ended by `now` is in no read from then on, and its words are gone from the inbox (G11); it is purged
/// and told of like any other that has expired. Its send key stays (G2), and so does its sequence (G3). Where a log keeps
/// copies of messages for some days, those of its copies that were made before stay for as long.
#[async_trait]
pub trait MessageExpirer: Send + Sync {
    /// Looks at some messages of a chat from a sequence on, a bounded number, and has those that `which` means end when it
    /// says. Each step is durable when it returns; the same step again changes nothing.
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<Shortened, StoreError>;
}
