use std::time::Duration;

use async_trait::async_trait;

use crate::StoreError;

/// Pauses deliveries to the application's webhook, so that the offsets of its consumer group can be moved.
///
/// A group can be moved only while it has no consumer. In a fleet each `api` process has one, so the process that moves
/// the group pauses the others.
#[async_trait]
pub trait WebhookPause: Send + Sync {
    /// Drops the consumer of the group, and creates the next one after `time`, or after a later call has ended the
    /// pause with zero. The batch in progress is not committed and is delivered again.
    ///
    /// After an error a consumer may still be there. A pause ends by itself, so a caller that dies stops no delivery
    /// for longer than `time`.
    async fn pause(&self, time: Duration) -> Result<(), StoreError>;
}
