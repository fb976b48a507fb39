use axum::extract::State;
use domain::UserId;
use domain::limits::PRESENCE_USERS_MAX;
use ports::Look;
use protocol::frame::{Presence, PresenceSnapshot};
use protocol::rest::{self, Data};

use super::{App, UserPath};
use crate::Api;
use crate::http::{ApiError, Caller, Json, Path};

/// What the caller sees of a user's presence. Who may not be seen looks like who does not exist: `unknown`.
///
/// `last_seen` is on `offline` alone, and absent for somebody who never connected.
#[utoipa::path(get, path = "/users/{user_id}/presence", tag = "presence", params(UserPath), responses((status = 200, body = Data<Presence>)))]
pub(crate) async fn presence(
    State(api): App,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<Presence>>, ApiError> {
    Ok(Json(Data { data: look(&api, caller.user_id, &[user_id]).await?.remove(0) }))
}

/// What the caller sees of the presence of many users, in the order asked.
///
/// At most 100 users. It counts as a read, though its users are in a body.
#[utoipa::path(post, path = "/presence/query", tag = "presence", responses((status = 200, body = Data<PresenceSnapshot>)))]
pub(crate) async fn query_presence(
    State(api): App,
    Caller(caller): Caller,
    Json(rest::PresenceQuery { user_ids }): Json<rest::PresenceQuery>,
) -> Result<Json<Data<PresenceSnapshot>>, ApiError> {
    let asked = user_ids.len();
    if asked > PRESENCE_USERS_MAX {
        return Err(ApiError::field("user_ids", format!("has {asked} entries, limit is {PRESENCE_USERS_MAX}")));
    }
    Ok(Json(Data { data: PresenceSnapshot { presences: look(&api, caller.user_id, &user_ids).await? } }))
}

async fn look(api: &Api, viewer: UserId, user_ids: &[UserId]) -> Result<Vec<Presence>, ApiError> {
    let looks: Vec<_> = user_ids.iter().map(|user_id| Look { viewer, user_id: *user_id }).collect();
    let views = api.presence.look_or_unknown(&looks).await?;
    Ok(user_ids.iter().copied().zip(views).map(Presence::from).collect())
}
