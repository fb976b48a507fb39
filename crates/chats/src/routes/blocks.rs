use axum::extract::State;
use axum::http::StatusCode;
use domain::UserId;
use domain::limits::BLOCKS_MAX;
use protocol::ErrorCode;
use protocol::rest::{self, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::users::no_such_user;
use super::{RouteState, UserPath};
use crate::Api;
use crate::http::{Caller, Cursor, Json, PagedList, Path, Query, RestError, page_limit};

/// Default page size: the blocks of most users fit into one page.
const BLOCKS_DEFAULT: i64 = 100;

#[derive(Deserialize, IntoParams)]
pub(crate) struct BlocksQuery {
    /// Users in the page: 100 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The users that the caller has blocked, by id.
///
/// A page has at most 100 users; `pagination.next_cursor` leads to the next.
#[utoipa::path(get, path = "/blocks", tag = "blocks", params(BlocksQuery), responses((status = 200, body = Paged<rest::Blocks>)))]
pub(crate) async fn blocks(
    State(api): RouteState,
    Caller(caller): Caller,
    Query(query): Query<BlocksQuery>,
) -> Result<Json<Paged<rest::Blocks>>, RestError> {
    let limit = page_limit(query.limit.or(Some(BLOCKS_DEFAULT)))?;
    let list = PagedList::Blocks(caller.user_id);
    let after = match query.cursor.as_deref().map(|cursor| Cursor::decode(&api, list, cursor)).transpose()? {
        None => None,
        Some(Cursor::Blocks { after }) => Some(after),
        Some(_) => return Err(Cursor::unknown()),
    };
    let mut blocked_ids = api.blocks.blocks(caller.user_id, after, limit + 1).await?;
    let has_more = blocked_ids.len() > limit;
    blocked_ids.truncate(limit);
    let last = blocked_ids.last().filter(|_| has_more);
    let next = last.map(|last| Cursor::Blocks { after: *last }.encode(&api, list));
    let users = api.users.users(&blocked_ids).await?;
    let blocks = users.iter().flatten().map(Into::into).collect();
    Ok(Json(Paged { data: rest::Blocks { blocks }, pagination: Pagination::new(next) }))
}

/// Blocks a user. They cannot write to the caller, add them to a group, or see their presence.
///
/// The block is not announced to anyone. In the direct chat of the two, neither can send until the caller removes the
/// block. Groups with both members do not change. Blocking a user again changes nothing.
#[utoipa::path(
    put,
    path = "/blocks/{user_id}",
    tag = "blocks", params(UserPath),
    responses((status = 204, description = "The user is blocked"))
)]
pub(crate) async fn block(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<StatusCode, RestError> {
    if user_id == caller.user_id {
        return Err(RestError::new(ErrorCode::InvalidOperation, "you cannot block yourself"));
    }
    api.user(user_id).await?.ok_or_else(no_such_user)?;
    if !has_blocked(&api, caller.user_id, user_id).await? {
        let recheck = api.presence.recheck_guard([caller.user_id]);
        if !api.blocks.block(caller.user_id, user_id).await? {
            recheck.over();
            let message = format!("{BLOCKS_MAX} users are blocked; unblock one of them first");
            return Err(RestError::new(ErrorCode::InvalidOperation, message));
        }
        api.presence.block_changed(caller.user_id, user_id, true).await;
        recheck.over();
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Unblocks a user; succeeds even if they are not blocked.
///
/// Requests that were refused during the block stay refused. The user sees the caller's presence again as
/// `presence_visibility` allows.
#[utoipa::path(
    delete,
    path = "/blocks/{user_id}",
    tag = "blocks", params(UserPath),
    responses((status = 204, description = "The user is not blocked"))
)]
pub(crate) async fn unblock(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UserPath { user_id }): Path<UserPath>,
) -> Result<StatusCode, RestError> {
    if has_blocked(&api, caller.user_id, user_id).await? {
        let recheck = api.presence.recheck_guard([caller.user_id]);
        api.blocks.unblock(caller.user_id, user_id).await?;
        api.presence.block_changed(caller.user_id, user_id, false).await;
        recheck.over();
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn has_blocked(api: &Api, user_id: UserId, blocked_id: UserId) -> Result<bool, RestError> {
    Ok(api.blocks.blocked(&[(user_id, blocked_id)]).await?.contains(&true))
}

/// Refuses to let `actor` add users to a group if one of them has blocked `actor`. A concurrent block may be missed,
/// which is harmless: a block does not separate members of the same group.
pub(super) async fn refuse_blocked(api: &Api, actor: UserId, user_ids: &[UserId]) -> Result<(), RestError> {
    let pairs: Vec<_> = user_ids.iter().map(|user_id| (*user_id, actor)).collect();
    let blocked = api.blocks.blocked(&pairs).await?;
    let refused: Vec<_> =
        user_ids.iter().zip(blocked).filter_map(|(user_id, blocked)| blocked.then_some(*user_id)).collect();
    if refused.is_empty() { Ok(()) } else { Err(RestError::not_reachable(&refused)) }
}
