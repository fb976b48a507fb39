use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::{ChatCommand, ChatId, ChatRefusal, Invitation, Role, Timestamp, User, UserId};
use ports::{Expiry, SecurityEvent, SecurityEventKind, error_chain};
use protocol::rest::{self, Data};
use tracing::warn;

use super::blocks::refuse_blocked;
use super::quotas::take_members;
use super::{ChatPath, MemberPath, RouteState};
use crate::Api;
use crate::http::{Caller, IdempotencyKey, Json, Path, Reserved, RestError, once};
use crate::views::member_body;

/// Adds a member to a group.
///
/// The owner and admins may do this. A new member can read all history. Both their watermarks start at the head, so
/// nothing is unread. A user who does not let the caller add them (`group_invites` of PATCH `/users/me`) gets an
/// invitation: the status is 202, and the body has `invited`. The user becomes a plain member by accepting it.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/members",
    tag = "members",
    params(
        ChatPath,
        (
            "Idempotency-Key" = Option<String>, Header, format = "uuid",
            description = "The client's name for the request; a repetition within 24 h gets the first answer."
        )
    ),
    responses(
        (status = 201, description = "The new member", body = Data<rest::Member>),
        (status = 202, description = "The user is invited and not a member", body = Data<rest::Member>)
    )
)]
pub(crate) async fn add_member(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    key: IdempotencyKey,
    Json(body): Json<rest::AddMember>,
) -> Result<Response, RestError> {
    let route = format!("POST /chats/{chat_id}/members");
    let run = |reserved| add_once(&api, caller.user_id, chat_id, &body, reserved);
    once(&api, caller.user_id, key, &route, &body, run).await
}

async fn add_once(
    api: &Api,
    actor: UserId,
    chat_id: ChatId,
    body: &rest::AddMember,
    reserved: Reserved,
) -> Result<(StatusCode, rest::Member), RestError> {
    api.membership(chat_id, actor).await?;
    let rest::AddMember { user_id, role } = *body;
    let Some(user) = api.living_user(user_id).await? else {
        return Err(RestError::field("user_id", format!("there is no user `{user_id}`")));
    };
    refuse_blocked(api, actor, &[user_id]).await?;
    // An earlier attempt of this request that added or invited them has paid. A refused attempt has not.
    if !(reserved.resumed && is_reached(api, chat_id, actor, user_id).await?) {
        take_members(api, actor, 1).await?;
    }
    let command = ChatCommand::AddMember { user_id, role };
    match api.chat_writer.apply(chat_id, actor, command, api.now()).await? {
        Ok(change) => match change.invitations.first() {
            Some(invitation) => return Ok((StatusCode::ACCEPTED, invited_body(&user, invitation))),
            None => forget_members(api, chat_id).await,
        },
        // An earlier attempt of this request added them, and its response was lost.
        Err(ChatRefusal::AlreadyAMember) if reserved.resumed => {}
        Err(refusal) => return Err(refusal.into()),
    }
    Ok((StatusCode::CREATED, member_body(api, chat_id, user_id).await?))
}

/// Whether a user is a member, or has a pending invitation of `actor`.
async fn is_reached(api: &Api, chat_id: ChatId, actor: UserId, user_id: UserId) -> Result<bool, RestError> {
    if api.chats.member(chat_id, user_id).await?.is_some() {
        return Ok(true);
    }
    let pending = api.invitations.invitations(user_id, api.now()).await?;
    Ok(pending.iter().any(|invitation| (invitation.chat_id, invitation.invited_by) == (chat_id, actor)))
}

/// A body of the form of a member, so that clients that know no invitations can read it.
fn invited_body(user: &User, invitation: &Invitation) -> rest::Member {
    rest::Member {
        user_id: user.user_id,
        display_name: user.display_name.as_str().to_owned(),
        role: Role::Member,
        joined_at: invitation.created_at,
        invited: true,
    }
}

/// Changes a member's role; `owner` hands the group over.
///
/// Only the owner may do this. An owner who hands the group over becomes an admin.
#[utoipa::path(
    patch,
    path = "/chats/{chat_id}/members/{user_id}",
    tag = "members", params(MemberPath),
    responses((status = 200, body = Data<rest::Member>))
)]
pub(crate) async fn change_role(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(MemberPath { chat_id, user_id }): Path<MemberPath>,
    Json(rest::ChangeRole { role }): Json<rest::ChangeRole>,
) -> Result<Json<Data<rest::Member>>, RestError> {
    change(&api, chat_id, caller.user_id, ChatCommand::ChangeRole { user_id, role }).await?;
    let event = SecurityEvent::of(SecurityEventKind::RoleChanged).user(user_id).with("chat_id", chat_id);
    api.security.record(event.with("role", role.as_str()).with("by_user_id", caller.user_id));
    Ok(Json(Data { data: member_body(&api, chat_id, user_id).await? }))
}

/// Removes a member; removing oneself is leaving.
///
/// The owner may remove any other member, an admin only plain members. A removed member receives no further messages.
#[utoipa::path(
    delete,
    path = "/chats/{chat_id}/members/{user_id}",
    tag = "members", params(MemberPath),
    responses((status = 204, description = "The user is not a member any more"))
)]
pub(crate) async fn remove_member(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(MemberPath { chat_id, user_id }): Path<MemberPath>,
) -> Result<StatusCode, RestError> {
    change(&api, chat_id, caller.user_id, ChatCommand::RemoveMember { user_id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Leaves a group.
///
/// An owner must hand the group over first, unless the owner is its last member: then the group is gone for everybody, and
/// its messages are erased. A user who has left can no longer read the group.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/leave",
    tag = "members", params(ChatPath),
    responses((status = 204, description = "The caller is not a member any more"))
)]
pub(crate) async fn leave_chat(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
) -> Result<StatusCode, RestError> {
    change(&api, chat_id, caller.user_id, ChatCommand::Leave).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Mutes a chat for the caller, for a duration or permanently.
///
/// Messages still arrive and count as unread; the caller's devices are not notified of them.
#[utoipa::path(post, path = "/chats/{chat_id}/mute", tag = "members", params(ChatPath), responses((status = 200, body = Data<rest::Muted>)))]
pub(crate) async fn mute_chat(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Json(body): Json<rest::Mute>,
) -> Result<Json<Data<rest::Muted>>, RestError> {
    let until = match body.duration_seconds {
        None => Timestamp::MAX,
        Some(0) => return Err(RestError::field("duration_seconds", "is 0, it must be 1 or more")),
        Some(seconds) => api.now() + Duration::from_secs(seconds),
    };
    change(&api, chat_id, caller.user_id, ChatCommand::Mute { until: Some(until) }).await?;
    let muted_until = Some(until).filter(|until| *until < Timestamp::MAX);
    Ok(Json(Data { data: rest::Muted { chat_id, muted: true, muted_until } }))
}

/// Unmutes a chat for the caller.
///
/// A chat that is not muted does not change.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/unmute",
    tag = "members", params(ChatPath),
    responses((status = 200, body = Data<rest::Muted>))
)]
pub(crate) async fn unmute_chat(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
) -> Result<Json<Data<rest::Muted>>, RestError> {
    change(&api, chat_id, caller.user_id, ChatCommand::Mute { until: None }).await?;
    Ok(Json(Data { data: rest::Muted { chat_id, muted: false, muted_until: None } }))
}

async fn change(api: &Api, chat_id: ChatId, actor: UserId, command: ChatCommand) -> Result<(), RestError> {
    let change = api.chat_writer.apply(chat_id, actor, command, api.now()).await??;
    if !change.members.is_empty() {
        forget_members(api, chat_id).await;
    }
    if change.chat.member_count == 0 {
        erase_abandoned(api, chat_id).await;
    }
    Ok(())
}

/// Erases the messages of a group that its last member has left. Nobody can read them any more, so a failure does not
/// fail the request: the messages then live as long as their own lifetime or the retention of the service.
async fn erase_abandoned(api: &Api, chat_id: ChatId) {
    if let Err(failure) = api.accounts.expire(chat_id, Expiry { sender: None, lifetime: None }).await {
        let error = error_chain(&failure);
        warn!(%chat_id, %error, "could not erase the messages of a group without members; they expire by their lifetime");
    }
}

/// Invalidates fanout's member cache before replying. The event of the change does the same, but messages may overtake
/// it in the log, and a removed member must not receive those.
pub(super) async fn forget_members(api: &Api, chat_id: ChatId) {
    if let Err(failure) = api.members.invalidate(chat_id).await {
        warn!(
            error = %error_chain(&failure),
            "could not invalidate the member cache; it is stale until the change event arrives"
        );
    }
}
