use async_trait::async_trait;
use domain::{Advance, ChatId, Sequence, UserId, WatermarkKind, Watermarks};

use crate::StoreError;

/// Keeps how far each member has come in each chat (G10).
///
/// A watermark never moves back, never passes the head of its chat, and read never passes delivered.
#[async_trait]
pub trait WatermarkStore: Send + Sync {
    /// Moves a watermark by `Watermarks::advance`, with membership and head read in the same transaction.
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Advance, StoreError>;

    /// The watermarks of the given users in the given chats, in their order, in one round; zero where none is kept.
    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError>;
}
