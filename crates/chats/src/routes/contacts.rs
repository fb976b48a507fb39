use axum::extract::State;
use axum::http::StatusCode;
use domain::UserId;
use protocol::ErrorCode;
use protocol::rest::{self, Data, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::users::no_such_user;
use super::{App, UserPath};
use crate::Api;
use crate::http::{ApiError, Caller, Cursor, Json, List, Path, Query, page_limit};

/// Contacts in a page unless fewer are asked for: most users' are one page.
const CONTACTS_DEFAULT: i64 = 100;

#[derive(Deserialize, IntoParams)]
pub(crate) struct ContactsQuery {
    /// Contacts in the page: 100 unless given, 100 at the most.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Whom the caller has listed, by id.
///
/// A page holds 100 of them at the most; `pagination.next_cursor` leads to the next.
#[utoipa::path(get, path = "/contacts", tag = "contacts", params(ContactsQuery), responses((status = 200, body = Paged<rest::Contacts>)))]
pub(crate) async fn contacts(
    State(api): App,
    Caller(caller): Caller,
    Query(query): Query<ContactsQuery>,
) -> Result<Json<Paged<rest::Contacts>>, ApiError> {
    let limit = page_limit(query.limit.or(Some(CONTACTS_DEFAULT)))?;
    let list = List::Contacts(caller.user_id);
    let after = match query.cursor.as_deref().map(|cursor| Cursor::decode(&api, list, cursor)).transpose()? {
        None => None,
        Some(Cursor::Contacts { after }) => Some(after),
        Some(_) => return Err(Cursor::unknown()),
    };
    let mut contact_ids = api.contacts.contacts(caller.user_id, after, limit + 1).await?;
    let has_more = contact_ids.len() > limit;
    contact_ids.truncate(limit);
    let last = contact_ids.last().filter(|_| has_more);
    let next = last.map(|last| Cursor::Contacts { after: *last }.encode(&api, list));
    let users = api.users.users(&contact_ids).await?;
    // Who has listed somebody whose account is gone has a row that leads to nobody.
    let contacts = users.iter().flatten().filter(|user| user.deleted_at.is_none()).map(Into::into).collect();
    Ok(Json(Paged { data: rest::Contacts { contacts }, pagination: Pagination::new(next) }))
}

/// Lists a user as a contact of the caller. Two who have listed each other are mutual contacts.
///
/// Listing somebody again changes nothing. Mutual contacts see each other's presence where `presence_visibility` is
/// `contacts_only`.
#[utoipa::path(
    put,
    path = "/contacts/{user_id}",
    tag = "contacts", params(UserPath),
    responses((status = 200, description = "The contact", body = Data<rest::User>))
)]
pub(crate) async fn add_contact(
    State(api): App,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<rest::User>>, ApiError> {
    if user_id == caller.user_id {
        return Err(ApiError::new(ErrorCode::InvalidOperation, "nobody is a contact of their own"));
    }
    let user = api.living_user(user_id).await?.ok_or_else(no_such_user)?;
    if !has_listed(&api, caller.user_id, user_id).await? {
        let doubting = api.presence.doubting([caller.user_id, user_id]);
        api.contacts.add(caller.user_id, user_id).await?;
        // Read behind the write: of two who list each other at once, the second sees both.
        if has_listed(&api, user_id, caller.user_id).await? {
            api.presence.contacts_changed(caller.user_id, user_id, true).await;
        }
        doubting.over();
    }
    Ok(Json(Data { data: (&user).into() }))
}

/// Takes a user off the caller's contacts, whether they are listed or not.
///
/// The other side keeps its own list. Somebody who saw the caller as a mutual contact is told that they went offline.
#[utoipa::path(
    delete,
    path = "/contacts/{user_id}",
    tag = "contacts", params(UserPath),
    responses((status = 204, description = "The user is no contact of the caller"))
)]
pub(crate) async fn remove_contact(
    State(api): App,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<StatusCode, ApiError> {
    // Whoever was no contact has seen nothing, and must not learn from a push that the caller is there.
    if has_listed(&api, caller.user_id, user_id).await? {
        let doubting = api.presence.doubting([caller.user_id, user_id]);
        api.contacts.remove(caller.user_id, user_id).await?;
        if has_listed(&api, user_id, caller.user_id).await? {
            api.presence.contacts_changed(caller.user_id, user_id, false).await;
        }
        doubting.over();
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn has_listed(api: &Api, user_id: UserId, contact_id: UserId) -> Result<bool, ApiError> {
    Ok(api.contacts.listed(&[(user_id, contact_id)]).await?.contains(&true))
}
