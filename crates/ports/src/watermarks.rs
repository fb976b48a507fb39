use async_trait::async_trait;
use domain::{Advance, ChatId, DeliveryState, Sequence, Timestamp, UserId, WatermarkKind, Watermarks};

use crate::StoreError;

/// Keeps the delivered and read watermarks of each member in each chat (G10), and when they moved.
///
/// A watermark never moves back and never exceeds the head sequence of its chat. Read never exceeds delivered.
#[async_trait]
pub trait WatermarkStore: Send + Sync {
    /// Advances a watermark by `Watermarks::advance`; membership and head are read in the same transaction. A watermark
    /// that moves gets the time `at`, by `DeliveryState::moved`.
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
        at: Timestamp,
    ) -> Result<Advance, StoreError>;

    /// The watermarks of users in chats with their times, in the order of the arguments, in one round trip. If none are
    /// stored, the watermarks are zero. A row of an earlier release has no times.
    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError>;

    /// The watermarks alone.
    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError> {
        Ok(self.delivery_states(of).await?.into_iter().map(|state| state.watermarks).collect())
    }
}
