use async_trait::async_trait;

use crate::Checkpoint;

/// Whoever has an audit done: it sets the pace, hears how far it is, and may keep where it could go on.
#[async_trait]
pub trait Pace: Send + Sync {
    /// Hears what was read so far, and returns when more may be.
    async fn read(&self, progress: Progress);

    /// Waits for a moment: what others are writing just now is done by then.
    async fn moment(&self);

    /// Hears of a place from which the audit could go on.
    async fn reached(&self, checkpoint: &Checkpoint);
}

/// How far an audit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is at: the name of a [`Stage`], or `routes`.
    pub stage: &'static str,
    /// Rows and records that were read.
    pub read: u64,
    /// Rows that there were in the beginning, roughly.
    pub all: u64,
}

/// The parts of an audit of a store, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The log, from its oldest record on.
    Log,
    /// Chats with their members and messages.
    Chats,
    /// The rows by which users find their chats.
    Listings,
    /// The pairs of direct chats.
    Pairs,
    /// The keys of sends.
    SendKeys,
    /// All other rows.
    Others,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [Self::Log, Self::Chats, Self::Listings, Self::Pairs, Self::SendKeys, Self::Others];

    /// Its name, in reports and checkpoints.
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

/// No waiting and no keeping: for a store that is small, or that nobody else uses.
pub struct AtOnce;

#[async_trait]
impl Pace for AtOnce {
    async fn read(&self, _: Progress) {}

    async fn moment(&self) {}

    async fn reached(&self, _: &Checkpoint) {}
}
