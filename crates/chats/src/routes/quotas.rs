//! The quotas of chats, members, contacts and messages: they bound the rows that one account can make the service store,
//! and the rows that its requests read.

use domain::limits::CONTACTS_MAX;
use domain::{ChatId, Quota, RateDecision, UserId};
use ports::{LimitKey, SendContent};

use crate::Api;
use crate::http::{RestError, take, take_all};

/// Rows of an inbox that one read of `rest_read` pays for: about as many as a page of 100 chats reads itself.
const INBOX_ROWS_PER_READ: usize = 500;

/// Refuses a new chat of a user who has the maximum number. Concurrent requests may exceed it by a few.
pub(super) async fn refuse_more_chats(api: &Api, user_id: UserId) -> Result<(), RestError> {
    let Some(max) = api.limits.chats_per_user else { return Ok(()) };
    if api.chats.chat_count(user_id, max).await? < max {
        return Ok(());
    }
    let message = format_args!("you have {max} chats, the maximum (`chats_per_user`); leave a group first");
    Err(RestError::maximum("chats_per_user", max, message))
}

/// Refuses a new contact of a user who has the maximum number. Concurrent requests may exceed it by a few.
pub(super) async fn refuse_more_contacts(api: &Api, user_id: UserId) -> Result<(), RestError> {
    if api.contacts.contacts(user_id, None, CONTACTS_MAX).await?.len() < CONTACTS_MAX {
        return Ok(());
    }
    let message = format_args!("you have {CONTACTS_MAX} contacts, the maximum; remove one first");
    Err(RestError::maximum("contacts", CONTACTS_MAX, message))
}

/// Charges the rows that the order of a user's inbox costs beyond those of a page. The request itself has paid for the
/// first [`INBOX_ROWS_PER_READ`].
pub(super) async fn take_inbox(api: &Api, user_id: UserId) -> Result<Option<RateDecision>, RestError> {
    let Some(quota) = api.limits.rest_read else { return Ok(None) };
    let reads = api.chats.inbox_rows(user_id).await? / INBOX_ROWS_PER_READ;
    if reads == 0 {
        return Ok(None);
    }
    take(api, "rest_read", LimitKey::RestRead(user_id), Some(quota.weighing(reads as u32))).await
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

/// Charges a send or an update. The decision is that of the limit of the chat.
pub(super) async fn take_send(
    api: &Api,
    user_id: UserId,
    chat_id: ChatId,
    content: &SendContent,
) -> Result<Option<RateDecision>, RestError> {
    let kib_of = |quota: Option<Quota>| quota.map(|quota| quota.weighing(content.stored_kib()));
    let limits = [
        ("send_per_chat", LimitKey::SendPerChat(user_id, chat_id), api.limits.send_per_chat),
        ("send_per_user", LimitKey::SendPerUser(user_id), api.limits.send_per_user),
        ("message_mib", LimitKey::MessageKib(user_id), kib_of(api.limits.message_kib)),
        ("message_mib_total", LimitKey::MessageTotal, kib_of(api.limits.message_kib_total)),
    ];
    let [decision, ..] = take_all(api, limits).await?;
    Ok(decision)
}
