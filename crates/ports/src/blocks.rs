use async_trait::async_trait;
use domain::UserId;
use domain::limits::BLOCKS_MAX;

use crate::StoreError;

/// Keeps whom each user has blocked.
///
/// Reads are strongly consistent: who is blocked sees nothing from then on.
///
/// While one of two has blocked the other, neither writes to the other in their direct chat. That is judged inside the
/// commit of a send, against the store and never from a cache: `MessageWriter::append` refuses a new send of the blocked one
/// as `SendRefusal::Blocked` and one of the blocker as `SendRefusal::Blocking`. To make that cheap, a store keeps the
/// block also where the commit looks anyway, and the two are written in one transaction.
///
/// A pair that has no direct chat gets none while one has blocked the other: `ChatWriter::create_direct` judges it in the
/// transaction that opens the chat. Of a block and an opening at once one sees the other, so that no chat is open that a
/// block has closed. Groups are open to both.
#[async_trait]
pub trait BlockStore: Send + Sync {
    /// Blocks a user for another; one who is blocked stays so. `false` if that would be one more than `BLOCKS_MAX`.
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError>;

    /// Takes a block back; one that is not there stays so. What was refused meanwhile stays refused.
    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError>;

    /// Up to `limit` users whom a user has blocked, by id, those behind `after`.
    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError>;

    /// Whether the first of each pair has blocked the second, in the order asked, in one round.
    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError>;

    /// Takes back all blocks of a user who goes. Those of others stay: they are theirs.
    async fn forget_user(&self, user_id: UserId) -> Result<(), StoreError> {
        for blocked_id in self.blocks(user_id, None, BLOCKS_MAX).await? {
            self.unblock(user_id, blocked_id).await?;
        }
        Ok(())
    }
}
