use std::time::Duration;

use crate::{Sequence, UpdateRefusal};

/// Retry delay after a send met a full queue. A batch commits in milliseconds, so the queue has space again by then.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Retry delay after a send met a full store. Space returns with a purge, or when an operator makes room.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(30);

/// A bound on the space of a store, by its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageLimit {
    /// The bytes that the store uses.
    MaxGib,
    /// The bytes that the disk has left.
    MinFreeMib,
}

impl StorageLimit {
    /// The name of its setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::MaxGib => "store.max_gib",
            Self::MinFreeMib => "store.min_free_mib",
        }
    }
}

/// Why ingest refused or failed a request.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The chat does not exist.
    #[error("no such chat")]
    ChatNotFound,
    /// The caller is not a member of the chat; only members send and read.
    #[error("you are not a member of this chat")]
    NotAMember,
    /// The `client_message_id` was used before with other content, content type or ttl.
    #[error("this client_message_id was used for a message with other content, content type or ttl")]
    IdempotencyKeyReused,
    /// The other user of the direct chat has blocked the sender. The text does not reveal the block.
    #[error("you cannot write to this user")]
    Blocked,
    /// The sender has blocked the other user of the direct chat.
    #[error("you have blocked this user; unblock them to write to them")]
    Blocking,
    /// The sender is suspended.
    #[error("this account is suspended")]
    Suspended,
    /// The chat has no head row.
    #[error("this chat cannot take messages until an operator has repaired it")]
    CounterMissing,
    /// A row of the chat does not decode; a retry does not help.
    #[error("this chat cannot be used until an operator has repaired it")]
    Unreadable,
    /// The message does not permit the update.
    #[error(transparent)]
    Update(UpdateRefusal),
    /// The requested sequence is above the head sequence of the chat.
    #[error("sequence is above the head of the chat, {head}")]
    AboveHead {
        /// The head sequence.
        head: Sequence,
    },
    /// The store has no space for new messages; the request had no effect. Reads continue.
    #[error("the service has no space for new messages (`{}`)", .0.setting())]
    StorageFull(StorageLimit),
    /// The queue is full; the request had no effect.
    #[error("the send queue is full")]
    Busy,
    /// The store failed or missed the deadline. The send may have been committed; a retry with the same id returns the
    /// outcome.
    #[error("the service cannot do this now")]
    Unavailable {
        /// The delay before the next attempt.
        retry_after: Duration,
    },
}

impl IngestError {
    /// The delay before the next attempt; `None` if the same request would fail again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy => Some(BUSY_RETRY_AFTER),
            Self::StorageFull(_) => Some(FULL_RETRY_AFTER),
            Self::Unavailable { retry_after } => Some(*retry_after),
            Self::ChatNotFound
            | Self::NotAMember
            | Self::IdempotencyKeyReused
            | Self::Blocked
            | Self::Blocking
            | Self::Suspended
            | Self::CounterMissing
            | Self::Unreadable
            | Self::Update(_)
            | Self::AboveHead { .. } => None,
        }
    }
}
