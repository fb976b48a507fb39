use auth::Revoke;
use axum::extract::State;
use axum::http::StatusCode;
use domain::SessionId;
use ports::error_chain;
use protocol::rest::{self, Data};
use protocol::{ErrorCode, schema};
use serde::Deserialize;
use tracing::warn;
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
/// `is_current` marks the session of this request. `last_active_at` of it, and of every connected device, is now; of
/// another device it is the last sign-in or refresh of its tokens.
#[utoipa::path(get, path = "/sessions", tag = "sessions", responses((status = 200, body = Data<rest::Sessions>)))]
pub(crate) async fn sessions(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::Sessions>>, RestError> {
    let sessions = api.auth.sessions(&caller).await?;
    // Without routes the list is still useful: the stored times are at most one lifetime of an access token old.
    let connected = api.presence.connected_devices(caller.user_id).await.unwrap_or_else(|failure| {
        warn!(error = %error_chain(&failure), "could not read routes; sessions have their stored last_active_at");
        vec![]
    });
    let now = api.now();
    let sessions = sessions.iter().map(|session| {
        let body = rest::Session::new(session, caller.session_id);
        let is_active = body.is_current || connected.contains(&session.device_id);
        rest::Session { last_active_at: if is_active { now } else { body.last_active_at }, ..body }
    });
    Ok(Json(Data { data: rest::Sessions { sessions: sessions.collect() } }))
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
