use axum::Json;
use axum::extract::{Path, State};
use domain::{Chat, ChatCommand, ChatId, ChatRefusal, ChatType, ChatUpdate, Member, Role, Ttl, UserId};
use ports::{Expiry, SecurityEvent, SecurityEventKind};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chats::known;
use super::error::AdminError;
use super::records::Records;
use super::{AdminState, parse};

const DAY_SECONDS: u64 = 24 * 3600;

/// Removes a member from a group on behalf of the owner. If the member is the owner, ownership passes to the
/// longest-standing admin, or else to the longest-standing member.
pub(super) async fn remove_member(
    State(admin): State<AdminState>,
    Path((id, user)): Path<(String, String)>,
) -> Result<Json<Value>, AdminError> {
    let (records, chat_id, user_id) = (admin.records()?, parse(&id)?, parse(&user)?);
    let (_, members) = group(records, chat_id).await?;
    let owner = owner(&members, chat_id)?;
    if owner == user_id {
        records.accounts.depart(chat_id, user_id, records.now()).await?.map_err(refused)?;
    } else {
        apply(records, chat_id, owner, ChatCommand::RemoveMember { user_id }).await?;
    }
    Ok(Json(json!({ "chat_id": chat_id, "user_id": user_id })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetOwner {
    user_id: UserId,
}

/// Makes a member the owner of a group, for example if the owner cannot be reached. The former owner becomes an admin.
pub(super) async fn set_owner(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(SetOwner { user_id }): Json<SetOwner>,
) -> Result<Json<Value>, AdminError> {
    let (records, chat_id) = (admin.records()?, parse(&id)?);
    let (_, members) = group(records, chat_id).await?;
    let owner = owner(&members, chat_id)?;
    if owner != user_id {
        apply(records, chat_id, owner, ChatCommand::ChangeRole { user_id, role: Role::Owner }).await?;
        let event = SecurityEvent::of(SecurityEventKind::RoleChanged).user(user_id).with("chat_id", chat_id);
        admin.security.record(event.with("role", Role::Owner.as_str()));
    }
    Ok(Json(json!({ "chat_id": chat_id, "owner": user_id, "former_owner": owner })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetRetention {
    /// `None` means no expiry for messages sent from now on. Messages with an expiry keep it.
    days: Option<u64>,
}

/// Sets the retention of a chat. New messages get it as the TTL of their chat. Existing messages expire when they would
/// have with that TTL, so messages older than it expire immediately.
pub(super) async fn set_retention(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(SetRetention { days }): Json<SetRetention>,
) -> Result<Json<Value>, AdminError> {
    let (records, chat_id) = (admin.records()?, parse(&id)?);
    let lifetime = days.map(lifetime).transpose()?;
    let (chat, _) = known(records, chat_id).await?;
    let members = records.chats.members(chat_id).await?;
    // The command runs on behalf of a member who may change the TTL. A chat without members has none, and receives no
    // messages.
    let actor = match chat.chat_type {
        ChatType::Direct => members.first().map(|member| member.user_id),
        ChatType::Group => members.iter().find(|member| member.role == Role::Owner).map(|member| member.user_id),
    };
    if let Some(actor) = actor.filter(|_| chat.message_ttl != lifetime) {
        apply(records, chat_id, actor, ChatCommand::Update(ChatUpdate::message_ttl(lifetime))).await?;
    }
    // After the update, so that no message with a longer TTL is sent in between.
    let shortened = match lifetime {
        Some(_) => records.accounts.expire(chat_id, Expiry { sender: None, lifetime }).await?,
        None => 0,
    };
    Ok(Json(json!({ "chat_id": chat_id, "days": days, "shortened": shortened })))
}

fn lifetime(days: u64) -> Result<Ttl, AdminError> {
    let lifetime = days.checked_mul(DAY_SECONDS).and_then(Ttl::from_secs);
    lifetime.ok_or_else(|| {
        AdminError::new(ErrorCode::ValidationError, format!("`days` is {days}, and must be from 1 to 365"))
    })
}

/// A group and its members.
async fn group(records: &Records, chat_id: ChatId) -> Result<(Chat, Vec<Member>), AdminError> {
    let (chat, _) = known(records, chat_id).await?;
    if chat.chat_type == ChatType::Direct {
        return Err(refused(ChatRefusal::DirectIsImmutable));
    }
    Ok((chat, records.chats.members(chat_id).await?))
}

fn owner(members: &[Member], chat_id: ChatId) -> Result<UserId, AdminError> {
    let owner = members.iter().find(|member| member.role == Role::Owner).map(|member| member.user_id);
    owner.ok_or_else(|| {
        AdminError::new(ErrorCode::InvalidOperation, format!("`{chat_id}` has no owner, because it has no members"))
    })
}

async fn apply(records: &Records, chat_id: ChatId, actor: UserId, command: ChatCommand) -> Result<(), AdminError> {
    records.accounts.chat_writer.apply(chat_id, actor, command, records.now()).await?.map_err(refused)?;
    records.accounts.forget_members(chat_id).await;
    Ok(())
}

fn refused(refusal: ChatRefusal) -> AdminError {
    let code = match refusal {
        ChatRefusal::ChatNotFound | ChatRefusal::NotAMember | ChatRefusal::TargetNotAMember => ErrorCode::NotFound,
        _ => ErrorCode::InvalidOperation,
    };
    AdminError::new(code, refusal)
}
