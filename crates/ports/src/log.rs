use std::sync::Arc;

use async_trait::async_trait;
use domain::Event;

use crate::StoreError;

/// The consumers' half of the event log. Producing is part of the commit, and no port of its own.
///
/// Every event of the store is in the log once, and events of one chat are in the order of their commits. Events are
/// kept for 7 days.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Begins to consume as `group`, after the last place the group committed, or at the oldest event kept. One process
    /// consumes as a group at a time for each part of the log.
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError>;
}

/// One reader of the log.
#[async_trait]
pub trait EventConsumer: Send {
    /// Waits for the next events and returns some, in order; never none. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Vec<Arc<Event>>, StoreError>;

    /// Says that everything returned so far is processed: after a crash the group begins behind it. Called after the
    /// processing, never before, so a crash repeats events and skips none.
    async fn commit(&mut self) -> Result<(), StoreError>;
}
