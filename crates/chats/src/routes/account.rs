use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ports::{LimitKey, MessageDisposition};
use protocol::rest::{self, Data};

use super::RouteState;
use super::users::no_such_user;
use crate::http::{Caller, Json, Limited, RestError, take};

/// Exports all data of the caller as one document.
///
/// It contains the profile, sessions, devices without their push credentials, pending invitations, contacts, chats with
/// the caller's membership, every unexpired message that the caller sent, and the caller's edits, deletions and
/// reactions. Messages of other users are not included; the history of each chat has them. The response is streamed: a
/// document without `is_complete` at its end is incomplete. The limit is `exports`.
#[utoipa::path(get, path = "/users/me/export", tag = "users", responses((status = 200, body = Data<rest::Export<'static>>)))]
pub(crate) async fn export_me(State(api): RouteState, Caller(caller): Caller) -> Result<Response, RestError> {
    let user = api.user(caller.user_id).await?.ok_or_else(no_such_user)?;
    let decision = take(&api, "exports", LimitKey::Export(caller.user_id), api.limits.exports).await?;
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let document = Body::from_stream(api.accounts.clone().export(user));
    Ok(Limited(decision, (json, document)).into_response())
}

/// Deletes the caller's account.
///
/// All sessions end and their sockets close within a second. The phone number becomes free: signing in with it creates a
/// new user. Devices and contacts are deleted. The rest follows within moments, even after a crash. The caller leaves
/// every group. A group that they owned passes to the longest-standing admin, or else to the longest-standing member. A
/// direct chat stays with the other member. Others see `Deleted account` instead of the caller's name. With
/// `erase_messages` the caller's messages expire at once, and members receive `message_expired`. Reactions to messages of
/// others stay. A deletion cannot be undone.
#[utoipa::path(
    delete,
    path = "/users/me",
    tag = "users",
    responses((status = 202, description = "The account is deleted; its remaining data follows", body = Data<rest::AccountDeletion>))
)]
pub(crate) async fn delete_me(
    State(api): RouteState,
    Caller(caller): Caller,
    Json(rest::DeleteMe { confirm, erase_messages }): Json<rest::DeleteMe>,
) -> Result<(StatusCode, Json<Data<rest::AccountDeletion>>), RestError> {
    if confirm != caller.user_id {
        return Err(RestError::field("confirm", "is not your own user_id"));
    }
    let messages = if erase_messages { MessageDisposition::Erase } else { MessageDisposition::Keep };
    let deletion = api.accounts.delete(caller.user_id, messages).await?.ok_or_else(no_such_user)?;
    let data = rest::AccountDeletion { user_id: deletion.user_id, begun_at: deletion.begun_at, erase_messages };
    Ok((StatusCode::ACCEPTED, Json(Data { data })))
}
