use auth::parse_phone;
use axum::extract::State;
use domain::DisplayName;
use domain::limits::LOOKUP_NUMBERS_MAX;
use ports::LimitKey;
use presence::Doubting;
use protocol::ErrorCode;
use protocol::rest::{self, Data};

use super::{App, UserPath};
use crate::http::{ApiError, Caller, Json, Path, take};

/// The caller.
///
/// With what only they see: their phone number and their settings.
#[utoipa::path(get, path = "/users/me", tag = "users", responses((status = 200, body = Data<rest::Me>)))]
pub(crate) async fn me(State(api): App, Caller(caller): Caller) -> Result<Json<Data<rest::Me>>, ApiError> {
    let user = api.user(caller.user_id).await?.ok_or_else(no_such_user)?;
    Ok(Json(Data { data: (&user).into() }))
}

/// Changes the caller's name, or who sees when they are online.
///
/// What is absent stays as it is. Whoever may not see the caller any more is told that they went offline.
#[utoipa::path(patch, path = "/users/me", tag = "users", responses((status = 200, body = Data<rest::Me>)))]
pub(crate) async fn update_me(
    State(api): App,
    Caller(caller): Caller,
    Json(body): Json<rest::UpdateMe>,
) -> Result<Json<Data<rest::Me>>, ApiError> {
    let display_name = body.display_name.map(DisplayName::try_from).transpose();
    let display_name = display_name.map_err(|error| ApiError::field("display_name", error))?;
    let before = match body.presence_visibility {
        Some(_) => api.user(caller.user_id).await?,
        None => None,
    };
    // A change that is made though its answer is an error, or comes too late, is seen by those who watch all the same. So is
    // one that was made by an earlier try of this, and looks like none now.
    let doubting = before.is_some().then(|| api.presence.doubting([caller.user_id]));
    let updated = api.user_writer.update(caller.user_id, display_name, body.presence_visibility, api.now()).await?;
    let updated = updated.ok_or_else(no_such_user)?;
    let (before, after) = (before.map(|user| user.presence_visibility), updated.presence_visibility);
    if let Some(before) = before.filter(|before| *before != after) {
        api.presence.visibility_changed(caller.user_id, before, after).await;
        doubting.into_iter().for_each(Doubting::over);
    }
    Ok(Json(Data { data: (&updated).into() }))
}

/// A user as everybody sees them.
///
/// The phone number of somebody else is never told.
#[utoipa::path(get, path = "/users/{user_id}", tag = "users", params(UserPath), responses((status = 200, body = Data<rest::User>)))]
pub(crate) async fn user(
    State(api): App,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<rest::User>>, ApiError> {
    let user = api.user(user_id).await?.ok_or_else(no_such_user)?;
    Ok(Json(Data { data: (&user).into() }))
}

/// Finds users by phone number: for each number, in order, its user or `null`.
///
/// At most 100 numbers. One that cannot be a phone number refuses the whole lookup, and is named by its place only. How many
/// a user looks up in a day is limited: who is registered is nobody's to list.
#[utoipa::path(post, path = "/users/lookup", tag = "users", responses((status = 200, body = Data<rest::LookupResults>)))]
pub(crate) async fn lookup(
    State(api): App,
    Caller(caller): Caller,
    Json(body): Json<rest::Lookup>,
) -> Result<Json<Data<rest::LookupResults>>, ApiError> {
    let asked = body.phone_numbers.len();
    if asked > LOOKUP_NUMBERS_MAX {
        return Err(ApiError::field("phone_numbers", format!("has {asked} entries, limit is {LOOKUP_NUMBERS_MAX}")));
    }
    let numbers = body.phone_numbers.iter().enumerate().map(|(index, text)| {
        parse_phone(&text.0).map_err(|error| ApiError::field(format!("phone_numbers[{index}]"), error))
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

pub(super) fn no_such_user() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "no such user")
}
