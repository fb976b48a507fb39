//! The quotas of chats and members: they bound the rows that one account can make the service store.

use domain::UserId;
use ports::LimitKey;

use crate::Api;
use crate::http::{RestError, take};

/// Refuses a new chat of a user who has the maximum number. Concurrent requests may exceed it by a few.
pub(super) async fn refuse_more_chats(api: &Api, user_id: UserId) -> Result<(), RestError> {
    let Some(max) = api.limits.chats_per_user else { return Ok(()) };
    if api.chats.chat_count(user_id, max).await? < max {
        return Ok(());
    }
    let message = format_args!("you have {max} chats, the maximum (`chats_per_user`); leave a group first");
    Err(RestError::maximum("chats_per_user", max, message))
}

/// Charges the creation of a group.
pub(super) async fn take_group(api: &Api, creator: UserId, others: usize) -> Result<(), RestError> {
    take(api, "groups_created", LimitKey::GroupsCreated(creator), api.limits.groups_created).await?;
    take_members(api, creator, others).await
}

/// Charges the addition of members to a group.
pub(super) async fn take_members(api: &Api, actor: UserId, count: usize) -> Result<(), RestError> {
    let quota = api.limits.members_added.map(|quota| quota.weighing(count as u32));
    take(api, "members_added", LimitKey::MembersAdded(actor), quota).await?;
    Ok(())
}
