use async_trait::async_trait;
use domain::{Advance, ChatId, Sequence, UserId, WatermarkKind, Watermarks};

use crate::StoreError;

/// Keeps the delivered and read watermarks of each member in each chat (G10).
///
/// A watermark never moves back and never exceeds the head sequence of its chat. Read never exceeds delivered.
#[async_trait]
pub trait WatermarkStore: Send + Sync {
    /// Advances a watermark by `Watermarks::advance`; membership and head are read in the same transaction.
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Advance, StoreError>;

    /// The watermarks of users in chats, in the order of the arguments, in one round trip; zero if none are stored.
    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError>;
}
