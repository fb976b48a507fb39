use async_trait::async_trait;
use domain::UserId;
use domain::limits::BLOCKS_MAX;

use crate::StoreError;

/// Keeps the users whom each user has blocked.
///
/// Reads are strongly consistent: after a block is acknowledged, the blocked user sees nothing of the blocker.
///
/// While either user of a direct chat has blocked the other, neither of them can send to it. The commit of a send
/// checks this against the store, never against a cache. `MessageWriter::append` refuses a new send of the blocked user
/// with `SendRefusal::Blocked` and a new send of the blocker with `SendRefusal::Blocking`. To keep the check cheap, a
/// store also writes the block to a row that the commit reads anyway, in the same transaction.
///
/// For the same time neither of them changes the settings of the chat (`ChatWriter::apply`), and neither of them sees the
/// other's typing and receipts in it, as pushes or over REST (`ChatReader::blocked_chats`).
///
/// A pair without a direct chat cannot open one while either user has blocked the other. `ChatWriter::create_direct`
/// checks this in the transaction that opens the chat. If a block and an opening run concurrently, the later
/// transaction sees the earlier one. A direct chat therefore never accepts sends against a block. Blocks do not affect
/// groups.
#[async_trait]
pub trait BlockStore: Send + Sync {
    /// Blocks `blocked_id` for `user_id`; blocking twice changes nothing. Returns `false` if the user already has
    /// `BLOCKS_MAX` blocks.
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError>;

    /// Removes a block; without a block it changes nothing. Sends refused while the block existed stay refused.
    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError>;

    /// Up to `limit` users whom `user_id` has blocked, by id, after `after`.
    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError>;

    /// Whether the first user of each pair has blocked the second, in the order of the arguments, in one round trip.
    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError>;

    /// Removes all blocks of a user whose account is deleted. Blocks that other users have placed on this user stay.
    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        for blocked_id in self.blocks(user_id, None, BLOCKS_MAX).await? {
            self.unblock(user_id, blocked_id).await?;
        }
        Ok(())
    }
}
