use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ports::{LimitKey, OwnMessages};
use protocol::rest::{self, Data};

use super::App;
use super::users::no_such_user;
use crate::http::{ApiError, Caller, Json, Limited, take};

/// Everything that is the caller's own, as one document.
///
/// Profile, sessions, devices without what it takes to reach them, contacts, chats with the caller's place in each, and
/// every message that the caller sent there and that has not expired. What others wrote is theirs, and in the history of
/// each chat. It is written while it is read, however long it is; a document without `is_complete` at its end is a part. The
/// limit is `exports`.
#[utoipa::path(get, path = "/users/me/export", tag = "users", responses((status = 200, body = Data<rest::Export<'static>>)))]
pub(crate) async fn export_me(State(api): App, Caller(caller): Caller) -> Result<Response, ApiError> {
    let user = api.user(caller.user_id).await?.ok_or_else(no_such_user)?;
    let decision = take(&api, "exports", LimitKey::Export(caller.user_id), api.limits.exports).await?;
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let document = Body::from_stream(api.accounts.clone().export(user));
    Ok(Limited(decision, (json, document)).into_response())
}

/// Deletes the caller's account.
///
/// All sessions end and their sockets close within a second. The phone number is free: who signs in with it is a new user.
/// Devices and contacts are forgotten. The rest follows within moments, whatever happens meanwhile: the caller leaves every
/// group, and where they were the owner the longest-standing admin is, or else the longest-standing member. A direct chat
/// stays with the other one. Others see `Deleted account` in the place of the caller's name. With `erase_messages` the
/// caller's messages expire at once, as `message_expired` tells everybody. There is no way back.
#[utoipa::path(
    delete,
    path = "/users/me",
    tag = "users",
    responses((status = 202, description = "The account is gone, and the rest is going", body = Data<rest::AccountDeletion>))
)]
pub(crate) async fn delete_me(
    State(api): App,
    Caller(caller): Caller,
    Json(rest::DeleteMe { confirm, erase_messages }): Json<rest::DeleteMe>,
) -> Result<(StatusCode, Json<Data<rest::AccountDeletion>>), ApiError> {
    if confirm != caller.user_id {
        return Err(ApiError::field("confirm", "is not your own user_id"));
    }
    let messages = if erase_messages { OwnMessages::Erase } else { OwnMessages::Keep };
    let deletion = api.accounts.delete(caller.user_id, messages).await?.ok_or_else(no_such_user)?;
    let data = rest::AccountDeletion { user_id: deletion.user_id, begun_at: deletion.begun_at, erase_messages };
    Ok((StatusCode::ACCEPTED, Json(Data { data })))
}
