use axum::extract::State;
use domain::UserId;
use domain::limits::PRESENCE_USERS_MAX;
use ports::PresenceLookup;
use protocol::frame::{Presence, PresenceSnapshot};
use protocol::rest::{self, Data};

use super::{RouteState, UserPath};
use crate::Api;
use crate::http::{Caller, Json, Path, RestError};

/// The presence of a user, as the caller may see it. Hidden and nonexistent users are both `unknown`.
///
/// Only `offline` has a `last_seen`, which is absent for a user who never connected.
#[utoipa::path(get, path = "/users/{user_id}/presence", tag = "presence", params(UserPath), responses((status = 200, body = Data<Presence>)))]
pub(crate) async fn presence(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<Presence>>, RestError> {
    Ok(Json(Data { data: look(&api, caller.user_id, &[user_id]).await?.remove(0) }))
}

/// The presence of many users, as the caller may see it, in the order of the request.
///
/// At most 100 users. The request counts as a read, although it has a body.
#[utoipa::path(post, path = "/presence/query", tag = "presence", responses((status = 200, body = Data<PresenceSnapshot>)))]
pub(crate) async fn query_presence(
    State(api): RouteState,
    Caller(caller): Caller,
    Json(rest::PresenceQuery { user_ids }): Json<rest::PresenceQuery>,
) -> Result<Json<Data<PresenceSnapshot>>, RestError> {
    let asked = user_ids.len();
    if asked > PRESENCE_USERS_MAX {
        return Err(RestError::field("user_ids", format!("has {asked} entries, limit is {PRESENCE_USERS_MAX}")));
    }
    Ok(Json(Data { data: PresenceSnapshot { presences: look(&api, caller.user_id, &user_ids).await? } }))
}

async fn look(api: &Api, viewer: UserId, user_ids: &[UserId]) -> Result<Vec<Presence>, RestError> {
    let lookups: Vec<_> = user_ids.iter().map(|user_id| PresenceLookup { viewer, user_id: *user_id }).collect();
    let views = api.presence.look_or_unknown(&lookups).await?;
    Ok(user_ids.iter().copied().zip(views).map(Presence::from).collect())
}
