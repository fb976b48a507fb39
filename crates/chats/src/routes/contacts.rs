use axum::extract::State;
use axum::http::StatusCode;
use domain::UserId;
use protocol::ErrorCode;
use protocol::rest::{self, Data, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::quotas::refuse_more_contacts;
use super::users::no_such_user;
use super::{RouteState, UserPath};
use crate::Api;
use crate::http::{Caller, Cursor, Json, PagedList, Path, Query, RestError, page_limit};

/// Default page size: the contacts of most users fit into one page.
const CONTACTS_DEFAULT: i64 = 100;

#[derive(Deserialize, IntoParams)]
pub(crate) struct ContactsQuery {
    /// Contacts in the page: 100 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The contacts of the caller, by id.
///
/// A page has at most 100 users; `pagination.next_cursor` leads to the next.
#[utoipa::path(get, path = "/contacts", tag = "contacts", params(ContactsQuery), responses((status = 200, body = Paged<rest::Contacts>)))]
pub(crate) async fn contacts(
    State(api): RouteState,
    Caller(caller): Caller,
    Query(query): Query<ContactsQuery>,
) -> Result<Json<Paged<rest::Contacts>>, RestError> {
    let limit = page_limit(query.limit.or(Some(CONTACTS_DEFAULT)))?;
    let list = PagedList::Contacts(caller.user_id);
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
    // A contact with a deleted account still has a row, which leads to a tombstone.
    let contacts = users.iter().flatten().filter(|user| user.deleted_at.is_none()).map(Into::into).collect();
    Ok(Json(Paged { data: rest::Contacts { contacts }, pagination: Pagination::new(next) }))
}

/// Adds a user to the caller's contacts. Two users who have added each other are mutual contacts.
///
/// Adding a contact again changes nothing. Mutual contacts see each other's presence where `presence_visibility` is
/// `contacts_only`.
#[utoipa::path(
    put,
    path = "/contacts/{user_id}",
    tag = "contacts", params(UserPath),
    responses((status = 200, description = "The contact", body = Data<rest::User>))
)]
pub(crate) async fn add_contact(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<Json<Data<rest::User>>, RestError> {
    if user_id == caller.user_id {
        return Err(RestError::new(ErrorCode::InvalidOperation, "you cannot add yourself as a contact"));
    }
    let user = api.living_user(user_id).await?.ok_or_else(no_such_user)?;
    if !has_listed(&api, caller.user_id, user_id).await? {
        refuse_more_contacts(&api, caller.user_id).await?;
        let recheck = api.presence.recheck_guard([caller.user_id, user_id]);
        api.contacts.add(caller.user_id, user_id).await?;
        // Read after the write: if two users add each other concurrently, the second one sees both rows.
        if has_listed(&api, user_id, caller.user_id).await? {
            api.presence.contacts_changed(caller.user_id, user_id, true).await;
        }
        recheck.over();
    }
    Ok(Json(Data { data: (&user).into() }))
}

/// Removes a user from the caller's contacts; succeeds even if they are not listed.
///
/// The other user keeps their own list. A user who saw the caller as a mutual contact receives a push that the caller is
/// offline.
#[utoipa::path(
    delete,
    path = "/contacts/{user_id}",
    tag = "contacts", params(UserPath),
    responses((status = 204, description = "The user is not a contact of the caller"))
)]
pub(crate) async fn remove_contact(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<StatusCode, RestError> {
    // A user who was not a contact has seen no presence, and must not learn of the caller from a push.
    if has_listed(&api, caller.user_id, user_id).await? {
        let recheck = api.presence.recheck_guard([caller.user_id, user_id]);
        api.contacts.remove(caller.user_id, user_id).await?;
        if has_listed(&api, user_id, caller.user_id).await? {
            api.presence.contacts_changed(caller.user_id, user_id, false).await;
        }
        recheck.over();
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn has_listed(api: &Api, user_id: UserId, contact_id: UserId) -> Result<bool, RestError> {
    Ok(api.contacts.listed(&[(user_id, contact_id)]).await?.contains(&true))
}
