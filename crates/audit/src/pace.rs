use async_trait::async_trait;

use crate::Checkpoint;

/// The caller of an audit: it limits the speed, receives the progress, and may store checkpoints.
#[async_trait]
pub trait AuditPacer: Send + Sync {
    /// Receives the progress. Returns when the audit may read more.
    async fn read(&self, progress: AuditProgress);

    /// Waits briefly, so that writes in progress can complete.
    async fn moment(&self);

    /// Receives a position at which the audit could resume.
    async fn reached(&self, checkpoint: &Checkpoint);
}

/// Progress of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditProgress {
    /// The name of the current [`Stage`], or `routes`.
    pub stage: &'static str,
    /// Rows and records read so far.
    pub read: u64,
    /// Approximate number of rows at the start.
    pub all: u64,
}

/// The stages of an audit of a store, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The log, from its oldest record on.
    Log,
    /// Chats with their members and messages.
    Chats,
    /// The rows that list the chats of each user.
    Listings,
    /// The pairs of direct chats.
    Pairs,
    /// The deduplication keys of sends.
    SendKeys,
    /// All other rows.
    Others,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 6] = [Self::Log, Self::Chats, Self::Listings, Self::Pairs, Self::SendKeys, Self::Others];

    /// The name in reports and checkpoints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Chats => "chats",
            Self::Listings => "listings",
            Self::Pairs => "pairs",
            Self::SendKeys => "send_keys",
            Self::Others => "others",
        }
    }
}

/// No delays and no checkpoints: for a store that is small or not in use.
pub struct AtOnce;

#[async_trait]
impl AuditPacer for AtOnce {
    async fn read(&self, _: AuditProgress) {}

    async fn moment(&self) {}

    async fn reached(&self, _: &Checkpoint) {}
}
