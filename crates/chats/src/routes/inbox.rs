use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::State;
use domain::limits::{HISTORY_PAGE_MAX, INBOX_NEWER_MAX};
use domain::{Chat, ChatId, Timestamp, UserId};
use futures_util::{StreamExt, TryStreamExt, stream};
use ports::{Head, InboxPosition, InboxSelection, InboxStart};
use protocol::rest::{self, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RouteState;
use super::quotas::take_inbox;
use crate::Api;
use crate::http::{Caller, Cursor, Json, Limited, PagedList, Query, RestError, page_limit};
use crate::views::{ChatSummaryRows, summaries};

/// Maximum number of concurrent searches for earlier positions of chats.
const SEARCHES_MAX: usize = 16;
/// Maximum number of message pages that the searches of a request read.
const SEARCH_PAGES_MAX: usize = 300;
/// Messages in the first page of a search: most chats have few newer messages.
const SEARCH_PAGE_FIRST: usize = 8;

#[derive(Deserialize, IntoParams)]
pub(crate) struct InboxQuery {
    /// Chats in the page: 20 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The caller's chats, newest activity first.
///
/// Chats are ordered by their last message, or by their creation while they are empty. Pages after a cursor keep the
/// order of the first page: a message that arrives in between neither repeats nor hides a chat, but shows in its summary.
/// A cursor is refused (`VALIDATION_ERROR`) once more than 200 chats have newer messages; start again without it.
#[utoipa::path(get, path = "/chats", tag = "chats", params(InboxQuery), responses((status = 200, body = Paged<rest::Inbox>)))]
pub(crate) async fn inbox(
    State(api): RouteState,
    Caller(caller): Caller,
    Query(query): Query<InboxQuery>,
) -> Result<Limited<Json<Paged<rest::Inbox>>>, RestError> {
    let limit = page_limit(query.limit)?;
    let list = PagedList::Inbox(caller.user_id);
    let start = match query.cursor.as_deref().map(|cursor| Cursor::decode(&api, list, cursor)).transpose()? {
        None => InboxStart::First,
        Some(Cursor::Inbox { newest, activity, chat_id }) => {
            InboxStart::After { newest, last: InboxPosition::new(activity, chat_id) }
        }
        Some(_) => return Err(Cursor::unknown()),
    };
    let decision = take_inbox(&api, caller.user_id).await?;
    // One more, to know whether there are more.
    let InboxSelection { mut positions, newer } = api.chats.inbox(caller.user_id, start, limit + 1).await?;
    if let InboxStart::After { newest, last } = start {
        let earlier = earlier_positions(&api, &newer, newest).await?;
        positions.extend(earlier.into_iter().filter(|position| *position > last));
        positions.sort_unstable();
    }

    let newest = match start {
        InboxStart::After { newest, .. } => Some(newest),
        InboxStart::First => positions.first().map(|position| position.activity.0),
    };
    let has_more = positions.len() > limit;
    positions.truncate(limit);
    let last = positions.last().filter(|_| has_more);
    let next = newest.zip(last).map(|(newest, InboxPosition { activity: Reverse(activity), chat_id })| {
        Cursor::Inbox { newest, activity: *activity, chat_id: *chat_id }.encode(&api, list)
    });
    let chat_ids: Vec<_> = positions.iter().map(|position| position.chat_id).collect();
    let chats = summaries(&api, summary_rows(&api, caller.user_id, &chat_ids).await?).await?;
    Ok(Limited(decision, Json(Paged { data: rest::Inbox { chats }, pagination: Pagination::new(next) })))
}

/// The rows of the chats of a page. A chat that the caller has just left is not among them.
async fn summary_rows(api: &Api, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<ChatSummaryRows>, RestError> {
    let (chats, heads, members) = tokio::try_join!(
        api.chats.chats(chat_ids),
        api.messages.heads(chat_ids),
        api.chats.memberships_in(user_id, chat_ids),
    )?;
    let rows = chats.into_iter().zip(heads).zip(members);
    let rows = rows.filter_map(|((chat, head), me)| {
        Some(ChatSummaryRows { chat: chat?, head: head.unwrap_or_default(), me: me? })
    });
    Ok(rows.collect())
}

/// The positions that chats had when the newest activity of all chats was at `newest`, without the chats created after
/// that.
///
/// Chats without newer activity cost no read. The newer messages of the others are directly below their heads.
async fn earlier_positions(api: &Api, newer: &[ChatId], newest: Timestamp) -> Result<Vec<InboxPosition>, RestError> {
    if newer.len() > INBOX_NEWER_MAX {
        return Err(too_old());
    }
    let (chats, heads) = tokio::try_join!(api.chats.chats(newer), api.messages.heads(newer))?;
    let pages_left = AtomicUsize::new(SEARCH_PAGES_MAX);
    let searches = chats.into_iter().zip(heads).filter_map(|(chat, head)| chat.zip(head));
    let searches = searches.map(|(chat, head)| earlier_position(api, chat, head, newest, &pages_left));
    let positions: Vec<_> = stream::iter(searches).buffer_unordered(SEARCHES_MAX).try_collect().await?;
    Ok(positions.into_iter().flatten().collect())
}

async fn earlier_position(
    api: &Api,
    Chat { chat_id, created_at, .. }: Chat,
    head: Head,
    newest: Timestamp,
    pages_left: &AtomicUsize,
) -> Result<Option<InboxPosition>, RestError> {
    if created_at > newest {
        return Ok(None);
    }
    let (mut below, mut count) = (head.sequence.next(), SEARCH_PAGE_FIRST);
    loop {
        let left = pages_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| too_old())?;
        let page = api.messages.before(chat_id, below, count, api.now()).await?;
        if let Some(message) = page.iter().find(|message| message.created_at <= newest) {
            return Ok(Some(InboxPosition::new(message.created_at, chat_id)));
        }
        match page.last() {
            Some(oldest) if page.len() == count => (below, count) = (oldest.sequence, HISTORY_PAGE_MAX),
            // The page has reached the first message.
            _ => return Ok(Some(InboxPosition::new(created_at, chat_id))),
        }
    }
}

/// The error for a cursor after which too much has happened to restore the order of its first page.
fn too_old() -> RestError {
    RestError::field("cursor", "is too old: there were too many messages since the first page; start again without it")
}
