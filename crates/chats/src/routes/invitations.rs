use axum::extract::State;
use axum::http::StatusCode;
use domain::{Chat, ChatId, ChatRefusal, Invitation, Role, User};
use futures_util::future::try_join_all;
use ports::Principal;
use protocol::rest::{self, Data};

use super::members::forget_members;
use super::{ChatPath, RouteState};
use crate::Api;
use crate::http::{Caller, Json, Path, RestError};
use crate::views::details;

/// The pending invitations of the caller to groups, newest first.
///
/// A member of a group who may not add the caller at once (`group_invites` of PATCH `/users/me`) invites them. An
/// invitation expires after 30 days. Invitations of users whom the caller has blocked, and of users who can no longer
/// add members, are not listed. There are at most 100, and at most 10 of the same user.
#[utoipa::path(get, path = "/invitations", tag = "invitations", responses((status = 200, body = Data<rest::Invitations>)))]
pub(crate) async fn invitations(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::Invitations>>, RestError> {
    let pending = api.invitations.invitations(caller.user_id, api.now()).await?;
    let chat_ids: Vec<_> = pending.iter().map(|invitation| invitation.chat_id).collect();
    let inviters: Vec<_> = pending.iter().map(|invitation| invitation.invited_by).collect();
    let pairs: Vec<_> = inviters.iter().map(|inviter| (caller.user_id, *inviter)).collect();
    let chats = api.chats.chats(&chat_ids).await?;
    let users = api.users.users(&inviters).await?;
    let blocked = api.blocks.blocked(&pairs).await?;
    let roles = pending.iter().map(|invitation| api.chats.member(invitation.chat_id, invitation.invited_by));
    let members = try_join_all(roles).await?;

    let mut invitations = vec![];
    for (n, invitation) in pending.iter().enumerate() {
        let may_add = members[n].as_ref().is_some_and(|inviter| inviter.role >= Role::Admin);
        if let (Some(chat), Some(user), true, false) = (&chats[n], &users[n], may_add, blocked[n]) {
            invitations.push(invitation_body(invitation, chat, user));
        }
    }
    Ok(Json(Data { data: rest::Invitations { invitations } }))
}

fn invitation_body(invitation: &Invitation, chat: &Chat, inviter: &User) -> rest::Invitation {
    rest::Invitation {
        chat_id: invitation.chat_id,
        name: chat.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default(),
        member_count: chat.member_count,
        invited_by: inviter.into(),
        created_at: invitation.created_at,
        expires_at: invitation.ends_at(),
    }
}

/// Accepts an invitation: the caller becomes a member of the group.
///
/// The inviter must still be allowed to add members, and the group must have room. While the caller blocks the inviter,
/// the acceptance is refused. A repeated acceptance of a member succeeds.
#[utoipa::path(
    post,
    path = "/invitations/{chat_id}/accept",
    tag = "invitations", params(ChatPath),
    responses((status = 200, description = "The group", body = Data<rest::ChatDetails>))
)]
pub(crate) async fn accept_invitation(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
) -> Result<Json<Data<rest::ChatDetails>>, RestError> {
    match api.invitations.accept(chat_id, caller.user_id, api.now()).await? {
        Ok(_) => forget_members(&api, chat_id).await,
        // An earlier attempt has accepted it, and its response was lost.
        Err(ChatRefusal::NotInvited | ChatRefusal::AlreadyAMember) if is_member(&api, chat_id, &caller).await? => {}
        // The same answer whether or not the chat exists.
        Err(ChatRefusal::ChatNotFound) => return Err(ChatRefusal::NotInvited.into()),
        Err(refusal) => return Err(refusal.into()),
    }
    let me = api.membership(chat_id, caller.user_id).await?;
    let chat = api.chats.chat(chat_id).await?.ok_or(ChatRefusal::ChatNotFound)?;
    Ok(Json(Data { data: details(&api, chat, me).await? }))
}

/// Declines an invitation; succeeds even without one.
///
/// For 30 days no member of the group can invite the caller again. The decline is not announced: further invitations
/// are dropped silently.
#[utoipa::path(
    delete,
    path = "/invitations/{chat_id}",
    tag = "invitations", params(ChatPath),
    responses((status = 204, description = "There is no pending invitation"))
)]
pub(crate) async fn decline_invitation(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
) -> Result<StatusCode, RestError> {
    api.invitations.decline(chat_id, caller.user_id, api.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn is_member(api: &Api, chat_id: ChatId, caller: &Principal) -> Result<bool, RestError> {
    Ok(api.chats.member(chat_id, caller.user_id).await?.is_some())
}
