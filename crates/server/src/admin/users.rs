use auth::Revoke;
use axum::Json;
use axum::extract::{Path, State};
use domain::{ChatId, ExternalId, Member, SessionId, User, UserId};
use ports::{MessageDisposition, Principal, UnreadQuery};
use protocol::ErrorCode;
use serde_json::{Value, json};

use super::error::AdminError;
use super::records::Records;
use super::{AdminState, parse, restrictions, routes};

/// Most chats of a user in a response: those with the latest activity.
const CHATS_MAX: usize = 100;

/// One user: profile, sessions, connections, and the watermarks and unread counts of their chats. It omits the phone
/// number: operators who need it already know it and search by it.
pub(super) async fn user(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let (records, user_id) = (admin.records()?, parse(&id)?);
    let user = known(records, user_id).await?;
    let sessions = records.sessions.sessions(user_id, records.now()).await?;
    let connections = admin.routes.routes(user_id).await?;
    let devices = records.push_devices.devices(&[user_id]).await?;
    let (chats, has_more) = chats(records, user_id).await?;
    let deletion = records.accounts.store.deletion(user_id).await?.map(|deletion| {
        let erases = deletion.messages == MessageDisposition::Erase;
        json!({ "begun_at": deletion.begun_at, "erase_messages": erases })
    });
    let restrictions = records.restrictions.current_restrictions(user_id).await?;
    let session = |session: &domain::Session| {
        json!({
            "session_id": session.session_id,
            "device_id": session.device_id,
            "created_at": session.created_at,
            "last_active_at": session.last_active_at,
            "expires_at": session.expires_at,
            "is_connected": connections.iter().any(|route| route.device_id == session.device_id),
            "is_notified": devices.iter().any(|device| device.device_id == session.device_id),
        })
    };
    Ok(Json(json!({
        "user_id": user.user_id,
        "display_name": user.display_name.as_str(),
        "external_id": user.external_id.as_ref().map(ExternalId::as_str),
        "created_at": user.created_at,
        "last_seen_at": user.last_seen_at,
        "deleted_at": user.deleted_at,
        // Present until the deletion is complete.
        "deletion": deletion,
        "restrictions": restrictions::body(&restrictions),
        "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
        "connections": routes::bodies(&connections),
        "chats": chats,
        "has_more": has_more,
    })))
}

/// Revokes all sessions of a user. Their devices are signed out, and their sockets close within a second.
pub(super) async fn revoke_all(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, AdminError> {
    revoke(&admin, parse(&id)?, Revoke::All).await
}

/// Revokes one session of a user.
pub(super) async fn revoke_one(
    State(admin): State<AdminState>,
    Path((id, session)): Path<(String, String)>,
) -> Result<Json<Value>, AdminError> {
    let session_id: SessionId = parse(&session)?;
    let answer = revoke(&admin, parse(&id)?, Revoke::One(session_id)).await?;
    if answer["revoked_count"] == 0 {
        let message = format!("`{id}` has no session `{session_id}`");
        return Err(AdminError::new(ErrorCode::NotFound, message));
    }
    Ok(answer)
}

async fn revoke(admin: &AdminState, user_id: UserId, which: Revoke) -> Result<Json<Value>, AdminError> {
    let records = admin.records()?;
    known(records, user_id).await?;
    // The operator acts on behalf of the user, without a session or device.
    let as_user =
        Principal { user_id, session_id: None, device_id: None, token_expires_at: records.now(), assertion: None };
    let revoked = records.auth.revoke(&as_user, which).await.map_err(AdminError::failed)?;
    Ok(Json(json!({ "revoked_count": revoked })))
}

pub(super) async fn known(records: &Records, user_id: UserId) -> Result<User, AdminError> {
    let user = records.users.users(&[user_id]).await?.pop().flatten();
    user.ok_or_else(|| AdminError::new(ErrorCode::NotFound, format!("there is no user `{user_id}`")))
}

/// The chats of a user, newest activity first, and whether there are more.
async fn chats(records: &Records, user_id: UserId) -> Result<(Vec<Value>, bool), AdminError> {
    let memberships = records.chats.memberships(user_id).await?;
    let chat_ids: Vec<ChatId> = memberships.iter().map(|(chat_id, _)| *chat_id).collect();
    let heads = records.messages.heads(&chat_ids).await?;
    let mut memberships: Vec<_> =
        memberships.into_iter().zip(heads.into_iter().map(Option::unwrap_or_default)).collect();
    let active_at = |member: &Member, head: &ports::Head| {
        head.last_message.as_ref().map_or(member.joined_at, |message| message.created_at)
    };
    memberships.sort_by_key(|((_, member), head)| std::cmp::Reverse(active_at(member, head)));
    let has_more = memberships.len() > CHATS_MAX;
    memberships.truncate(CHATS_MAX);

    let chat_ids: Vec<ChatId> = memberships.iter().map(|((chat_id, _), _)| *chat_id).collect();
    let chats = records.chats.chats(&chat_ids).await?;
    let of: Vec<_> = chat_ids.iter().map(|chat_id| (user_id, *chat_id)).collect();
    let watermarks = records.watermarks.watermarks(&of).await?;
    let unread: Vec<UnreadQuery> = chat_ids
        .iter()
        .zip(&watermarks)
        .map(|(chat_id, marks)| UnreadQuery { chat_id: *chat_id, reader: user_id, read: marks.read })
        .collect();
    let unread = records.messages.unread(&unread, records.now()).await?;
    let bodies = memberships.iter().zip(chats).zip(watermarks).zip(unread).map(
        |(((((chat_id, member), head), chat), marks), unread)| {
            json!({
                "chat_id": chat_id,
                "type": chat.as_ref().map(|chat| chat.chat_type),
                "name": chat.as_ref().and_then(|chat| chat.name.as_ref()).map(|name| name.as_str()),
                "role": member.role,
                "muted_until": member.muted_until,
                "last_active_at": active_at(member, head),
                "head_sequence": head.sequence,
                "delivered_sequence": marks.delivered,
                "read_sequence": marks.read,
                "unread_count": unread.count,
                "unread_count_exact": unread.is_exact,
            })
        },
    );
    Ok((bodies.collect(), has_more))
}
