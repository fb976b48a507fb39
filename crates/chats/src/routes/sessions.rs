use auth::Revoke;
use axum::extract::State;
use axum::http::StatusCode;
use domain::SessionId;
use protocol::rest::{self, Data};
use protocol::{ErrorCode, schema};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RouteState;
use crate::http::{Caller, Json, Path, Query, RestError};

#[derive(Deserialize, IntoParams)]
pub(crate) struct SessionPath {
    /// The session.
    #[param(value_type = schema::SessionId)]
    session_id: SessionId,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct RevokeQuery {
    /// Whether the session of this request ends too.
    #[serde(default)]
    include_current: bool,
}

/// The devices the caller is signed in on, oldest session first.
///
/// `is_current` marks the session of this request.
#[utoipa::path(get, path = "/sessions", tag = "sessions", responses((status = 200, body = Data<rest::Sessions>)))]
pub(crate) async fn sessions(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::Sessions>>, RestError> {
    let sessions = api.auth.sessions(&caller).await?;
    let sessions = sessions.iter().map(|session| rest::Session::new(session, caller.session_id)).collect();
    Ok(Json(Data { data: rest::Sessions { sessions } }))
}

/// Ends one session of the caller and closes its sockets.
///
/// Its tokens are void at once, and its sockets are closed within a second.
#[utoipa::path(
    delete,
    path = "/sessions/{session_id}",
    tag = "sessions", params(SessionPath),
    responses((status = 204, description = "The session has ended"))
)]
pub(crate) async fn revoke_session(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(SessionPath { session_id }): Path<SessionPath>,
) -> Result<StatusCode, RestError> {
    match api.auth.revoke(&caller, Revoke::One(session_id)).await? {
        0 => Err(RestError::new(ErrorCode::NotFound, "no such session of yours")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

/// Ends all sessions of the caller except that of this request.
///
/// With `include_current` that one ends too.
#[utoipa::path(delete, path = "/sessions", tag = "sessions", params(RevokeQuery), responses((status = 200, body = Data<rest::Revoked>)))]
pub(crate) async fn revoke_sessions(
    State(api): RouteState,
    Caller(caller): Caller,
    Query(RevokeQuery { include_current }): Query<RevokeQuery>,
) -> Result<Json<Data<rest::Revoked>>, RestError> {
    let which = if include_current { Revoke::All } else { Revoke::Others };
    let revoked_count = api.auth.revoke(&caller, which).await?;
    Ok(Json(Data { data: rest::Revoked { revoked_count } }))
}
