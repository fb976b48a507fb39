use std::sync::Arc;

use async_trait::async_trait;
use domain::{Event, Timestamp};

use crate::StoreError;

/// The position of an event in the log. Of two events of one chat and one [`EventKind`](domain::EventKind), the later
/// one has the higher position. The position of an event never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// An event with its position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position of the event.
    pub position: Position,
    /// The event.
    pub event: Arc<Event>,
}

/// The start position of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest event in the log.
    Oldest,
    /// The first event that is not older than this time. Where event times are out of order, an adjacent event.
    Time(Timestamp),
    /// This event, or the next one that still exists.
    At(Position),
}

/// The order in which a log returns the events of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOrder {
    /// The order of the commits.
    Commit,
    /// The order of the commits for each [`EventKind`](domain::EventKind), but not between kinds.
    PerKind,
}

/// A consumer group that [`EventLog::seek`] cannot move, because it has active consumers.
#[derive(Debug, thiserror::Error)]
#[error("group `{group}` has active consumers; stop them, then move the group")]
pub struct GroupActive {
    /// The consumer group.
    pub group: String,
}

/// The consumer side of the event log. If the log is part of the store, a commit also appends to the log. Otherwise the
/// relay publishes events from the [`Outbox`](crate::Outbox).
///
/// Every event that the store commits reaches the log. Of two events of one chat and one
/// [`EventKind`](domain::EventKind), the earlier one reaches it first. A log that is part of the store contains each
/// event once, and also keeps the order between kinds. A separate log may repeat an event after later ones, with the
/// same event id.
///
/// The numbers of events ([`EventNumber`](domain::EventNumber)) are the order of their commits, in every log and across
/// kinds. A consumer of a separate log sorts by them.
///
/// The log keeps events for 7 days. The event of an expired and purged message is deleted with the message, or the
/// consumer has to skip it (G11). A record that does not decode becomes a dead letter, and the consumer continues with
/// the next one.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Creates a consumer of `group`. It starts after the group's last committed position, or at the oldest event if
    /// there is none. Consumers of one group share the partitions of the log: one consumer at a time reads each
    /// partition.
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError>;

    /// Sets the start position of future consumers of `group`, as durably as a commit. While the group has a consumer,
    /// the call is refused with [`GroupActive`], or the next commit of that consumer overwrites it.
    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError>;

    /// The number of log positions that `group` has not committed.
    async fn lag(&self, group: &str) -> Result<u64, StoreError>;

    /// Whether consumers get the events of a chat in one order, or in one order for each kind of event.
    fn order(&self) -> LogOrder;

    /// The event at a position, if the log still has it.
    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError>;
}

/// One consumer of the log.
#[async_trait]
pub trait EventConsumer: Send {
    /// Waits for the next events and returns some, in order; never an empty list. Dropping the future loses no event.
    async fn next(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Commits every event returned so far: after a crash, the group continues after them. Call it after processing,
    /// never before, so that a crash repeats events and skips none.
    async fn commit(&mut self) -> Result<(), StoreError>;
}
