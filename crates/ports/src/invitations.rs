use async_trait::async_trait;
use domain::{ChatChange, ChatId, ChatRefusal, Invitation, Timestamp, UserId};

use crate::StoreError;

/// Keeps the invitations of users to groups.
///
/// [`ChatWriter`](crate::ChatWriter) writes them: an addition without the consent of the added user becomes an
/// invitation, in the transaction that would have written the membership. A user has at most one invitation for each
/// group; a later one replaces it while it is pending. A store keeps a new one only by `Invitation::is_kept`, and drops
/// it silently otherwise. Concurrent invitations may exceed the bounds by a few.
///
/// From `Invitation::ends_at` on, no call regards an invitation; its row is deleted later. A user who becomes a member
/// in any way has no invitation to the group afterwards.
#[async_trait]
pub trait InvitationStore: Send + Sync {
    /// The pending invitations of a user, newest first. The number is bounded by `INVITATIONS_PENDING_MAX`, apart from
    /// concurrent ones. An invitation may name a group that does not exist yet, and a member who can no longer add
    /// members.
    async fn invitations(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Invitation>, StoreError>;

    /// Makes the invited user a member, in one transaction with the deletion of the invitation.
    ///
    /// It applies `domain::decide` to the addition of a plain member by the inviter. So the inviter must still be
    /// allowed to add members, and the group must have room. A pending invitation that the inviter can no longer make is
    /// refused with `NotInvited`, as an absent one is. While the user blocks the inviter, the refusal is `Blocking`: a
    /// concurrent block comes before or after the acceptance. A refusal changes nothing.
    async fn accept(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError>;

    /// Declines a pending invitation. Until it [ends](Invitation::ends_at), no member can invite the user to the group
    /// again. Without a pending invitation it changes nothing.
    async fn decline(&self, chat_id: ChatId, user_id: UserId, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes all invitations for a user with a deleted account, including declined ones. Invitations by the user stay,
    /// and can no longer be accepted.
    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError>;
}
