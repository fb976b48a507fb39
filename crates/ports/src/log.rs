use std::sync::Arc;

use async_trait::async_trait;
use domain::{Event, Timestamp};

use crate::StoreError;

/// A place in the log. Of two events of one chat and one [`EventKind`](domain::EventKind) the later one has the higher place; an event keeps
/// its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// An event at its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub position: Position,
    /// What happened.
    pub event: Arc<Event>,
}

/// Where a group is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest event kept.
    Oldest,
    /// At the first event that is not older than this; where the times of events are out of order, at a neighbour.
    Time(Timestamp),
    /// At this very event, or the next one that is kept.
    At(Position),
}

/// The consumers' half of the event log. Where the log is part of the store, so is producing; where it is not, the
/// [`Outbox`](crate::Outbox) is between them.
///
/// Every event of the store gets into the log, and of two events of one chat and one [`EventKind`](domain::EventKind) the earlier one gets
/// there first. A log that is part of the store has each event once, and keeps the order between kinds too; another one
/// may have an event again after the next ones, under its own id. Events are kept for 7 days; the event of a message that
/// expired and was purged is gone with it, or is to be left out by whoever reads it (G11). A record that cannot be read is
/// passed over and buried as a dead letter: it holds up nobody.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Begins to consume as `group`, after the last place the group committed, or at the oldest event kept. Consumers of
    /// one group share the log among them: each part of it is read by one at a time.
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError>;

    /// Has the consumers of `group` that are made from now on begin elsewhere. It is durable like a commit. While somebody
    /// consumes as the group it is refused, or undone by the next commit of who was there before.
    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError>;

    /// How many places of the log `group` has not committed.
    async fn lag(&self, group: &str) -> Result<u64, StoreError>;

    /// The event at a place, if it is still kept.
    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError>;
}

/// One reader of the log.
#[async_trait]
pub trait EventConsumer: Send {
    /// Waits for the next events and returns some, in order; never none. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Says that everything returned so far is processed: after a crash the group begins behind it. Called after the
    /// processing, never before, so a crash repeats events and skips none.
    async fn commit(&mut self) -> Result<(), StoreError>;
}
