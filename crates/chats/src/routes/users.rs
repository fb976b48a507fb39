use auth::parse_phone;
use axum::extract::State;
use domain::DisplayName;
use domain::limits::LOOKUP_NUMBERS_MAX;
use ports::{LimitKey, UserUpdate};
use presence::RecheckGuard;
use protocol::ErrorCode;
use protocol::rest::{self, Data};

use super::{RouteState, UserPath};
use crate::http::{Caller, Json, Path, RestError, take};

/// The caller.
///
/// Includes the phone number and the settings, which only the caller sees.
#[utoipa::path(get, path = "/users/me", tag = "users", responses((status = 200, body = Data<rest::Me>)))]
pub(crate) async fn me(State(api): RouteState, Caller(caller): Caller) -> Result<Json<Data<rest::Me>>, RestError> {
    let user = api.user(caller.user_id).await?.ok_or_else(no_such_user)?;
    Ok(Json(Data { data: (&user).into() }))
}

/// Changes the caller's display name or settings.
///
/// Absent fields stay unchanged. `group_invites` holds for later additions to groups, and keeps pending invitations. A server whose names come from an identity provider refuses another name with
/// `INVALID_OPERATION`. Users who may no longer see the caller receive a push that the caller is offline.
#[utoipa::path(patch, path = "/users/me", tag = "users", responses((status = 200, body = Data<rest::Me>)))]
pub(crate) async fn update_me(
    State(api): RouteState,
    Caller(caller): Caller,
    Json(body): Json<rest::UpdateMe>,
) -> Result<Json<Data<rest::Me>>, RestError> {
    let display_name = body.display_name.map(DisplayName::try_from).transpose();
    let display_name = display_name.map_err(|error| RestError::field("display_name", error))?;
    if display_name.is_some() && api.auth.is_name_from_issuer(&caller) {
        let message = "your name comes from your identity provider; change it there";
        return Err(RestError::new(ErrorCode::InvalidOperation, message));
    }
    let before = match body.presence_visibility {
        Some(_) => api.user(caller.user_id).await?,
        None => None,
    };
    // If this guard is dropped before `over`, gateways re-check the caller's presence. That covers a write that took effect
    // although it failed or timed out, and a retry that sees no change because an earlier attempt made it.
    let recheck = before.is_some().then(|| api.presence.recheck_guard([caller.user_id]));
    let rest::UpdateMe { presence_visibility, group_invites, .. } = body;
    let update = UserUpdate { display_name, presence_visibility, group_invites };
    let updated = api.user_writer.update(caller.user_id, update, api.now()).await?;
    let updated = updated.ok_or_else(no_such_user)?;
    let (before, after) = (before.map(|user| user.presence_visibility), updated.presence_visibility);
    if let Some(before) = before.filter(|before| *before != after) {
        api.presence.visibility_changed(caller.user_id, before, after).await;
        recheck.into_iter().for_each(RecheckGuard::over);
    }
    Ok(Json(Data { data: (&updated).into() }))
}

/// The public profile of a user.
///
/// It never includes the phone number.
#[utoipa::path(get, path = "/users/{user_id}", tag = "users", params(UserPath), responses((status = 200, body = Data<rest::User>)))]
pub(crate) async fn user(
    State(api): RouteState,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<rest::User>>, RestError> {
    let user = api.user(user_id).await?.ok_or_else(no_such_user)?;
    Ok(Json(Data { data: (&user).into() }))
}

/// Finds users by phone number: for each number, in order, its user or `null`.
///
/// At most 100 numbers. An invalid number refuses the whole lookup, and the error names only its index. A daily limit for
/// each user prevents the enumeration of registered numbers.
#[utoipa::path(post, path = "/users/lookup", tag = "users", responses((status = 200, body = Data<rest::LookupResults>)))]
pub(crate) async fn lookup(
    State(api): RouteState,
    Caller(caller): Caller,
    Json(body): Json<rest::Lookup>,
) -> Result<Json<Data<rest::LookupResults>>, RestError> {
    let asked = body.phone_numbers.len();
    if asked > LOOKUP_NUMBERS_MAX {
        return Err(RestError::field("phone_numbers", format!("has {asked} entries, limit is {LOOKUP_NUMBERS_MAX}")));
    }
    let numbers = body.phone_numbers.iter().enumerate().map(|(index, text)| {
        parse_phone(&text.0).map_err(|error| RestError::field(format!("phone_numbers[{index}]"), error))
    });
    let numbers: Vec<_> = numbers.collect::<Result<_, _>>()?;
    if !numbers.is_empty() {
        let quota = api.limits.lookup_numbers.map(|quota| quota.weighing(asked as u32));
        take(&api, "lookup_numbers", LimitKey::LookupNumbers(caller.user_id), quota).await?;
    }
    let users = api.users.by_phone(&numbers).await?;
    let results = users.iter().map(|user| user.as_ref().map(Into::into)).collect();
    Ok(Json(Data { data: rest::LookupResults { results } }))
}

pub(super) fn no_such_user() -> RestError {
    RestError::new(ErrorCode::NotFound, "no such user")
}
